"""A workload as a stock Structured Streaming query, behind the engines' contract.

Orders go to every application that the scheme runs, answers are waited for from all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import pandas as pd
import pyarrow.parquet

from harness.child import Event as Said
from harness.cluster.base import Cluster, ClusterSpec, Node, Prepared, Usage
from harness.engines.base import (
    ClusterNeeds,
    EngineKind,
    Event,
    EventKind,
    Setup,
    Work,
    used_by,
)
from harness.engines.deliveries import deliveries
from harness.engines.settings import Setting, demand_reported
from harness.engines.structured import parts, real_time, sinks, standby
from harness.engines.structured.applications import (
    SHUFFLE_PARTITIONS,
    Application,
    application_specs,
    read_back_names,
    read_back_of,
)
from harness.engines.structured.parameters import StockParameters
from harness.errors import EnvironmentFailure, UsageError
from harness.measure.collector import Message
from harness.measure.values import from_arrow
from workloads.base import QUERY, SINK, Workload

NAME = "structured"
READY_S = 180.0
"""Seconds that the applications may take to start."""
REVIVAL_S = 60.0
"""Seconds that a kept application may take to get all of its executors back."""
_SAID = (EventKind.PROGRESS, EventKind.FAILED, EventKind.RESTARTED, EventKind.EXECUTORS)
_LOST_EXECUTOR = "the driver removed an executor"
_COMMITTED = "the next batch was committed, and with it all that had been processed before"


class StructuredEngine:
    """Running applications of one scheme (`harness.engines.base.Engine`)."""

    name = NAME

    def __init__(self, applications: Sequence[Application], cluster: Cluster) -> None:
        self.applications = list(applications)
        self.last: str | None = None
        self._cluster = cluster
        self._parameters = StockParameters()
        self._marks = [0] * len(applications)
        self._lives: list[tuple[int, Application, int]] = []
        """Copy, driver and first own event of each that this work's schedule has killed."""
        self._orders: list[Mapping[str, Any]] = []
        self._struck: set[int] = set()
        """Applications whose driver the schedule has killed."""
        self._settings: Sequence[Setting] = ()
        self._ending = False
        """True while a query has the order to end and has not reported its end."""

    def configure(self, setup: Setup) -> None:
        """Take the mode and the input of the second query; applications are opened for a scheme."""
        self._parameters = parameters_of(setup)

    def check(self, *, within_s: float = REVIVAL_S) -> None:
        """Wait until every application has all of its executors.

        An application whose last query did not end is of no more use."""
        if self._ending:
            raise EnvironmentFailure(
                "the last query of an application did not end",
                remedy="look for what it waited for in the applications' logs",
            )
        for application in self.applications:
            application.wait_until_ready(within_s=within_s)

    def targets(self) -> Sequence[Node]:
        """Spark's workers."""
        return self._cluster.nodes()

    def closes_after_s(self, workload: Workload) -> float:
        """Return the watermark's delay; in real-time mode a result waits for no later record."""
        return 0.0 if self._parameters.real_time else workload.watermark_delay_s

    def begin(self, work: Work) -> None:
        """Start every query with a new checkpoint directory.

        Returns when each has committed a batch with records in it."""
        assert work.workload.reference is not None, work.workload.name
        self._lives, self._orders = [], []
        self._marks = [application.mark() for application in self.applications]
        checkpoints = self._cluster.checkpoint_location(work.name)
        for copy, application in enumerate(self.applications):
            order = {
                "workload": msgspec.to_builtins(work.workload.reference),
                "topics": dict(work.topic_of),
                "out_topic": work.out_topic,
                "copy": copy,
                "checkpoint": f"{checkpoints}/{copy}",
                "source": dict(self._parameters.source),
                "partitions": self._parameters.partitions if copy == standby.SECOND else None,
                **real_time.orders(
                    self._parameters, work.workload, application.spec.slots, work.interval_s
                ),
            }
            self._orders.append(order)
            application.order("begin", **order)
        for mark, application in zip(self._marks, self.applications, strict=True):
            application.wait_for(
                "its first committed batch",
                lambda e: e["event"] == "progress" and e["rows"] > 0,
                within_s=300,
                since=mark,
            )
        self._settings = list(self._read_back())
        demand_reported(self.name, self._settings)

    def _read_back(self) -> Iterator[Setting]:
        own = self._parameters.conf
        for application, order in zip(self.applications, self._orders, strict=True):
            conf = dict(application.spec.conf)
            if "shuffle_partitions" in order:  # real-time mode has its own number
                conf[SHUFFLE_PARTITIONS] = str(order["shuffle_partitions"])
            said = application.ask(
                "settings", "settings", "its settings", within_s=60, names=read_back_names(own)
            )
            yield from read_back_of(conf, own, said, application.spec.name)

    def settings(self) -> Sequence[Setting]:
        return self._settings

    def begins_at(self, unix_s: float) -> None:
        """Event time is in the records; a query needs no clock."""

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        """Until every query has committed a batch at that watermark.

        In real-time mode until a checkpoint with all records: no window has to close."""
        reached = real_time.drained if self._parameters.real_time else _closed
        drained = True
        for mark, application in zip(self._marks, self.applications, strict=True):
            try:
                application.wait_for(
                    "the batch that closes the last window",
                    lambda e: e["event"] == "progress" and reached(e, until_unix_s),
                    within_s=within_s,
                    since=mark,
                )
            except EnvironmentFailure:
                application.raise_end()
                drained = False
        return drained

    def raise_problems(self) -> None:
        """Raise if a driver has ended: Spark starts none again.

        One that the schedule killed is started again here, as a cluster manager would do."""
        for copy in [copy for copy in self._struck if self._gone(copy)]:
            self._start_again(copy)
        for copy, application in enumerate(self.applications):
            if copy not in self._struck:
                application.raise_end()

    def parts(self) -> Sequence[str]:
        """Drivers and executors (`parts`)."""
        if self._cluster.backend != parts.BACKEND:
            return []
        return parts.names([node.name for node in self.targets()], len(self.applications))

    def prepare(self, part: str) -> Prepared:
        """Find the processes of a driver or an executor."""
        return parts.prepare(
            part, self._cluster, lambda copy: self.applications[copy].pid, self._struck.add
        )

    def _gone(self, copy: int) -> bool:
        return self.applications[copy].exit_code is not None

    def _start_again(self, copy: int) -> None:
        """Start a killed driver anew; its query goes on from the checkpoint.

        Orders wait in its standard input until it has a session."""
        dead = self.applications[copy]
        self._lives.append((copy, dead, self._marks[copy]))
        dead.stop(within_s=0)
        fresh = Application(dead.spec)
        fresh.order("begin", **self._orders[copy])
        self.applications[copy] = fresh
        self._marks[copy] = 0
        self._struck.discard(copy)

    def end(self) -> None:
        """Stop every query; the applications stay."""
        self._ending = True
        for application in self.applications:
            application.ask("end", "ended", "the end of its query", within_s=60)
        self._ending = False

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        """Every result; of a second query over a part of the input what a reader shows.

        A workload with a sink of its own has none in the out topic."""
        if SINK in work.workload.forms:
            messages = self._in_sinks(work)
        origin_unix_s = work.load.event.origin(start_unix_s)
        found = deliveries(messages, work.workload, start_unix_s, origin_unix_s)
        if self._parameters.partitions is None:
            return found
        spans = standby.away(self.events())
        spans_s = [(begin - start_unix_s, end - start_unix_s) for begin, end in spans]
        return standby.shown(found, spans_s, work.workload.identity_in_run)

    def _in_sinks(self, work: Work) -> list[Message]:
        """Return the rows of the queries' own sinks, in the order in which they were readable.

        None if the driver that reads them is gone: then the pass has died anyway."""
        if self._gone(0):
            return []
        path = work.directory / "results.parquet"
        checkpoints = [order["checkpoint"] for order in self._orders]
        self._ask("results", "the results", checkpoints=checkpoints, path=str(path))
        rows = pyarrow.parquet.read_table(path).sort_by(sinks.ARRIVAL).to_pylist()
        return [
            Message(
                append_ms=row[sinks.ARRIVAL],
                partition=0,
                offset=offset,
                value=row[sinks.VALUE].encode(),
                copy=row[sinks.COPY],
            )
            for offset, row in enumerate(rows)
        ]

    def events(self) -> Sequence[Event]:
        """Return the reports of the applications since `begin`, and the executors they lost."""
        now = zip(range(len(self.applications)), self.applications, self._marks, strict=True)
        nodes = self._cluster.nodes()
        found = [
            event
            for copy, application, mark in [*self._lives, *now]
            for event in reported_events(copy, application.events, mark, nodes)
        ]
        return sorted(found, key=lambda event: event.at_unix_s)

    def usage(self) -> Mapping[str, Usage]:
        """Return the usage of all drivers together."""
        method = "the kernel's accounting of the drivers' process trees"
        used = used_by(self.applications, method)
        if self._lives:  # the processor time of a killed driver is lost with it
            used = replace(used, cpu_s=None, method=f"{method}; a driver was killed")
        return {"drivers": used}

    def truth(self, work: Work) -> pd.DataFrame:
        """Return the batch query's results, from the first application."""
        path = work.directory / "truth.parquet"
        self._ask("truth", "the ground truth", topics=dict(work.topic_of), path=str(path))
        return from_arrow(pyarrow.parquet.read_table(path))

    def _ask(self, order: str, what: str, **parameters: Any) -> None:
        self.applications[0].ask(order, order, what, within_s=180, **parameters)


