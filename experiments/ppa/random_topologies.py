"""ppa ICDE Fig. 14 = TKDE Fig. 16 (a-d): output fidelity of SA and greedy on random topologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pandas as pd

from experiments.ppa import _random
from harness.claims import Cause, Finding, Rule, at_most, found, paper, unmeasured
from harness.experiment import Context, Experiment, Outcome, Point, Results, computed
from harness.planning.readings import PRINTED
from harness.planning.structure_aware import StructureAware


def run(point: Point, context: Context) -> Outcome:
    """Run both planners on every topology at every ratio, on full ones also SA by δ."""
    by_increase = StructureAware(replace(PRINTED, by_increase=True))
    more = {_random.BY_INCREASE: by_increase} if point["variant"] == "full" else {}
    return _random.run_contestants(_random.specification(point), context, more)


MEASUREMENT = computed(
    "ppa/random-topologies", grid=_random.POINTS, seconds=(0.1, 5.0, 5.0), run=run
)

# Shown: no record depends on what follows.

CLOSE = 0.05
"""Limit for "close" on full topologies: the difference of the means, averaged over the ratios."""
SETTING = ("panel", "variant", "x")
HIGHER: Mapping[str, Sequence[str]] = {
    "a": ("Zipf, s = 0.1", "uniform"),
    "b": ("16 to 32 tasks", "8 to 16 tasks", "4 to 8 tasks"),
    "c": ("structured", "full"),
    "d": ("no joins", "50 % joins"),
}
"""The variants of each panel, from the highest OF to the lowest as the paper has them."""
NEXT, NEXT_IN_MEAN = "over_next", "over_next_in_mean"
BY_PAIRS = Rule(version=2, since="2026-11-26", seen_seeds=_random.SEEN)
"""Version 1 compared means without intervals: a difference of 0.0003 over 100 topologies decided
it."""


def table(results: Results) -> pd.DataFrame:
    """Return the mean OF per panel, variant, planner and ratio (``x``), with its 95 % interval.

    SA's lead over greedy is that of `_random.with_lead`. So is its lead in a variant over that in
    the next of `HIGHER`, on the same topologies: `NEXT` at a ratio, `NEXT_IN_MEAN` of the means
    over all ratios."""
    frame = results.series("plans", ("panel", "variant")).rename(columns={"ratio": "x"})
    means = _random.summary(frame, ("panel", "variant", "planner", "x"))
    led = _random.with_lead(means, frame, SETTING, _random.CONTESTANTS)
    at_ratio = frame[frame["planner"] == "sa"]
    in_mean = at_ratio.groupby(["panel", "variant", "topology"])["value"].mean().reset_index()
    led = led.merge(_over_next(at_ratio, ("panel", "x"), NEXT), on=list(SETTING), how="left")
    over_next = _over_next(in_mean, ("panel",), NEXT_IN_MEAN)
    return led.merge(over_next, on=["panel", "variant"], how="left")


def _over_next(frame: pd.DataFrame, setting: Sequence[str], name: str) -> pd.DataFrame:
    return pd.concat(
        _random.leads(frame[frame["panel"] == panel], setting, pair, "variant", name).assign(
            variant=pair[0]
        )
        for panel, variants in HIGHER.items()
        for pair in pairwise(variants)
    )


def _means(table: pd.DataFrame) -> pd.DataFrame:
    return _random.wide(table, ("panel", "variant", "x"))


@paper(
    "small-ratios",
    "With a smaller replication ratio the difference is greater (relative to SA's OF)",
)
def small_ratios(table: pd.DataFrame) -> Finding:
    means = _means(table).groupby("x").mean()
    relative = 1 - means["greedy"] / means["sa"]
    return found(
        relative.is_monotonic_decreasing,
        relative_difference=_random.named(relative),
        absolute_difference=_random.named(means["sa"] - means["greedy"]),
    )


@paper(
    "close-on-full",
    "(c) On full topologies SA and greedy are close",
    rule=Rule(version=2, since="2026-11-27", seen_seeds=_random.SEEN),
    # Version 1 judged the plans of Algorithm 2's line 13.
    unmeasured_because="No run has the plans by δ.",
)
def close_on_full(table: pd.DataFrame) -> Finding:
    """Judge SA that takes tasks by δ, as section 4.2 has it; line 13's stands beside it."""
    means = _random.wide(table[table["variant"] == "full"], ("x",))
    if _random.BY_INCREASE not in means:
        return unmeasured(tolerance=CLOSE)
    apart = means.sub(means["greedy"], axis="index").abs().mean()
    return at_most(float(apart[_random.BY_INCREASE]), CLOSE, by_the_best_plan=float(apart["sa"]))


