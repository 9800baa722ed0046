"""Checkpoints and the coordinator's registry in Redis, fenced by term.

Every change of a task's checkpoints is one script in the server, so that comparing the term and
writing are one step: a primary that was replaced while it was frozen is refused, whatever it
still has to say. The server holds everything in memory and is told to evict nothing
(``noeviction``): a state that it has no room for is an answer, never a checkpoint that is gone.

Every other refusal (`REMEDIES`) may pass: a failover, a disk that was full, a replica that comes
back. It is an error like an absent server, which callers repeat; one that lasts is reported
(`Store.refused`), because nothing of a run can be decided or stored any more.

========================  =======================================================================
key                       what it holds
========================  =======================================================================
``<run>:term:<task>``      the highest term that has stored or loaded as a primary
``<run>:state:<task>``     position to checkpoint
``<run>:output:<sink>``    ``offset`` and ``value``: an end of its output partition
``<run>:registry``         ``version`` and ``value``
``<run>:boots``            node to how many lives it has begun
========================  ======================================================================="""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from harness.cluster.endpoints import RedisEndpoint
from harness.errors import EnvironmentFailure, FaultlineError
from harness.hosting.codec import CorruptData

REFUSED = b"refused"
WAIT_MS = 1_000
"""Longest wait for the server's replicas, where they are asked for."""
READ_AGAIN = 5
"""How often what fails its check is loaded before the run ends."""
CHECKPOINTS_SHARE = 0.9
"""Share of the server's ``maxmemory``, if it has one."""
REFUSED_S = 60.0
"""Time for which the server may refuse every change; a failover takes up to half a minute."""
_OF_REPLICA = "let the address lead to the primary: this server has become a replica"
REMEDIES: Mapping[str, str] = {
    "READONLY": _OF_REPLICA,
    "MASTERDOWN": _OF_REPLICA,
    "NOREPLICAS": "let its replicas connect to it again, or ask for fewer (min-replicas-to-write)",
    "MISCONF": "look at its log and its disk: it takes no change while it cannot save them "
    "(stop-writes-on-bgsave-error)",
    "WRONGPASS": "look at its users and passwords: they have changed during the run",
    "NOPERM": "let its user run scripts, INFO and WAIT, and write the keys of the run",
}
"""Refusals by their code, each with what to do about it."""
_FULL = "OOM"
_CODES = re.compile(rf"\b({'|'.join([_FULL, *REMEDIES])})\b")
_TYPES = {
    OutOfMemoryError: _FULL,
    ReadOnlyError: "READONLY",
    MasterDownError: "MASTERDOWN",
    AuthenticationError: "WRONGPASS",
    NoPermissionError: "NOPERM",
}

_PUT = """
local seen = tonumber(redis.call('GET', KEYS[1]) or '-1')
if tonumber(ARGV[1]) < seen then return 'refused' end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
for _, other in ipairs(redis.call('HKEYS', KEYS[2])) do
  if tonumber(other) < tonumber(ARGV[4]) then redis.call('HDEL', KEYS[2], other) end
end
return 'kept'
"""

_GET = """
if ARGV[1] ~= '' then
  local seen = tonumber(redis.call('GET', KEYS[1]) or '-1')
  if tonumber(ARGV[1]) < seen then return 'refused' end
  redis.call('SET', KEYS[1], ARGV[1])
end
local wanted = ARGV[2]
if wanted == '' then
  local newest = -1
  for _, position in ipairs(redis.call('HKEYS', KEYS[2])) do
    newest = math.max(newest, tonumber(position))
  end
  if newest < 0 then return false end
  wanted = string.format('%d', newest)
end
local found = redis.call('HGET', KEYS[2], wanted)
if not found then return false end
return {found}
"""

_TAKE_REGISTRY = """
local term = redis.call('HGET', KEYS[2], ARGV[1])
if not term then
  term = redis.call('HLEN', KEYS[2]) + 1
  redis.call('HSET', KEYS[2], ARGV[1], term)
end
return {tonumber(term), redis.call('HGET', KEYS[1], 'value')}
"""

_PUT_REGISTRY = """
local highest = redis.call('HLEN', KEYS[2])
if tonumber(ARGV[1]) < highest then return highest end
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1')
if tonumber(ARGV[2]) > version then
  redis.call('HSET', KEYS[1], 'version', ARGV[2], 'value', ARGV[3])
end
return 0
"""

_ROOM = """
local memory = redis.call('INFO', 'memory')
return {memory:match('used_memory:(%d+)'), memory:match('maxmemory:(%d+)')}
"""
"""Two numbers of many: a client that asks for all takes longer to read them than to store."""

