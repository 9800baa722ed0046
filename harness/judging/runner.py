"""The one runner of passes: plans in, passes out, on one engine that stays warm."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster
from harness.engines.base import Engine, EngineKind, Setup, Work
from harness.engines.deliveries import relative_windows
from harness.engines.kinds import find_engine
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging.outcome import wrong_results
from harness.judging.passes import WARM_UP, Pass, PassPlan, PassRecord
from harness.load.profile import RateProfile
from harness.measure.versions import settled
from harness.measurement import Context
from harness.results.record import Profile
from harness.results.setting import AS_IT_COMES, TUNED, Setting
from workloads.base import Workload

STILL_FALLING = 0.9
"""An engine is still warming up while the time of its batches is below this share of their time in
the piece of load before. Fixed on 2026-11-22."""
_LOGS = "spark.eventLog."
"""Beginning of settings that change nothing but what Spark writes down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A pass that was made."""

    record: PassRecord
    work: Work
    setting: Setting
    truth: pd.DataFrame | None = None
    """The due results, if they were asked for (`Runner.run`)."""

    def due(self, until_s: float = math.inf) -> pd.DataFrame:
        """Return the true results of the windows that began by ``until_s``."""
        assert self.truth is not None, f"{self.record.name}: no truth was asked for"
        return self.truth[self.truth["window_start_s"] <= until_s]

    @property
    def settled(self) -> PassRecord:
        """The record, in which each revision is marked as the last one of its result or not."""
        workload, record = self.work.workload, self.record
        final = settled(record.deliveries, workload.identity_in_run, workload.values)
        return replace(record, deliveries=final)

    def wrong(self, until_s: float = math.inf) -> dict[str, int]:
        """Count what is wrong with the output, by `wrong_results`, of windows until then."""
        return wrong_results(self.settled.deliveries, self.due(until_s), self.work.workload)


class Runner:
    """Makes the passes of one run on one engine."""

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        cluster: Cluster,
        context: Context,
        *,
        kind: EngineKind | None = None,
        settings: str = "",
    ) -> None:
        """Prepare passes; with ``kind`` another engine takes the place of one that died.

        ``settings`` names them, where more than the configuration of Spark is tuned."""
        self.engine, self.cluster, self.context = engine, cluster, context
        self._setup, self._kind, self._settings = setup, kind, settings
        self._directory = cluster.scratch(f"run-{context.directory.name}")

    def run(
        self,
        plan: PassPlan,
        *,
        setup: Setup | None = None,
        truth: bool = False,
        watch: AbstractContextManager[Any] | None = None,
        then: Callable[[Work, PassRecord], None] = lambda work, record: None,
    ) -> Made:
        """Make one pass, under the runner's setup or another with the same key.

        ``truth``: compute the due results over its own topics. ``watch`` is open while it runs, and
        ``then`` is called while its topics still exist. Without a ``watch``, a pass that other load
        disturbed is made again where a calmer minute comes (`Context.surroundings`)."""
        setup = replace(setup or self._setup, brief=self._setup.brief)
        while (made := self._attempt(plan, setup, truth, watch, then)) is None:
            self.context.progress(f"{plan.name} again: other processes disturbed it")
        return made

    def _attempt(
        self,
        plan: PassPlan,
        setup: Setup,
        truth: bool,
        watch: AbstractContextManager[Any] | None,
        then: Callable[[Work, PassRecord], None],
    ) -> Made | None:
        """Make one pass; return None if it must be made again."""
        self.engine.configure(setup)
        setting = setting_of(self.engine.name, setup, plan, self._settings)
        if plan.name != WARM_UP:
            self.context.measures(setting)
        self.context.progress(f"{plan.name}: starting the work")
        with Pass(plan, self.cluster, self.engine, self._directory, self.context) as one:
            with watch or nullcontext():
                record = one.run()
            again = self.context.surroundings(
                plan.name, record.conditions, repeatable=watch is None
            )
            if not again:
                then(one.work, record)
            broken = record.died is not None or record.stalled
            self.engine.last = "" if broken or plan.schedule.events else plan.workload.name
            if truth or plan.schedule.events:
                self.cluster.restore(self.context.progress)
            if self._kind and broken:
                # Another of its kind can still compute.
                self.engine = warm_engine(self._kind, setup, self.cluster, self.context)
            if again:
                return None
            due = None
            if truth:
                self.context.progress("computing the ground truth")
                computed = self.engine.truth(one.work)
                due = relative_windows(computed, plan.workload, record.origin_unix_s)
            return Made(record=record, work=one.work, setting=setting, truth=due)

    def steady(
        self,
        name: str,
        workload: Workload,
        rate_per_s: float,
        load_s: float,
        interval_s: float,
        *,
        schedule: Schedule = NO_FAILURES,
        **how: Any,
    ) -> Made:
        """Make one pass at a constant rate; ``how`` is that of `run`."""
        plan = steady_plan(name, workload, rate_per_s, load_s, interval_s, schedule=schedule)
        return self.run(plan, **how)

    def warm_up(
        self, plan: Callable[[float], PassPlan], piece_s: float, at_most_s: float
    ) -> float | None:
        """Send load that is not measured, in pieces, until batches no longer become shorter.

        Returns the typical time of the last batches; None if none is reported."""
        spent_s, before_s, typical_s = 0.0, float("inf"), None
        while spent_s < at_most_s:
            length_s = piece_s or at_most_s
            typical_s = _typical_batch_s(self.run(plan(length_s)).record)
            spent_s += length_s
            if typical_s is None or typical_s > STILL_FALLING * before_s:
                break
            before_s = typical_s
        return typical_s


def open_runner(
    engine: str | EngineKind,
    setup: Setup,
    cluster: Cluster,
    context: Context,
    *,
    settings: str = "",
) -> Runner:
    """Return a runner on an engine that is ready, if possible on one that an earlier run opened.

    In the smoke profile its setups are brief ones."""
    setup = replace(setup, brief=context.profile is Profile.SMOKE)
    kind = find_engine(engine) if isinstance(engine, str) else engine
    ready = warm_engine(kind, setup, cluster, context)
    return Runner(ready, setup, cluster, context, kind=kind, settings=settings)


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


def steady_plan(
    name: str,
    workload: Workload,
    rate_per_s: float,
    load_s: float,
    interval_s: float,
    **more: Any,
) -> PassPlan:
    """Return the plan of a pass at a constant rate; without a ``schedule`` nothing fails."""
    rate = RateProfile.constant(rate_per_s, load_s)
    given = {"schedule": NO_FAILURES, **more}
    return PassPlan(name=name, workload=workload, rate=rate, interval_s=interval_s, **given)


def setting_of(engine: str, setup: Setup, plan: PassPlan, settings: str = "") -> Setting:
    """Return what a record says of the setting of a pass."""
    parameters = setup.parameters
    conf = [name for name in getattr(parameters, "conf", {}) if not name.startswith(_LOGS)]
    checkpoint_s = getattr(parameters, "checkpoint_s", None)
    return Setting(
        engine=engine,
        scheme=setup.scheme,
        mode=str(getattr(parameters, "mode", "")),
        interval_s=float(checkpoint_s or plan.interval_s),
        workload=plan.workload.name,
        settings=TUNED if conf or "tuned" in settings else AS_IT_COMES,
    )


def _typical_batch_s(record: PassRecord) -> float | None:
    """Return the median duration of the batches with records; None if none is reported."""
    batches = record.batches
    if "duration_s" not in batches.columns or not (batches["rows"] > 0).any():
        return None
    return float(batches.loc[batches["rows"] > 0, "duration_s"].median())
