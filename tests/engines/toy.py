"""The smallest engine: Python that copies what it reads, held until its window has closed.

It shows what the contract asks for, and lets the pass and the judge be tested without Spark: the
broker is librdkafka's imitation, a node is a name, and a node that is dead copies nothing."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import pandas as pd
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.cluster.base import Action, Cluster, ClusterSpec, Node, Prepared, Usage, Victim
from harness.cluster.clocks import SAME, Sample
from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.run_directory import make_place
from harness.engines.base import (
    ClusterNeeds,
    Engine,
    EngineKind,
    Event,
    EventKind,
    Setup,
    Work,
)
from harness.engines.deliveries import deliveries
from harness.engines.settings import Setting
from harness.errors import EnvironmentFailure
from harness.measure.collector import Message
from harness.measure.versions import Stability
from workloads.base import Reference, Source, Workload

WINDOW_MS, DELAY_MS = 100, 100
NODE = Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.1.1")
COPY = "copy"
"""The form of a workload that the toy runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyParameters:
    """The toy's only option."""

    speed: int = 1


NUMBERS = Source(name="numbers", records=Reference(target="tests.load.test_generator:Numbered"))
WORKLOAD = Workload(
    name="copy",
    sources=[NUMBERS],
    forms={COPY: "all of it"},
    identity=["window_start", "number"],
    values=["length"],
    window_start="window_start",
    window_s=WINDOW_MS / 1000,
    slide_s=WINDOW_MS / 1000,
    watermark_delay_s=DELAY_MS / 1000,
)


def answer(value: bytes, at_ms: int) -> dict[str, Any]:
    """Return the result of one record, for the toy and for its ground truth."""
    start = at_ms - at_ms % WINDOW_MS
    return {"window_start": start, "number": value.decode(), "length": len(value)}


class Toy:
    """Copies on a thread of its own, as long as its node lives."""

    name = "toy"

    def __init__(self, cluster: ToyCluster, setup: Setup) -> None:
        self.last: str | None = None
        self._cluster = cluster
        self.configure(setup)
        self._events: list[Event] = []
        self._closed_ms = 0
        self._dead = False
        """Its node died in this pass."""
        self._stopping = threading.Event()

    def configure(self, setup: Setup) -> None:
        self._scheme = setup.scheme

    def check(self) -> None:
        """Return at once: it is always ready."""

    def targets(self) -> Sequence[Node]:
        return [NODE]

    def settings(self) -> Sequence[Setting]:
        return [Setting(part=NODE.name, name="speed", asked=None, reported="1")]

    def closes_after_s(self, workload: Workload) -> float:
        return DELAY_MS / 1000

    def begin(self, work: Work) -> None:
        self._work, self._events = work, []
        self._closed_ms, self._dead = 0, False
        self._stopping.clear()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def begins_at(self, unix_s: float) -> None:
        """Ignore the instant: it needs no clock."""

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        self.raise_problems()
        deadline = time.monotonic() + within_s
        while self._closed_ms < until_unix_s * 1000 and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._closed_ms >= until_unix_s * 1000

    def raise_problems(self) -> None:
        if self._scheme == "die" and self._dead:
            raise EnvironmentFailure("the toy is broken", remedy="get another one")

    def end(self) -> None:
        self._stopping.set()
        self._thread.join()

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        return deliveries(messages, work.workload, start_unix_s)

    def events(self) -> Sequence[Event]:
        return self._events

    def usage(self) -> Mapping[str, Usage]:
        return {"toy": used(time.process_time())}

    def truth(self, work: Work) -> pd.DataFrame:
        found = _read(self._cluster.kafka.confluent(), work)
        return pd.DataFrame(
            [answer(value, at) for value, at in found], columns=work.workload.columns
        )

    def _copy(self) -> None:
        client = self._cluster.kafka.confluent()
        consumer, producer = _consumer(client, self._work), Producer({**client, "linger.ms": 0})
        newest = dict.fromkeys(range(self._work.load.streams[0].partitions), 0)
        waiting: list[dict[str, Any]] = []
        guesses: list[dict[str, Any]] = []
        alive = True
        while not self._stopping.is_set():
            alive = self._notice(alive)
            self._dead = self._dead or not alive
            if not alive and self._scheme not in ("guess", "forget"):
                self._cluster.felt.set()
            if (not alive and self._scheme == "wait") or (self._dead and self._scheme == "die"):
                time.sleep(0.01)
                continue
            for message in consumer.consume(500, 0.02):
                at = message.timestamp()[1]
                newest[message.partition()] = at
                if message.value() and (alive or self._scheme == "guess"):
                    waiting.append(answer(message.value(), at))
                elif message.value():
                    self._cluster.felt.set()
            self._closed_ms = min(newest.values()) - DELAY_MS
            for result in waiting:
                if result["window_start"] + WINDOW_MS <= self._closed_ms:
                    self._deliver(producer, result, guesses, alive=alive)
            if alive:
                self._correct(producer, guesses)
            waiting = [r for r in waiting if r["window_start"] + WINDOW_MS > self._closed_ms]
            producer.flush(10)
        consumer.close()

    def _deliver(
        self, producer: Producer, result: dict[str, Any], guesses: list[dict[str, Any]], alive: bool
    ) -> None:
        """Deliver results, tentative and wrong ones while its node is dead."""
        if alive:
            self._send(producer, result, Stability.STABLE)
        else:
            self._send(producer, {**result, "length": 0}, Stability.TENTATIVE)
            guesses.append(result)
            self._cluster.felt.set()

    def _correct(self, producer: Producer, guesses: list[dict[str, Any]]) -> None:
        """Take every tentative result back, and deliver the right one."""
        for result in guesses:
            self._send(producer, {**result, "length": 0}, Stability.UNDO)
            self._send(producer, result, Stability.STABLE)
        guesses.clear()

    def _send(self, producer: Producer, result: Mapping[str, Any], stability: Stability) -> None:
        producer.produce(
            self._work.out_topic,
            json.dumps(result),
            partition=0,
            headers={"stability": stability.value},
        )

    def _notice(self, alive: bool) -> bool:
        now = NODE.name not in self._cluster.dead
        if now != alive:
            self._events.append(
                Event(
                    kind=EventKind.RECOVERED if now else EventKind.DETECTED,
                    at_unix_s=time.time(),
                    target=NODE.name,
                    cause="it is on again" if now else "it asked",
                )
            )
        return now


