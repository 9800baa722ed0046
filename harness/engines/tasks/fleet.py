"""The processes of the task engine as the harness sees them: coordinator, driver, nodes.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.child import Child, Event
from harness.cluster.base import Cluster, Node, Usage
from harness.cluster.processes import HostProcess
from harness.engines.children import used_by
from harness.engines.tasks.job import Job
from harness.errors import EnvironmentFailure, FaultlineError, UsageError
from harness.protocol.effects import CopyEvent

EXECUTORS_WITHIN_S = 180.0
NODES_WITHIN_S = 120.0
_LOOK_S = 0.02
_FAILED = f'"event":"{CopyEvent.FAILED}"'
"""In a note as it travels: looked for there, because few of them are worth decoding."""

CONF = {
    "spark.app.name": "faultline tasks",
    "spark.driver.memory": "512m",
    # A node that dies is the coordinator's matter: its job ends, and the driver begins another.
    "spark.task.maxFailures": "1",
    # A preference for a host must not give way to another host because the task waited.
    "spark.locality.wait": "3600s",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "false",
    # A job lasts as long as its node: nobody watches a bar that never moves.
    "spark.ui.showConsoleProgress": "false",
    # Nodes have heartbeats of their own; Spark's are for executors, which die with a worker here.
    "spark.executor.heartbeatInterval": "5s",
    "spark.python.daemon.module": "harness.engines.tasks.daemon",
}

ANSWER_S = 120.0
"""For the coordinator's process to answer: long, because on an overloaded machine starting it can
take half a minute, and one that has died is reported at once."""


class Fleet:
    """A coordinator, a driver, and one node per node of the cluster. Make it, `start` it."""

    def __init__(self, cluster: Cluster, directory: Path, *, gives_way: bool = True) -> None:
        """Prepare; ``gives_way``: the driver has a lower priority than the nodes."""
        self.cluster, self._gives_way = cluster, gives_way
        self.nodes: Sequence[Node] = cluster.nodes()
        self._directory = directory
        self._secret = secrets.token_hex(32)
        self._run = f"{cluster.redis.key_prefix}engine-{secrets.token_hex(6)}"
        self._port = 0
        self._job_run = ""
        self._stopping = threading.Event()
        self._registering = threading.Thread(
            target=self._register, name="register nodes", daemon=True
        )
        self._boots: dict[int, int] = {}
        """Node to the newest boot number that is connected."""
        self.published: dict[int, int] = {}
        """In this pass, sink to the first batch that it has not reported to be published."""
        self.problems: list[Event] = []
        """In this pass, what a process could not go on with, and operators that raised."""
        self.coordinators: list[Child] = []
        """All processes that were the coordinator, the newest last."""
        self.driver: Child | None = None
        spec = cluster.spec
        if spec.cores_per_worker < spec.nodes_per_worker:
            raise UsageError(
                f"{spec.nodes_per_worker} nodes to a worker of {spec.cores_per_worker} slots",
                remedy=f"use cores_per_worker of at least {spec.nodes_per_worker}: every node is a "
                "task that runs all the time",
            )

    @property
    def coordinator(self) -> Child:
        """The process that runs now, or ran last: it is started again after it died."""
        return self.coordinators[-1]

    def start(self) -> None:
        """Return when every node is connected to the coordinator."""
        self.start_coordinator()
        self._registering.start()
        environment = self.cluster.driver_environment()
        self.driver = Child(
            "harness.engines.tasks.driver",
            name="the driver of the task engine",
            log=self._directory / "driver.log",
            remedy="look for the first error in that log; too little memory and too few free "
            "slots are the usual causes",
            environment=environment,
        )
        workers = len({node.worker for node in self.nodes})
        conf = {**self.cluster.spark_conf(), **CONF}
        self.driver.send({"conf": conf, "gives_way": self._gives_way})
        self.driver.wait_for(
            f"{workers} executors",
            lambda e: e["event"] == "executors" and e["count"] >= workers,
            within_s=EXECUTORS_WITHIN_S,
        )
        self.driver.send(
            {
                "nodes": [
                    {"host": node.host, "arguments": self._arguments(number)}
                    for number, node in enumerate(self.nodes)
                ]
            }
        )
        self.wait_for_nodes(range(len(self.nodes)))

    def start_coordinator(self) -> None:
        """Start its process, or start it again after it died, at the same address."""
        child = Child(
            "harness.engines.tasks.coordinator",
            name="the coordinator",
            log=self._directory / "coordinator.log",
            remedy="look for the first error in that log, and please report it",
            environment=self.cluster.driver_environment(),
        )
        self.coordinators.append(child)
        child.send(
            {
                "listen": [self.cluster.harness_host, self._port],
                "secret": self._secret,
                "redis": self.cluster.redis.to_json(),
            }
        )
        heard = child.wait_for("its port", lambda e: e["event"] == "listening", within_s=ANSWER_S)
        self._port = heard["port"]

    def begin(self, job: Job) -> None:
        """Give ``job`` to the coordinator, at the start of a pass and after its own restart."""
        if job.run != self._job_run:
            self._job_run = job.run
            self.published, self.problems = {}, []
            self._stay_away(job.speed.restart_s)
        mark = self.coordinator.mark()
        self.coordinator.send({"order": "begin", "job": job.to_json()})
        self.coordinator.wait_for(
            "the beginning of the pass",
            lambda e: e["event"] == "begun",
            within_s=ANSWER_S,
            since=mark,
        )

    def adapt(self, replicated: Sequence[int]) -> None:
        """Order another plan: the tasks that have replicas from now on."""
        self.coordinator.send({"order": "adapt", "replicated": list(replicated)})

    def end(self) -> None:
        """Let the nodes drop their copies, and stay; an absent node may come back at once."""
        self._stay_away(())
        mark = self.coordinator.mark()
        self.coordinator.send({"order": "end"})
        self.coordinator.wait_for(
            "the end of the pass", lambda e: e["event"] == "ended", within_s=ANSWER_S, since=mark
        )

    def _stay_away(self, seconds: Sequence[float]) -> None:
        """Node to how long after its death it is started again."""
        if self.driver is not None and self.driver.exit_code is None:
            self.driver.send({"away_s": list(seconds)})

    def wait_for_nodes(self, numbers: Sequence[int], *, within_s: float = NODES_WITHIN_S) -> None:
        """Return when these nodes are connected, under any boot number.

        Raises `EnvironmentFailure` when the driver ends, or when they are not after ``within_s``.
        """
        missing = list(numbers)
        waited = 0.0
        while missing := [number for number in missing if number not in self._boots]:
            if self.driver is not None and self.driver.exit_code is not None:
                raise self.driver.failure("the driver ended while its nodes began")
            if waited > within_s:
                names = ", ".join(self.nodes[number].name for number in missing)
                said = self.driver.newest("ended") if self.driver is not None else None
                raise EnvironmentFailure(
                    f"nodes {names} did not connect within {within_s:g} s; the newest that ended "
                    f"said: {said['error'] if said else 'nothing'}",
                    remedy=f"look at the logs of the executors and at {self._directory}",
                )
            self._stopping.wait(_LOOK_S)
            waited += _LOOK_S

    def connected(self) -> Mapping[int, int]:
        """Return the connected nodes, each with its boot number."""
        return dict(self._boots)

    def events(self, *kinds: str) -> list[Event]:
        """Return the coordinator's reports in order, before and after it was started again."""
        return [
            event
            for child in self.coordinators
            for event in child.events
            if event["event"] in kinds
        ]

    def usage(self) -> dict[str, Usage]:
        """Return the usage of the processes that belong to no node."""
        method = "the kernel's accounting of the process tree"
        found = {}
        drivers = [self.driver] if self.driver is not None else []
        for name, lives in (("coordinator", self.coordinators), ("driver", drivers)):
            found[name] = used_by(lives, method)
        return found

    def stop(self) -> None:
        """End every process of the engine. May be called twice."""
        with contextlib.suppress(FaultlineError):
            self.coordinator.send({"order": "leave"})
        if self.driver is not None:
            self.driver.stop(within_s=15)
        self._stopping.set()
        if self._registering.is_alive():
            self._registering.join()
        for child in self.coordinators:
            child.stop(within_s=3)

    def _arguments(self, number: int) -> dict[str, Any]:
        """Return the arguments of a node; they reach the executors through Spark alone."""
        return {
            "node": number,
            "worker": self.nodes[number].worker,
            "coordinator": [self.cluster.harness_host, self._port],
            "secret": self._secret,
            "kafka": self.cluster.kafka.confluent(on_executor=True),
            "redis": self.cluster.redis.for_executors().to_json(),
            "tls": self._certificate(),
            "run": self._run,
        }

    def _certificate(self) -> dict[str, Any] | None:
        """Return the run's certificate, with which nodes encrypt what they send to one another."""
        tls = self.cluster.kafka.tls
        return asdict(tls) if tls is not None and tls.certificate is not None else None

    def _register(self) -> None:
        """Tell the cluster which process is which node, so that it can be killed alone."""
        marks: dict[int, int] = {}
        while not self._stopping.wait(_LOOK_S):
            for life, child in enumerate(list(self.coordinators)):
                events = child.events
                until = len(events)
                for event in events[marks.get(life, 0) : until]:
                    self._note(event)
                marks[life] = until

    def _note(self, event: Event) -> None:
        if event["event"] == "joined":
            # A process that died meanwhile cannot be registered, and needs not.
            with contextlib.suppress(FaultlineError):
                node, process = self.nodes[event["node"]], HostProcess.from_json(event["process"])
                self.cluster.register_host(node.name, process)
            self._boots[event["node"]] = event["boot"]
        elif event["event"] == "published":
            self.published[event["task"]] = event["below"]
        elif event["event"] == "problem" or (event["event"] == "note" and _FAILED in event["note"]):
            self.problems.append(event)
        elif event["event"] == "left" and self._boots.get(event["node"]) == event["boot"]:
            del self._boots[event["node"]]