class StructuredKind(EngineKind):
    """The stock engine as a choice."""

    name = NAME
    summary = "the workload as a stock Spark Structured Streaming query, nothing patched"
    schemes: ClassVar[Mapping[str, ClusterNeeds]] = {
        "checkpoint": ClusterNeeds(
            summary="one application over all racks, a checkpoint a trigger"
        ),
        "active": ClusterNeeds(
            summary="an application per rack, the first copy of each result counts",
            racks=2,
            nodes=2,
        ),
        standby.SCHEME: ClusterNeeds(
            summary="an application on one rack, a second one over a part of the input on another, "
            "whose results are tentative and count while the first is away",
            racks=2,
            nodes=2,
        ),
    }
    form = QUERY
    parameters = StockParameters

    def needs(self, setup: Setup) -> ClusterNeeds:
        """Refuse partitions without `standby.SCHEME`, and that scheme without them."""
        needs = super().needs(setup)
        partitions = parameters_of(setup).partitions
        if (partitions is not None) != (setup.scheme == standby.SCHEME):
            raise UsageError(
                f"partitions {partitions!r} do not go with scheme {setup.scheme!r} of the stock "
                "engine",
                remedy=f"give partitions with {standby.SCHEME}, whose second query reads "
                "them, and with no other scheme",
            )
        return needs

    def parts(self, spec: ClusterSpec) -> Sequence[str]:
        return parts.names(spec.node_names, spec.racks)

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        if (reason := super().lacks(setup, workload, spec)) is not None:
            return reason
        parameters = parameters_of(setup)
        if parameters.real_time:
            return real_time.lacking(parameters, workload, spec, setup.scheme)
        partitions = parameters.partitions
        return None if partitions is None else standby.unreadable(partitions, workload)

    def key(self, setup: Setup) -> str:
        """Return the key of the applications: mode and input of a query come with each pass."""
        shared = StockParameters(conf=parameters_of(setup).conf)
        return super().key(replace(setup, parameters=shared))

    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[StructuredEngine]:
        self.needs(setup)
        return running_applications(cluster, setup)


