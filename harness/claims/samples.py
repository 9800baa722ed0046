"""Medians of repeated measurements with their intervals, which decide a claim or leave it open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.seeds import generator

CONFIDENCE = 0.95
RESAMPLES = 4000
FEWEST = 5
"""Smallest number of samples with an interval."""

_Draws = np.ndarray[tuple[int, int], np.dtype[np.float64]]
_Statistics = np.ndarray[tuple[int], np.dtype[np.float64]]
Statistic = Callable[..., _Statistics]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A statistic of independent samples with its bootstrap interval."""

    value: float
    low: float | None
    high: float | None
    """Ends of the 95 % interval; None below `FEWEST` samples."""
    n: int
    """Number of samples, of the smaller group where there are two."""

    def below(self, limit: float) -> bool | None:
        """Return True if it is at most ``limit``; None if the interval has the limit inside."""
        if self.low is None or self.high is None:
            return self.value <= limit
        if self.high <= limit:
            return True
        return None if self.low <= limit else False

    def above(self, limit: float) -> bool | None:
        """Return True if it is at least ``limit``; None if the interval has the limit inside."""
        if self.low is None or self.high is None:
            return self.value >= limit
        if self.low >= limit:
            return True
        return None if self.high >= limit else False


def median_of(samples: Iterable[float | None]) -> Sample | None:
    """Return the median of samples without nulls; None if there is none."""
    return _sample([_known(samples)], lambda draws: np.median(draws, axis=1))


def mean_of(samples: Iterable[float | None]) -> Sample | None:
    """Return the mean of samples without nulls; None if there is none.

    For what adds up, such as the time lost in failures of which few are long."""
    return _sample([_known(samples)], lambda draws: np.mean(draws, axis=1))


def ratio_of(one: Iterable[float | None], other: Iterable[float | None]) -> Sample | None:
    """Return the ratio of two medians, whose samples are independent of each other.

    It is 1 where both are 0 or infinite, and infinite where the second alone is 0."""
    return _sample([_known(one), _known(other)], _ratio)


def difference_of(one: Iterable[float | None], other: Iterable[float | None]) -> Sample | None:
    """Return the difference of two medians, whose samples are independent of each other.

    It is 0 where both are infinite."""
    return _sample([_known(one), _known(other)], _difference)


def _ratio(first: _Draws, second: _Draws) -> _Statistics:
    one, other = np.median(first, axis=1), np.median(second, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one == other, 1.0, one / other)


def _difference(first: _Draws, second: _Draws) -> _Statistics:
    one, other = np.median(first, axis=1), np.median(second, axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(one == other, 0.0, one - other)


def _known(samples: Iterable[float | None]) -> Sequence[float]:
    values = [float(each) for each in samples if each is not None]
    return [value for value in values if not np.isnan(value)]


def _sample(groups: Sequence[Sequence[float]], statistic: Statistic) -> Sample | None:
    arrays = [np.asarray(group, dtype=float) for group in groups]
    n = min(len(array) for array in arrays)
    if n == 0:
        return None
    value = float(statistic(*(array[np.newaxis] for array in arrays))[0])
    if n < FEWEST:
        return Sample(value=value, low=None, high=None, n=n)
    draws = [
        array[generator(0, "claims", number).integers(0, len(array), (RESAMPLES, len(array)))]
        for number, array in enumerate(arrays)
    ]
    tail = (1.0 - CONFIDENCE) / 2.0
    found = statistic(*draws)
    between: Literal["linear", "nearest"] = "linear" if np.isfinite(found).all() else "nearest"
    low, high = np.quantile(found, [tail, 1.0 - tail], method=between)
    return Sample(value=value, low=float(low), high=float(high), n=n)
