"""A sink's own output partition, followed by a node, from a stored end of it on.

Reading a partition from its beginning takes ten seconds for a day of output, and after the broker's
retention the beginning is gone. So every node that follows a partition stores its end now and then
(`harness.protocol.output.OutputEnd`), and a node that begins to follow it goes on from there.

Tests: ``tests/engines/tasks/test_following.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol

from redis.exceptions import RedisError

from harness.engines.tasks.exchange import KAFKA, Begin, Log, OutputTail, ReadError, Settings, Tail
from harness.engines.tasks.store import READ_AGAIN
from harness.hosting.codec import CorruptData, decode, encode
from harness.protocol.output import OutputEnd, OutputReader

STORE_EVERY_S = 1.0
"""Shortest time between two stored ends: the broker must keep its records for longer."""
ASK_AGAIN_S = 0.2


class Ends(Protocol):
    """The store of the ends of output partitions."""

    async def put_end(self, sink: int, offset: int, end: bytes) -> None:
        """Keep an end, unless a later one is there."""

    async def get_end(self, sink: int) -> bytes | None:
        """Return the latest end that was kept, if any."""


class Following:
    """One sink's partition, until `stop`."""

    def __init__(
        self,
        sink: int,
        settings: Settings,
        place: tuple[str, int],
        ends: Ends,
        *,
        changed: Callable[[OutputReader], None],
        failed: Callable[[ReadError], None],
        log: Log = KAFKA,
    ) -> None:
        """Begin to follow; both functions are called in the running event loop.

        ``changed`` gets the reader whenever entries of the sink may have been read."""
        self._sink, self._settings, self._place, self._ends = sink, settings, place, ends
        self._changed, self._failed, self._log = changed, failed, log
        self._loop = asyncio.get_running_loop()
        self._output = OutputTail(sink, changed)
        self._tail: Tail | None = None
        self._stored = self._stored_at = 0.0
        """The offset of the end that was stored last, and when."""
        self._running: dict[asyncio.Task[None], None] = {}
        self._keep(self._begin(beyond=-1, because=None))

    @property
    def reader(self) -> OutputReader:
        """The end of the partition, as far as it was read."""
        return self._output.reader

    def tend(self) -> None:
        """Store the end if it has moved. Call it now and then."""
        end, now = self._output.end, self._loop.time()
        if end.offset > self._stored and now - self._stored_at >= STORE_EVERY_S:
            self._stored, self._stored_at = end.offset, now
            self._keep(self._store(end))

    def stop(self) -> None:
        """Read and store nothing more."""
        if self._tail is not None:
            self._tail.stop()
        for running in self._running:
            running.cancel()

    async def _begin(self, *, beyond: int, because: ReadError | None) -> None:
        """Read from the stored end on if it is ``beyond`` an offset, else report ``because``.

        A damaged end counts as none: its partition is read from the beginning if that is there."""
        damage = ""
        try:
            end = await self._stored_end()
        except CorruptData as error:
            end, damage = None, f"; where to go on is damaged in Redis: {error}"
        begin = end.offset if end is not None else 0
        if because is not None and begin <= beyond:
            self._failed(replace(because, why=because.why + damage))
            return
        self._output = OutputTail(self._sink, self._changed, end)
        self._stored = begin
        self._tail = Tail(
            self._settings,
            *self._place,
            Begin(offset=begin),
            deliver=self._output.take,
            failed=self._ended,
            log=self._log,
        )
        self._changed(self.reader)

    def _ended(self, error: ReadError) -> None:
        """Go on behind records that are gone where another node has read them."""
        if error.gone:
            self._keep(self._begin(beyond=self._output.offset, because=error))
        else:
            self._failed(error)

    async def _stored_end(self) -> OutputEnd | None:
        """Return the stored end, if any; raise `CorruptData` if it is damaged each time."""
        loaded = 0
        while True:
            try:
                data = await self._ends.get_end(self._sink)
                loaded += 1
                end = None if data is None else decode(data)
                if end is None or isinstance(end, OutputEnd):
                    return end
                raise CorruptData(f"a {type(end).__name__} where the end of output is due")
            except CorruptData:
                if loaded == READ_AGAIN:
                    raise
            except (RedisError, OSError) as error:
                where = "{}[{}]".format(*self._place)
                self._failed(ReadError(place=where, why=f"its end: {error}", final=False))
                await asyncio.sleep(ASK_AGAIN_S)

    async def _store(self, end: OutputEnd) -> None:
        try:
            await self._ends.put_end(self._sink, end.offset, encode(end))
        except (RedisError, OSError) as error:
            self._stored = 0
            where = "{}[{}]".format(*self._place)
            self._failed(ReadError(place=where, why=f"its end: {error}", final=False))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        running = self._loop.create_task(work)
        self._running[running] = None
        running.add_done_callback(lambda ended: self._running.pop(ended, None))
