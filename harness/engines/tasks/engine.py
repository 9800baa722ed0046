"""The task engine behind the contract of `harness.engines.base`."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar

import pandas as pd

from harness.cluster.base import BROKER, STORE, Cluster, ClusterSpec, Node, Prepared, Usage
from harness.cluster.killing import prepare_kill
from harness.cluster.processes import tree
from harness.engines.base import ClusterNeeds, Engine, EngineKind, Event, Setup, Work
from harness.engines.settings import Setting
from harness.engines.tasks.adapting import Adapting, Alternating, Changing, SourceRates
from harness.engines.tasks.choices import (
    infos,
    late_of,
    links_of,
    parameters_of,
    placement_of,
    replicas_of,
    scheme_of,
    speed_of,
)
from harness.engines.tasks.events import Observations
from harness.engines.tasks.fleet import Fleet
from harness.engines.tasks.job import Job, files_of, wiring_for
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.reading import Fenced, Reading, plain, read_input, read_results
from harness.errors import EnvironmentFailure, UsageError
from harness.hosting.codec import from_parts
from harness.hosting.restoration import Noted
from harness.measure.collector import Message
from harness.protocol.effects import CopyEvent
from harness.protocol.schemes import SCHEMES, Replicas
from workloads.base import TASKS, Workload
from workloads.toolkit.local import run_locally

NAME = "tasks"
COORDINATOR = "coordinator"
"""The part that a schedule can kill."""
_LOOK_S = 0.02


class TaskEngine:
    """Warm processes, one pass at a time."""

    name = NAME

    def __init__(self, setup: Setup, fleet: Fleet) -> None:
        self.setup, self.fleet = setup, fleet
        self.last: str | None = None
        self.job: Job | None = None
        self._work: Work | None = None
        self._meanwhile = ExitStack()
        """Threads that run during a pass."""
        self.adapting: Changing | None = None
        """The part that changes the plan of this pass, if any."""
        self._unix_us = 0
        """The difference from the monotonic to the wall clock."""
        self._fenced: Sequence[Fenced] = ()
        """Results of fenced copies in the messages read last."""

    def configure(self, setup: Setup) -> None:
        """Take a setup; a pass brings its own scheme, so the same processes serve any."""
        self.setup = setup

    def check(self) -> None:
        """Return when every node is connected that a pass waits for."""
        nodes = len(self.fleet.nodes)
        late = late_of(parameters_of(self.setup), nodes)
        self.fleet.wait_for_nodes([node for node in range(nodes) if node not in late])

    def targets(self) -> Sequence[Node]:
        return self.fleet.nodes

    def settings(self) -> Sequence[Setting]:
        """Return nothing: its nodes run this code, and take their settings from the job."""
        return ()

    def closes_after_s(self, workload: Workload) -> float:
        """Batches are cut by intended time, so nothing is late."""
        return 0.0

    def begin(self, work: Work) -> None:
        assert self._work is None, "one workload at a time"
        job = self._job(work, start_unix_s=0)
        job.wiring, job.begin  # noqa: B018  # what cannot be run is refused here
        self._work = work
        self.check()

    def begins_at(self, unix_s: float) -> None:
        work = self._work
        assert work is not None, "nothing was begun"
        self.job = self._job(work, unix_s)
        self._unix_us = round(time.time() * 1e6) - time.monotonic_ns() // 1000
        self.fleet.begin(self.job)
        self.adapting = self._adapt(work, self.job)

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        job = self._running()
        below = math.ceil((until_unix_s * 1e6 - job.start_us) / job.batch_us)
        deadline, healthy_until = time.monotonic() + within_s, 0.0
        while not all(self.fleet.published.get(sink, 0) >= below for sink in job.wiring.sinks):
            self.raise_problems()
            if time.monotonic() > deadline:
                return False
            if time.monotonic() > healthy_until:
                self.fleet.cluster.health()
                healthy_until = time.monotonic() + 1
            time.sleep(_LOOK_S)
        return True

    def end(self) -> None:
        self._meanwhile.close()
        self.fleet.end()
        self._work = None

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        reading = Reading(work.workload)
        results = read_results(messages, reading, start_unix_s)
        self._fenced = reading.fenced
        return results

    def events(self) -> Sequence[Event]:
        seen = Observations(
            names=self._running().wiring.names,
            nodes=self.fleet.nodes,
            notes=self.notes(),
            ahead_us=self._unix_us,
        )
        lives = [*self._events("left"), *self._events("joined")]
        found = [
            *seen.recoveries(),
            *seen.unharmed(lives),
            *seen.lives(lives),
            *seen.unstored(),
            *seen.troubles(self._events("trouble")),
            *seen.fenced(self._fenced),
            *seen.adapted(
                self.adapting.done if self.adapting is not None else (),
                [event["at_us"] for event in self._events("adapted")],
                self._running().wiring.upstream,
            ),
        ]
        return sorted(found, key=lambda event: event.at_unix_s)

    def usage(self) -> Mapping[str, Usage]:
        return self.fleet.usage()

    def truth(self, work: Work) -> pd.DataFrame:
        """Every batch once and in order, in this process (`workloads.toolkit.local`)."""
        job = self._running()
        client = self.fleet.cluster.kafka.confluent()
        sources = {
            source.name: read_input(
                client, work.topic_of[source.name], source.partitions, job.start_us
            )
            for source in work.workload.sources
        }
        return plain(run_locally(job.code, sources), work.workload.columns)

    def parts(self) -> Sequence[str]:
        """Return the one process on no node that can be killed alone."""
        return [COORDINATOR]

    def prepare(self, part: str) -> Prepared:
        """Find the coordinator; the fleet starts another one in its place."""
        return prepare_kill(part, tree([self.fleet.coordinator.pid]))

    # -- beyond the contract -------------------------------------------------------------------

    def reached(self) -> int:
        """Return the number of batches that all sinks have published, which grows with progress."""
        return sum(self.fleet.published.values())

    def said(self) -> list[Any]:
        """Return the events of the coordinators in this pass, in order."""
        return self.fleet.said()

    def notes(self) -> list[Noted]:
        """Return the notes about copies, by the coordinator's clock, which is the harness's."""
        found = []
        for event in self._events("note"):
            note = from_parts(event["note"])
            at_us = note.at + event["shift_us"]
            found.append(Noted(at_us=at_us, node=event["node"], note=note))
        return sorted(found, key=lambda noted: noted.at_us)

    def raise_problems(self) -> None:
        """Raise what a process of the engine could not go on with."""
        for event in self.fleet.problems:
            at = event["node"]
            name = self.fleet.nodes[at].name if at >= 0 else "of the coordinator"
            if event["event"] == "problem":
                kind = UsageError if event.get("usage") else EnvironmentFailure
                raise kind(f"node {name}: {event['what']}", remedy=event["remedy"])
            note = from_parts(event["note"])
            raise UsageError(
                f"task {self._running().wiring.names[note.task]} on node {name} raised in batch "
                f"{note.position}:\n{note.why}",
                remedy="correct the operator: it must be a function of its arguments that takes "
                "every batch of the input",
            )
        self.fleet.check()

    def _running(self) -> Job:
        assert self.job is not None, "no pass has begun"
        return self.job

    def _events(self, kind: str) -> list[Any]:
        return [event for event in self.said() if event["event"] == kind]

    def _job(self, work: Work, start_unix_s: float) -> Job:
        """Return the job for the processes; raise `UsageError` for a setup that cannot be run."""
        wiring = wiring_for(work.workload, round(work.interval_s * 1e6), {})
        given = parameters_of(self.setup)
        assert work.workload.reference is not None, work.workload.name
        scheme = scheme_of(self.setup, wiring, work.interval_s)
        nodes = infos(given, self.fleet.nodes, wiring, scheme)
        return Job(
            run=f"{self.fleet.cluster.redis.key_prefix}pass-{secrets.token_hex(6)}",
            workload=work.workload.reference,
            files=files_of(work.workload.reference),
            start_us=round(start_unix_s * 1e6),
            batch_us=round(work.interval_s * 1e6),
            scheme=scheme,
            nodes=nodes,
            placement=placement_of(given, nodes, wiring),
            replicas_at=replicas_of(given, nodes, scheme, wiring),
            topic_of=dict(work.topic_of),
            out_topic=work.out_topic,
            out_partitions=work.out_partitions,
            ordinary_columns=tuple(work.workload.columns) if given.ordinary_records else (),
            notes_progress=given.notes_progress,
            by_connection=given.by_connection,
            speed=speed_of(given, len(nodes)),
            links=links_of(given, nodes),
        )

    def _adapt(self, work: Work, job: Job) -> Changing | None:
        """Start to adapt or alternate the plan where the setup has that.

        Raises `UsageError` where there is nothing to change."""
        given, plan = parameters_of(self.setup), job.scheme.replicated
        every_s, turn_s = given.adapt_s, given.alternate_s
        if not every_s and not turn_s:
            return None
        if SCHEMES[self.setup.scheme].replicas is not Replicas.PLANNED:
            raise UsageError(
                f"{self.setup.scheme} has no plan to change", remedy="choose ppa, rppg or dpc"
            )
        if every_s:
            return self._meanwhile.enter_context(self._adapting(work, job, every_s))
        if len(plan) < 2:
            raise UsageError(
                f"the plan {plan} has no two halves that could take turns",
                remedy="give a plan of two tasks or more with alternate_s",
            )
        turns = Alternating(job.code.topology, self.fleet.adapt, plan=plan, every_s=turn_s)
        return self._meanwhile.enter_context(turns)

    def _adapting(self, work: Work, job: Job, every_s: float) -> Adapting:
        topology, plan = job.code.topology, job.scheme.replicated
        places = {task: job.source(task) for task in job.wiring.sources}
        client = self.fleet.cluster.kafka.confluent()
        marker_s = max((stream.marker_s for stream in work.load.streams), default=0.0)
        budget = parameters_of(self.setup).budget
        return Adapting(
            topology,
            SourceRates(client, places, marker_s),
            self.fleet.adapt,
            plan=plan,
            budget=int(topology.costs[list(plan)].sum()) if budget is None else budget,
            every_s=every_s,
        )

    def lost_primaries(self) -> list[Noted]:
        """Return the notes of primaries that the coordinator gave up, in the order of time."""
        return [noted for noted in self.notes() if noted.note.event is CopyEvent.LOST]


class TaskEngineKind(EngineKind):
    """The engine as a choice."""

    name = NAME
    summary = "the papers' task-level protocols, in long-lived tasks on Spark executors"
    schemes: ClassVar[Mapping[str, ClusterNeeds]] = {
        name: ClusterNeeds(summary=family.summary, nodes=2) for name, family in SCHEMES.items()
    }
    form = TASKS
    parameters = TaskParameters
    servers = frozenset({BROKER, STORE})

    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        return running_engine(setup, cluster)

    def parts(self, spec: ClusterSpec) -> Sequence[str]:
        return [COORDINATOR]

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        if (reason := super().lacks(setup, workload, spec)) is not None:
            return reason
        if spec.cores_per_worker < spec.nodes_per_worker:
            return (
                f"every node is a task that runs all the time, and a worker of the cluster has "
                f"{spec.nodes_per_worker} nodes on {spec.cores_per_worker} slots"
            )
        return None

    def key(self, setup: Setup) -> str:
        """Return one key for all setups of a priority: a pass brings its setup to the processes."""
        gives_way = parameters_of(setup).gives_way
        return f"engine {self.name}" + ("" if gives_way else ", all at one priority")


@contextmanager
def running_engine(setup: Setup, cluster: Cluster) -> Iterator[TaskEngine]:
    """Its processes are started, and ended however this ends."""
    directory = cluster.run_directory / f"tasks-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    fleet = Fleet(cluster, directory, gives_way=parameters_of(setup).gives_way)
    try:
        fleet.start()
        yield TaskEngine(setup, fleet)
    finally:
        fleet.stop()