@paper(
    "tenfold",
    "SA improves on greedy by up to one order of magnitude",
    rule=_random.BOUNDED,
    cause=Cause.LOST,
    because="At the smallest budgets greedy's mean is next to nothing, presumably since it "
    "replicates single tasks where only whole MC-trees count, and any factor comes out. The "
    "degrees, which decide how small a budget is, are not printed.",
)
def tenfold(table: pd.DataFrame) -> Finding:
    means = _means(table)
    factor = (means["sa"] / means["greedy"])[means["greedy"] > 0]
    least, most = _random.TENFOLD
    return found(
        bool(least <= factor.max() <= most) if len(factor) else None,
        largest_factor=factor.max() if len(factor) else None,
        accepted=[least, most],
        where=_random.place(factor.idxmax()) if len(factor) else None,
        greedy_gives_nothing_at=int((means["greedy"] == 0).sum()),
    )


CLAIMS = [
    paper(
        "ahead",
        "SA outperforms the greedy algorithm in all combinations of specification and ratio",
        rule=_random.PAIRED,
    )(_random.ahead_in_pairs(SETTING)),
    small_ratios,
    paper("skew", "(a) SA does better on topologies with more skewed workloads", rule=BY_PAIRS)(
        _random.ahead_in_pairs(("panel", "variant"), "a", lead=NEXT_IN_MEAN)
    ),
    paper(
        "degree",
        "(b) A higher parallelization degree gives a higher OF",
        because="A difference of the means that is small against their 95 % intervals (the bands) "
        "is not a measured difference. Which way it goes depends on the mix of "
        "partitionings, which the paper does not print (ppa/regions counts the combinations where "
        "it holds).",
        cause=Cause.LOST,
        rule=BY_PAIRS,
    )(_random.ahead_in_pairs(("panel", "variant"), "b", lead=NEXT_IN_MEAN)),
    paper(
        "structured",
        "(c) The OF of structured topologies is generally higher than of full ones",
        rule=BY_PAIRS,
    )(_random.ahead_in_pairs(SETTING, "c", lead=NEXT)),
    close_on_full,
    paper("joins", "(d) With more joins OF is lower, at every ratio", rule=BY_PAIRS)(
        _random.ahead_in_pairs(SETTING, "d", lead=NEXT)
    ),
    tenfold,
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.BOTH,
    figure="Figure 14 (TKDE: 16)",
    title="Output fidelity of SA and greedy on random single-query topologies",
    statement=(
        "SA outperforms the greedy algorithm in all combinations of topology specification and "
        "active replication ratio; the difference is greater with a smaller ratio."
    ),
    table=table,
    draw=_random.four_panels("replicated share of all resources"),
    claims=CLAIMS,
    notes=(
        *_random.NOTES,
        "On full topologies SA grows by the plan that is best, as line 13 of Algorithm 2 has it. "
        "By the text of section 4.2 it takes the tasks with the largest increase of their own, δ: "
        "that is the third curve of (c), by which closeness to greedy is judged.",
    ),
    figure_size_in=(9.0, 7.0),
)
