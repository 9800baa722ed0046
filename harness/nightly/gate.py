"""One night: the measurement against the baseline, the claims, and the alarms."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from harness.nightly.history import ClaimNight, MetricNight, Night
from harness.nightly.live import gather_live
from harness.nightly.metrics import HotLoop, LiveRatio
from harness.nightly.sampling import Gathered, Side, gather
from harness.nightly.statistics import (
    ALARMS,
    FEWEST_PAIRS,
    MINIMUM_EFFECT,
    Change,
    Decision,
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

PAIRS = 15
"""Pairs of samples of each metric; as many again for a metric that seems to have changed."""
LIVE_PAIRS = FEWEST_PAIRS
"""Pairs of passes of each engine: a pass takes half a minute."""

Metric = HotLoop | LiveRatio


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
    ratios to measure on real servers."""
    assert pairs >= FEWEST_PAIRS, pairs
    began, clock, load = time.time(), time.monotonic(), [os.getloadavg()[0]]
    metrics, alarms = {}, []
    for chosen, count, what in (
        (loops, pairs, "processor time"),
        (live, LIVE_PAIRS, "ratio to stock Spark (micro-batches)"),
    ):
        gathered, decided = compare_sides(
            chosen, baseline, tonight, last=last, pairs=count, seed=seed, report=report
        )
        for name, decision in decided.items():
            metrics[name] = _metric_night(name, gathered, decision)
            if decision.verdict in ALARMS:
                alarms.append(_sentence(name, what, metrics[name], baseline.name))
    notes, claim_alarms = claim_changes(last.claims if last else (), claims)
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
    metrics: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    *,
    last: Night | None,
    pairs: int,
    seed: int,
    report: Notify,
) -> tuple[Gathered, Mapping[str, Decision]]:
    """Measure metrics of one kind, and those that seem to have changed a second time."""
    if not metrics:
        return Gathered({}, {}), {}

    def look(chosen: Sequence[Metric], seed: int) -> Gathered:
        return _gather(chosen, baseline, tonight, pairs, seed, report, precisely=True)

    first = look(metrics, seed)
    suspects = [
        metric
        for metric in metrics
        if (found := first.pairs[metric.name].compare()) and found.verdict is not Change.NO_CHANGE
    ]
    fresh = Gathered({}, {})
    if suspects:
        report(f"a second look at {', '.join(metric.name for metric in suspects)}")
        fresh = look(suspects, derive_seed(seed, "second look"))
    return first, {
        metric.name: decide(
            first.pairs[metric.name],
            fresh.pairs.get(metric.name),
            measured_last_night=_was_measured(last, metric.name),
        )
        for metric in metrics
    }


def _gather(
    metrics: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    pairs: int,
    seed: int,
    report: Notify,
    *,
    precisely: bool = False,
) -> Gathered:
    """Take ``pairs`` pairs of metrics of one kind.

    ``precisely``: as many again, once, of those hot loops that are still uncertain."""
    if ratios := [each for each in metrics if isinstance(each, LiveRatio)]:
        return gather_live(ratios, baseline, tonight, pairs=pairs, seed=seed, report=report)
    loops = [each for each in metrics if isinstance(each, HotLoop)]
    found = gather(loops, baseline, tonight, pairs=pairs, seed=seed, report=report)
    uncertain = [
        loop
        for loop in loops
        if (comparison := found.pairs[loop.name].compare()) and comparison.wide
    ]
    if precisely and uncertain:
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
    makes, although it was judged tonight, is a note. Claims are the same if their ids are, whatever
    their text."""
    now = {(each.experiment, each.profile, each.id or each.text): each for each in tonight}
    by_text = {(each.experiment, each.profile, each.text): each for each in tonight}
    judged = {(each.experiment, each.profile) for each in tonight}
    notes, alarms = [], []
    for old in before:
        names = now if old.id else by_text
        new = names.get((old.experiment, old.profile, old.id or old.text))
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
