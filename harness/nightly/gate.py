"""One night: the measurement against the baseline, the claims, and the alarms."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from harness.nightly.history import ClaimNight, MetricNight, Night
from harness.nightly.live import gather_live
from harness.nightly.metrics import Metric
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


def measure_night(
    measured: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    *,
    claims: Sequence[ClaimNight],
    last: Night | None,
    pairs: int,
    seed: int,
    report: Notify,
) -> Night:
    """Run the gate.

    ``last`` is the night before on this class of machine, if there was one. ``pairs`` are those of
    a loop."""
    assert pairs >= FEWEST_PAIRS, pairs
    began, clock, load = time.time(), time.monotonic(), [os.getloadavg()[0]]

    def look(chosen: Sequence[Metric], fresh_of: int | None) -> Gathered:
        if fresh_of is not None:
            report(f"a second look at {', '.join(metric.name for metric in chosen)}")
        again = seed if fresh_of is None else derive_seed(seed, "second look")
        return _gather(chosen, baseline, tonight, pairs, fresh_of, again, report)

    gathered, decided = _decided(measured, look, last)
    metrics = {name: _metric_night(name, gathered, found) for name, found in decided.items()}
    alarms = [
        _sentence(metric, metrics[metric.name], baseline.name)
        for metric in measured
        if decided[metric.name].verdict in ALARMS
    ]
    few = [
        note
        for metric in measured
        if metric.counts_errors and (note := _too_few(metric, metrics[metric.name]))
    ]
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
        notes=[*few, *notes],
    )


def _decided(
    metrics: Sequence[Metric],
    look: Callable[[Sequence[Metric], int | None], Gathered],
    last: Night | None,
) -> tuple[Gathered, Mapping[str, Decision]]:
    """Measure metrics, and those that seem to have changed a second time, with fresh pairs."""
    first = look(metrics, None)
    suspects = [
        metric
        for metric in metrics
        if (found := first.pairs[metric.name].compare()) and found.verdict is not Change.NO_CHANGE
    ]
    fresh = look(suspects, len(metrics)).pairs if suspects else {}
    return first, {
        metric.name: decide(
            first.pairs[metric.name],
            fresh.get(metric.name),
            measured_last_night=_was_measured(last, metric.name, first.pairs[metric.name].fewest),
        )
        for metric in metrics
    }


def _gather(
    metrics: Sequence[Metric],
    baseline: Side,
    tonight: Side,
    pairs: int,
    fresh_of: int | None,
    seed: int,
    report: Notify,
) -> Gathered:
    """Take ``pairs`` pairs of the loops, and those of what needs real servers (`turns_of`).

    Of those loops that are still uncertain as many again, once."""
    loops = [each for each in metrics if not each.turns]
    live = [each for each in metrics if each.turns]
    found = Gathered({}, {})
    if live:
        found = gather_live(live, baseline, tonight, seed=seed, report=report, fresh_of=fresh_of)
    if not loops:
        return found
    found += gather(loops, baseline, tonight, pairs=pairs, seed=seed, report=report)
    uncertain = [
        loop
        for loop in loops
        if (comparison := found.pairs[loop.name].compare()) and comparison.wide
    ]
    if uncertain:
        report(f"more pairs of {', '.join(loop.name for loop in uncertain)}")
        seed = derive_seed(seed, "more")
        more = gather(uncertain, baseline, tonight, pairs=pairs, seed=seed, report=report)
        for name, extra in more.pairs.items():
            found.pairs[name] += extra
        found.reasons.update(more.reasons)
    return found


def _was_measured(last: Night | None, name: str, fewest: int) -> bool:
    if last is None or name not in last.metrics:
        return False
    return sum(value is not None for value in last.metrics[name].seconds) >= fewest


def _metric_night(name: str, gathered: Gathered, judged: Decision) -> MetricNight:
    pairs, reasons, comparison = gathered.pairs[name], gathered.reasons, judged.comparison
    return MetricNight(
        verdict=judged.verdict.value,
        seconds=list(pairs.tonight),
        baseline_seconds=list(pairs.baseline),
        unit=pairs.scale.unit,
        ratio=comparison.ratio if comparison else None,
        low=comparison.low if comparison else None,
        high=comparison.high if comparison else None,
        reason=reasons.get(f"{name} (tonight)") or reasons.get(f"{name} (baseline)"),
    )


def _sentence(metric: Metric, night: MetricNight, baseline: str) -> str:
    if night.ratio is None or night.verdict == Change.LOST:
        return (
            f"{metric.name}: was measured before and has no number tonight ({night.reason or '?'})"
        )
    if night.unit:
        return f"{metric.name}: {night.numbers} against {baseline}, with a 99 % interval"
    return (
        f"{metric.name}: {night.ratio:.3f} times the {metric.what} of {baseline} "
        f"(99 % interval {night.low:.3f} to {night.high:.3f}, minimal effect "
        f"{MINIMUM_EFFECT:.0%})"
    )


def _too_few(metric: Metric, night: MetricNight) -> str | None:
    """Return a note about errors that few kills of tonight alone have, and too few to decide."""
    tonight = [value for value in night.seconds if value]
    if night.verdict == Change.WORSE or not tonight or any(night.baseline_seconds):
        return None
    count = f"{len(tonight)} of {len(night.seconds)} kills"
    return f"{metric.title}: up to {max(tonight):g} in {count}, and none at the baseline"


def claim_changes(
    before: Sequence[ClaimNight], tonight: Sequence[ClaimNight]
) -> tuple[Sequence[str], Sequence[str]]:
    """Compare the claims with those of the night before, and return notes and alarms.

    A claim that held and does not any more is an alarm, and so is one that was decided and is
    open tonight or whose experiment has no record at all. A claim that its experiment no longer
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
            why = new.undecided if new else ""
            state = f"undecided tonight: {why}" if why else "not measured tonight"
            alarms.append(f"{where} – was decided before and is {state}")
        elif old.held is True and new is not None and new.held is False:
            alarms.append(f"{where} – held before and does not hold tonight")
        elif old.held is False and new is not None and new.held is True:
            notes.append(f"{where} – did not hold before and holds tonight")
    return notes, alarms
