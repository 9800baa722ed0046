"""One minute of accident detection by Storm's own rules, in virtual time (edge, section V).

The paper measured a prototype in Storm, whose tasks do not wait for each other. So its figures of
latency, success and throughput come from this model and not from the protocol of this repository:

* Sources emit packets of tuples, each to all copies of its filter; these send to all copies of both
  aggregators. The first copy of a packet counts.
* An executor computes one packet at a time, on any free core of its node (2, 8 or 16).
* Ackers track every packet. One that is not complete within 5 s is emitted again by its source,
  until the end. It is complete when each copy of its aggregator that it was sent to has taken it.
* An aggregator advances its watermark every second, to the newest time that it has seen less the
  lag of 1 s, gives out each window whose end has passed, and drops what is older than that.
* What a dead node has received is gone. Its executors start again elsewhere when the heartbeats
  were missed and the worker is up.
* A tuple has failed if it is in no result after the additional thirty seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pandas as pd

from experiments.edge._deployment import AGGREGATORS, GATEWAYS, MASTER, Deployment, deploy
from experiments.edge._runs import (
    CHECKPOINT_S,
    DRAIN_S,
    FAILURE_S,
    HEARTBEAT_TIMEOUT_S,
    INPUT_S,
    LAG_S,
    STRIKES_AFTER_S,
    TIMEOUT_S,
    Setting,
    nearest,
    weighted,
)
from harness.experiment import Context, Point
from harness.planning.schedulers import STORE, acker, replica_of
from harness.planning.tiers import paper_network
from harness.seeds import generator

PACKET_S = 0.2
"""Tuples of a source travel together if they are emitted within this time."""
WINDOW_S = WATERMARK_EVERY_S = 1.0
"""The paper's window; Storm's default interval of watermarks."""
WORKER_START_S = 4.0
"""Start of a worker, chosen: with the heartbeats' 5 s and the lag it makes the printed "about 10
seconds"."""
END_S = INPUT_S + DRAIN_S
GOES_ON_S = 4
"""The stream goes on for so long after the minute, or its last windows would never end. These
tuples are not counted."""
TUPLE_BYTES, ACK_BYTES = 100, 20
SOURCE_S, FILTER_S, AGGREGATE_S, RESULT_S = 0.0018, 0.0008, 0.0002, 0.01
"""Processor time of a tuple, as declared (`_deployment.application`), and of a result at the
sink."""
RESTARTED = "restarted worker"


@dataclass(slots=True)
class _Node:
    """A machine with its cores; dead between two times."""

    cores: list[float]
    """Time at which each core is free."""
    dies_s: float = float("inf")

    def lives(self, at_s: float) -> bool:
        return at_s < self.dies_s


@dataclass(slots=True)
class _Copy:
    """An executor: a primary or a replica of a task."""

    node: str
    free_s: float = 0.0
    taken: set[int] = field(default_factory=set)
    """Packets that it has had."""
    newest_s: float = -1.0
    watermark_s: float = -1.0
    windows: dict[int, list[int]] = field(default_factory=dict)
    """Window to packets, in an aggregator."""


