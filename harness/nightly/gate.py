"""One night: the measurement against the baseline, the claims, and the alarms."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.nightly.history import ClaimNight, MetricNight, Night
from harness.nightly.live import gather_live
from harness.nightly.metrics import HotLoop, LiveRatio, chosen_with_live
from harness.nightly.revisions import Revision, build
from harness.nightly.sampling import Gathered, Side, gather
from harness.nightly.statistics import (
    ALARMS,
    FEWEST_PAIRS,
    MINIMUM_EFFECT,
    Change,
    Decision,
    Pairs,
    decide,
)
from harness.results.provenance import (
    describe_commit,
    describe_machine,
    describe_versions,
    machine_name,
)
from harness.seeds import derive_seed
from harness.text import Notify

PAIRS = 12
"""Pairs of samples of each metric; as many again for a metric that seems to have changed."""
LIVE_PAIRS = 6
"""Pairs of passes of each engine: a pass takes half a minute."""

Look = Callable[[Sequence[Any], int], Gathered]
"""A measurement of some metrics on both sides, with a seed."""


def measure_night(
    loops: Sequence[HotLoop],
    baseline: Side,
    tonight: Side,
    *,
    claims: Sequence[ClaimNight],
    last: Night | None,
    pairs: int,
    seed: int,
    report: Notify,
    live: Sequence[LiveRatio] = (),
) -> Night:
    """Run the gate.

    ``last`` is the night before on this class of machine, if there was one. ``live`` are the
    ratios to measure on real servers.
    """
    assert pairs >= FEWEST_PAIRS, pairs
    began, clock, load = time.time(), time.monotonic(), [os.getloadavg()[0]]
    gathered, judged = compare_sides(
        loops, baseline, tonight, last=last, pairs=pairs, seed=seed, report=report
    )
    ratios, decided = compare_live(live, baseline, tonight, last=last, seed=seed, report=report)
    notes, claim_alarms = claim_changes(last.claims if last else (), claims)
    metrics = {loop.name: _metric_night(loop.name, gathered, judged[loop.name]) for loop in loops}
    metrics |= {each.name: _metric_night(each.name, ratios, decided[each.name]) for each in live}
    alarms = [
        _sentence(name, "processor time", metrics[name], baseline.name)
        for name, decision in judged.items()
        if decision.verdict in ALARMS
    ]
    alarms += [
        _sentence(name, "ratio to stock Spark", metrics[name], baseline.name)
        for name, decision in decided.items()
        if decision.verdict in ALARMS
    ]
    return Night(
        started_unix_s=began,
        seconds=time.monotonic() - clock,
        machine_name=machine_name(),
        machine=describe_machine(),
        versions=describe_versions(),
        commit=describe_commit(),
        baseline=baseline.name,
        pairs=pairs,
        load=[*load, os.getloadavg()[0]],
        metrics=metrics,
        claims=claims,
        alarms=[*alarms, *claim_alarms],
        notes=notes,
    )


def compare_sides(
    loops: Sequence[HotLoop],
    baseline: Side,
    tonight: Side,
    *,
    last: Night | None,
    pairs: int,
    seed: int,
    report: Notify,
) -> tuple[Gathered, Mapping[str, Decision]]:
    """Measure every loop, and those that seem to have changed a second time."""

    def look(chosen: Sequence[HotLoop], seed: int) -> Gathered:
        return gather_precisely(chosen, baseline, tonight, pairs=pairs, seed=seed, report=report)

    return _decide_all(loops, look, last=last, seed=seed, report=report)


def compare_live(
    ratios: Sequence[LiveRatio],
    baseline: Side,
    tonight: Side,
    *,
    last: Night | None,
    seed: int,
    report: Notify,
) -> tuple[Gathered, Mapping[str, Decision]]:
    """Measure the ratios between live engines in the same way."""

    def look(chosen: Sequence[LiveRatio], seed: int) -> Gathered:
        return gather_live(chosen, baseline, tonight, pairs=LIVE_PAIRS, seed=seed, report=report)

    if not ratios:
        return Gathered({}, {}), {}
    return _decide_all(ratios, look, last=last, seed=seed, report=report)


def measure_of(
    metric: str, baseline: Revision, other: Revision, *, report: Notify
) -> Callable[[int, int], Pairs]:
    """Return a measurement of one metric of any kind: its pairs by their number and a seed.

    Both revisions are built when it is called.
    """
    loops, ratios = chosen_with_live((metric,))

    def measure(pairs: int, seed: int) -> Pairs:
        sides = build(baseline, report=report), build(other, report=report)
        found = (
            gather_live(ratios, *sides, pairs=pairs, seed=seed, report=report)
            if ratios
            else gather(loops, *sides, pairs=pairs, seed=seed, report=report)
        )
        return found.pairs[metric]

    return measure


def _decide_all(
    metrics: Sequence[HotLoop] | Sequence[LiveRatio],
    look: Look,
    *,
    last: Night | None,
    seed: int,
    report: Notify,
) -> tuple[Gathered, Mapping[str, Decision]]:
    first = look(metrics, seed)
    suspects = [
        metric
        for metric in metrics
        if (found := first.pairs[metric.name].compare(seed=seed))
        and found.verdict is not Change.NO_CHANGE
    ]
    fresh = Gathered({}, {})
    if suspects:
        report(f"a second look at {', '.join(metric.name for metric in suspects)}")
        fresh = look(suspects, derive_seed(seed, "second look"))
    decisions = {
        metric.name: decide(
            first.pairs[metric.name],
            fresh.pairs.get(metric.name),
            measured_last_night=_was_measured(last, metric.name),
            seed=seed,
        )
        for metric in metrics
    }
    return first, decisions


def gather_precisely(
    loops: Sequence[HotLoop],
    baseline: Side,
    tonight: Side,
    *,
    pairs: int,
    seed: int,
    report: Notify,
) -> Gathered:
    """Take ``pairs`` pairs of every loop, and as many again, once, of those still uncertain."""
    found = gather(loops, baseline, tonight, pairs=pairs, seed=seed, report=report)
    uncertain = [
        loop
        for loop in loops
        if (comparison := found.pairs[loop.name].compare(seed=seed)) and comparison.wide
    ]
    if uncertain:
        report(f"more pairs of {', '.join(loop.name for loop in uncertain)}")
        seed = derive_seed(seed, "more")
        more = gather(uncertain, baseline, tonight, pairs=pairs, seed=seed, report=report)
        for name, extra in more.pairs.items():
            found.pairs[name] += extra
        found.reasons.update(more.reasons)
    return found


def _was_measured(last: Night | None, name: str) -> bool:
    if last is None or name not in last.metrics:
        return False
    return sum(value is not None for value in last.metrics[name].seconds) >= FEWEST_PAIRS


def _metric_night(name: str, gathered: Gathered, judged: Decision) -> MetricNight:
    pairs, comparison = gathered.pairs[name], judged.comparison
    reasons = [gathered.reasons.get(f"{name} ({which})") for which in ("tonight", "baseline")]
    return MetricNight(
        verdict=judged.verdict.value,
        seconds=list(pairs.tonight),
        baseline_seconds=list(pairs.baseline),
        ratio=comparison.ratio if comparison else None,
        low=comparison.low if comparison else None,
        high=comparison.high if comparison else None,
        reason=next((reason for reason in reasons if reason), None),
    )


def _sentence(name: str, what: str, metric: MetricNight, baseline: str) -> str:
    if metric.ratio is None or metric.verdict == Change.LOST:
        return f"{name}: was measured before and has no number tonight ({metric.reason or '?'})"
    return (
        f"{name}: {metric.ratio:.3f} times the {what} of {baseline} "
        f"(99 % interval {metric.low:.3f} to {metric.high:.3f}, minimal effect "
        f"{MINIMUM_EFFECT:.0%})"
    )


def claim_changes(
    before: Sequence[ClaimNight], tonight: Sequence[ClaimNight]
) -> tuple[Sequence[str], Sequence[str]]:
    """Compare the claims with those of the night before, and return notes and alarms.

    A claim that held and does not any more is an alarm, and so is one that was measured and is
    null tonight or whose experiment has no record at all. A claim that its experiment no longer
    makes, although it was judged tonight, is a note: it was removed or reworded.
    """
    now = {(each.experiment, each.profile, each.text): each for each in tonight}
    judged = {(each.experiment, each.profile) for each in tonight}
    notes, alarms = [], []
    for old in before:
        new = now.get((old.experiment, old.profile, old.text))
        where = f"{old.experiment} ({old.profile}): {old.text}"
        if new is None and (old.experiment, old.profile) in judged and old.held is not None:
            notes.append(f"{where} – this claim is no longer made")
        elif old.held is not None and (new is None or new.held is None):
            alarms.append(f"{where} – was measured before and is not measured tonight")
        elif old.held is True and new is not None and new.held is False:
            alarms.append(f"{where} – held before and does not hold tonight")
        elif old.held is False and new is not None and new.held is True:
            notes.append(f"{where} – did not hold before and holds tonight")
    return notes, alarms
