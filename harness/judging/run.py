"""One measured run of an engine: a twin, then the same input with failures.

Both passes are part of one run, on the same warm engine within the same minutes, so that they
differ by the failure and not by the hour. The ground truth is computed over the failed pass's own
topics, so it is exact for its input."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import (
    NOT_SCORED,
    Scored,
    Setup,
    parts_of,
)
from harness.engines.kinds import find_engine
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging import trust
from harness.judging.outcome import in_one_form, judge
from harness.judging.passes import WARM_UP, PassPlan, PassRecord
from harness.judging.runner import Made, Runner, open_runner, steady_plan
from harness.load.plan import BY_THE_CLOCK, GATHER_S, EventTime
from harness.measure.recovery import CALM_S
from harness.measure.versions import revises, versions
from harness.measurement import Context
from harness.results.kills import SERIES
from harness.results.record import TOO_FEW_CORES, VARIANTS, Outcome, Profile
from workloads.base import Workload
from workloads.toolkit.accuracy import members_by_window

ATTEMPTS = 3
"""Passes of a variant, until its failures are felt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """One run: an engine, a workload, its load and its failures."""

    workload: Workload
    setup: Setup
    engine: str = "structured"
    interval_s: float
    """Trigger or batch interval. The stock engine commits a checkpoint with each batch."""
    rate_per_s: float
    load_s: float
    warmup_s: float = 0.0
    """Load before the twin, not measured, on topics of its own, for the engine to compile; none
    where its last pass was of the same workload and nothing failed."""
    first_warmup_s: float
    """Instead of ``warmup_s``, where the engine has run nothing before: about the longest time for
    pieces of ``warmup_s``, until batches are no longer faster than in the piece before."""
    settle_s: float
    """The first part of each pass, which counts for no latency."""
    schedule: Schedule = NO_FAILURES
    timed: bool = True
    """True if its times are compared with the twin's, so that a run whose twin fell behind is made
    again. A late load or kill makes every run invalid, except in the smoke profile."""
    punctual_s: float | None = None
    """Permitted lateness of a kill; by default a share of the checkpoint interval."""
    calm_s: float = CALM_S
    """Time on time that ends a recovery; shorter where all times of the run are."""
    event: EventTime = BY_THE_CLOCK
    """The event time of every pass."""
    gather_s: float = GATHER_S
    """See `LoadPlan.gather_s`."""
    one_truth: bool = False
    """True if the truth of the first pass with failures serves all: where a pass begins with a
    window (``interval_s`` is its slide), the same record falls into the same window of each."""
    scored: bool = True
    """False where nobody asks for the accuracy that the engine counts."""

    def punctual_under(self, setup: Setup) -> float:
        """Return the permitted lateness of a kill under a setup."""
        if self.punctual_s is not None:
            return self.punctual_s
        return trust.punctual_s(
            float(getattr(setup.parameters, "checkpoint_s", None) or self.interval_s)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A further pass over the same input, with a setup and failures of its own."""

    setup: Setup
    """With the same key (`EngineKind.key`) as the run's, so that the warm engine takes it."""
    schedule: Schedule
    felt: Callable[[PassRecord], bool] | None = None
    """Says whether the failures ended anything that the query needs. A pass in which they did not
    is made again, at most `ATTEMPTS` times in all; the last one counts as it is."""


def measure(run: LiveRun, cluster: Cluster, context: Context) -> Outcome:
    """Warm up, run the twin, run with failures, compute the truth, and judge."""
    alone = {"failures": Variant(setup=run.setup, schedule=run.schedule)}
    return measure_each(run, alone, cluster, context)["failures"]


def measure_each(
    run: LiveRun, variants: Mapping[str, Variant], cluster: Cluster, context: Context
) -> dict[str, Outcome]:
    """Run one twin under the run's setup, and the same input once for each of the ``variants``.

    Each one is judged against that twin and against the truth of its own topics. The run's own
    schedule is not used."""
    runner = open_runner(run.engine, run.setup, cluster, context)
    engine = runner.engine
    targets = engine.targets()
    for variant in variants.values():
        variant.schedule.check(
            rack_of={node.name: node.rack for node in targets},
            parts=parts_of(engine),
            servers=cluster.breakable(),
            actions=cluster.capabilities(),
            duration_s=run.load_s,
        )
    warm_up(runner, run)
    twin_plan = plan_of(run, "twin", run.load_s, context)
    if context.repeat % 2 == 0:
        twin = runner.run(twin_plan).record
        broken = _broken(runner, run, variants)
    else:  # what came first must not decide; what was restarted is as cold as at the beginning
        broken = _broken(runner, run, variants)
        warm_up(runner, run)
        twin = runner.run(twin_plan).record
    context.progress("comparing")
    return {
        name: _judged(run, runner, variants[name], twin, made, truth)
        for name, (made, truth) in broken.items()
    }


def _judged(
    run: LiveRun,
    runner: Runner,
    variant: Variant,
    twin: PassRecord,
    made: Made,
    truth: pd.DataFrame,
) -> Outcome:
    """Judge a pass; its kills say under which setting they were."""
    failed = made.record
    accuracy = score(twin, failed, run.workload, truth) if run.scored else NOT_SCORED
    outcome = judge(
        twin,
        failed,
        truth,
        workload=run.workload,
        schedule=variant.schedule,
        trigger_s=run.interval_s,
        settle_s=run.settle_s,
        accuracy=accuracy,
        timed=runner.context.profile is not Profile.SMOKE,
        stationary=run.timed,
        punctual_s=run.punctual_under(variant.setup),
        calm_s=run.calm_s,
    )
    kills = outcome.series[SERIES].assign(**made.setting.row())
    return replace(outcome, series={**outcome.series, SERIES: kills})


def _broken(
    runner: Runner, run: LiveRun, variants: Mapping[str, Variant]
) -> dict[str, tuple[Made, pd.DataFrame]]:
    """Make the pass of each variant, with the truth by which it is judged."""
    found: dict[str, tuple[Made, pd.DataFrame]] = {}
    for name, variant in variants.items():
        first = next(iter(found.values()), None) if run.one_truth else None
        made = until_felt(runner, run, name, variant, truth=first is None)
        truth = made.truth if first is None else first[1]
        assert truth is not None, "the first pass computes it"
        found[name] = made, truth
    return found


def until_felt(runner: Runner, run: LiveRun, name: str, variant: Variant, *, truth: bool) -> Made:
    """Make a pass, again where its failures were not felt (`Variant.felt`)."""
    plan = plan_of(run, name, run.load_s, runner.context, variant.schedule)
    for attempt in range(ATTEMPTS):
        made = runner.run(plan, setup=variant.setup, truth=truth)
        if attempt + 1 == ATTEMPTS or variant.felt is None or variant.felt(made.record):
            break
        runner.context.progress(f"{name} again: its failures ended nothing that the query needs")
    return made


def warm_up(runner: Runner, run: LiveRun) -> None:
    """Warm the engine up with the run's load, unless the pass before has left it warm."""
    last = runner.engine.last
    if last == run.workload.name:
        return
    at_most_s = run.first_warmup_s if last is None else run.warmup_s
    runner.warm_up(
        lambda load_s: plan_of(run, WARM_UP, load_s, runner.context), run.warmup_s, at_most_s
    )


def plan_of(
    run: LiveRun, name: str, load_s: float, context: Context, schedule: Schedule = NO_FAILURES
) -> PassPlan:
    """Return the plan of a pass of a run; a measured one keeps its database with the record."""
    warms = name == WARM_UP
    table = None
    if run.workload.into_table and not warms:
        table = context.directory / f"{run.workload.name}-{name}.sqlite"
    # Batches that follow each other closely warm an engine sooner.
    interval_s = min(run.interval_s, 1.0) if warms else run.interval_s
    return steady_plan(
        name, run.workload, run.rate_per_s, load_s, interval_s,
        schedule=schedule, table=table, event=run.event, gather_s=run.gather_s,
    )  # fmt: skip


def together(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Join several outcomes: values as rows of a table ``variants``, series stacked.

    Each series gets the column ``variant``. The whole is invalid, or to be made again, if any part
    is."""
    rows = [{"variant": name, **_plain(found.values)} for name, found in outcomes.items()]
    stacked: dict[str, list[pd.DataFrame]] = {}
    for name, found in outcomes.items():
        for kind, frame in found.series.items():
            stacked.setdefault(kind, []).append(frame.assign(variant=name))
    series = {kind: _stacked(frames) for kind, frames in stacked.items()}
    too_few = _reasons({name: each.values.get(TOO_FEW_CORES) for name, each in outcomes.items()})
    return Outcome(
        values={"passes": len(outcomes), TOO_FEW_CORES: too_few},
        series={**series, VARIANTS: pd.DataFrame(rows)},
        invalid=_reasons({name: found.invalid for name, found in outcomes.items()}),
        again=_reasons({name: found.again for name, found in outcomes.items()}),
    )


def _reasons(by_name: Mapping[str, str | None]) -> str | None:
    """Return the reasons of several outcomes as one, each with its names; None without one."""
    names: dict[str, list[str]] = {}
    for name, why in by_name.items():
        if why is not None:
            names.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(alike)}: {why}" for why, alike in names.items()) or None


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Stack the frames; empty columns and frames do not decide the type of a column."""
    filled = [frame.dropna(axis="columns", how="all") for frame in frames if len(frame)]
    columns = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    return pd.concat(filled or frames[:1], ignore_index=True).reindex(columns=columns)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that a table can hold: lists and mappings become JSON."""
    return {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in values.items()
    }


def lacking(run: LiveRun, spec: ClusterSpec) -> str | None:
    """Return the reason why this run cannot be made on a cluster of that shape; None if it can."""
    return find_engine(run.engine).lacks(run.setup, run.workload, spec)


def score(
    twin: PassRecord, failed: PassRecord, workload: Workload, truth: pd.DataFrame | None = None
) -> Scored:
    """Score the first and the last versions of ``failed`` against ``twin`` by their members.

    The twin's first versions (of revisions the last) are the accurate results; the ``truth``
    decides about types."""
    if workload.members is None:
        return Scored(
            reason=f"workload {workload.name!r} does not say what the members of a result are: "
            "give it members, a function of a result's columns"
        )
    if truth is not None:
        (twin, failed), _ = in_one_form([twin, failed], truth, workload)
    seen = versions(twin.deliveries, workload.identity_in_run, workload.values)
    accurate = seen.stable if revises(twin.deliveries) else seen.first
    if not len(accurate):
        return Scored(reason="the twin delivered no result")
    delivered = versions(failed.deliveries, workload.identity_in_run, workload.values)
    named = {"first": delivered.first, "last": delivered.last}
    windows = members_by_window(workload, accurate, named)
    if not (total := int(windows["members"].sum())):
        return Scored(reason="the twin's results have no members")
    first, last = (float(windows[name].sum() / total) for name in named)
    return Scored(first=first, last=last, windows=windows)