@dataclass(slots=True)
class _Packet:
    """Tuples of one source for one aggregator."""

    source: int
    aggregator: int
    emitted_s: float
    tuples: float
    attempt: int = 0
    awaits: set[int] = field(default_factory=set)
    """Copies of the aggregator (0 primary, 1 replica) that must still take it."""
    complete_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What comes out at the sink, and what the ackers saw."""

    tuples: pd.DataFrame
    """A row per piece of a result: ``sent_s``, ``at_s``, ``tuples`` that were in none before."""
    complete: pd.DataFrame
    """The same by the time at which all copies had taken the tuples."""
    offered: float
    carried_bytes: float
    """The bytes between nodes: tuples, acknowledgements, results and checkpoints of windows."""
    deployment: Deployment

    def throughput(self) -> pd.Series:
        """Return tuples per second at the sink, by whole second."""
        second = np.floor(self.tuples["at_s"]).astype(int)
        found = self.tuples["tuples"].groupby(second).sum()
        return found.reindex(range(END_S), fill_value=0)

    def success(self) -> float:
        """Return the share of the tuples that are in a result."""
        return float(self.tuples["tuples"].sum() / self.offered)

    def latencies(
        self, begin_s: float = 0, end_s: float = INPUT_S, *, complete: bool = False
    ) -> tuple[float, float, float]:
        """Return mean, 5th and 95th percentile of the seconds from emission to result.

        Tuples that are in no result do not count. ``complete``: to the last acknowledgement."""
        rows = self.complete if complete else self.tuples
        chosen = rows[(rows["sent_s"] >= begin_s) & (rows["sent_s"] < end_s)]
        return weighted(chosen["at_s"] - chosen["sent_s"], chosen["tuples"])


class _Run:
    """The events of one run, in the order of time."""

    def __init__(self, setting: Setting) -> None:
        self.deployment = deploy(setting.mechanism, setting.rate)
        self.setting = setting
        printed = {node.name: node for node in paper_network().nodes}
        self.nodes = {name: _Node([0.0] * round(node.capacity)) for name, node in printed.items()}
        self.nodes[RESTARTED] = _Node([0.0] * round(printed["mdc0"].capacity))
        where = self.deployment.placement
        self.copies: dict[str, list[_Copy]] = {}
        for task in self.deployment.tasks:
            places = [where[task.name]]
            if task.name in self.deployment.replicated:
                places.append(where[replica_of(task.name)])
            self.copies[task.name] = [_Copy(place) for place in places]
        self.store = where[STORE]
        self.ackers = [where[acker(number)] for number in range(self.deployment.ackers)]
        names = [node.name for node in self.deployment.network.nodes]
        self.restarted_at = names[nearest(self.deployment, self.deployment.node("aggregate0"))]
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self.packets: list[_Packet] = []
        self._delivered: set[int] = set()
        self.results: list[tuple[float, float, float]] = []
        self.carried_bytes = 0.0

    # -- time and places -------------------------------------------------------------------

    def at(self, when_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Schedule an event."""
        self._count += 1
        heappush(self._queue, (when_s, self._count, act, arguments))

    def sent_s(self, one: str, other: str, size: float) -> float:
        """Return the time of a message of so many bytes between two nodes, and count it."""
        one, other = (self.restarted_at if name == RESTARTED else name for name in (one, other))
        if one == other:
            return 0.0
        network = self.deployment.network
        self.carried_bytes += size
        return network.latency_s(one, other) + size / network.bandwidth(one, other)

    def compute(self, now: float, copy: _Copy, seconds: float) -> float:
        """Return when a copy has done some work, on the first core that is free."""
        cores = self.nodes[copy.node].cores
        core = min(range(len(cores)), key=cores.__getitem__)
        copy.free_s = cores[core] = max(now, copy.free_s, cores[core]) + seconds
        return copy.free_s

    # -- the way of a packet ---------------------------------------------------------------

    def emit(self, now: float, number: int) -> None:
        """Let a source emit a packet, for the first time or again."""
        packet = self.packets[number]
        (source,) = self.copies[f"source{packet.source}"]
        packet.attempt += 1
        packet.awaits = set(range(len(self.copies[f"aggregate{packet.aggregator}"])))
        sent = self.compute(now, source, SOURCE_S * packet.tuples)
        for index, copy in enumerate(self.copies[f"filter{packet.source}"]):
            arrives = sent + self.sent_s(source.node, copy.node, packet.tuples * TUPLE_BYTES)
            self.at(arrives, self.filter, number, index)
        if now + TIMEOUT_S < END_S:
            self.at(now + TIMEOUT_S, self.expire, number, packet.attempt)

    def filter(self, now: float, number: int, index: int) -> None:
        """Let a copy of a filter pass a packet on to all copies of its aggregator."""
        packet = self.packets[number]
        copy = self.copies[f"filter{packet.source}"][index]
        if not self.nodes[copy.node].lives(now):
            return
        sent = self.compute(now, copy, FILTER_S * packet.tuples)
        arrives: dict[str, float] = {}  # once to a node, for all executors there
        for target, other in enumerate(self.copies[f"aggregate{packet.aggregator}"]):
            if other.node not in arrives:
                size = packet.tuples * TUPLE_BYTES
                arrives[other.node] = sent + self.sent_s(copy.node, other.node, size)
            self.at(arrives[other.node], self.take, number, target)

    def take(self, now: float, number: int, target: int) -> None:
        """Let a copy of an aggregator take a packet, unless it is a duplicate or late."""
        packet = self.packets[number]
        copy = self.copies[f"aggregate{packet.aggregator}"][target]
        if not self.nodes[copy.node].lives(now):
            return
        done = now
        if number not in copy.taken:
            copy.taken.add(number)
            copy.newest_s = max(copy.newest_s, packet.emitted_s)
            done = self.compute(now, copy, AGGREGATE_S * packet.tuples)
            if packet.emitted_s >= copy.watermark_s:
                copy.windows.setdefault(int(packet.emitted_s // WINDOW_S), []).append(number)
        tracker = self.ackers[packet.source % len(self.ackers)]
        arrives = done + self.sent_s(copy.node, tracker, packet.tuples * ACK_BYTES)
        self.at(arrives, self.acknowledge, number, target)

    def acknowledge(self, now: float, number: int, target: int) -> None:
        """Let the acker, if it lives, note that a copy has taken a packet."""
        packet = self.packets[number]
        if self.nodes[self.ackers[packet.source % len(self.ackers)]].lives(now):
            packet.awaits.discard(target)
            if not packet.awaits and packet.complete_s is None:
                packet.complete_s = now

    def expire(self, now: float, number: int, attempt: int) -> None:
        """Replay a packet that is not complete within the timeout."""
        packet = self.packets[number]
        if packet.complete_s is None and packet.attempt == attempt:
            self.emit(now, number)

    # -- windows and results ---------------------------------------------------------------

    def advance(self, now: float, aggregator: int, target: int, copy: _Copy) -> None:
        """Advance a watermark and send the results of the windows that it has passed."""
        if self.copies[f"aggregate{aggregator}"][target] is not copy:
            return  # it was started again elsewhere
        if not self.nodes[copy.node].lives(now):
            return
        copy.watermark_s = max(copy.watermark_s, copy.newest_s - LAG_S)
        if target == 0 and int(now) % CHECKPOINT_S == 0:
            kept = sum(self.packets[n].tuples for each in copy.windows.values() for n in each)
            self.sent_s(copy.node, self.store, kept * TUPLE_BYTES)
        for window in sorted(copy.windows):
            if (window + 1) * WINDOW_S <= copy.watermark_s:
                arrives = now + self.sent_s(copy.node, MASTER, TUPLE_BYTES)
                self.at(arrives, self.write, copy.windows.pop(window))
        self.at(now + WATERMARK_EVERY_S, self.advance, aggregator, target, copy)

    def write(self, now: float, numbers: list[int]) -> None:
        """Let the sink write a result, and count the tuples that were in none before."""
        (sink,) = self.copies["sink"]
        done = self.compute(now, sink, RESULT_S)
        for number in numbers:
            if number not in self._delivered and done < END_S:
                self._delivered.add(number)
                packet = self.packets[number]
                if packet.emitted_s >= INPUT_S:
                    continue
                self.results.append((packet.emitted_s, done, packet.tuples))

    # -- the failure -----------------------------------------------------------------------

    def strike(self, now: float) -> None:
        """Kill the node of the first aggregator."""
        dead = self.deployment.placement["aggregate0"]
        self.nodes[dead].dies_s = now
        self.at(now + HEARTBEAT_TIMEOUT_S + WORKER_START_S, self.restart, dead)

    def restart(self, now: float, dead: str) -> None:
        """Start the executors of the dead node again, as a checkpoint of old windows has them."""
        for name, copies in self.copies.items():
            for target, copy in enumerate(copies):
                if copy.node == dead:
                    copies[target] = _Copy(RESTARTED, free_s=now)
                    if name.startswith("aggregate"):
                        number = int(name.removeprefix("aggregate"))
                        self.at(
                            now + WATERMARK_EVERY_S, self.advance, number, target, copies[target]
                        )
        self.ackers = [RESTARTED if node == dead else node for node in self.ackers]

    def run(self) -> None:
        """Run for the minute and the additional thirty seconds."""
        for step in range(round((INPUT_S + GOES_ON_S) / PACKET_S)):
            for source in range(GATEWAYS):
                for aggregator in range(AGGREGATORS):
                    # gateways emit one after the other, all within the time of a packet
                    emitted_s = (step + source / GATEWAYS) * PACKET_S
                    count = self.setting.rate * PACKET_S / AGGREGATORS
                    self.packets.append(_Packet(source, aggregator, emitted_s, count))
                    self.at(emitted_s, self.emit, len(self.packets) - 1)
        phases = generator(self.setting.seed, "watermarks")
        for aggregator in range(AGGREGATORS):
            for target, copy in enumerate(self.copies[f"aggregate{aggregator}"]):
                begins_s = float(phases.uniform(0, WATERMARK_EVERY_S))
                self.at(begins_s, self.advance, aggregator, target, copy)
        if self.setting.failure:
            self.at(FAILURE_S + STRIKES_AFTER_S, self.strike)
        while self._queue and self._queue[0][0] < END_S:
            now, _, act, arguments = heappop(self._queue)
            act(now, *arguments)


@lru_cache(maxsize=64)
def measure(setting: Setting) -> Measured:
    """Run ``setting`` for `INPUT_S` and `DRAIN_S` of virtual time, and read the sink."""
    run = _Run(setting)
    run.run()
    complete = [
        (p.emitted_s, p.complete_s, p.tuples)
        for p in run.packets
        if p.complete_s is not None and p.emitted_s < INPUT_S
    ]
    columns = ["sent_s", "at_s", "tuples"]
    return Measured(
        tuples=pd.DataFrame(run.results, columns=columns),
        complete=pd.DataFrame(complete, columns=columns),
        offered=setting.rate * GATEWAYS * INPUT_S,
        carried_bytes=run.carried_bytes,
        deployment=run.deployment,
    )


def at(point: Point, context: Context, *, failure: bool) -> Measured:
    """Measure one minute of a mechanism at one rate, as a point of `_runs.grid` has them."""
    setting = Setting(
        mechanism=str(point["mechanism"]),
        rate=int(str(point["rate"])),
        failure=failure,
        seed=context.seed("watermarks"),
    )
    context.progress(setting.mechanism)
    return measure(setting)


# Shown: no record depends on what follows.

STAMP = "a model of Storm's rules, virtual time; demands and rates chosen"
NOTES = (
    "By a model of Storm's rules, not by the protocol code of the live engine: tuples are tracked "
    "by ackers and replayed after the printed 5 s, results do not wait for each other, nodes have "
    "the printed 2, 8 and 16 cores, tuples later than the printed lag of 1 s are dropped, and what "
    "is in no result after the additional thirty seconds has failed.",
    "Chosen: an executor's watermark begins at a random time within its second; a worker starts "
    "again in the nearest other datacenter within 4 s after the heartbeats' timeout of 5 s (the "
    "paper's example), so that with the lag it is back after the printed ten seconds. "
    "Not printed: what the failure is (here the node of both aggregators dies and stays away), and "
    "whether a replica's tuples are tracked (they are here). Checkpoints come every 12 s, so that "
    "the failure is in the middle of an interval; the paper names 10 s in an example.",
)