class ToyKind(EngineKind):
    """The toy, with four schemes.

    One waits out a failure, one guesses and corrects its guesses, one forgets what came meanwhile,
    and one does not survive it."""

    name = "toy"
    form = COPY
    parameters = ToyParameters
    summary = "copies its input"
    schemes: ClassVar[Mapping[str, ClusterNeeds]] = {
        "wait": ClusterNeeds(summary="catches up"),
        "guess": ClusterNeeds(summary="goes on with tentative results and corrects them"),
        "forget": ClusterNeeds(summary="loses", racks=2),
        "die": ClusterNeeds(summary="ends with a failure"),
    }

    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        return nullcontext(Toy(cast(ToyCluster, cluster), setup))


class ToyCluster:
    """One node, and a broker in this process."""

    backend = "toy"
    spec = ClusterSpec(racks=1, workers_per_rack=1)
    redis = RedisEndpoint(host="127.0.0.1", port=1, password="nobody-listens")

    def __init__(self, broker: Any, run_directory: Path) -> None:
        self.kafka, self.run_directory = broker, run_directory
        self.dead: set[str] = set()
        self.felt = threading.Event()
        """The engine has met the failure, and its output shows it."""

    def nodes(self) -> Sequence[Node]:
        return [NODE]

    clock_limit_s = None

    def clocks(self) -> Mapping[str, Sample]:
        return {NODE.name: SAME}

    def usage(self) -> Mapping[str, Usage]:
        return {NODE.name: used(0.0)}

    def breakable(self) -> tuple[str, ...]:
        return ()

    def capabilities(self) -> frozenset[Action]:
        return frozenset({Action.KILL, Action.RESTART})

    def driver_environment(self) -> dict[str, str]:
        return dict(os.environ)

    def health(self) -> None:
        """Return at once: it cannot be ill."""

    def scratch(self, name: str) -> Path:
        return make_place(self.run_directory / "scratch", name)

    def restore(self, report: Any) -> None:
        self.dead.clear()

    def start(self, report: Any) -> None:
        """Do nothing: its broker runs."""

    def tidy(self) -> None:
        """Leave nothing behind."""

    def stop(self) -> None:
        """Do nothing: its broker continues."""

    def prepare(self, action: Action, target: str) -> Prepared:
        return Prepared(lambda: self.apply(action, target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        began = time.time()
        processes = self.carry_out(action, target)
        return [
            Victim(
                node=target,
                reached=True,
                processes=processes,
                began_unix_s=began,
                at_unix_s=time.time(),
            )
        ]

    def carry_out(self, action: Action, target: str) -> tuple[int, ...]:
        """Carry out an action; return the pids of its processes."""
        if action is Action.KILL:
            self.felt.clear()
            self.dead.add(target)
        else:
            assert self.felt.wait(60), "the toy has not met the failure"
            self.dead.discard(target)
        return (4711,)


def used(cpu_s: float) -> Usage:
    """Return a usage of which only the CPU seconds matter."""
    return Usage(
        cpu_s=cpu_s, resident_bytes=1, received_bytes=None, sent_bytes=None, method="the toy's"
    )


def _consumer(client: Mapping[str, Any], work: Work) -> Consumer:
    (stream,) = work.load.streams
    consumer = Consumer({**client, "group.id": work.name, "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(stream.topic, p, 0) for p in range(stream.partitions)])
    return consumer


def _read(client: Mapping[str, Any], work: Work) -> list[tuple[bytes, int]]:
    """Return value and timestamp in ms of every record; markers are none."""
    consumer = _consumer(client, work)
    (stream,) = work.load.streams
    left = dict.fromkeys(range(stream.partitions), 0)
    for partition in left:
        place = TopicPartition(stream.topic, partition)
        left[partition] = consumer.get_watermark_offsets(place, timeout=10)[1]
    found = []
    while sum(left.values()):
        for message in consumer.consume(500, 0.1):
            left[message.partition()] -= 1
            if message.value():
                found.append((message.value(), message.timestamp()[1]))
    consumer.close()
    return found
