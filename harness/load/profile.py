"""The rate of a load over time, and the intended send time of each record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from typing import Self

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RateProfile:
    """A rate that is constant for a while, then another one: (seconds, records per second).

    Record i is meant to be sent when the integral of the rate reaches i, the first one at 0. A
    segment of no duration is a number of records at one instant: (0, records)."""

    segments: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not any(lasts_s for lasts_s, _ in self.segments):
            raise UsageError("a load has no duration", remedy="give at least one step")
        for number, (lasts_s, rate) in enumerate(self.segments, start=1):
            if not (isfinite(lasts_s) and lasts_s >= 0):
                raise UsageError(
                    f"step {number} of the load lasts {lasts_s} s", remedy="give it 0 s or more"
                )
            if not (isfinite(rate) and rate >= 0):
                raise UsageError(
                    f"step {number} of the load has a rate of {rate} records/s",
                    remedy="give a rate of 0 or more",
                )
        if self.records < 1:
            raise UsageError(
                f"a load of {self._steps[1][-1]:g} records sends nothing",
                remedy="give a rate above 0 records/s, or a longer duration",
            )

    @cached_property
    def _steps(self) -> tuple[Floats, Floats, Floats]:
        """The bounds of the segments, the records until each, and the rates."""
        seconds, rates = np.array(self.segments, dtype=float).T
        counts = np.where(seconds > 0, seconds * rates, rates)
        bounds, cumulative = (np.concatenate([[0.0], np.cumsum(n)]) for n in (seconds, counts))
        return bounds, cumulative, np.where(seconds > 0, rates, 0.0)

    @classmethod
    def constant(cls, rate_per_s: float, duration_s: float) -> Self:
        """Return a constant rate. Raises `UsageError` for a rate of 0 or below."""
        if not rate_per_s > 0:
            raise UsageError(
                f"a rate of {rate_per_s} records/s", remedy="give a rate above 0 records/s"
            )
        return cls(((duration_s, rate_per_s),))

    @property
    def duration_s(self) -> float:
        """The duration of all segments together."""
        return float(sum(seconds for seconds, _ in self.segments))

    @property
    def records(self) -> int:
        """Number of records of the whole load."""
        return ceil(float(self._steps[1][-1]) - 1e-6)

    def due(self, elapsed_s: float) -> int:
        """Return the number of records that are due by then."""
        if elapsed_s < 0:
            return 0
        bounds, cumulative, rates = self._steps
        segment = int(np.searchsorted(bounds, elapsed_s, side="right")) - 1
        reached = float(cumulative[segment])
        if segment < len(self.segments):
            reached += (elapsed_s - float(bounds[segment])) * float(rates[segment])
        last = min(self.records, int(reached) + 1) - 1
        # On a pause of the rate the next record has been reached but is not due before its end.
        return last + bool(self.intended_s(np.array([last]))[0] <= elapsed_s)

    def intended_s(self, indices: NDArray[np.int64]) -> Floats:
        """Return the intended send times of these records from the start; shape as given."""
        bounds, cumulative, rates = self._steps
        # The first segment that reaches the index; one at rate 0 reaches none and is passed over.
        segment = np.searchsorted(cumulative, indices, side="right") - 1
        segment = np.minimum(segment, len(self.segments) - 1)
        rate = np.where(rates[segment] > 0, rates[segment], np.inf)
        return np.asarray(bounds[segment] + (indices - cumulative[segment]) / rate)
