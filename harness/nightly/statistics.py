"""The decision that a metric has changed: pure functions over samples, without I/O or clock.

A metric is measured in pairs: one sample of the baseline and one of tonight's code, each from a
process of its own, right after one another, in an order that is drawn anew for each pair. What a
busy machine does to both cancels in their ratio; what it does to one is an outlier, on which the
median of the ratios does not depend. Two of the ratios enclose that median: its exact interval.
Costs that may be 0 (outages, lost results) have differences in place of ratios (`Scale`).

A change is called only if the whole interval lies on one side of no change and the median is
beyond a minimal effect, and only if a second, fresh set of pairs says the same. Where few first
pairs are taken, because each one costs minutes, the fresh ones make up for it
(`confirming_pairs`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from harness.claims.samples import median_interval

MINIMUM_EFFECT = 0.05
"""Ratios nearer to 1 than this are no change, however narrow their interval is."""
MINIMUM_DIFFERENCE = 1.0
"""The same for differences: a second of outage, or a result."""
CONFIDENCE = 0.99
WIDE = 0.08
"""More pairs are taken if an interval reaches further than this share from its ratio."""
FEWEST_PAIRS = 8
"""Fewer pairs than this give no 99 % interval of a median: of seven, all are on one side of it in
two of 128 cases."""
FALSE_ALARMS = 0.01
"""Largest probability that a night of equal code has a false alarm about any of its recoveries."""


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


@dataclass(frozen=True, slots=True)
class Scale:
    """The form in which two costs are compared."""

    unit: str = ""
    """The unit of their difference; empty if they are compared by their ratio."""

    @property
    def least(self) -> float:
        """The least change that counts: of a ratio its logarithm."""
        return MINIMUM_DIFFERENCE if self.unit else math.log1p(MINIMUM_EFFECT)

    def changes(self, baseline: Sequence[float], tonight: Sequence[float]) -> NDArray[np.float64]:
        """Return the difference of each pair, or the logarithm of its ratio."""
        before, after = np.asarray(baseline, dtype=float), np.asarray(tonight, dtype=float)
        assert before.shape == after.shape, (before.shape, after.shape)
        if self.unit:
            return np.asarray(after - before)
        assert (before > 0).all(), before
        assert (after > 0).all(), after
        return np.asarray(np.log(after / before))

    def shown(self, change: float) -> float:
        """Return a change as a difference or a ratio."""
        return float(change if self.unit else math.exp(change))


RATIO = Scale()


def confirming_pairs(first: int, comparisons: int) -> int:
    """Return the number of fresh pairs for a suspicion by few first ones.

    Where nothing has changed, all first pairs are on one side with probability 2 / 2ⁿ, and all
    fresh ones on that side with 1 / 2ᵐ. Added up over the ``comparisons`` of the night
    (Bonferroni), this must not exceed `FALSE_ALARMS`."""
    enough = math.log2(comparisons * 2.0 ** (1 - first) / FALSE_ALARMS)
    return max(FEWEST_PAIRS, math.ceil(enough))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The change of a cost (lower is better) from the baseline to tonight, with its interval."""

    ratio: float
    """Tonight over baseline; on a scale with a unit the difference."""
    low: float
    high: float
    """Ends of the interval of the median."""
    verdict: Change
    """Better, worse, or no change that is certain and large enough."""

    @property
    def wide(self) -> bool:
        """True if more pairs of a ratio should be taken.

        This depends on the width alone, never on the ratio: to go on until something shows would
        raise false alarms."""
        return max(self.high / self.ratio, self.ratio / self.low) > 1.0 + WIDE


def compare(
    baseline: Sequence[float], tonight: Sequence[float], *, scale: Scale = RATIO
) -> Comparison:
    """Compare two series of costs, in which ``baseline[i]`` and ``tonight[i]`` are a pair.

    Below `FEWEST_PAIRS`, which are enough for a suspicion alone, the interval is from the least to
    the greatest."""
    changes = scale.changes(baseline, tonight)
    assert len(changes), "no pairs"
    middle, low, high = np.median(changes), changes.min(), changes.max()
    if len(changes) >= FEWEST_PAIRS:
        low, high = median_interval(changes, CONFIDENCE)
    verdict = Change.NO_CHANGE
    if low > 0 and middle >= scale.least:
        verdict = Change.WORSE
    if high < 0 and middle <= -scale.least:
        verdict = Change.BETTER
    return Comparison(
        ratio=scale.shown(middle), low=scale.shown(low), high=scale.shown(high), verdict=verdict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The samples of one metric; None where there was no number."""

    baseline: Sequence[float | None]
    tonight: Sequence[float | None]
    scale: Scale = RATIO
    fewest: int = FEWEST_PAIRS
    """Number of pairs without which there is no comparison."""

    def whole(self) -> tuple[list[float], list[float]]:
        """Return the pairs in which both sides have a number."""
        both = [
            (before, after)
            for before, after in zip(self.baseline, self.tonight, strict=True)
            if before is not None and after is not None
        ]
        return [before for before, _ in both], [after for _, after in both]

    def __add__(self, more: Pairs) -> Pairs:
        return replace(
            self, baseline=[*self.baseline, *more.baseline], tonight=[*self.tonight, *more.tonight]
        )

    def compare(self) -> Comparison | None:
        """Compare the whole pairs; None if there are too few."""
        before, after = self.whole()
        return compare(before, after, scale=self.scale) if len(before) >= self.fewest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict on one metric, with its numbers."""

    verdict: Change
    comparison: Comparison | None
    """The comparison of the deciding pairs: the fresh ones if there are any."""


def decide(first: Pairs, confirmation: Pairs | None, *, measured_last_night: bool) -> Decision:
    """Decide by a metric's first pairs and, if these show a change, by fresh ones.

    Without whole pairs the verdict names what is missing: tonight's number is lost if the baseline
    or the night before has one. A change that too few fresh pairs could confirm is none."""
    comparison = first.compare()
    if comparison is None:
        return Decision(verdict=_missing(first, measured_last_night), comparison=None)
    if comparison.verdict is Change.NO_CHANGE or confirmation is None:
        return Decision(verdict=comparison.verdict, comparison=comparison)
    fresh = confirmation.compare()
    if fresh is None:
        some = bool(confirmation.whole()[0])
        verdict = Change.NO_CHANGE if some else _missing(confirmation, True)
        return Decision(verdict=verdict, comparison=comparison)
    verdict = fresh.verdict if fresh.verdict is comparison.verdict else Change.NO_CHANGE
    return Decision(verdict=verdict, comparison=fresh)


def _missing(pairs: Pairs, measured_before: bool) -> Change:
    tonight = sum(value is not None for value in pairs.tonight)
    baseline = sum(value is not None for value in pairs.baseline)
    if tonight >= pairs.fewest:
        return Change.NEW
    return Change.LOST if measured_before or baseline >= pairs.fewest else Change.NOT_MEASURED
