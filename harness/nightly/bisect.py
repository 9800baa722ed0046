"""Which revision made a metric worse: bisection with the gate's own statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import EnvironmentFailure, UsageError
from harness.nightly.revisions import Revision
from harness.nightly.statistics import Change, Comparison, Pairs, compare

MOST_PAIRS = 48

Measure = Callable[[Revision, int, int], Pairs]
"""The metric's pairs of the good revision (the baseline) and another one; how many, and a seed
that no other call has. Raises `EnvironmentFailure` where the revision cannot be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One revision that was looked at."""

    revision: Revision
    comparison: Comparison | None
    """With the good revision; None where it has no number."""
    worse: bool | None
    """None where it could not be decided, and the revision was left out."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where the metric became worse."""

    first_worse: Revision
    others: Sequence[Revision]
    """Older revisions that could not be measured: one of them may be it as well."""
    comparison: Comparison
    """Of the first worse revision with the good one."""
    steps: Sequence[Step]


def bisect(
    revisions: Sequence[Revision],
    measure: Measure,
    *,
    pairs: int,
    seed: int,
    watch: Callable[[Step], None] = lambda step: None,
) -> Found:
    """Find the first of ``revisions`` (oldest first, the last one known as bad) that is worse.

    The last one is measured first. If the gate does not call it worse there is nothing to find,
    which is a `UsageError`. Every other revision is then put on the side of good or of bad,
    whichever its ratio is nearer to; where the interval holds both, more pairs are taken.
    """
    assert revisions
    whole = _whole(measure(revisions[-1], pairs, seed), revisions[-1])
    effect = compare(*whole, seed=seed)
    if effect.verdict is not Change.WORSE:
        raise UsageError(
            f"{revisions[-1].short} is not measurably worse: {effect.ratio:.3f} times, 99 % "
            f"interval {effect.low:.3f} to {effect.high:.3f}",
            remedy="give the revisions of which the nightly report said so, or more --pairs",
        )
    steps = [Step(revision=revisions[-1], comparison=effect, worse=True)]
    watch(steps[0])
    threshold = float(np.sqrt(effect.ratio))
    good, bad = -1, len(revisions) - 1
    left_out: set[int] = set()
    while candidates := [i for i in range(good + 1, bad) if i not in left_out]:
        middle = candidates[len(candidates) // 2]
        step = _look(revisions[middle], measure, threshold, pairs, seed + 100 * (middle + 1))
        steps.append(step)
        watch(step)
        if step.worse is None:
            left_out.add(middle)
        elif step.worse:
            bad = middle
        else:
            good = middle
    of_bad = next(step for step in steps if step.revision is revisions[bad])
    assert of_bad.comparison is not None
    return Found(
        first_worse=revisions[bad],
        others=[revisions[i] for i in sorted(left_out) if good < i < bad],
        comparison=of_bad.comparison,
        steps=steps,
    )


def _look(revision: Revision, measure: Measure, threshold: float, pairs: int, seed: int) -> Step:
    before: list[float] = []
    after: list[float] = []
    while True:
        try:
            more = _whole(measure(revision, pairs, seed + len(before)), revision)
        except EnvironmentFailure as error:
            return Step(revision=revision, comparison=None, worse=None, why=error.what)
        before += more[0]
        after += more[1]
        found = compare(before, after, seed=seed)
        if found.low > threshold or found.high < threshold:
            return Step(revision=revision, comparison=found, worse=found.low > threshold)
        if len(before) >= MOST_PAIRS:
            why = f"undecided after {len(before)} pairs: the machine is too noisy"
            return Step(revision=revision, comparison=found, worse=None, why=why)


def _whole(found: Pairs, revision: Revision) -> tuple[list[float], list[float]]:
    before, after = found.whole()
    if found.compare(seed=0) is None:
        raise EnvironmentFailure(
            f"{revision} has no number for this metric",
            remedy="choose revisions between which the metric was measured",
        )
    return before, after
