"""The rate of a load over time, and the intended send time of each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RateProfile:
    """A rate that is constant for a while, then another one: (seconds, records per second).

    Record i is meant to be sent when the integral of the rate reaches i, the first one at 0. A
    segment of no duration is a number of records at one instant: (0, records)."""

    segments: tuple[tuple[float, float], ...]
    _bounds: Floats = field(init=False, repr=False, compare=False)
    _cumulative: Floats = field(init=False, repr=False, compare=False)
    _rates: Floats = field(init=False, repr=False, compare=False)

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
        seconds, rates = np.array(self.segments, dtype=float).T
        counts = np.where(seconds > 0, seconds * rates, rates)
        for name, values in (("_bounds", seconds), ("_cumulative", counts)):
            object.__setattr__(self, name, np.concatenate([[0.0], np.cumsum(values)]))
        object.__setattr__(self, "_rates", np.where(seconds > 0, rates, 0.0))
        if self.records < 1:
            raise UsageError(
                f"a load of {self._cumulative[-1]:g} records sends nothing",
                remedy="give a rate above 0 records/s, or a longer duration",
            )

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
        return ceil(float(self._cumulative[-1]) - 1e-6)

    def due(self, elapsed_s: float) -> int:
        """Return the number of records that are due by then."""
        if elapsed_s < 0:
            return 0
        segment = int(np.searchsorted(self._bounds, elapsed_s, side="right")) - 1
        reached = float(self._cumulative[segment])
        if segment < len(self.segments):
            reached += (elapsed_s - float(self._bounds[segment])) * float(self._rates[segment])
        last = min(self.records, int(reached) + 1) - 1
        # On a pause of the rate the next record has been reached but is not due before its end.
        return last + bool(self.intended_s(np.array([last]))[0] <= elapsed_s)

    def intended_s(self, indices: NDArray[np.int64]) -> Floats:
        """Return the intended send times of these records from the start; shape as given."""
        cumulative, bounds = self._cumulative, self._bounds
        # The first segment that reaches the index; one at rate 0 reaches none and is passed over.
        segment = np.searchsorted(cumulative, indices, side="right") - 1
        segment = np.minimum(segment, len(self.segments) - 1)
        rate = np.where(self._rates[segment] > 0, self._rates[segment], np.inf)
        return np.asarray(bounds[segment] + (indices - cumulative[segment]) / rate)

    def to_json(self) -> list[Any]:
        return [list(segment) for segment in self.segments]

    @classmethod
    def from_json(cls, data: Sequence[Sequence[float]]) -> Self:
        return cls(tuple((seconds, rate) for seconds, rate in data))
