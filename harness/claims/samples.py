"""Statistics of repeated measurements with their intervals, which decide a claim or leave it open.

A sample is a pass: what several failures of one pass have in common shows in all of them, so a pass
gives one number. The interval of a median is one of order statistics, exact for any distribution.
That of a mean is a bootstrap of Student's t, because means are taken of what has a few long values,
where t itself and BCa cover less. That of two medians is a bootstrap of their quotient."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.claims.quantity import deferrable
from harness.seeds import generator

CONFIDENCE = 0.95
RESAMPLES = 4000
FEWEST = 6
"""Smallest number of samples with an interval: from the least to the greatest of six is a 96.9 %
interval of their median; of five it would be one of 93.75 %."""

Values = NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A statistic of independent samples with its interval."""

    value: float
    """NaN where it is not known: a ratio or difference of two that never ended."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval; None below `FEWEST` samples."""
    n: int
    """Number of samples, of the smaller group where there are two."""

    def below(self, limit: float) -> bool | None:
        """Return True if it is at most ``limit``.

        None if the interval has the limit inside, and without an interval."""
        if self.low is None or self.high is None:
            return None
        if self.high <= limit:
            return True
        return None if self.low <= limit else False

    def above(self, limit: float) -> bool | None:
        """Return True if it is at least ``limit``; None as for `below`."""
        if self.low is None or self.high is None:
            return None
        if self.low >= limit:
            return True
        return None if self.high >= limit else False


@deferrable
def median_of(samples: Iterable[float | None]) -> Sample | None:
    """Return the median of samples without nulls; None if there is none."""
    values = _known(samples)
    if not len(values):
        return None
    low, high = (None, None) if len(values) < FEWEST else median_interval(values, CONFIDENCE)
    return Sample(value=float(np.median(values)), low=low, high=high, n=len(values))


def median_interval(values: Values, confidence: float) -> tuple[float, float]:
    """Return two of ``values`` that have their distribution's median between them.

    There must be enough of them: of n, all are on one side of it with probability 2 / 2ⁿ."""
    from scipy.special import bdtr

    ordered = np.sort(values)
    below = bdtr(np.arange(len(values)), len(values), 0.5)
    outside = int(np.searchsorted(below, (1 - confidence) / 2, side="right"))
    assert outside, f"{len(values)} values have no interval of {confidence:.0%}"
    return float(ordered[outside - 1]), float(ordered[-outside])


@deferrable
def mean_of(samples: Iterable[float | None]) -> Sample | None:
    """Return the mean of samples without nulls; None if there is none.

    For what adds up, such as the time lost in failures of which few are long."""
    values = _known(samples)
    if not len(values):
        return None
    low, high = (None, None) if len(values) < FEWEST else _mean_interval(values)
    return Sample(value=float(values.mean()), low=low, high=high, n=len(values))


def _mean_interval(values: Values) -> tuple[float, float]:
    if not np.isfinite(values).all():
        return -np.inf, np.inf
    mean, error = values.mean(), _error(values)
    if error == 0:
        return float(mean), float(mean)
    draws = _resampled(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (draws.mean(axis=1) - mean) / _error(draws)
    t[np.isnan(t)] = 0.0  # a draw of one value, which is the mean
    low, high = (mean - _quantile(t, upper=upper) * error for upper in (True, False))
    return float(low), float(high)


def _error(values: Values) -> Values:
    """Return the standard error of the mean of each row."""
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1]))


@deferrable
def ratio_of(one: Iterable[float | None], other: Iterable[float | None]) -> Sample | None:
    """Return the ratio of two medians, whose samples are independent of each other.

    It is 1 where both are 0 and infinite where the second alone is 0. Where neither ever ends it
    can be anything above 0."""
    return _of_two(one, other, np.divide, equal=1.0, least=0.0)


@deferrable
def difference_of(one: Iterable[float | None], other: Iterable[float | None]) -> Sample | None:
    """Return the difference of two medians, whose samples are independent of each other.

    Where neither ever ends it can be anything."""
    return _of_two(one, other, np.subtract, equal=0.0, least=-np.inf)


def _of_two(
    one: Iterable[float | None],
    other: Iterable[float | None],
    operation: np.ufunc,
    *,
    equal: float,
    least: float,
) -> Sample | None:
    """Compare two medians; where neither ever ends, ``least`` and infinity are the bounds."""
    groups = _known(one), _known(other)
    n = min(len(group) for group in groups)
    if n == 0:
        return None

    medians = np.median(groups[0]), np.median(groups[1])
    value = float(_compared(medians, operation, equal, np.nan))
    if n < FEWEST:
        return Sample(value=value, low=None, high=None, n=n)
    drawn = tuple(np.median(_resampled(each, i), axis=1) for i, each in enumerate(groups))
    low = _quantile(_compared(drawn, operation, equal, least), upper=False)
    high = _quantile(_compared(drawn, operation, equal, np.inf), upper=True)
    return Sample(value=value, low=low, high=high, n=n)


