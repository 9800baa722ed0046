"""The decision that a metric has changed: pure functions over samples, without I/O or clock.

A metric is measured in pairs: one sample of the baseline and one of tonight's code, each from a
process of its own, right after one another, in an order that is drawn anew for each pair. What a
busy machine does to both cancels in their ratio; what it does to one is an outlier, on which the
median of the ratios does not depend. Two of the ratios enclose that median: its exact interval.

A change is called only if the whole interval lies on one side of 1 and the median ratio is
beyond a minimal effect, and only if a second, fresh set of pairs says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from harness.claims.samples import median_interval

MINIMUM_EFFECT = 0.05
"""Ratios nearer to 1 than this are no change, however narrow their interval is."""
CONFIDENCE = 0.99
WIDE = 0.08
"""More pairs are taken if an interval reaches further than this share from its ratio."""
FEWEST_PAIRS = 8
"""Fewer pairs than this give no 99 % interval of a median: of seven, all are on one side of it in
two of 128 cases."""


class Change(StrEnum):
    """The verdict on one metric."""

    BETTER = "better"
    WORSE = "worse"
    NO_CHANGE = "no change"
    LOST = "lost"
    """It was measured before (on the baseline, or the night before) and is null tonight."""
    NEW = "new"
    """The baseline has no number for it."""
    NOT_MEASURED = "not measured"
    """Neither side has a number, and no earlier night had."""


ALARMS = frozenset({Change.WORSE, Change.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The ratio tonight / baseline of a cost (lower is better), with its interval."""

    ratio: float
    low: float
    high: float
    """Ends of the interval of the median ratio."""
    pairs: int

    @property
    def verdict(self) -> Change:
        """Better, worse, or no change that is certain and large enough."""
        if self.low > 1.0 and self.ratio >= 1.0 + MINIMUM_EFFECT:
            return Change.WORSE
        if self.high < 1.0 and self.ratio <= 1.0 / (1.0 + MINIMUM_EFFECT):
            return Change.BETTER
        return Change.NO_CHANGE

    @property
    def wide(self) -> bool:
        """True if more pairs should be taken.

        This depends on the width alone, never on the ratio: to go on until something shows would
        raise false alarms."""
        return max(self.high / self.ratio, self.ratio / self.low) > 1.0 + WIDE


def compare(baseline: Sequence[float], tonight: Sequence[float]) -> Comparison:
    """Compare two series of costs, in which ``baseline[i]`` and ``tonight[i]`` are a pair.

    All must be above zero. At least `FEWEST_PAIRS` are needed."""
    before, after = np.asarray(baseline, dtype=float), np.asarray(tonight, dtype=float)
    assert before.shape == after.shape, (before.shape, after.shape)
    assert len(before) >= FEWEST_PAIRS, f"{len(before)} pairs are too few"
    assert (before > 0).all(), before
    assert (after > 0).all(), after
    ratios = np.log(after / before)
    low, high = np.exp(median_interval(ratios, CONFIDENCE))
    return Comparison(
        ratio=float(np.exp(np.median(ratios))), low=float(low), high=float(high), pairs=len(ratios)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The samples of one metric, in seconds of processor time; None where there was no number."""

    baseline: Sequence[float | None]
    tonight: Sequence[float | None]

    def whole(self) -> tuple[list[float], list[float]]:
        """Return the pairs in which both sides have a number."""
        both = [
            (before, after)
            for before, after in zip(self.baseline, self.tonight, strict=True)
            if before is not None and after is not None
        ]
        return [before for before, _ in both], [after for _, after in both]

    def __add__(self, more: Pairs) -> Pairs:
        return Pairs(
            baseline=[*self.baseline, *more.baseline], tonight=[*self.tonight, *more.tonight]
        )

    def compare(self) -> Comparison | None:
        """Compare the whole pairs; None if there are fewer than `FEWEST_PAIRS`."""
        before, after = self.whole()
        return compare(before, after) if len(before) >= FEWEST_PAIRS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict on one metric, with its numbers."""

    verdict: Change
    comparison: Comparison | None
    """The comparison of the deciding pairs: the fresh ones if there are any."""
    screened: Comparison | None = None
    """The comparison of the first pairs, if fresh ones were taken."""


def decide(first: Pairs, confirmation: Pairs | None, *, measured_last_night: bool) -> Decision:
    """Decide by a metric's first pairs and, if these show a change, by fresh ones.

    Without whole pairs the verdict names what is missing: tonight's number is lost if the baseline
    or the night before has one."""
    comparison = first.compare()
    if comparison is None:
        return Decision(verdict=_missing(first, measured_last_night), comparison=None)
    if comparison.verdict is Change.NO_CHANGE or confirmation is None:
        return Decision(verdict=comparison.verdict, comparison=comparison)
    fresh = confirmation.compare()
    if fresh is None:
        return Decision(verdict=_missing(confirmation, True), comparison=comparison)
    agreed = fresh.verdict is comparison.verdict
    return Decision(
        verdict=comparison.verdict if agreed else Change.NO_CHANGE,
        comparison=fresh,
        screened=comparison,
    )


def _missing(pairs: Pairs, measured_before: bool) -> Change:
    tonight = sum(value is not None for value in pairs.tonight)
    baseline = sum(value is not None for value in pairs.baseline)
    if tonight >= FEWEST_PAIRS:
        return Change.NEW
    return Change.LOST if measured_before or baseline >= FEWEST_PAIRS else Change.NOT_MEASURED
