"""One measured run of an engine: a twin, then the same input with failures.

Both passes are part of one run, on the same warm engine within the same minutes, so that they
differ by the failure and not by the hour. The ground truth is computed over the failed pass's own
topics, so it is exact for its input."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import (
    NOT_SCORED,
    Engine,
    EngineKind,
    Scored,
    Setup,
    Work,
    other_targets,
)
from harness.engines.deliveries import relative_windows
from harness.engines.kinds import find_engine
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging import trust
from harness.judging.outcome import in_one_form, judge
from harness.judging.passes import WARM_UP, Pass, PassPlan, PassRecord
from harness.load.plan import BY_THE_CLOCK, EventTime
from harness.load.profile import RateProfile
from harness.measure.recovery import CALM_S
from harness.measure.versions import revises, versions
from harness.measure.windows import LEAST_LATE_S
from harness.measurement import Context
from harness.results.record import VARIANTS, Outcome, Profile
from workloads.base import Workload

STILL_FALLING = 0.9
"""An engine is still warming up while the time of its batches is below this share of their time in
the piece of load before. Fixed on 2026-11-22."""

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
    warmup_s: float
    """Load before the twin, not measured, on topics of its own, for the engine to compile."""
    first_warmup_s: float
    """Instead of ``warmup_s``, where the engine has run nothing before: about the longest time for
    pieces of ``warmup_s``, until batches are no longer faster than in the piece before."""
    settle_s: float
    """The first part of each pass, which counts for no latency."""
    schedule: Schedule
    timed: bool = True
    """True if its times are compared with the twin's, so that a run whose twin fell behind is made
    again. A late load or kill makes every run invalid, except in the smoke profile."""
    punctual_s: float | None = None
    """Permitted lateness of a kill; by default a share of the checkpoint interval."""
    calm_s: float = CALM_S
    """Time on time that ends a recovery; shorter where all times of the run are."""
    least_late_s: float = LEAST_LATE_S
    """Least time above the twin's usual tail for which a window is late; longer where a task that
    has moved stays farther away."""
    event: EventTime = BY_THE_CLOCK
    """The event time of every pass."""
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
    engine = warm_engine(find_engine(run.engine), run.setup, cluster, context)
    targets = engine.targets()
    for variant in variants.values():
        variant.schedule.check(
            rack_of={node.name: node.rack for node in targets},
            parts=other_targets(engine),
            actions=cluster.capabilities(),
            duration_s=run.load_s,
        )
    directory = cluster.scratch(f"run-{context.directory.name}")
    passes = Passes(run, cluster, engine, directory, context)
    passes.warm_up(run.warmup_s, at_most_s=run.warmup_s if engine.used else run.first_warmup_s)
    broken = {}
    if context.repeat % 2 == 0:
        twin = passes.once("twin", run.load_s, NO_FAILURES)
        for name, variant in variants.items():
            broken[name] = passes.until_felt(name, run.load_s, variant)
    else:  # what came first must not decide; what was restarted is as cold as at the beginning
        for name, variant in variants.items():
            broken[name] = passes.until_felt(name, run.load_s, variant)
        passes.warm_up(run.warmup_s, at_most_s=run.warmup_s)
        twin = passes.once("twin", run.load_s, NO_FAILURES)
    context.progress("comparing")
    return {
        name: judge(
            twin,
            failed,
            truth,
            workload=run.workload,
            schedule=variants[name].schedule,
            trigger_s=run.interval_s,
            settle_s=run.settle_s,
            accuracy=score(passes.engine, twin, failed, work, truth) if run.scored else NOT_SCORED,
            timed=context.profile is not Profile.SMOKE,
            stationary=run.timed,
            punctual_s=run.punctual_under(variants[name].setup),
            calm_s=run.calm_s,
            least_late_s=run.least_late_s,
        )
        for name, (failed, truth, work) in broken.items()
    }


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
    return Outcome(
        values={"passes": len(outcomes)},
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


def _typical_batch_s(record: PassRecord) -> float | None:
    """Return the median duration of the batches with records; None if none is reported."""
    batches = record.batches
    if "duration_s" not in batches.columns or not (batches["rows"] > 0).any():
        return None
    return float(batches.loc[batches["rows"] > 0, "duration_s"].median())


def lacking(run: LiveRun, spec: ClusterSpec) -> str | None:
    """Return the reason why this run cannot be made on a cluster of that shape; None if it can."""
    return find_engine(run.engine).lacks(run.setup, run.workload, spec)


def score(
    engine: Engine,
    twin: PassRecord,
    failed: PassRecord,
    work: Work,
    truth: pd.DataFrame | None = None,
) -> Scored:
    """Let the engine score the first and the last versions of ``failed`` against ``twin``.

    The twin's first versions (of revisions the last) are the accurate results; the ``truth``
    decides about types."""
    workload = work.workload
    if workload.members is None:
        return Scored(
            reason=f"workload {workload.name!r} does not say what the members of a result are: "
            "give it members, a function that returns an array column"
        )
    if truth is not None:
        (twin, failed), _ = in_one_form([twin, failed], truth, workload)
    seen = versions(twin.deliveries, workload.identity_in_run, workload.values)
    accurate = seen.stable if revises(twin.deliveries) else seen.first
    if not len(accurate):
        return Scored(reason="the twin delivered no result")
    return engine.score(accurate, failed.deliveries, work)


def warm_engine(kind: EngineKind, setup: Setup, cluster: Cluster, context: Context) -> Engine:
    """Return an engine that is ready, if possible one that an earlier run has opened.

    An engine with the same setup on the same cluster serves any workload: opening one takes half a
    minute."""

    def start() -> AbstractContextManager[Engine]:
        context.progress(f"opening the engine {kind.name} ({setup.scheme})")
        return kind.open(setup, cluster)

    engine = context.keep(kind.key(setup), start, check=lambda engine: engine.check())
    engine.configure(setup)
    return engine


class Passes:
    """The passes of one run on one engine."""

    def __init__(
        self, run: LiveRun, cluster: Cluster, engine: Engine, directory: Path, context: Context
    ) -> None:
        """Prepare passes that keep their files in ``directory``."""
        self._run, self._cluster, self.engine = run, cluster, engine
        self._directory, self._context = directory, context
        self._truth: pd.DataFrame | None = None

    def warm_up(self, piece_s: float, *, at_most_s: float) -> None:
        """Send load that is not measured, in pieces, until batches no longer become shorter."""
        spent_s, before_s = 0.0, float("inf")
        while spent_s < at_most_s:
            length_s = piece_s or at_most_s
            record = self.once(WARM_UP, length_s, NO_FAILURES)
            spent_s += length_s
            typical_s = _typical_batch_s(record)
            if typical_s is None or typical_s > STILL_FALLING * before_s:
                return
            before_s = typical_s

    def once(self, name: str, load_s: float, schedule: Schedule) -> PassRecord:
        """Make one pass under the run's own setup."""
        self.engine.configure(self._run.setup)
        with self._pass(name, load_s, schedule) as one:
            return one.run()

    def until_felt(
        self, name: str, load_s: float, variant: Variant
    ) -> tuple[PassRecord, pd.DataFrame, Work]:
        """Make a pass, again where its failures were not felt (`Variant.felt`)."""
        for _ in range(ATTEMPTS - 1):
            found = self.with_truth(name, load_s, variant)
            if variant.felt is None or variant.felt(found[0]):
                return found
            self._context.progress(f"{name} again: its failures ended nothing that the query needs")
        return self.with_truth(name, load_s, variant)

    def with_truth(
        self, name: str, load_s: float, variant: Variant
    ) -> tuple[PassRecord, pd.DataFrame, Work]:
        """Make a pass; return it with the ground truth, by default of its own topics."""
        self.engine.configure(variant.setup)
        with self._pass(name, load_s, variant.schedule) as one:
            record = one.run()
            self._cluster.restore(self._context.progress)
            if record.died is not None or record.stalled:  # another of its kind can still compute
                kind = find_engine(self._run.engine)
                self.engine = warm_engine(kind, variant.setup, self._cluster, self._context)
            if self._truth is None or not self._run.one_truth:
                self._context.progress("computing the ground truth")
                truth = self.engine.truth(one.work)
                self._truth = relative_windows(truth, self._run.workload, record.origin_unix_s)
            return record, self._truth, one.work

    def _pass(self, name: str, load_s: float, schedule: Schedule) -> Pass:
        self._context.progress(f"{name}: starting the work")
        plan = PassPlan(
            name=name,
            workload=self._run.workload,
            rate=RateProfile.constant(self._run.rate_per_s, load_s),
            # Batches that follow each other closely warm an engine sooner.
            interval_s=min(self._run.interval_s, 1.0) if name == WARM_UP else self._run.interval_s,
            schedule=schedule,
            table=self._table(name),
            event=self._run.event,
        )
        return Pass(plan, self._cluster, self.engine, self._directory, self._context)

    def _table(self, name: str) -> Path | None:
        """Return the file of a measured pass's database, kept with the run's record."""
        if not self._run.workload.into_table or name == WARM_UP:
            return None
        return self._context.directory / f"{self._run.workload.name}-{name}.sqlite"