def _compared(
    medians: tuple[Any, ...], operation: np.ufunc, equal: float, endless: float
) -> Values:
    """Return the operation on two medians; ``endless`` where both are infinite."""
    one, other = medians
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(one == other, equal, operation(one, other))
    return np.where(np.isinf(one) & np.isinf(other), endless, found)


def differing(pairs: Mapping[Name, Iterable[float]]) -> list[Name]:
    """Return the names whose paired differences are on one side of 0, by Holm's procedure.

    The probability that one is returned where none differs is 5 %, however many are asked about.
    Each is tested by flipping the signs of its differences, which changes nothing where the two
    sides of a pair are alike."""
    from scipy.stats import permutation_test

    chance = {
        name: permutation_test(
            (_known(each),), np.mean, permutation_type="samples", vectorized=True,
            n_resamples=RESAMPLES, rng=generator(0, "claims", number),
        ).pvalue
        for number, (name, each) in enumerate(pairs.items())
    }  # fmt: skip
    found: list[Name] = []
    for left, name in enumerate(sorted(pairs, key=chance.__getitem__)):
        if chance[name] * (len(pairs) - left) > 1 - CONFIDENCE:
            break
        found.append(name)
    return found


def fewest_pairs(comparisons: int) -> int:
    """Return the least number of pairs with which `differing` can find one of so many."""
    return math.ceil(math.log2(2 * comparisons / (1 - CONFIDENCE)))


def _known(samples: Iterable[float | None]) -> Values:
    values = np.array([each for each in samples if each is not None], dtype=float)
    return np.asarray(values[~np.isnan(values)])


def _resampled(values: Values, number: int = 0) -> Values:
    """Return bootstrap samples, a row each; those of groups with different numbers differ."""
    return np.asarray(values[_chosen(len(values), number)])


@lru_cache(maxsize=16)
def _chosen(n: int, number: int) -> NDArray[np.int64]:
    return generator(0, "claims", number).integers(0, n, (RESAMPLES, n))


def _quantile(found: Values, *, upper: bool) -> float:
    """Return an end of the interval by a statistic's bootstrap values, some of them endless."""
    tail = (1.0 - CONFIDENCE) / 2.0
    return float(np.quantile(found, 1.0 - tail if upper else tail, method="nearest"))


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
    `FEWEST` passes."""
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
        return lasted(self.shown, self.low, self.high, known=self.known)


def lasted(seconds: float, low: float | None, high: float | None, *, known: bool) -> str:
    """Return a median time with its interval; where not ``known``, it is longer than that."""
    text = f"{'' if known else 'more than '}{seconds:.3g} s"
    if low is None or high is None or not np.isfinite(low):
        return text
    if not np.isfinite(high):
        return f"{text} ({low:.3g} s and more)"
    if low == high:
        return f"{text} each time"
    return f"{text} ({low:.3g} to {high:.3g} s)"


def lasting(
    seconds: Iterable[float], over: Iterable[bool], *, passes: Iterable[Any] | None = None
) -> Lasting | None:
    """Return the median of durations, each known to its end or, where not ``over``, at least.

    None without any. By Kaplan and Meier: one that was not over counts among those that lasted
    longer than it was watched. The interval are the times at which half may still last, by the
    log-log interval of their share (Brookmeyer and Crowley, Biometrics 1982). ``passes`` names the
    pass of each, without it each has its own: an interval needs `FEWEST` of them."""
    from scipy.stats import CensoredData, ecdf  # takes as long to import as the rest of harness

    lasted_s, ended = np.asarray(list(seconds), float), np.asarray(list(over), bool)
    if not len(lasted_s):
        return None
    left = ecdf(CensoredData(uncensored=lasted_s[ended], right=lasted_s[~ended])).sf
    at_s, share = left.quantiles, left.probabilities
    low = high = None
    if (len(lasted_s) if passes is None else len(set(passes))) >= FEWEST:
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


def _first(at_s: Values, reached: NDArray[np.bool_]) -> float:
    """Return the first instant at which it is true; infinite if it never is."""
    places = np.flatnonzero(reached)
    return float(at_s[places[0]]) if len(places) else np.inf
