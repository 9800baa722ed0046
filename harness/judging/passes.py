"""One pass: the same input once through an engine, with or without failures.

Topics are new, so are the checkpoints; the engine is warm. Time 0 of a pass is the instant its
load begins, a common multiple of the window's slide and the engine's interval, so that the same
record falls into the same window, and a window into the same phase of the interval, in every
pass."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from harness.cluster.base import Cluster
from harness.cluster.ownership import neighbours
from harness.engines.base import Engine, Event, EventKind, Targets, Work
from harness.engines.deliveries import BEHIND, COPY_HEADER, NEWEST, relative_windows
from harness.engines.settings import table
from harness.engines.topics import topics
from harness.errors import EnvironmentFailure, UsageError
from harness.failures.injector import InjectedFailure, Injector
from harness.failures.schedule import Schedule
from harness.judging import undelivered
from harness.judging.clocks import PassClocks
from harness.judging.loads import align, load_plan
from harness.judging.metering import Meter
from harness.judging.table_sink import TableWriter
from harness.load.generator import LoadGenerator, LoadResult, send_markers
from harness.load.plan import BY_THE_CLOCK, GATHER_S, EventTime, LoadPlan
from harness.load.profile import RateProfile
from harness.measure.collector import Collector, Message
from harness.measurement import Context
from workloads.base import Workload
from workloads.toolkit.records import UNSEEN_REMEDY

Answer = TypeVar("Answer")

WARM_UP = "warm-up"
"""The name of a pass that is not measured."""
OUT_PARTITIONS = 2
MARKER_S = 0.1
"""Longest time between two markers in a partition, for every engine: all get the same input, and a
partition with few records keeps none of them waiting."""
HEAD_START_S = 0.7
"""Shortest time between the order to begin and the first record."""
LOOK_S = 5.0
"""Interval between two looks at the engine's progress while it closes its last windows."""
STALLED_S = 120.0
"""Time after the load without a result or a report of a batch, after which an engine with pending
results counts as stalled, which is its failure: a busy machine makes it slow, and slow output is
still output. Fixed on 2026-11-22."""
DRAIN_S = 90.0
"""Permitted time after the load to close the last window without a failure."""
LONGEST_DRAIN_S = 600.0
"""The same after failures, while there is progress: later results are left out."""
DRAIN_INTERVALS = 5.0
"""Both are at least this many intervals. Windows count for nothing: the last marker's event time
closes them all, however long they are."""
WORKS = frozenset({EventKind.PROGRESS, EventKind.RECOVERED})
"""Reports of an engine that makes progress between two results."""
LATE_LOAD_S = 60.0
"""Permitted excess of a load over its planned duration, before the pass is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """The plan of one pass."""

    name: str
    workload: Workload
    rate: RateProfile
    """The rate of all sources together."""
    interval_s: float
    """Trigger or batch interval."""
    schedule: Schedule
    table: Path | None = None
    """A database file that gets the results, too."""
    event: EventTime = BY_THE_CLOCK
    """The event time of its records."""
    gather_s: float = GATHER_S
    """See `LoadPlan.gather_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainProgress:
    """The progress of an engine that closes its last windows; times of a monotonic clock."""

    began_s: float
    limit_s: float
    """The permitted time."""
    done: int = -1
    """Number of delivered results and reported batches at the last look."""
    since_s: float = 0.0
    """The time at which that number grew last."""
    now_s: float = 0.0

    def seen(self, done: int, *, now_s: float) -> DrainProgress:
        """Return the progress after another look."""
        grew = done > self.done
        return replace(self, done=done, since_s=now_s if grew else self.since_s, now_s=now_s)

    @property
    def stalled(self) -> bool:
        """True if nothing came for `STALLED_S`."""
        return self.now_s - self.since_s >= STALLED_S

    @property
    def overdue(self) -> bool:
        """True if it makes progress, but too slowly."""
        return self.now_s - self.began_s >= self.limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """The events and results of one pass. Times in frames are seconds from ``start_unix_s``."""

    name: str
    start_unix_s: float
    plan: LoadPlan
    load: LoadResult
    deliveries: pd.DataFrame
    """By arrival: ``window_start_s``, the workload's other columns, ``arrival_s``, ``copy``."""
    injected: Sequence[InjectedFailure]
    batches: pd.DataFrame
    """The engine's own progress reports, ``at_s`` among their columns."""
    incidents: pd.DataFrame
    """Its other events: ``at_s``, ``copy``, ``event`` (`EventKind`), ``target``, ``cause``."""
    usage: pd.DataFrame
    drained: bool
    """True if the engine closed the last window before the deadline."""
    stalled: bool = False
    """True if it did not, and made no progress for `STALLED_S`."""
    table: pd.DataFrame | None = None
    """The database table at the end, for a workload whose results go into one: ``window_start_s``
    and the workload's other columns."""
    closes_after_s: float | None = None
    """`Engine.closes_after_s`; None for the workload's watermark delay."""
    undelivered: str | None = None
    """The missing windows and the engine's last report, if it did not close the last window."""
    settings: pd.DataFrame = field(default_factory=lambda: table([]))
    """What the engine was asked to run with, and what it reports (`harness.engines.settings`)."""
    died: str | None = None
    """The engine's last error, if it died while the pass ran and did not come back."""
    clock_jump_s: float | None = None
    """Movement of the wall clock against the monotonic one during the pass."""
    unclear_clock: str | None = None
    """Whose clock is known too badly for times (`harness.judging.clocks`)."""
    conditions: Mapping[str, float | None] = field(default_factory=dict)
    """Other load of the machine (`harness.judging.foreign`, `harness.cluster.ownership`)."""
    machine: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The cores during the pass: ``at_s``, ``idle_s``, ``judge_s`` (`ForeignMeter.machine`)."""

    @property
    def until_s(self) -> float:
        """The end of the load."""
        return self.plan.duration_s

    @property
    def origin_unix_s(self) -> float:
        """The event time at which the load began; ``window_start_s`` counts from it."""
        return self.plan.event.origin(self.start_unix_s)


class Pass:
    """One pass. Use it as a context manager: its topics live as long as it."""

    def __init__(
        self, plan: PassPlan, cluster: Cluster, engine: Engine, directory: Path, context: Context
    ) -> None:
        self.plan, self._cluster, self._engine = plan, cluster, engine
        self._directory, self._context = directory, context
        token = f"{cluster.kafka.topic_prefix}{plan.name}-{secrets.token_hex(4)}"
        topic_of = {s.name: f"{token}-{s.name}" for s in plan.workload.sources}
        marker_s = min(plan.interval_s, MARKER_S)
        self._load = load_plan(
            plan.workload, plan.rate, topic_of,
            marker_s=marker_s, event=plan.event, gather_s=plan.gather_s,
        )  # fmt: skip
        self.work = Work(
            name=token,
            workload=plan.workload,
            load=self._load,
            topic_of=topic_of,
            out_topic=f"{token}-out",
            out_partitions=OUT_PARTITIONS,
            interval_s=plan.interval_s,
            directory=directory / token,
        )
        self._practice_topic = f"{token}-practice"
        self._stack = ExitStack()
        self._stalled = False
        self._undelivered: str | None = None
        self._died: str | None = None

    def __enter__(self) -> Pass:
        work = self.work
        work.directory.mkdir(mode=0o700)
        wanted = {work.topic_of[s.name]: s.partitions for s in self.plan.workload.sources}
        wanted[work.out_topic] = work.out_partitions
        wanted[self._practice_topic] = self._cluster.kafka.replication  # one on each broker
        appended = [work.out_topic, self._practice_topic]
        self._stack.enter_context(topics(self._cluster.kafka, wanted, appended=appended))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self) -> PassRecord:
        """Begin the work, send the load, break what the schedule says, drain, collect."""
        kafka = self._cluster.kafka
        client = kafka.confluent()
        with (
            LoadGenerator(
                self._load,
                kafka,
                log=self._directory / "load.log",
                environment=self._cluster.driver_environment(),
                practice_topic=self._practice_topic,
            ) as generator,
            Collector(
                client, self.work.out_topic, self.work.out_partitions, copy_header=COPY_HEADER
            ) as collector,
            self._writing(collector) as writer,
        ):
            self._begin()
            generator.wait_ready()
            periods = [self.plan.interval_s]
            if self.plan.event.begin_unix_s is None:  # else event time begins with a window anyway
                periods.append(self.plan.workload.slide_s)
            clocks = PassClocks(self._cluster, self._practice_topic)
            clocks.compare()
            clocks_s = _clocks_s()  # the generator compares its own clocks after this
            start = align(time.time() + HEAD_START_S, *periods)
            self._engine.begins_at(start)
            generator.start(start)
            others = len(neighbours())
            meter = Meter(self._cluster, self._engine.usage)
            targets = Targets(cluster=self._cluster, engine=self._engine, busiest=meter.busiest)
            with meter, Injector(targets, self.plan.schedule, start_unix_s=start) as injector:
                self._watch(generator, collector, injector, clocks, start)
                drained = self._drain(collector, injector, start)
                injector.wait(LATE_LOAD_S)
            messages = clocks.translated(collector.finish())
            clocks.compare()
            self._asking(injector, self._engine.end)
            load, usage = generator.result(), meter.frame()
            deliveries = self._engine.read(messages, self.work, start)
            events = self._engine.events()
            others = max(others, len(neighbours()))
            rows = None if writer is None else writer.finish()
            origin = self.plan.event.origin(start)
            return PassRecord(
                name=self.plan.name,
                start_unix_s=start,
                plan=self._load,
                load=load,
                deliveries=deliveries,
                injected=injector.done,
                batches=_frame([e for e in events if e.kind is EventKind.PROGRESS], start),
                incidents=_frame([e for e in events if e.kind is not EventKind.PROGRESS], start),
                usage=usage.assign(at_s=usage["at_unix_s"] - start).drop(columns="at_unix_s"),
                drained=drained,
                stalled=self._stalled,
                table=None if rows is None else relative_windows(rows, self.plan.workload, origin),
                closes_after_s=self._engine.closes_after_s(self.plan.workload),
                undelivered=self._undelivered,
                settings=table(self._engine.settings()),
                died=self._died,
                clock_jump_s=_clocks_s() - clocks_s,
                unclear_clock=clocks.unclear(),
                conditions={
                    **meter.foreign().conditions(),
                    **clocks.conditions(),
                    "other_clusters": float(others),
                },
                machine=meter.machine(start),
            )

    def _asking(self, injector: Injector, ask: Callable[[], Answer]) -> Answer | None:
        """Return the engine's answer; None once it has died.

        An engine that dies after a failure did not recover, which is a finding, not an error: its
        message is kept. Dead servers are an error, and so is an engine that dies by itself."""
        try:
            return ask()
        except EnvironmentFailure as failure:
            self._cluster.health()
            if not injector.done:
                raise
            self._died = self._died or failure.what
            return None

    def _writing(self, collector: Collector) -> AbstractContextManager[TableWriter | None]:
        if self.plan.table is None:
            return nullcontext()
        return TableWriter(self.plan.workload, collector, self.plan.table)

    def _begin(self) -> None:
        """Begin the work; return when a record without content has passed, one a partition."""
        begin_unix_s = self.plan.event.begin_unix_s
        at_unix_s = time.time() if begin_unix_s is None else begin_unix_s - HEAD_START_S
        self._mark(at_unix_s, lagging=True)
        self._engine.begin(self.work)

    def _mark(self, at_unix_s: float, *, lagging: bool = False) -> None:
        """Send one marker to each partition; with ``lagging`` as late as its source's records."""
        for source in self.plan.workload.sources:
            send_markers(
                self._cluster.kafka,
                self.work.topic_of[source.name],
                source.partitions,
                payload=source.marker,
                at_unix_s=at_unix_s - (source.lag_s if lagging else 0.0),
            )

    def _watch(
        self,
        generator: LoadGenerator,
        collector: Collector,
        injector: Injector,
        clocks: PassClocks,
        start: float,
    ) -> None:
        """Report progress until the whole load has been sent, even if the engine dies."""
        deadline = start + self._load.duration_s + LATE_LOAD_S
        seen, seen_at = 0, time.time()
        while not generator.wait(0.5) and time.time() < deadline:
            now, count = time.time(), collector.count
            self._context.progress(
                self.plan.name,
                fraction=min(1.0, max(0.0, (now - start) / self._load.duration_s)),
                throughput_per_s=(count - seen) / (now - seen_at),
                latency_s=self._latency_s(collector.newest, start),
            )
            seen, seen_at = count, now
            self._cluster.health()
            clocks.compare_again()
            if self._died is None:
                self._asking(injector, self._engine.raise_problems)

    def _latency_s(self, message: Message | None, start: float) -> float | None:
        """Return the latency of the newest result, for the progress display.

        None if its window is still open: the engine will revise it."""
        if message is None:
            return None
        result = self._engine.read([message], self.work, start)
        if not len(result):
            return None
        workload = self.plan.workload
        closes_s = float(result["window_start_s"].iloc[0]) + workload.window_s
        due_s = (closes_s + self._engine.closes_after_s(workload)) / self.plan.event.speed
        latency_s = float(result["arrival_s"].iloc[0]) - due_s
        return latency_s if latency_s >= 0 else None

    def _drain(self, collector: Collector, injector: Injector, start: float) -> bool:
        """Close every window with a marker, and wait for the engine while it makes progress."""
        workload = self.plan.workload
        reach_s = workload.windows_in_a_row * workload.window_s
        last_end = self.plan.event.at(self._load.duration_s, start) + reach_s
        self._mark(last_end + workload.watermark_delay_s + workload.slide_s)
        self._context.progress(f"{self.plan.name}: closing the last windows")
        marked_unix_s = time.time()
        limit_s = LONGEST_DRAIN_S if self.plan.schedule.events else DRAIN_S
        limit_s = max(limit_s, DRAIN_INTERVALS * self.plan.interval_s)
        progress = DrainProgress(began_s=time.monotonic(), limit_s=limit_s)
        while self._died is None:
            if self._asking(injector, lambda: self._engine.drain(last_end, within_s=LOOK_S)):
                return True
            events = self._engine.events()
            done = collector.count + sum(e.kind in WORKS for e in events)
            progress = progress.seen(done, now_s=time.monotonic())
            if not self.plan.schedule.events:
                self._demand_markers(events, marked_unix_s, last_end, start)
            # What an engine does by itself is no finding about failures.
            self._stalled = bool(self.plan.schedule.events) and progress.stalled
            if self._stalled or progress.overdue:
                self._undelivered = self._missing(collector, events, start)
                return False
        return False

    def _demand_markers(
        self, events: Sequence[Event], marked_unix_s: float, until_unix_s: float, start: float
    ) -> None:
        """Raise `UsageError` if the query drops markers: it would never close a window."""
        if time.time() < marked_unix_s + undelivered.GRACE_S:
            return
        why = undelivered.unseen_markers(
            events,
            marked_unix_s=marked_unix_s,
            until_unix_s=until_unix_s,
            start_unix_s=self.plan.event.origin(start),
        )
        if why is not None:
            raise UsageError(f"workload {self.plan.workload.name!r}: {why}", remedy=UNSEEN_REMEDY)

    def _missing(self, collector: Collector, events: Sequence[Event], start: float) -> str:
        return undelivered.describe(
            self._engine.read(collector.since(0), self.work, start),
            events,
            workload=self.plan.workload,
            duration_s=self._load.duration_s * self.plan.event.speed,
            start_unix_s=self.plan.event.origin(start),
            now_unix_s=time.time(),
            source_of={topic: source for source, topic in self.work.topic_of.items()},
        )


def _clocks_s() -> float:
    """Return the wall clock minus the monotonic one."""
    return time.time() - time.monotonic()


def _frame(events: Sequence[Event], start: float) -> pd.DataFrame:
    """Return a row per event; columns that an event lacks are null."""
    columns: dict[str, Any] = {"at_s": float, "copy": int, "event": str}
    if not events:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
    rows = [
        {
            "at_s": event.at_unix_s - start,
            "copy": event.copy,
            "event": event.kind.value,
            "target": event.target,
            "cause": event.cause,
            **{name: value for name, value in event.detail.items() if name not in (BEHIND, NEWEST)},
        }
        for event in events
    ]
    return pd.DataFrame(rows).sort_values("at_s", ignore_index=True)
