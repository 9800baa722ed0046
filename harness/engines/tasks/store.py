"""Checkpoints and the coordinator's registry in Redis, fenced by term.

Every change of a task's checkpoints is one script in the server, so that comparing the term and
writing are one step: a primary that was replaced while it was frozen is refused, whatever it
still has to say. The server holds everything in memory and is told to evict nothing
(``noeviction``): a state that it has no room for is an answer, never a checkpoint that is gone.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from harness.cluster.endpoints import RedisEndpoint
from harness.errors import FaultlineError

REFUSED = b"refused"
WAIT_MS = 1_000
"""Longest wait for the server's replicas, where they are asked for."""
CHECKPOINTS_SHARE = 0.9
"""Share of the server's ``maxmemory``, if it has one."""

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


class TooFewReplicas(RedisError):
    """A write is not where a failover would find it."""


class StoreFull(FaultlineError):
    """The store takes no more: a state is too large for it."""


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
        arguments: list[int | bytes] = [term, position, checkpoint, forget_below]
        try:
            await self._demand_room(len(checkpoint))
            answer = await self._write(self._put, self._keys(task), arguments)
        except (OutOfMemoryError, ResponseError) as error:
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
        if not self._replicas:
            return await script(keys=keys, args=arguments)
        # One connection: the server waits for the writes of the connection that asks.
        async with self._redis.pipeline(transaction=False) as pipe:
            await script(keys=keys, args=arguments, client=pipe)
            pipe.execute_command("WAIT", self._replicas, WAIT_MS)
            answer, have = await pipe.execute()
        if int(have) < self._replicas:
            raise TooFewReplicas(
                f"{have} of {self._replicas} replicas of Redis had a write within {WAIT_MS} ms"
            )
        return answer

    async def _demand_room(self, size: int) -> None:
        """Raise `OutOfMemoryError` if checkpoints would leave no room for the rest.

        The registry and the nodes' boots need some memory: without them no dead node could come
        back."""
        used, limit = map(int, await self._room())
        if limit and used + size > CHECKPOINTS_SHARE * limit:
            raise OutOfMemoryError(
                f"{used / 1e6:,.1f} MB of {limit / 1e6:,.1f} MB are in use, and checkpoints get "
                f"{CHECKPOINTS_SHARE:.0%}"
            )

    async def get(self, task: int, *, term: int | None, position: int | None) -> Found:
        """Return the checkpoint at ``position``, or the newest.

        With a ``term`` (a primary loads) lower terms are refused from now on."""
        arguments: list[str | int] = [
            "" if term is None else term,
            "" if position is None else position,
        ]
        answer = await self._get(keys=self._keys(task), args=arguments)
        if answer == REFUSED:
            return Found(refused=True)
        return Found(checkpoint=answer[0] if answer else None)

    async def forget(self, tasks: int, below: int) -> None:
        """Drop the checkpoints of tasks 0 to ``tasks`` - 1 that a complete epoch has replaced."""
        await self._forget(keys=[self._keys(task)[1] for task in range(tasks)], args=[below])

    async def put_end(self, sink: int, offset: int, end: bytes) -> None:
        """Keep an end of a sink's output partition, unless a later one is there."""
        await self._put_end(keys=[self._end_key(sink)], args=[offset, end])

    async def get_end(self, sink: int) -> bytes | None:
        """Return the latest end of a sink's output partition that was kept, if any."""
        found: bytes | None = await self._redis.hget(self._end_key(sink), "value")
        return found

    async def take_registry(self, owner: int) -> tuple[int, bytes | None]:
        """Return a term higher than all before, and the registry, None if there is none.

        An ``owner`` that has a term gets the same again."""
        term, registry = await self._write(self._take_registry, self._registry_keys, [owner])
        return int(term), registry

    async def put_registry(self, term: int, version: int, registry: bytes) -> int | None:
        """Keep a registry unless a newer one is there.

        If a higher term than ``term`` exists, nothing is kept and that term returned."""
        arguments: list[int | bytes] = [term, version, registry]
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


__all__ = ["Found", "RedisError", "Store", "StoreFull"]
