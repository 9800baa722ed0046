"""One measured run of an engine: a twin, then the same input with failures.

Both passes are part of one run, on the same warm engine within the same minutes, so that
what they are compared by is the failure and not the hour. The ground truth is computed over the
failed pass's own topics, so it is exact for its input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import Engine, EngineKind, Scored, Setup, Work
from harness.engines.deliveries import relative_windows
from harness.engines.kinds import find_engine
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging.outcome import judge
from harness.judging.passes import Pass, PassPlan, PassRecord
from harness.load.profile import RateProfile
from harness.measure.versions import versions
from harness.measurement import Context
from harness.results.record import Outcome
from workloads.base import Workload

WARM_UP = "warm-up"
"""The name of a pass that nobody measures."""
STILL_FALLING = 0.9
"""An engine is still warming up while its batches take less than this share of the time that they
took in the piece of load before. Fixed on 2026-11-22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """What one run does."""

    workload: Workload
    setup: Setup
    engine: str = "structured"
    interval_s: float
    """Trigger or batch interval; for the stock engine the checkpoint interval, too: each of its
    batches commits one."""
    rate_per_s: float
    load_s: float
    warmup_s: float
    """Load before the twin, on topics of its own, for the engine to compile; measured by
    nobody."""
    first_warmup_s: float
    """Instead of ``warmup_s``, where the engine has run nothing before: pieces of ``warmup_s``
    until batches take no less time than in the piece before, for about so long at most."""
    settle_s: float
    """The first seconds of each pass, which count for no latency."""
    schedule: Schedule
    timed: bool = True
    """Whether its times are to be trusted: without it (the smoke profile) a load that fell behind
    makes no run invalid, because nothing but equality is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The same input once more: under its own setup, with its own failures."""

    setup: Setup
    """With the same key (`EngineKind.key`) as the run's, so that the warm engine takes it."""
    schedule: Schedule


def measure(run: LiveRun, cluster: Cluster, context: Context) -> Outcome:
    """Warm up, run the twin, run with failures, compute the truth, and judge."""
    alone = {"failures": Variant(setup=run.setup, schedule=run.schedule)}
    return measure_each(run, alone, cluster, context)["failures"]


def measure_each(
    run: LiveRun, variants: Mapping[str, Variant], cluster: Cluster, context: Context
) -> dict[str, Outcome]:
    """One twin under the run's setup, and the same input once for each of the ``variants``, by
    name: every one is judged against that twin and against the truth of its own topics. The
    run's own schedule is not used."""
    engine = warm_engine(find_engine(run.engine), run.setup, cluster, context)
    targets = engine.targets()
    for variant in variants.values():
        variant.schedule.check(
            nodes=[node.name for node in targets],
            racks={node.rack for node in targets},
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
            broken[name] = passes.with_truth(name, run.load_s, variant)
    else:  # what came first must not decide; what was restarted is as cold as at the beginning
        for name, variant in variants.items():
            broken[name] = passes.with_truth(name, run.load_s, variant)
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
            accuracy=score(passes.engine, twin, failed, work),
            timed=run.timed,
        )
        for name, (failed, truth, work) in broken.items()
    }


def together(outcomes: Mapping[str, Outcome]) -> Outcome:
    """One outcome of several: their values as the rows of a table ``variants``, their series one
    below the other, each with the column ``variant``. Invalid if any is."""
    rows = [{"variant": name, **_plain(found.values)} for name, found in outcomes.items()]
    stacked: dict[str, list[pd.DataFrame]] = {}
    for name, found in outcomes.items():
        for kind, frame in found.series.items():
            stacked.setdefault(kind, []).append(frame.assign(variant=name))
    series = {kind: _stacked(frames) for kind, frames in stacked.items()}
    problems = [f"{name}: {found.invalid}" for name, found in outcomes.items() if found.invalid]
    return Outcome(
        values={"passes": len(outcomes)},
        series={**series, "variants": pd.DataFrame(rows)},
        invalid="; ".join(problems) or None,
    )


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One below the other; empty columns and frames decide about no type."""
    filled = [frame.dropna(axis="columns", how="all") for frame in frames if len(frame)]
    columns = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    return pd.concat(filled or frames[:1], ignore_index=True).reindex(columns=columns)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As a table can hold them: what has parts of its own as JSON."""
    return {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in values.items()
    }


def _typical_batch_s(record: PassRecord) -> float | None:
    """The median duration of the batches with records in them; None if the engine tells none."""
    batches = record.batches
    if "duration_s" not in batches.columns or not (batches["rows"] > 0).any():
        return None
    return float(batches.loc[batches["rows"] > 0, "duration_s"].median())


def lacking(run: LiveRun, spec: ClusterSpec) -> str | None:
    """Why this run cannot be made on a cluster of that shape; None if it can. Asked before the
    cluster is started."""
    return find_engine(run.engine).lacks(run.setup, run.workload, spec)


def score(engine: Engine, twin: PassRecord, failed: PassRecord, work: Work) -> Scored:
    """Let the engine score the first and the last versions of ``failed`` against the results
    (first versions) of ``twin``."""
    workload = work.workload
    if workload.members is None:
        return Scored(
            reason=f"workload {workload.name!r} does not say what the members of a result are: "
            "give it members, a function that returns an array column"
        )
    accurate = versions(twin.deliveries, workload.identity_in_run, workload.values).first
    if not len(accurate):
        return Scored(reason="the twin delivered no result")
    return engine.score(accurate, failed.deliveries, work)


def warm_engine(kind: EngineKind, setup: Setup, cluster: Cluster, context: Context) -> Engine:
    """An engine that is ready: the one that an earlier run opened with the same setup on the same
    cluster, whatever its workload was, because opening one takes half a minute."""

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
        """``directory``: where the passes keep their files."""
        self._run, self._cluster, self.engine = run, cluster, engine
        self._directory, self._context = directory, context

    def warm_up(self, piece_s: float, *, at_most_s: float) -> None:
        """Load that nobody measures, piece by piece, until batches no longer become shorter."""
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
        """One pass under the run's own setup."""
        self.engine.configure(self._run.setup)
        with self._pass(name, load_s, schedule) as one:
            return one.run()

    def with_truth(
        self, name: str, load_s: float, variant: Variant
    ) -> tuple[PassRecord, pd.DataFrame, Work]:
        """The pass, and what the engine computes from the same topics by another way."""
        self.engine.configure(variant.setup)
        with self._pass(name, load_s, variant.schedule) as one:
            record = one.run()
            self._cluster.restore(self._context.progress)
            self._context.progress("computing the ground truth")
            if record.died is not None or record.stalled:  # another of its kind can still compute
                kind = find_engine(self._run.engine)
                self.engine = warm_engine(kind, variant.setup, self._cluster, self._context)
            truth = self.engine.truth(one.work)
            return (
                record,
                relative_windows(truth, self._run.workload, record.start_unix_s),
                one.work,
            )

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
        )
        return Pass(plan, self._cluster, self.engine, self._directory, self._context)

    def _table(self, name: str) -> Path | None:
        """The database of a measured pass, kept beside the run's record."""
        if not self._run.workload.into_table or name == WARM_UP:
            return None
        return self._context.directory / f"{self._run.workload.name}-{name}.sqlite"
