"""The process of the coordinator: ``python -m harness.engines.tasks.coordinator``.

It hosts a `CoordinatorMachine`, and it is a process of its own, so that its crash is survived as
in the simulator: the nodes go on, and the next life reads the registry back. It is steered by the
harness over its standard input and heard through its standard output (`harness.child`); nodes
reach it by `control`. What it hears from nodes and what it decides goes to the harness as events,
with instants of its own clock (`harness.engines.tasks.ports`)."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace
from redis.exceptions import RedisError

from harness.child import Emit, aside, orders, speaker
from harness.cluster.endpoints import RedisEndpoint, Tls
from harness.engines.tasks.control import Connection, Listener
from harness.engines.tasks.directory import (
    ConnectedNode,
    Directory,
    UnreachablePairs,
    fresh_us_of,
)
from harness.engines.tasks.job import Job
from harness.engines.tasks.operations import Operations, Running
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.ports import LIVE, Ports
from harness.engines.tasks.reports import (
    ACCEPTING,
    Busy,
    Hello,
    Lifeline,
    Malformed,
    Report,
    problem_of,
    read,
    read_heartbeat,
    read_report,
    trouble_of,
)
from harness.engines.tasks.store import READ_AGAIN, damaged
from harness.engines.tasks.wire import contexts
from harness.errors import UsageError
from harness.hosting.codec import CorruptData, decode, encode, to_parts
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.machine import SWEEP, CoordinatorMachine
from harness.protocol.coordinator.placement import Placement, Planned, Spread

REPLICA_AFTER_S = 0.1
"""Shortest time from a loss to the order of a new replica: opening its input takes processor time
from the copies that take over, and nobody waits for it."""
LONGEST_BUSY_US = 60_000_000
"""Time for which a node may compute without a heartbeat; a loop that never ends counts as dead."""
STORE_WITHIN_US = 15_000_000
"""Time after which a request to the store counts as lost; its client gives up before."""


class Deciding:
    """The machine of one pass, and its host."""

    def __init__(
        self,
        job: Job,
        redis: RedisEndpoint,
        members: Mapping[int, ConnectedNode],
        emit: Emit,
        ports: Ports = LIVE,
    ) -> None:
        self.job = job
        self._members, self._emit = members, emit
        self.directory = Directory(job.run, members)
        self._store = ports.store(redis, job.run)
        self._store.refused = lambda failure: emit(problem_of(failure.what, failure.remedy))
        self._requests = Operations()
        self._loop = asyncio.get_running_loop()
        self._running = Running()
        self._over = False
        self._published: dict[int, int] = {}
        self._lost_us = 0
        """When a primary was given up last."""
        self.awake_us = -(1 << 62)
        """When this process last went on after it was stopped."""
        self.machine = CoordinatorMachine(
            wiring=job.wiring,
            scheme=job.scheme,
            nodes=job.nodes,
            placement=_strategy(job),
            owner=secrets.randbits(53),
        )

    def start(self) -> None:
        self._perform(self.machine.start(now=now_us()))

    async def stop(self, *, clear: bool) -> None:
        """Decide nothing more; ``clear`` deletes the pass's checkpoints and registry."""
        self._over = True
        self._running.cancel()
        if clear:
            with suppress(RedisError, OSError):  # a server that is gone has nothing to clear
                await self._store.clear()
        await self._store.close()

    def tell(self, item: told.CoordinatorInput) -> None:
        """Hand an input to the machine and carry out its effects, while the pass lasts."""
        if not self._over:
            self._perform(self.machine.handle(item, now=now_us()))

    def heard(self, member: ConnectedNode, heartbeat: told.HeartbeatReceived) -> None:
        """Note from a heartbeat what its node hosts and has published."""
        member.last = heartbeat
        self.directory.reported(member, frozenset(copy.task for copy in heartbeat.copies))
        for copy in heartbeat.copies:
            if copy.published > self._published.get(copy.task, 0):
                self._published[copy.task] = copy.published
                self._emit({"event": "published", "task": copy.task, "below": copy.published})
        self._after_the_way(member, heartbeat)

    def busy(self, member: ConnectedNode, busy_us: int) -> None:
        """Repeat the last heartbeat of a node whose process lives and computes, up to a limit."""
        if member.last is not None and busy_us < LONGEST_BUSY_US:
            again = replace(member.last, cause=f"busy for {busy_us} µs", gone=())
            self._after_the_way(member, again)

    def lost(self, member: ConnectedNode) -> None:
        """Handle the end of a node's connection."""
        if self.job.by_connection:
            cause = f"the connection of node {member.number} was closed"
            gone = told.NodeDisconnected(cause=cause, node=member.number, boot=member.boot)
            self._after_the_way(member, gone)

    def _after_the_way(self, member: ConnectedNode, item: told.CoordinatorInput) -> None:
        """Handle a node's message, after the delay of its link."""
        delay = self.job.links.delay_us(member.number, -1)
        if delay:
            self._loop.call_later(delay / 1e6, self.tell, item)
        else:
            self.tell(item)

    def _perform(self, effects: Sequence[do.Effect]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)

    def _set_timer(self, effect: do.SetTimer) -> None:
        left, heartbeat_us = effect.at - now_us(), self.job.scheme.heartbeat_us
        if left > 0:
            self._loop.call_later(left / 1e6, self._set_timer, effect)
        elif effect.key == SWEEP and -left > heartbeat_us:
            # This process was stopped: what nodes have said meanwhile is heard before anybody
            # counts as silent.
            self.awake_us = now_us()
            self._loop.call_later(heartbeat_us / 1e6, self._fire, effect)
        else:
            self._fire(effect)

    def _fire(self, effect: do.SetTimer) -> None:
        self.tell(told.TimerFired(cause=effect.cause, key=effect.key))

    def _send_order(self, effect: do.SendOrder) -> None:
        order, left = effect.order, self._lost_us + round(REPLICA_AFTER_S * 1e6) - now_us()
        if isinstance(order, told.CopyOrdered) and order.term is None and left > 0:
            self._loop.call_later(left / 1e6, self._deliver, effect)
        else:
            self._deliver(effect)

    def _deliver(self, effect: do.SendOrder) -> None:
        """Send an order, possibly late: the node sees by its numbers if it is still valid."""
        member = self._members.get(effect.node)
        if member is not None:
            member.connection.send({"order": to_parts(effect.order)[0].decode()})

    def _send(self, effect: do.Send) -> None:
        """Send to the nodes that last reported a copy of the task.

        The incarnation is in the message, and the node drops messages for another one."""
        head = to_parts(effect.message)[0].decode()
        for member in self.directory.hosts_of(effect.to):
            member.connection.send({"to": head})

    def _note(self, effect: do.NoteCopy) -> None:
        if effect.event is do.CopyEvent.LOST:
            self._lost_us = now_us()
        note = {"note": to_parts(effect)[0].decode(), "shift_us": 0}
        self._emit({"event": "note", "node": -1, **note})

    def _store_registry(self, effect: do.StoreRegistry) -> None:
        self._ask("store the registry", effect.version, lambda: self._put(effect))

    async def _put(self, effect: do.StoreRegistry) -> None:
        higher = await self._store.put_registry(
            effect.term, effect.version, encode(effect.registry)
        )
        if higher is None:
            self.tell(told.RegistryStored(cause=effect.cause, version=effect.version))
        else:
            self.tell(told.RegistryRefused(cause=effect.cause, term=higher))

    def _load_registry(self, effect: do.LoadRegistry) -> None:
        self._ask("load the registry", effect.owner, lambda: self._get(effect))

    async def _get(self, effect: do.LoadRegistry) -> None:
        term, found = await self._store.take_registry(effect.owner)
        registry = None if found is None else decode(found)
        self.tell(told.RegistryLoaded(cause=effect.cause, term=term, registry=registry))

    def _step_down(self, effect: do.StepDown) -> None:
        """Another coordinator decides for this pass."""
        self._over = True
        self._emit({"event": "deposed", "term": effect.term})

    def _end_run(self, effect: do.EndRun) -> None:
        """End the run: a batch fails on every copy, and the harness raises its error."""
        self._over = True
        remedy = "mend the workload's operator: it raises for this batch on every node"
        self._emit(problem_of(effect.reason, remedy))

    def _forget(self, effect: do.ForgetCheckpoints) -> None:
        tasks = len(self.job.wiring.names)
        self._ask(
            "forget checkpoints", effect.below, lambda: self._store.forget(tasks, effect.below)
        )

    def _ask(self, kind: str, what: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Send a request to the store, unless the same one is under way.

        After an error the machine's next request of its kind counts."""
        key = kind, 0, 0
        operation = self._requests.start(key, what, now_us(), timeout_us=STORE_WITHIN_US)
        if operation is None:
            return

        async def guarded() -> None:
            try:
                await work()
            except (RedisError, OSError, CorruptData) as error:
                self._requests.failed(key, operation, now_us())
                self._emit(trouble_of(-1, f"Redis, {kind}", str(error)))
                if isinstance(error, CorruptData) and operation.attempts >= READ_AGAIN:
                    problem = damaged("the coordinator's registry", error)
                    self._emit(problem_of(problem.what, problem.remedy))
            else:
                self._requests.done(key, operation)

        self._running.start(guarded())


def _strategy(job: Job) -> Placement:
    """Return the placement strategy of the job, by load without one."""
    spread = Spread(job.placement)
    planned = {task: node for task, node in enumerate(job.replicas_at) if node >= 0}
    return Planned(replicas=planned, otherwise=spread) if planned else spread


_PERFORMERS: dict[type, Callable[[Deciding, Any], None]] = {
    do.SetTimer: Deciding._set_timer,
    do.SendOrder: Deciding._send_order,
    do.Send: Deciding._send,
    do.NoteCopy: Deciding._note,
    do.StoreRegistry: Deciding._store_registry,
    do.LoadRegistry: Deciding._load_registry,
    do.StepDown: Deciding._step_down,
    do.EndRun: Deciding._end_run,
    do.ForgetCheckpoints: Deciding._forget,
}


class CoordinatorProcess:
    """Connections of nodes on one side, orders of the harness on the other."""

    decides: type[Deciding] = Deciding

    def __init__(self, configuration: Mapping[str, Any], emit: Emit, ports: Ports = LIVE) -> None:
        self._emit, self._ports = emit, ports
        self._redis = msgspec.convert(configuration["redis"], RedisEndpoint)
        host, self._port = configuration["listen"]
        tls, _ = contexts(msgspec.convert(configuration["tls"], Tls | None))
        self._listener = Listener(
            bytes.fromhex(configuration["secret"]), self._serve, host=host, tls=tls
        )
        self._members: dict[int, ConnectedNode] = {}
        self._places = itertools.count()
        self._deciding: Deciding | None = None
        self._unreachable = UnreachablePairs()
        self._leaving = False
        self._left_us: dict[int, int] = {}
        """Node to when its last process ended."""

    async def run(self, commands: asyncio.Queue[dict[str, Any] | None]) -> None:
        """Carry out the harness's orders until there are no more."""
        port = await self._listener.start(self._port)
        self._emit({"event": "listening", "port": port})
        while (command := await commands.get()) is not None:
            match command["order"]:
                case "begin":
                    await self._begin(Job.from_json(command["job"]))
                case "end":
                    await self._end()
                case "adapt":
                    self._adapt(tuple(command["replicated"]))
                case "leave":
                    self._leaving = True
                    self._to_all({"leave": True})
        self._listener.stop()

    async def _begin(self, job: Job) -> None:
        """Decide about a pass. A node may run it already, for an earlier coordinator."""
        self._deciding = self.decides(job, self._redis, self._members, self._emit, self._ports)
        directory = self._deciding.directory
        for member in self._members.values():
            member.connection.send_body(job.begin)
            directory.changed(member)
        directory.tell()
        self._deciding.start()
        self._emit({"event": "begun", "run": job.run})

    def _adapt(self, replicated: tuple[int, ...]) -> None:
        """Change the plan; after the end of a pass it is too late for that."""
        if self._deciding is not None:
            self._emit({"event": "adapted", "at_us": now_us()})
            self._deciding.tell(told.PlanAdapted(cause="rates drifted", replicated=replicated))

    async def _end(self) -> None:
        self._to_all({"end": True})
        if self._deciding is not None:
            deciding, self._deciding = self._deciding, None
            await deciding.stop(clear=True)
        self._emit({"event": "ended"})

    def _to_all(self, frame: Mapping[str, Any]) -> None:
        for member in self._members.values():
            member.connection.send(frame)

    async def _serve(self, connection: Connection) -> None:
        """Serve a connection to its end. A frame that makes no sense ends it, and nothing else."""
        try:
            hello = await connection.receive()
            if hello is not None and "lifeline" in hello:
                await self._outlive(connection, read(Lifeline, hello))
            elif hello is not None and "hello" in hello:
                await self._accompany(connection, read(Hello, hello))
        except Malformed as error:
            self._emit(trouble_of(-1, "control", str(error)))

    async def _outlive(self, connection: Connection, lifeline: Lifeline) -> None:
        """Wait until a node's lifeline ends: then the connection ends that it belongs to."""

        def member() -> ConnectedNode | None:
            found = self._members.get(lifeline.node)
            return found if found is not None and found.token == lifeline.token else None

        while (frame := await connection.receive()) is not None:
            if (node := member()) is not None and self._deciding is not None:
                self._deciding.busy(node, read(Busy, frame).busy_us)
        if (node := member()) is not None:
            node.connection.ended()

    async def _accompany(self, connection: Connection, hello: Hello) -> None:
        """Serve a node, from its first message to its end."""
        await self._stay_away(hello.node)
        member = ConnectedNode(hello, connection, self._ports.clock().shift_us(hello.clock))
        earlier = self._members.get(member.number)
        if earlier is not None and earlier.boot > member.boot:
            return  # a frozen process that went on after the end of its life
        if earlier is not None:
            earlier.connection.close()
        member.place = next(self._places) if earlier is None else earlier.place
        self._members[member.number] = member
        self._say("joined", member, process=hello.process)
        self._welcome(member, hello.running)
        try:
            while (frame := await connection.receive()) is not None:
                self._take(member, read_report(frame))
        finally:
            self._leave(member)

    def _leave(self, member: ConnectedNode) -> None:
        """Handle the end of a connection, unless the same life has another one."""
        current, left_us = self._members.get(member.number), now_us()
        if current is member:
            del self._members[member.number]
            self._left_us[member.number] = left_us
            if self._deciding is not None:
                self._deciding.directory.left(member)
        elif current is not None and current.boot == member.boot:
            return
        self._say("left", member, at_us=left_us)
        if self._deciding is not None:
            self._deciding.lost(member)

    async def _stay_away(self, node: int) -> None:
        """Keep a node waiting while a machine of the declared speed would still be starting."""
        if self._deciding is not None and node in self._left_us:
            back_us = self._left_us[node] + self._deciding.job.speed.restart_us(node)
            await asyncio.sleep(max(0, back_us - now_us()) / 1e6)

    def _welcome(self, member: ConnectedNode, running: str | None) -> None:
        if self._leaving:
            member.connection.send({"leave": True})
        elif self._deciding is not None:
            if running != self._deciding.job.run:
                member.connection.send_body(self._deciding.job.begin)
            self._deciding.directory.welcome(member)

    def _take(self, member: ConnectedNode, report: Report) -> None:
        """Act on a node's report, or pass it on to the harness."""
        deciding, now, node = self._deciding, now_us(), member.number
        if report.heartbeat is not None:
            heartbeat = read_heartbeat(report.heartbeat, node)
            if deciding is None or now - member.heard_us > fresh_us_of(deciding.job):
                member.steady_us = now
            member.heard_us = now
            if deciding is not None:
                deciding.heard(member, heartbeat)
        elif report.hosts is not None:
            member.hosting = report.hosts
            if deciding is not None:
                deciding.directory.changed(member)
        elif report.unreachable is not None:
            problem = deciding and self._unreachable.problem(
                deciding.job, report.unreachable, member, self._members,
                now_us=now, awake_us=deciding.awake_us,
            )  # fmt: skip
            if problem:
                self._emit(problem)
        elif report.trouble is not None:
            if report.trouble.where == ACCEPTING:
                member.steady_us = now  # others cannot reach it, and not for the network
            self._emit(trouble_of(node, report.trouble.where, report.trouble.what[:2000]))
        elif report.note is not None:
            shift = {"shift_us": member.shift_us}
            self._emit({"event": "note", "note": report.note, "node": node, **shift})
        elif report.problem is not None:
            given = report.problem
            usage = {"usage": True} if given.usage else {}
            self._emit(problem_of(given.what, given.remedy, node, **usage))

    def _say(self, event: str, member: ConnectedNode, **more: Any) -> None:
        self._emit(
            {"event": event, "node": member.number, "boot": member.boot, "at_us": now_us(), **more}
        )


def main() -> None:
    emit = speaker()
    lines = orders()
    configuration = next(lines)
    gc.collect()
    gc.freeze()  # a look at all that was imported would take its time from a recovery

    async def run() -> None:
        loop = asyncio.get_running_loop()
        commands: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        loop.set_exception_handler(lambda _, context: _die(emit, context.get("exception")))

        def listen() -> None:
            for line in lines:
                loop.call_soon_threadsafe(commands.put_nowait, line)
            loop.call_soon_threadsafe(commands.put_nowait, None)

        threading.Thread(target=listen, name="hear the harness", daemon=True).start()
        await CoordinatorProcess(configuration, aside(emit)).run(commands)

    try:
        asyncio.run(run())
    except Exception as error:
        _die(emit, error)


def _die(emit: Emit, error: BaseException | None) -> None:
    """Report a bug and end: the harness gives the run up, as the next one would end likewise."""
    died: dict[str, Any] = {"event": "died", "error": f"{type(error).__name__}: {error}"[:8000]}
    if isinstance(error, UsageError):
        died = {"event": "died", "error": error.what, "remedy": error.remedy}
    emit(died)
    os._exit(1)


if __name__ == "__main__":
    main()