def parameters_of(setup: Setup) -> StockParameters:
    """Return the setup's parameters, the defaults if it has none."""
    given = setup.parameters or StockParameters()
    assert isinstance(given, StockParameters), given
    return given


@contextmanager
def running_applications(cluster: Cluster, setup: Setup) -> Iterator[StructuredEngine]:
    """Start the scheme's applications; they end with the context, however it ends."""
    directory = cluster.run_directory / f"applications-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    applications: list[Application] = []
    engine: StructuredEngine | None = None
    try:
        own = parameters_of(setup).conf
        specs = application_specs(cluster, setup.scheme, directory, brief=setup.brief, own=own)
        applications.extend(Application(spec) for spec in specs)
        engine = StructuredEngine(applications, cluster)
        engine.check(within_s=READY_S)
        yield engine
    finally:
        running = applications if engine is None else engine.applications
        for application in running:
            application.hang_up()
        for application in running:
            application.stop(within_s=20)


def reported_events(
    copy: int, said: Sequence[Said], since: int, nodes: Sequence[Node]
) -> Iterator[Event]:
    """Yield the events that one application reported from a mark on.

    Where its executors became fewer there is a detection for every lost node, and a recovery of it
    with the next batch that is committed with records in it."""
    node_at = {node.host: node.name for node in nodes}
    at_work: set[str] = set()
    missed: set[str] = set()
    for number, event in enumerate(said):
        if event["event"] not in _SAID:
            continue
        lost: set[str] = set()
        if event["event"] == "executors":
            before, at_work = at_work, {node_at[h] for h in event["hosts"] if h in node_at}
            lost = before - at_work
        if number < since:
            continue
        at_unix_s = event["at_unix_s"]
        missed |= lost
        back = missed if event["event"] == "progress" and event["rows"] else set()
        for kind, nodes_of, cause in (
            (EventKind.DETECTED, lost, _LOST_EXECUTOR),
            (EventKind.RECOVERED, back, _COMMITTED),
        ):
            for node in sorted(nodes_of):
                yield Event(kind=kind, at_unix_s=at_unix_s, copy=copy, target=node, cause=cause)
        missed = missed - back
        detail = {k: v for k, v in event.items() if k not in ("event", "at_unix_s", "hosts")}
        yield Event(kind=EventKind(event["event"]), at_unix_s=at_unix_s, copy=copy, detail=detail)


def _closed(event: Mapping[str, Any], until_unix_s: float) -> bool:
    """Return True for a report of a batch at that watermark or later."""
    return real_time.instant_s(event["watermark"]) >= until_unix_s
