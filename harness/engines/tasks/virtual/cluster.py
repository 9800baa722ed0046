"""The processes of one run in virtual time: started, watched, broken and started again."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import asdict
from random import Random
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.cluster.endpoints import RedisEndpoint
from harness.engines.tasks.control import Connection
from harness.engines.tasks.coordinator import CoordinatorProcess, Deciding
from harness.engines.tasks.exchange import OF_SINK, entry_of
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.job import Job
from harness.engines.tasks.lifeline import LOOK_S
from harness.engines.tasks.node import NodeProcess
from harness.engines.tasks.ports import Clock, Ports
from harness.engines.tasks.virtual import broker as kafka
from harness.engines.tasks.virtual import server as redis
from harness.engines.tasks.virtual.breaking import COORDINATOR, FAULTS, address
from harness.engines.tasks.virtual.draw import BATCH_US, HostOptions
from harness.engines.tasks.virtual.loop import EPOCH_S, Process, Strand, running
from harness.engines.tasks.virtual.program import PLACE, SHAPES
from harness.engines.tasks.virtual.streams import VirtualStreams
from harness.hosting.codec import Encoded, from_parts
from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputReader
from harness.simulator.checkers import Bystander, InvariantBroken
from harness.simulator.faults import MAY_END, Fault
from workloads.base import Reference

PORT = 7000
OUT = "out"
PLACED_S = (0.05, 1.0)
"""Time until a process that ended on its own is started again."""
UNPROMISED = ("one-life", "convergence")
"""Invariants that need a store that keeps what it has confirmed."""
TOLD = 400
"""Events that a story ends with."""


class Watched(Hosted):
    """A pass on a node whose effects are checked before they are carried out."""

    world: ClassVar[HostWorld]

    def _perform(self, effects: Sequence[do.Effect]) -> None:
        for effect in effects:
            self.world.on_node(self.node, effect)
        super()._perform(effects)

    def tell(self, item: told.NodeInput) -> None:
        super().tell(item)
        if not self._over:
            self.world.after(self, item)


class WatchedDecisions(Deciding):
    """The coordinator's part in a pass, whose decisions are checked."""

    world: ClassVar[HostWorld]
    _item: told.CoordinatorInput | None = None

    def tell(self, item: told.CoordinatorInput) -> None:
        self._item = item
        super().tell(item)

    def _perform(self, effects: Sequence[do.Effect]) -> None:
        if self._item is not None:
            self.world.decided(self.machine.ledger.term, self._item, effects)
        super()._perform(effects)


