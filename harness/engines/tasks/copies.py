"""Readers of the copies on a node: a source's records, a sink's output.

A sink follows its own output partition: a fence or a publication is answered once it has been read
back, by the rules of every reader. Reading a partition from its beginning takes ten seconds for a
day of output, and after the broker's retention the beginning is gone. So every node stores its end
now and then (`harness.protocol.output.OutputEnd`), and goes on from a stored one.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from redis.exceptions import RedisError

from harness.engines.tasks import exchange
from harness.engines.tasks.exchange import KAFKA, Begin, Log, OutputTail, ReadError, Settings, Tail
from harness.engines.tasks.job import Job
from harness.engines.tasks.operations import Operation, Operations, Running
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.sources import SourceReader
from harness.engines.tasks.store import READ_AGAIN, Store
from harness.hosting.answers import fence_output, publish_output
from harness.hosting.codec import CorruptData, Encoded, decode, encode
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputBatch, OutputEnd, OutputFence, OutputReader

OutputRequest = do.FenceOutput | do.PublishOutput
READ_BACK_WITHIN_US = 5_000_000
"""Time after which a record that was appended and not read back is appended again."""


class Copies:
    """Readers by task, which serve both of its copies where there are two.

    A subclass hands what was read to the machine (`tell`)."""

    def __init__(
        self,
        node: int,
        boot: int,
        job: Job,
        client: Mapping[str, Any],
        store: Store,
        log: exchange.Log = exchange.KAFKA,
    ) -> None:
        self.node, self.boot, self.job = node, boot, job
        self._store, self._log = store, log
        self._nonce = secrets.randbits(53)
        """Tells this node's fences from those of another that was given the same term."""
        self._sender = exchange.Sender(client, node, self._not_appended, log)
        self._output_settings = exchange.consumer_settings(client)
        self._source_settings = exchange.source_settings(client, job.batch_us)
        self._operators = job.program.operators
        self._here: dict[int, set[int]] = {}
        """Task to the incarnations of its copies here."""
        self._sources: dict[tuple[int, int], tuple[SourceReader, exchange.Tail]] = {}
        """By source and incarnation: each copy has its own position."""
        self._read_below: dict[tuple[int, int], int] = {}
        """The first batch that it has not requested."""
        self._held = False
        """True while no source may be read on, because a peer is behind."""
        self._outputs: dict[int, Following] = {}
        self._requests = Operations()
        self._asked: dict[tuple[int, int], tuple[OutputRequest, Operation]] = {}
        """Sink and incarnation to its request to its partition without an answer so far."""

    def tell(self, item: told.NodeInput) -> None:
        """Hand an input to the machine, and carry out its effects."""
        raise NotImplementedError

    def read_failed(self, error: exchange.ReadError) -> None:
        """Report the error of a reader."""
        raise NotImplementedError

    def let_all_go(self) -> None:
        """End every reader when the pass is over."""
        for _, tail in self._sources.values():
            tail.stop()
        for output in self._outputs.values():
            output.stop()
        self._sources.clear()
        self._outputs.clear()

    def noted(self, note: do.NoteCopy) -> bool:
        """Handle the machine's note about a copy; return True if it came or went."""
        if note.event is do.CopyEvent.HOSTED:
            self._here.setdefault(note.task, set()).add(note.incarnation)
            if note.task in self.job.wiring.sinks and note.task not in self._outputs:
                self._follow_output(note.task)
            return True
        if note.event is do.CopyEvent.RETIRED:
            self.gone(note.task, note.incarnation)
            return True
        return False

    def gone(self, task: int, incarnation: int) -> None:
        """Forget a copy, and the readers that only it needed."""
        left = self._here.get(task, set())
        left.discard(incarnation)
        self._stop_source((task, incarnation))
        self._requests.forget(task, incarnation)
        self._asked.pop((task, incarnation), None)
        if left:
            return
        self._here.pop(task, None)
        if (output := self._outputs.pop(task, None)) is not None:
            output.stop()

    def _follow_output(self, sink: int) -> None:
        self._outputs[sink] = Following(
            sink,
            self._output_settings,
            (self.job.out_topic, self.job.out_partition(sink)),
            self._store,
            changed=lambda reader: self._output_moved(sink, reader),
            failed=self.read_failed,
            log=self._log,
        )

    def tend_output(self) -> None:
        """Store how far output was read, and let clients report. Call it with each heartbeat."""
        self._sender.tend()
        for output in self._outputs.values():
            output.tend()

    def hold_sources(self, held: bool) -> None:
        """Read the sources no further, or go on."""
        self._held = held
        for key, (reader, tail) in self._sources.items():
            tail.hold(held or reader.next >= self._read_below[key])

    # -- sources ---------------------------------------------------------------------------------

    def _read_source(self, effect: do.ReadSource) -> None:
        key = effect.task, effect.incarnation
        self._read_below[key] = effect.below
        reading = self._sources.get(key)
        if reading is not None:
            if reading[0].next == effect.from_batch:
                reading[1].hold(self._held or effect.from_batch >= effect.below)
                return  # it waits for that batch as it is
            reading[1].stop()
        topic, partition = self.job.source(effect.task)

        def give(batch: int, table: Any) -> None:
            current = self._sources.get(key)
            if current is None or current[0] is not reader:
                return  # a later one reads what this one has fetched
            if self._held or batch >= self._read_below[key] - 1:
                current[1].hold(True)
            if batch >= self._read_below[key]:
                return  # fetched with the requested part; read again when it is requested, too
            self.tell(
                told.SourceRead(
                    cause=f"batch {batch} of {topic}[{partition}]",
                    task=effect.task,
                    incarnation=effect.incarnation,
                    batch=batch,
                    payload=Encoded(table),
                )
            )

        reader = SourceReader(
            first=effect.from_batch,
            start_us=self.job.start_us,
            batch_us=self.job.batch_us,
            partition=partition,
            with_times=getattr(self._operators[effect.task], "reads_times", True),
            give=give,
        )
        tail = exchange.Tail(
            self._source_settings,
            topic,
            partition,
            reader.begin(),
            deliver=reader.take,
            failed=self.read_failed,
            prepare=reader.cut,
            due=reader.completes,
            log=self._log,
        )
        tail.hold(self._held)
        self._sources[key] = reader, tail

    def _stop_reading(self, effect: do.StopReading) -> None:
        self._stop_source((effect.task, effect.incarnation))

    def _stop_source(self, key: tuple[int, int]) -> None:
        self._read_below.pop(key, None)
        reading = self._sources.pop(key, None)
        if reading is not None:
            reading[1].stop()

    def _read_on(self, effect: do.ReadOn) -> None:
        key = effect.task, effect.incarnation
        reading = self._sources.get(key)
        if reading is None:
            return
        before = self._read_below[key]
        if reading[0].next <= before:
            self._read_below[key] = effect.below
            reading[1].hold(self._held)
        else:
            again = do.ReadSource(
                cause=effect.cause,
                task=effect.task,
                incarnation=effect.incarnation,
                from_batch=before,
                below=effect.below,
            )
            self._read_source(again)

    # -- output ----------------------------------------------------------------------------------

    def _ask_output(self, effect: OutputRequest) -> None:
        """Append a fence or a publication, unless it is on its way."""
        if effect.task not in self._outputs:
            return
        name = effect.task, effect.incarnation
        what = effect.term, getattr(effect, "sequence", 0)
        operation = self._requests.start(
            ("output", *name), what, now_us(), timeout_us=READ_BACK_WITHIN_US
        )
        if operation is not None:
            self._asked[name] = effect, operation
            place = self.job.out_topic, self.job.out_partition(effect.task)
            read_below = self._outputs[effect.task].reader.next_stable
            entry = entry_for(effect, self._nonce, read_below)
            if columns := self.job.ordinary_columns:
                self._sender.append_results(*place, effect.task, entry, columns)
            else:
                operation.data = operation.data or encode(entry)
                self._sender.append(*place, effect.task, operation.data)
        self._output_moved(effect.task, self._outputs[effect.task].reader)

    def _not_appended(self, sink: int, error: Any) -> None:
        """Repeat what the client gave up, with the heartbeats; report what can never be appended.

        A record is not told from an older one of its sink: repeating one too many is harmless."""
        for name, (_, operation) in self._asked.items():
            if name[0] == sink and operation.under_way:
                self._requests.failed(("output", *name), operation, now_us())
                self.append_failed(sink, error)

    def append_failed(self, sink: int, error: Any) -> None:
        """Report that the broker or its client has refused a record of a sink."""
        raise NotImplementedError

    def _answered(self, effect: OutputRequest, reader: OutputReader) -> bool:
        """Return True if the entries read so far decide about ``effect``."""
        if not reader.owned_by(effect.term, self._nonce):
            return reader.term >= effect.term  # another one has fenced it
        return isinstance(effect, do.FenceOutput) or reader.sequence >= effect.sequence

    def _output_moved(self, sink: int, reader: OutputReader) -> None:
        for name, (effect, operation) in list(self._asked.items()):
            known = name[0] == sink and name in self._asked
            if not known or not self._answered(effect, reader):
                continue
            del self._asked[name]
            self._requests.done(("output", *name), operation)
            read = ReadBack(reader, self._nonce)
            if isinstance(effect, do.FenceOutput):
                self.tell(fence_output(effect, read))
            else:
                self.tell(publish_output(effect, read))