_FORGET = """
for _, key in ipairs(KEYS) do
  for _, position in ipairs(redis.call('HKEYS', key)) do
    if tonumber(position) < tonumber(ARGV[1]) then redis.call('HDEL', key, position) end
  end
end
return true
"""


_NEXT_BOOT = "return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)"

_PUT_END = """
local offset = tonumber(redis.call('HGET', KEYS[1], 'offset') or '-1')
if tonumber(ARGV[1]) > offset then
  redis.call('HSET', KEYS[1], 'offset', ARGV[1], 'value', ARGV[2])
end
return true
"""


class TooFewReplicas(ResponseError):
    """A write is not where a failover would find it."""


class StoreFull(FaultlineError):
    """The store takes no more: a state is too large for it."""


def damaged(what: str, error: CorruptData) -> EnvironmentFailure:
    """Return the error that ends a run for something that was stored and cannot be read."""
    return EnvironmentFailure(
        f"{what} in Redis is damaged: {error.what}",
        remedy="look at the memory and the disk of its machine, and who else writes to it",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer to a loading primary or replica."""

    refused: bool = False
    """A primary with a higher term exists."""
    checkpoint: bytes | None = None
    """None when the task has never stored one."""


class Store:
    """A client of one run's keys. Raises `RedisError` while the server is away."""

    def __init__(self, endpoint: RedisEndpoint, run: str) -> None:
        """``run`` keeps the keys of runs that share a server apart."""
        self._run, self._replicas = run, endpoint.replicas
        self._name = f"Redis at {endpoint.host}:{endpoint.port}"
        self.refused: Callable[[EnvironmentFailure], None] = _give_up
        """Called once when the server has refused every change for `REFUSED_S`."""
        self._refused_since: float | None = None
        self._redis: Any = aioredis.Redis(
            **endpoint.parameters(),
            socket_timeout=5,
            socket_connect_timeout=2,
            # Once, for a connection that the server has closed. The protocol asks again itself.
            retry=Retry(NoBackoff(), 1),
        )
        self._put = self._redis.register_script(_PUT)
        self._get = self._redis.register_script(_GET)
        self._registry_keys = [f"{run}:registry", f"{run}:coordinators"]
        self._take_registry = self._redis.register_script(_TAKE_REGISTRY)
        self._put_registry = self._redis.register_script(_PUT_REGISTRY)
        self._room = self._redis.register_script(_ROOM)
        self._forget = self._redis.register_script(_FORGET)
        self._put_end = self._redis.register_script(_PUT_END)
        self._next_boot = self._redis.register_script(_NEXT_BOOT)

    async def put(
        self, task: int, *, term: int, position: int, checkpoint: bytes, forget_below: int = 0
    ) -> bool:
        """Keep a checkpoint, and drop those of the task before position ``forget_below``.

        Returns False if a primary with a higher term exists. Raises `StoreFull` when the server has
        no room for it."""
        arguments = [term, position, checkpoint, forget_below]
        try:
            await self._demand_room(len(checkpoint))
            answer = await self._write(self._put, self._keys(task), arguments)
        except ResponseError as error:
            if code_of(error) != _FULL:
                raise
            raise StoreFull(
                f"Redis did not take the checkpoint of task {task} at batch {position}, "
                f"{len(checkpoint) / 1e6:,.1f} MB: {error}",
                remedy="give it more memory (maxmemory), or the task less state: a shorter "
                "window, or more tasks",
            ) from error
        return bool(answer != REFUSED)

    async def _write(self, script: Any, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script, and wait until the replicas have what it wrote.

        Raises `TooFewReplicas`; the write is there nevertheless, and may be repeated."""
        return await self._answer(self._write_once(script, keys, arguments))

    async def _write_once(self, script: Any, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        if not self._replicas:
            return await script(keys=keys, args=arguments)
        # One connection: the server waits for the writes of the connection that asks.
        async with self._redis.pipeline(transaction=False) as pipe:
            await script(keys=keys, args=arguments, client=pipe)
            pipe.execute_command("WAIT", self._replicas, WAIT_MS)
            answer, have = await pipe.execute()
        if int(have) < self._replicas:
            raise TooFewReplicas(
                f"NOREPLICAS {have} of {self._replicas} replicas of Redis had a write within "
                f"{WAIT_MS} ms"
            )
        return answer

    async def _answer(self, asked: Awaitable[Any], *, changes: bool = True) -> Any:
        """Return the server's answer, and note since when it refuses all that ``changes`` keys."""
        try:
            answer = await asked
        except (ResponseError, AuthenticationError) as error:
            await self._note_refusal(error)
            raise
        if changes:
            self._refused_since = None
        return answer

    async def _note_refusal(self, error: RedisError) -> None:
        code, now = code_of(error), asyncio.get_running_loop().time()
        if code == _FULL:
            return  # there is less to store later, and checkpoints leave room for the rest
        if REMEDIES.get(code) is _OF_REPLICA:
            # The next attempt resolves the address anew, and may find another server.
            await self._redis.connection_pool.disconnect(inuse_connections=False)
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= REFUSED_S:
            self.refused(
                EnvironmentFailure(
                    f"{self._name} has refused every change for {REFUSED_S:g} s: {error}",
                    remedy=REMEDIES.get(code, "look at its log and its settings"),
                )
            )
            self._refused_since = None

    async def _demand_room(self, size: int) -> None:
        """Raise `OutOfMemoryError` if checkpoints would leave no room for the rest.

        The registry and the nodes' boots need some memory: without them no dead node could come
        back."""
        used, limit = map(int, await self._answer(self._room(), changes=False))
        if limit and used + size > CHECKPOINTS_SHARE * limit:
            raise OutOfMemoryError(
                f"{used / 1e6:,.1f} MB of {limit / 1e6:,.1f} MB are in use, and checkpoints get "
                f"{CHECKPOINTS_SHARE:.0%}"
            )

    async def get(self, task: int, *, term: int | None, position: int | None) -> Found:
        """Return the checkpoint at ``position``, or the newest.

        With a ``term`` (a primary loads) lower terms are refused from now on."""
        arguments = ["" if given is None else given for given in (term, position)]
        asked = self._get(keys=self._keys(task), args=arguments)
        answer = await self._answer(asked, changes=term is not None)
        if answer == REFUSED:
            return Found(refused=True)
        return Found(checkpoint=answer[0] if answer else None)

    async def forget(self, tasks: int, below: int) -> None:
        """Drop the checkpoints of tasks 0 to ``tasks`` - 1 that a complete epoch has replaced."""
        keys = [self._keys(task)[1] for task in range(tasks)]
        await self._answer(self._forget(keys=keys, args=[below]))

    async def put_end(self, sink: int, offset: int, end: bytes) -> None:
        """Keep an end of a sink's output partition, unless a later one is there."""
        await self._answer(self._put_end(keys=[self._end_key(sink)], args=[offset, end]))

    async def get_end(self, sink: int) -> bytes | None:
        """Return the latest end of a sink's output partition that was kept, if any."""
        asked = self._redis.hget(self._end_key(sink), "value")
        found: bytes | None = await self._answer(asked, changes=False)
        return found

    async def take_registry(self, owner: int) -> tuple[int, bytes | None]:
        """Return a term higher than all before, and the registry, None if there is none.

        An ``owner`` that has a term gets the same again."""
        term, registry = await self._write(self._take_registry, self._registry_keys, [owner])
        return int(term), registry

    async def put_registry(self, term: int, version: int, registry: bytes) -> int | None:
        """Keep a registry unless a newer one is there.

        If a higher term than ``term`` exists, nothing is kept and that term returned."""
        arguments = [term, version, registry]
        higher = await self._write(self._put_registry, self._registry_keys, arguments)
        return int(higher) or None

    async def next_boot(self, node: int) -> int:
        """Return a new boot number for a node, from 1.

        None is given twice, so that a process that counted as dead and its successor can be told
        apart."""
        return int(await self._write(self._next_boot, [f"{self._run}:boots"], [node]))

    async def clear(self) -> None:
        """Delete every key of this run."""
        keys = [key async for key in self._redis.scan_iter(match=f"{self._run}:*", count=1000)]
        if keys:
            await self._redis.delete(*keys)

    async def close(self) -> None:
        await self._redis.aclose()

    def _end_key(self, sink: int) -> str:
        return f"{self._run}:output:{sink}"

    def _keys(self, task: int) -> list[str]:
        return [f"{self._run}:term:{task}", f"{self._run}:state:{task}"]


def code_of(error: RedisError) -> str:
    """Return the code of a refusal, empty for one that is not in `REMEDIES`.

    Before version 7, an error within a script is in the text of another one."""
    found = _CODES.search(str(error))
    return _TYPES.get(type(error)) or (found.group(1) if found else "")


def _give_up(failure: EnvironmentFailure) -> NoReturn:
    raise failure


__all__ = ["READ_AGAIN", "Found", "RedisError", "Store", "StoreFull", "damaged"]
