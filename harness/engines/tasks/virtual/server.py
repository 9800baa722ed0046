"""Redis in virtual time: the engine's scripts as functions, and one process's client of them.

Tests: ``tests/engines/tasks/virtual/test_server.py``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from redis.exceptions import ConnectionError as Refused
from redis.exceptions import TimeoutError as TimedOut

from harness.cluster.endpoints import RedisEndpoint
from harness.engines.tasks.store import Found, Store, StoreFull
from harness.engines.tasks.virtual.loop import running
from harness.engines.tasks.virtual.streams import VirtualStreams, damaged
from harness.simulator import store

HOST = "10.0.0.3"
DELAY_S = (0.000_2, 0.002)
DAMAGED = 0.5
"""Share of the answers that have a wrong bit, where any have."""
ANSWER_S, CONNECT_S = 5.0, 2.0
"""Seconds after which the client gives up (``socket_timeout``, ``socket_connect_timeout``)."""
T = TypeVar("T")


class Keys(store.Store):
    """What the server holds of one run: checkpoints and the registry as bytes, and more."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[int, tuple[int, bytes]] = {}
        self.boots: Counter[int] = Counter()


@dataclass(frozen=True, slots=True)
class Done:
    """A script that has run."""

    at: float
    run: str
    script: Callable[[Keys], Any]
    waited: bool
    """True if its client waited for the replicas."""
    confirmed: bool
    """True if the engine goes on as if it could not get lost."""


class Server:
    """The server, and what is wrong with it."""

    def __init__(self, loop: VirtualStreams) -> None:
        self.loop = loop
        self.away = self.silent = self.full = self.crowded = False
        """`silent`: it answers nothing, and then carries out what came; `crowded`: it has too many
        clients."""
        self.script_s = 0.0
        """What every script takes."""
        self.loses_answers = 0.0
        self.damages = False
        """True while some of its answers have a wrong bit."""
        self.free_at = 0.0
        self.waiting: list[Callable[[], None]] = []
        """What has come while it was silent."""
        self._runs: dict[str, Keys] = {}
        self._done: list[Done] = []

    def run(self, run: str, script: Callable[[Keys], Any], *, waits: bool, matters: bool) -> Any:
        """Run a script; ``waits``: its answer waits for the replicas."""
        answer = script(self._runs.setdefault(run, Keys()))
        self._done.append(Done(self.loop.now, run, script, waits, matters))
        return answer

    def catch_up(self) -> None:
        """Work off the scripts that wait, unless the server is still slow or silent."""
        if self.silent or self.script_s:
            return
        self.free_at = min(self.free_at, self.loop.now)
        waiting, self.waiting = self.waiting, []
        for arrive in waiting:
            arrive()

    def fail_over(self, lost_s: float) -> bool:
        """Go on with a replica: it lacks the last moments, but for what was waited for.

        Returns True if that is something the engine relies on."""
        before, self._done = self._done, self._lasting(lost_s)
        self._runs = _carried_out(self._done)
        return sum(one.confirmed for one in before) > sum(one.confirmed for one in self._done)

    def rot(self) -> None:
        """Change a bit of all that is held in bytes."""
        dice = self.loop.dice
        for keys in self._runs.values():
            for kept in keys.checkpoints.values():
                for position, data in kept.items():
                    kept[position] = damaged(data, dice)
            for sink, (offset, end) in keys.ends.items():
                keys.ends[sink] = offset, damaged(end, dice)
            if keys.registry is not None:
                keys.registry = damaged(keys.registry, dice)

    def end_of(self, sink: int, lost_s: float) -> int:
        """Return the stored end of a sink's partition that a failover would leave."""
        runs = _carried_out(self._lasting(lost_s))
        return max((keys.ends[sink][0] for keys in runs.values() if sink in keys.ends), default=0)

    def _lasting(self, lost_s: float) -> list[Done]:
        until = self.loop.now - lost_s
        return [one for one in self._done if one.at <= until or one.waited]


def _carried_out(done: list[Done]) -> dict[str, Keys]:
    """Return the keys of each run that these scripts leave."""
    runs: dict[str, Keys] = {}
    for one in done:
        one.script(runs.setdefault(one.run, Keys()))
    return runs