def entry_for(effect: OutputRequest, nonce: int, read_below: int = 0) -> OutputFence | OutputBatch:
    """Return the entry of a partition that a request appends.

    A fence brings no output that was read there: the stable batches before ``read_below``."""
    if isinstance(effect, do.FenceOutput):
        lacking = tuple(record for record in effect.records if record.batch >= read_below)
        return OutputFence(term=effect.term, nonce=nonce, records=lacking)
    return OutputBatch(
        term=effect.term, sequence=effect.sequence, records=effect.records, nonce=nonce
    )


class ReadBack:
    """The answers to fences and publications, as read back from a partition."""

    def __init__(self, reader: OutputReader, nonce: int) -> None:
        self._reader, self._nonce = reader, nonce
        self.next_stable, self.next_tentative = reader.next_stable, reader.next_tentative

    def fence(self, term: int, records: tuple[do.OutputRecord, ...]) -> bool:
        return self._reader.owned_by(term, self._nonce)

    def append(self, term: int, sequence: int, records: tuple[do.OutputRecord, ...]) -> bool:
        return self._reader.owned_by(term, self._nonce)


STORE_EVERY_S = 1.0
"""Shortest time between two stored ends: the broker must keep its records for longer."""
ASK_AGAIN_S = 0.2


class Following:
    """One sink's partition, until `stop`."""

    def __init__(
        self,
        sink: int,
        settings: Settings,
        place: tuple[str, int],
        ends: Store,
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
        self._running = Running()
        self._running.start(self._begin(beyond=-1, because=None))

    @property
    def reader(self) -> OutputReader:
        """The end of the partition, as far as it was read."""
        return self._output.reader

    def tend(self) -> None:
        """Store the end if it has moved. Call it now and then."""
        end, now = self._output.end, self._loop.time()
        if end.offset > self._stored and now - self._stored_at >= STORE_EVERY_S:
            self._stored, self._stored_at = end.offset, now
            self._running.start(self._store(end))

    def stop(self) -> None:
        """Read and store nothing more."""
        if self._tail is not None:
            self._tail.stop()
        self._running.cancel()

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
            self._running.start(self._begin(beyond=self._output.offset, because=error))
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
                self._trouble(error)
                await asyncio.sleep(ASK_AGAIN_S)

    async def _store(self, end: OutputEnd) -> None:
        try:
            await self._ends.put_end(self._sink, end.offset, encode(end))
        except (RedisError, OSError) as error:
            self._stored = 0
            self._trouble(error)

    def _trouble(self, error: Exception) -> None:
        where = "{}[{}]".format(*self._place)
        self._failed(ReadError(place=where, why=f"its end: {error}", final=False))
