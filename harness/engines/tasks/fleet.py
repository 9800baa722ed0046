"""The processes of the task engine as the harness sees them: coordinator, driver, nodes.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.child import Child, Event
from harness.cluster.base import Cluster, Node, Usage
from harness.cluster.processes import HostProcess
from harness.engines.base import used_by
from harness.engines.tasks.job import Job
from harness.errors import EnvironmentFailure, FaultlineError, UsageError
from harness.protocol.effects import CopyEvent

EXECUTORS_WITHIN_S = 180.0
NODES_WITHIN_S, NODE_WITHIN_S = 120.0, 1.0
"""Longest wait for all nodes, and what each of them adds: they start on the same few cores."""
_LOOK_S = 0.02
_ENDS_S = 2.0
"""Seconds for a process whose output has ended to be gone."""
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

MOST_LIVES, WITHIN_S = 6, 10.0
"""Processes that may be the coordinator within these seconds: then something else kills them."""
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
        self._job: Job | None = None
        """The pass that is under way, which a new coordinator goes on with."""
        self._steering = threading.RLock()
        """Held while orders are given, or a coordinator is started in the place of another."""
        self._began_s: deque[float] = deque(maxlen=MOST_LIVES)
        """When the last coordinators were started."""
        self._stopping = threading.Event()
        self._registering = threading.Thread(
            target=self._attend, name="attend to the coordinator", daemon=True
        )
        self._registered: dict[Child, int] = {}
        """Coordinator to the mark before which its events were handled."""
        self._pass_marks: dict[Child, int] = {}
        """Coordinator to its mark at the start of the pass."""
        self._boots: dict[int, int] = {}
        """Node to the newest boot number that is connected."""
        self.published: dict[int, int] = {}
        """In this pass, sink to the first batch that it has not reported to be published."""
        self.problems: list[Event] = []
        """In this pass, what a process could not go on with, and operators that raised."""
        self.coordinators: list[Child] = []
        """The processes that were the coordinator in this pass, the newest last."""
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
        """Start its process, at the same address as the one before."""
        child = Child(
            "harness.engines.tasks.coordinator",
            name="the coordinator",
            log=self._directory / "coordinator.log",
            remedy="look for the first error in that log, and please report it",
            environment=self.cluster.driver_environment(),
        )
        self.coordinators.append(child)
        self._began_s.append(time.monotonic())
        child.send(
            {
                "listen": [self.cluster.harness_host, self._port],
                "secret": self._secret,
                "redis": asdict(self.cluster.redis),
                "tls": self._certificate(),
            }
        )
        heard = child.wait_for("its port", lambda e: e["event"] == "listening", within_s=ANSWER_S)
        self._port = heard["port"]

    def begin(self, job: Job) -> None:
        """Give ``job`` to the coordinator, at the start of a pass."""
        with self._steering:
            self.published, self.problems = {}, []
            self._stay_away(job.speed.restart_s)
            self._forget()
            self._job = None  # nobody has it yet
            self._order({"order": "begin", "job": job.to_json()}, "begun")
            self._job = job

    def adapt(self, replicated: Sequence[int]) -> None:
        """Order another plan: the tasks that have replicas from now on."""
        with self._steering:
            self._order({"order": "adapt", "replicated": list(replicated)}, "adapted")

    def end(self) -> None:
        """Let the nodes drop their copies, and stay; an absent node may come back at once."""
        with self._steering:
            self._stay_away(())
            self._order({"order": "end"}, "ended")
            self._job = None

    def _order(self, order: Mapping[str, Any], answer: str) -> None:
        """Give the coordinator an order; give it to the next one if it is killed meanwhile."""
        while True:
            child = self.coordinator
            mark = child.mark()
            try:
                child.send(order)
                child.wait_for(
                    f"the event {answer!r}",
                    lambda e: e["event"] == answer,
                    within_s=ANSWER_S,
                    since=mark,
                )
            except EnvironmentFailure:
                if not self._revive():
                    raise
            else:
                return

    def _revive(self) -> bool:
        """Start a coordinator in the place of one that was killed; return False if none was.

        It goes on with the pass. One that has reported an error is no reason for another one, and
        neither are many in a short time."""
        with self._steering:
            child = self.coordinator
            if self._stopping.is_set() or not child.wait(_ENDS_S) or child.error is not None:
                return False
            if self._too_many():
                return False
            self._boots.clear()  # those that live connect again
            self.start_coordinator()
            if self._job is not None:
                self._order({"order": "begin", "job": self._job.to_json()}, "begun")
            return True

    def _too_many(self) -> bool:
        lives = self._began_s
        return len(lives) == lives.maxlen and time.monotonic() - lives[0] < WITHIN_S

    def check(self) -> None:
        """Raise `EnvironmentFailure` if a process of the engine has ended for good."""
        for child in (self.coordinator, self.driver):
            if child is None or child.exit_code is None:
                continue
            killed = child is self.coordinator and child.error is None
            if killed and not self._too_many():
                continue  # another one is on its way
            why = f": {child.error}" if child.error is not None else ""
            raise child.failure(f"{child.name} has ended{why}")

    def said(self) -> list[Event]:
        """Return the coordinators' events of this pass, in order."""
        each = [child.since(self._pass_marks.get(child, 0)) for child in list(self.coordinators)]
        return [event for events in each for event in events]

    def _forget(self) -> None:
        """Drop the processes and events of earlier passes."""
        current = self.coordinator
        for child in self.coordinators[:-1]:
            child.stop(within_s=0)
            self._registered.pop(child, None)
        self.coordinators = [current]
        self._pass_marks = {current: current.mark()}
        current.forget(self._registered.get(current, 0))
        if self.driver is not None:
            self.driver.forget(self.driver.mark() - 1)

    def _stay_away(self, seconds: Sequence[float]) -> None:
        """Node to how long after its death it is started again."""
        if self.driver is not None and self.driver.exit_code is None:
            self.driver.send({"away_s": list(seconds)})

    def wait_for_nodes(self, numbers: Sequence[int]) -> None:
        """Return when these nodes are connected, under any boot number.

        Raises `EnvironmentFailure` when the driver ends, or when they are not in time."""
        missing = list(numbers)
        within_s = NODES_WITHIN_S + NODE_WITHIN_S * len(missing)
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
        """Return the coordinators' reports of some kinds, in order."""
        return [
            event
            for child in list(self.coordinators)
            for event in child.since(0)
            if event["event"] in kinds
        ]

    def usage(self) -> dict[str, Usage]:
        """Return the usage of the processes that belong to no node."""
        method = "the kernel's accounting of the process tree"
        drivers = [self.driver] if self.driver is not None else []
        return {
            "coordinator": used_by(self.coordinators, method),
            "driver": used_by(drivers, method),
        }

    def stop(self) -> None:
        """End every process of the engine. May be called twice."""
        self._stopping.set()
        with contextlib.suppress(FaultlineError):
            self.coordinator.send({"order": "leave"})
        if self.driver is not None:
            self.driver.stop(within_s=15)
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
            "redis": asdict(self.cluster.redis.for_executors()),
            "tls": self._certificate(),
            "run": self._run,
        }

    def _certificate(self) -> dict[str, Any] | None:
        """Return the run's certificate, with which its processes encrypt what they send."""
        tls = self.cluster.kafka.tls
        return asdict(tls) if tls is not None and tls.certificate is not None else None

    def _attend(self) -> None:
        """Handle the coordinator's events, and start another one when it was killed.

        The cluster hears which process is which node, so that it can be killed alone."""
        while not self._stopping.wait(_LOOK_S):
            for child in list(self.coordinators):
                new = child.since(self._registered.get(child, 0))
                for event in new:
                    self._note(event)
                self._registered[child] = self._registered.get(child, 0) + len(new)
            if self.coordinator.exit_code is not None:
                with contextlib.suppress(FaultlineError):  # `check` raises what lasts
                    self._revive()

    def _note(self, event: Event) -> None:
        if event["event"] == "joined":
            # A process that died meanwhile cannot be registered, and needs not.
            with contextlib.suppress(FaultlineError):
                node, process = self.nodes[event["node"]], HostProcess(**event["process"])
                self.cluster.register_host(node.name, process)
            self._boots[event["node"]] = event["boot"]
        elif event["event"] == "published":
            self.published[event["task"]] = event["below"]
        elif event["event"] == "problem" or (event["event"] == "note" and _FAILED in event["note"]):
            self.problems.append(event)
        elif event["event"] == "left" and self._boots.get(event["node"]) == event["boot"]:
            del self._boots[event["node"]]