class VirtualStore(Store):
    """A process's client."""

    def __init__(self, server: Server, run: str, replicas: int = 1) -> None:
        self._server, self._process, self._name = server, running(), run
        self._replicas = replicas

    async def put(
        self, task: int, *, term: int, position: int, checkpoint: bytes, forget_below: int = 0
    ) -> bool:
        def script(keys: Keys) -> bool:
            kept = keys.keep(task, term, position, checkpoint)
            if kept:
                keys.forget(task, forget_below)
            return kept

        return await self._ask(script, waits=True, takes_room=True)

    async def get(self, task: int, *, term: int | None, position: int | None) -> Found:
        def script(keys: Keys) -> Found:
            if not keys.fence(task, term):
                return Found(refused=True)
            return Found(checkpoint=keys.get(task, position))

        return await self._ask(script)

    async def forget(self, tasks: int, below: int) -> None:
        await self._ask(lambda keys: keys.forget(None, below))

    async def put_end(self, sink: int, offset: int, end: bytes) -> None:
        def script(keys: Keys) -> None:
            if offset > keys.ends.get(sink, (-1, b""))[0]:
                keys.ends[sink] = offset, end

        await self._ask(script)

    async def get_end(self, sink: int) -> bytes | None:
        def script(keys: Keys) -> bytes | None:
            return keys.ends[sink][1] if sink in keys.ends else None

        return await self._ask(script)

    async def take_registry(self, owner: int) -> tuple[int, bytes | None]:
        return await self._ask(lambda keys: keys.take_registry(owner), waits=True)

    async def put_registry(self, term: int, version: int, registry: bytes) -> int | None:
        return await self._ask(lambda keys: keys.put_registry(term, version, registry), waits=True)

    async def next_boot(self, node: int) -> int:
        def script(keys: Keys) -> int:
            keys.boots[node] += 1
            return keys.boots[node]

        return await self._ask(script, waits=True)

    async def clear(self) -> None:
        """Keep everything: checkers look at it."""

    async def close(self) -> None:
        """Do nothing: it holds nothing."""

    async def _ask(
        self, script: Callable[[Keys], T], *, waits: bool = False, takes_room: bool = False
    ) -> T:
        """Run a script in the server; raise an error of the client's if no answer comes."""
        server, loop, process = self._server, self._server.loop, self._process
        if server.away or server.crowded or process.no_descriptors:
            await asyncio.sleep(loop.dice.uniform(*DELAY_S))
            raise Refused("max number of clients reached" if server.crowded else "refused")
        if not loop.network.carries(process.host, HOST):
            await asyncio.sleep(CONNECT_S)
            raise TimedOut("Timeout connecting to server")
        if takes_room and server.full:
            raise StoreFull("there is no room", remedy="give it more")
        answer: asyncio.Future[Any] = loop.create_future()
        home = process.main.context()
        loop.outside(
            loop.now + loop.dice.uniform(*DELAY_S), self._arrive, script, waits, answer, home
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                found: T = await answer
        except TimeoutError:
            raise TimedOut("Timeout reading from server") from None
        return found

    def _arrive(
        self, script: Callable[[Keys], Any], waits: bool, answer: asyncio.Future[Any], home: Any
    ) -> None:
        """Carry a script out in its turn, whether or not anybody still waits for it."""
        server, loop = self._server, self._server.loop
        if server.silent:
            server.waiting.append(partial(self._arrive, script, waits, answer, home))
            return
        if server.away:
            return  # what had come is lost with the server
        server.free_at = max(server.free_at, loop.now) + server.script_s
        replicated = waits and self._replicas > 0
        found = server.run(self._name, script, waits=replicated, matters=waits)
        if loop.dice.random() < server.loses_answers:
            return
        if not loop.network.carries(HOST, self._process.host):
            return
        if server.damages and loop.dice.random() < DAMAGED:
            found = _damaged(found, loop.dice)
        at = server.free_at + loop.dice.uniform(*DELAY_S)
        loop.call_at(at, _settle, answer, found, context=home)


def _settle(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():
        answer.set_result(found)


def _damaged(answer: Any, dice: Random) -> Any:
    """Return an answer in which what it has in bytes has a wrong bit."""
    match answer:
        case bytes():
            return damaged(answer, dice)
        case (term, bytes(registry)):
            return term, damaged(registry, dice)
        case Found(checkpoint=bytes(checkpoint)):
            return Found(checkpoint=damaged(checkpoint, dice))
    return answer


def client(server: Server) -> Callable[[RedisEndpoint, str], VirtualStore]:
    """Return the store of a port: an endpoint and a run to a client."""
    return lambda endpoint, run: VirtualStore(server, run, endpoint.replicas)