class HostWorld:
    """All processes, and what they talk to."""

    def __init__(self, options: HostOptions, bystander: Bystander) -> None:
        self.options, self.bystander = options, bystander
        self.loop = VirtualStreams(Random(options.seed))
        self.broker, self.server = kafka.Broker(self.loop), redis.Server(self.loop)
        self.network = self.loop.network
        self.broken: InvariantBroken | None = None
        self.expected: set[str] = set()
        """Parts of the messages that may end this run."""
        self.lost_confirmed = False
        """True once the store has lost what it had confirmed."""
        self.ended = False
        """True once it has ended with that message."""
        self.story: deque[str] = deque(maxlen=TOLD)
        self.messages = 0
        """Batches that were sent from task to task."""
        self.begun: Counter[str] = Counter()
        """Faults that really began, by kind."""
        self.nodes: dict[int, Process] = {}
        self.coordinator: Process | None = None
        self.all: list[Process] = []
        self.absent: Counter[str] = Counter()
        """The faults that keep a process away."""
        self._readers = {sink: OutputReader() for sink in options.wiring.sinks}
        self.places = {(OUT, number): sink for number, sink in enumerate(options.wiring.sinks)}
        self.job = self._job()
        self._hosted = type("WatchedPass", (Watched,), {"world": self})
        decisions = type("WatchedDeciding", (WatchedDecisions,), {"world": self})
        self._node_code = type("WatchedNode", (NodeProcess,), {"hosted": self._hosted})
        self._coordinator_code = type(
            "WatchedCoordinator", (CoordinatorProcess,), {"decides": decisions}
        )
        self.loop.watch = self.check
        self.broker.appended = self._appended

    # -- starting ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything, and plan the load and the faults."""
        for source in self.options.wiring.sources:
            self._load(source)
        self.start_coordinator()
        for number in range(len(self.options.nodes)):
            self.start_node(number)
        for fault in self.options.faults:
            self.loop.outside(fault.at_us / 1e6, self._strike, fault)

    def _job(self) -> Job:
        options = self.options
        parameters = {"shape": options.topology, "memory": options.memory, "batch_us": BATCH_US}
        sources = SHAPES[options.topology].sources
        return Job(
            run="pass",
            workload=Reference(target=f"{PLACE}:workload", parameters=parameters),
            start_us=options.load.start_us,
            batch_us=BATCH_US,
            scheme=options.scheme,
            nodes=options.nodes,
            placement=options.placement,
            topic_of={f"o{number}": f"in-{number}" for number in sources},
            out_topic=OUT,
            out_partitions=len(options.wiring.sinks),
            by_connection=options.closes_connections,
        )

    def _redis(self) -> Mapping[str, Any]:
        replicas = self.options.store_replicas
        return asdict(RedisEndpoint(host=redis.HOST, port=6379, replicas=replicas))

    def _load(self, source: int) -> None:
        """Append a partition's records in their time, or as soon as the broker is there."""
        topic, partition = self.job.source(source)
        waiting = deque(self.options.load.records(source, self.options.batches))
        end = self.options.load.start_us + self.options.batches * BATCH_US
        waiting.append((end // 1000, bytes(8)))  # which completes the last batch

        def append() -> None:
            while waiting and waiting[0][0] <= self.broker.wall_ms():
                if self.broker.away or self.broker.silent or self.broker.full:
                    self.loop.outside(self.loop.now + 0.05, append)
                    return
                time_ms, value = waiting.popleft()
                self.broker.append((topic, partition), value, time_ms=time_ms)
            if waiting:
                self.loop.outside(waiting[0][0] / 1000 - EPOCH_S + 0.000_1, append)

        append()

    def _ports(self) -> Ports:
        return Ports(
            store=redis.client(self.server),
            log=kafka.VirtualLog(self.broker),
            hold=self._hold,
            process=lambda: {"pid": 0},
            clock=self._clock,
        )

    def _clock(self) -> Clock:
        """Return the clock of the running process's machine."""
        ahead_us = self.loop.wall_us() - self.loop.monotonic_us()
        return Clock(machine=running().host, ahead_us=ahead_us)

    def _hold(self, connection: Connection, words: Callable[[], bytes | None]) -> bool:
        """Keep a lifeline, and look at the heartbeat in a strand of its own."""
        end = connection.duplicate().hold()
        process = end.process
        context = Strand(process).context()

        def look() -> None:
            if end.gone or end.ended or process.dead:
                end.released()
                return
            said = words()
            if said is not None and end.room >= len(said):
                end.take(said)
            self.loop.call_at(self.loop.now + LOOK_S, look, context=context)

        self.loop.call_at(self.loop.now + LOOK_S, look, context=context)
        return True

    def start_coordinator(self) -> None:
        """Start another life of the coordinator."""
        process = self.coordinator = Process(self.loop, "coordinator", COORDINATOR)
        self.all.append(process)
        commands: asyncio.Queue[Any] = asyncio.Queue()
        configuration = {
            "redis": self._redis(), "listen": [COORDINATOR, PORT], "secret": _SECRET, "tls": None,
        }  # fmt: skip

        def emit(event: Mapping[str, Any]) -> None:
            if process.dead:
                return
            self._heard(event)
            if event["event"] == "listening":
                job = json.loads(json.dumps(self.job.to_json()))
                commands.put_nowait({"order": "begin", "job": job})

        async def main() -> None:
            await self._coordinator_code(configuration, emit, self._ports()).run(commands)

        self._run(process, main, self.start_coordinator)

    def start_node(self, number: int) -> None:
        """Start another life of a node."""
        process = self.nodes[number] = Process(self.loop, f"node {number}", address(number))
        self.all.append(process)
        arguments = {
            "node": number, "worker": number, "coordinator": [COORDINATOR, PORT],
            "secret": _SECRET, "kafka": {}, "redis": self._redis(), "tls": None, "run": "engine",
        }  # fmt: skip

        async def main() -> None:
            await self._node_code(arguments, self._ports()).run()

        self._run(process, main, lambda: self.start_node(number))

    def _run(self, process: Process, main: Callable[[], Any], again: Callable[[], None]) -> None:
        self.tell(f"{process.name} starts")

        def ended(task: asyncio.Task[None]) -> None:
            if process.dead or task.cancelled():
                return
            error = task.exception()
            why = "".join(traceback.format_exception(error)[-3:]) if error else "by itself"
            self.tell(f"{process.name} ends: {why}")
            self.end(process)
            wait = self.loop.dice.uniform(*PLACED_S)
            self.loop.outside(self.loop.now + wait, self._again, process, again)

        process.start(main).add_done_callback(ended, context=Context())

    def _again(self, process: Process, start: Callable[[], None]) -> None:
        """Start a process unless a fault keeps it away, which starts it then."""
        if not self.absent[process.name] and process in (*self.nodes.values(), self.coordinator):
            start()

    def end(self, process: Process) -> None:
        """Kill a process."""
        process.kill()
        self.network.died(process)

    def close(self) -> None:
        """Let go of everything."""
        for process in self.all:
            process.kill()
        for process in self.all:
            process.dispose()
        self.loop.close()

    # -- watching ------------------------------------------------------------------------------

    def tell(self, what: str) -> None:
        """Add to the story."""
        self.story.append(f"{self.loop.now:11.6f} {what}")

    def finished(self) -> bool:
        """Return True if every batch's stable output is there."""
        last = self.options.batches
        return all(reader.next_stable >= last for reader in self._readers.values())

    def check(self) -> None:
        """Raise what was wrong so far."""
        if self.broken is not None:
            raise self.broken
        if self.loop.died:
            process, error = self.loop.died[0]
            what = "".join(traceback.format_exception(error)) if error else "no exception"
            raise InvariantBroken("process", f"{process.name}: {what}"[-1500:])

    def guard(self, check: Callable[..., None], *arguments: Any, **more: Any) -> None:
        """Check something; what is wrong ends the run, not the process."""
        try:
            check(*arguments, **more)
        except InvariantBroken as broken:
            if not (self.lost_confirmed and broken.invariant in UNPROMISED):
                self.broken = self.broken or broken

    def _heard(self, event: Mapping[str, Any]) -> None:
        """Take an event of the coordinator's for the harness."""
        kind = event["event"]
        if kind == "note":
            note = from_parts(event["note"])
            if note.event is not do.CopyEvent.PROGRESSED:
                self.tell(
                    f"{event['node']}: {self.options.wiring.names[note.task]} {note.event} "
                    f"incarnation {note.incarnation} term {note.term} at {note.position} {note.why}"
                )
        elif kind == "problem" and any(part in event["what"] for part in self.expected):
            self.ended = True
        elif kind == "problem":
            self.broken = self.broken or InvariantBroken("ended", str(event["what"])[-1500:])
        else:
            self.tell(" ".join(f"{name}={value}" for name, value in event.items())[:300])

    def on_node(self, node: int, effect: do.Effect) -> None:
        """Check an effect of a node's machine."""
        if isinstance(effect, do.ProcessBatch):
            inputs = tuple(_bare(part) for part in effect.inputs)
            self.guard(self.bystander.processing, node, replace(effect, inputs=inputs))
        elif isinstance(effect, do.Send):
            message = effect.message
            if isinstance(message, told.BatchArrived):
                self.messages += 1
                message = replace(message, payload=_bare(message.payload))
                self.guard(self.bystander.sent, replace(effect, message=message))
        elif isinstance(effect, do.NoteCopy):
            noted = Noted(at_us=round(self.loop.now * 1e6), node=node, note=effect)
            self.guard(self.bystander.noted, noted)

    def after(self, hosted: Hosted, item: told.NodeInput) -> None:
        """Check the copies that have handled an input."""
        task = getattr(item, "task", None)
        for copy in hosted.machine.copies_of(task) if task is not None else ():
            copy.validate()
            self.guard(self.bystander.handled, hosted.node, copy)

    def decided(self, term: int, item: told.CoordinatorInput, effects: Sequence[do.Effect]) -> None:
        """Check the decisions of a coordinator."""
        self.guard(self.bystander.decided, item, effects, newest=True, term=term)

    def _appended(self, place: kafka.Place, record: kafka.Record) -> None:
        """Read the out topic by the rules of every reader."""
        sink = self.places.get(place)
        if sink is None:
            return
        entry = entry_of(record, sink)  # it is like a message
        if entry is None:
            raise InvariantBroken("readable", f"{OF_SINK} of a record in {place} is not {sink}")
        reader = self._readers[sink]
        found = [replace(one, payload=_bare(one.payload)) for one in reader.accept(entry)]
        if reader.repeated:
            raise InvariantBroken("stable-once", f"{record.at} of {place} repeats stable output")
        self.guard(self.bystander.published, sink, round(self.loop.now * 1e6), found)

    # -- faults --------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        """Begin a fault, and plan its end."""
        self.begun[str(fault.kind)] += 1
        self.tell(f"fault: {fault}")
        if fault.kind in MAY_END:
            self.expected.add(MAY_END[fault.kind])
        heal = FAULTS[fault.kind](self, fault)
        if heal is not None:
            for_s = (fault.until_us - fault.at_us) / 1e6
            self.loop.outside(self.loop.now + for_s, self._heal, fault, heal)

    def _heal(self, fault: Fault, heal: Callable[[], None]) -> None:
        self.tell(f"healed: {fault.kind}")
        heal()
        self.broker.wake_all()


_SECRET = "00" * 32


def _bare(part: Any) -> Any:
    return part.value if isinstance(part, Encoded) else part
