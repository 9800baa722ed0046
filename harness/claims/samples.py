"""Medians of repeated measurements with their intervals, which decide a claim or leave it open."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """The median of durations of which some were not over while they were watched."""

    median: float
    """By Kaplan and Meier; infinite where so many were not over that nothing tells it."""
    at_least: float
    """The median of the times for which they were seen to last: no median is below it."""
    low: float | None
    high: float | None
    """Ends of the median's 95 % interval, the second infinite where nothing tells it; None below
    `FEWEST` durations."""
    mean: float
    """The mean by Kaplan and Meier, up to the longest time that one was watched for."""
    n: int
    not_over: int

    @property
    def known(self) -> bool:
        """True if the median has a number."""
        return bool(np.isfinite(self.median))

    @property
    def shown(self) -> float:
        """The median, or what it is at least."""
        return self.median if self.known else self.at_least

    def describe(self) -> str:
        """Return it in seconds: ``"1.39 s (0.64 to 4.7 s)"``, ``"more than 20 s"``."""
        text = f"{self.median:.3g} s" if self.known else f"more than {self.at_least:.3g} s"
        if self.low is None or self.high is None or not np.isfinite(self.low):
            return text
        if not np.isfinite(self.high):
            return f"{text} ({self.low:.3g} s and more)"
        return f"{text} ({self.low:.3g} to {self.high:.3g} s)"


def lasting(seconds: Iterable[float], over: Iterable[bool]) -> Lasting | None:
    """Return the median of durations, each known to its end or, where not ``over``, at least.

    None without any. By Kaplan and Meier: one that was not over counts among those that lasted
    longer than it was watched. The interval are the times at which half may still last, by the
    log-log interval of their share (Brookmeyer and Crowley, Biometrics 1982)."""
    from scipy.stats import CensoredData, ecdf  # takes as long to import as the rest of harness

    lasted_s, ended = np.asarray(list(seconds), float), np.asarray(list(over), bool)
    if not len(lasted_s):
        return None
    left = ecdf(CensoredData(uncensored=lasted_s[ended], right=lasted_s[~ended])).sf
    at_s, share = left.quantiles, left.probabilities
    low = high = None
    if len(lasted_s) >= FEWEST:
        with warnings.catch_warnings():  # it has no ends where all, or none, are left
            warnings.simplefilter("ignore", RuntimeWarning)
            between: Any = left.confidence_interval(CONFIDENCE, method="log-log")
        low = _first(at_s, (share < 1.0) & ~(between.low.probabilities > 0.5))
        high = _first(at_s, between.high.probabilities < 0.5)
    half = np.array([_first(at_s, share <= 0.5 + _TINY), _first(at_s, share < 0.5 - _TINY)])
    steps = np.diff(np.concatenate([[0.0], at_s]))
    return Lasting(
        # Where exactly half are left, the median is midway to the next that ended.
        median=float(half.mean()),
        at_least=float(np.median(lasted_s)),
        low=low,
        high=high,
        mean=float(steps @ np.concatenate([[1.0], share[:-1]])),
        n=len(lasted_s),
        not_over=int((~ended).sum()),
    )


_TINY = 1e-9
"""Rounding of a share of durations."""


def _first(at_s: _Statistics, reached: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """Return the first instant at which it is true; infinite if it never is."""
    places = np.flatnonzero(reached)
    return float(at_s[places[0]]) if len(places) else np.inf
