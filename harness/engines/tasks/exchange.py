"""Batches between tasks, sources and output, through Kafka.

Every task has a partition of the data topic, read by both of its copies, each through a consumer
of its own: a new consumer is there within milliseconds, while one that is given a partition it
has not met waits for its outstanding fetches first. Messages between tasks may be lost (the
protocol asks again), so they are sent with ``acks=1`` and nobody waits. Output is different: it
counts once it has been read back, from the partition itself and by the rules of every reader
(`harness.protocol.output`), so a sink that was fenced off learns it there and nowhere else.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from numpy.typing import NDArray

from harness.engines.codec import CorruptData, decode, encode
from harness.engines.deliveries import COPY_HEADER
from harness.protocol.effects import OutputRecord
from harness.protocol.inputs import TaskMessage
from harness.protocol.output import OutputBatch, OutputClaim, OutputEntry, OutputReader
from workloads.toolkit.operators import SOURCE_SCHEMA

FOR_COPY, FROM_NODE, SENT_AT, OF_SINK = "for", "node", "sent", COPY_HEADER
"""Headers: the incarnation that a message is meant for alone; its sender; when it was sent, in
microseconds of the sender's monotonic clock; the sink task that published a record."""

_POLL_S = 1.0
_AT_ONCE = 2_000
_MOST_HELD = 20_000
"""Records that a reader may keep back until their batch is complete."""
_ASK_S = 10.0
SHARE_OF_BATCH, MOST_PATIENCE_S = 0.2, 0.05
"""How long a source's reader lets the broker gather records before it takes them: a share of a
batch, at most so long. Each answer costs a tenth of a millisecond, whatever it holds."""

Settings = Mapping[str, Any]


def consumer_settings(client: Settings) -> dict[str, Any]:
    return {
        **client,
        "group.id": "faultline",  # the client demands one; nothing is ever committed to it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "fetch.queue.backoff.ms": 5,  # the default of 1 s stalls a reader that fell behind
        "fetch.error.backoff.ms": 20,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "queued.max.messages.kbytes": 16_384,
        "socket.nagle.disable": True,
        "log_level": 2,
    }


def source_settings(client: Settings, patience_s: float) -> dict[str, Any]:
    """For a reader that would rather have many records than the first one at once."""
    return {
        **consumer_settings(client),
        "fetch.min.bytes": 1 << 20,
        "fetch.wait.max.ms": max(1, round(patience_s * 1000)),
    }


def producer_settings(client: Settings) -> dict[str, Any]:
    return {
        **client,
        "acks": 1,
        "enable.idempotence": False,
        "linger.ms": 0,
        "compression.type": "none",
        "message.max.bytes": 16_000_000,
        "message.timeout.ms": 10_000,
        "delivery.report.only.error": True,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "socket.nagle.disable": True,
        "log_level": 2,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where a reader begins: at an instant if one is given, else at an end of the partition."""

    at_ms: int | None = None
    newest: bool = False


EARLIEST, NEWEST = Begin(), Begin(newest=True)


class Tail:
    """One partition from some point on, read by a thread of its own."""

    def __init__(
        self,
        client: Settings,
        topic: str,
        partition: int,
        begin: Begin,
        *,
        deliver: Callable[[Sequence[Message]], None],
        ready: Callable[[int], None] = lambda end: None,
        due: Callable[[Message], bool] = lambda newest: True,
    ) -> None:
        """``client`` are settings of a consumer. Two callbacks are called in the running event
        loop: ``ready`` once the position is fixed, with where the partition ended then,
        ``deliver`` with messages in their order. ``due`` is asked in the reader's thread: messages
        are kept back until it is true of the newest, because waking the loop costs more than
        most of them."""
        self._client, self._begin = client, begin
        self._place = (topic, partition)
        self._deliver, self._ready, self._due = deliver, ready, due
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._may_read = threading.Event()
        self._may_read.set()
        self._thread = threading.Thread(
            target=self._run, name=f"read {topic}[{partition}]", daemon=True
        )
        self._thread.start()

    def hold(self, held: bool) -> None:
        """Stop fetching, or go on."""
        if held:
            self._may_read.clear()
        else:
            self._may_read.set()

    def stop(self) -> None:
        """Deliver nothing more; the thread ends by itself."""
        self._stopped = True
        self._may_read.set()

    def _run(self) -> None:
        consumer = Consumer(self._client)
        held: list[Message] = []
        try:
            self._position(consumer)
            while not self._stopped:
                self._may_read.wait()
                first = consumer.poll(_POLL_S)
                if first is None:
                    continue
                # `consume` would wait its whole timeout for a full batch.
                messages = [first, *consumer.consume(_AT_ONCE, 0)]
                held += [m for m in messages if m.error() is None]
                if held and (self._due(held[-1]) or len(held) > _MOST_HELD):
                    self._call(self._give, held)
                    held = []
        finally:
            consumer.close()

    def _position(self, consumer: Consumer) -> None:
        """Fix where it begins, so that nothing that is sent from then on can be missed."""
        place = TopicPartition(*self._place)
        while not self._stopped:
            try:
                low, high = consumer.get_watermark_offsets(place, timeout=_ASK_S)
                place.offset = high if self._begin.newest else low
                if self._begin.at_ms is not None:
                    place.offset = self._begin.at_ms
                    (found,) = consumer.offsets_for_times([place], timeout=_ASK_S)
                    place.offset = found.offset if found.offset >= 0 else high
                consumer.assign([place])
            except KafkaException:  # the broker is away: what it holds can wait for it
                continue
            self._call(self._ready, high)
            return

    def _give(self, messages: Sequence[Message]) -> None:
        if not self._stopped and messages:
            self._deliver(messages)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: this process ends
            self._loop.call_soon_threadsafe(function, *arguments)


class Sender:
    """What leaves a node. Nothing here waits."""

    def __init__(self, client: Settings, node: int) -> None:
        self._producer = Producer(producer_settings(client))
        self._node = str(node).encode()
        self.lost = 0
        """Messages that found the client's queue full."""

    def send(
        self, topic: str, to: int, incarnation: int | None, message: TaskMessage, now_us: int
    ) -> None:
        """A message to the copies of a task, or to one of them. It may get lost."""
        headers = [(FROM_NODE, self._node), (SENT_AT, str(now_us).encode())]
        if incarnation is not None:
            headers.append((FOR_COPY, str(incarnation).encode()))
        self._produce(topic, to, encode(message), headers)

    def append(self, topic: str, partition: int, sink: int, entry: OutputEntry) -> None:
        """An entry of an output partition. It counts once it has been read back."""
        self._produce(topic, partition, encode(entry), [(OF_SINK, str(sink).encode())])

    def tend(self) -> None:
        """Let the client report what it gave up. Call it now and then."""
        self._producer.poll(0)

    def flush(self, within_s: float) -> None:
        self._producer.flush(within_s)

    def _produce(
        self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]
    ) -> None:
        try:
            self._producer.produce(topic, value, partition=partition, headers=headers)
        except (BufferError, KafkaException):  # a full queue, or a message that is too large
            self.lost += 1
        self._producer.poll(0)


def header(message: Message, name: str) -> int | None:
    """A header's number."""
    for key, value in message.headers() or ():
        if key == name:
            return int(value)
    return None


def message_of(message: Message) -> TaskMessage | None:
    """What a record of the data topic says; None for bytes that are none of ours."""
    try:
        found: TaskMessage = decode(message.value())
    except CorruptData:
        return None
    return found


class SourceReader:
    """Cuts a source's partition into batches by the records' intended time.

    Batch b is complete when a record from behind its end has come: within a partition records
    stand in the order of their time, and the load generator marks every batch's end.
    """

    def __init__(
        self,
        *,
        first: int,
        start_us: int,
        batch_us: int,
        partition: int,
        with_times: bool = True,
        give: Callable[[int, pa.Table], None],
    ) -> None:
        """``give(batch, table)`` is called for each batch from ``first`` on, in order. Without
        ``with_times`` the column of times holds nulls: asking each record costs."""
        self.next = first
        """The batch that is being filled."""
        self._start_us, self._batch_us = start_us, batch_us
        self._partition, self._with_times, self._give = partition, with_times, give
        self._chunks: list[Sequence[Message]] = []

    def begin(self) -> Begin:
        return Begin(at_ms=(self._start_us + self.next * self._batch_us) // 1000)

    def completes(self, newest: Message) -> bool:
        """Whether a batch is complete once this record has come. May be asked in any thread: one
        that sees an older `next` says yes too often, and nothing is lost by that."""
        return _time_us(newest) >= self._start_us + (self.next + 1) * self._batch_us

    def take(self, messages: Sequence[Message]) -> None:
        """The next records of the partition. Only those at a boundary are asked for their time."""
        at, last = 0, _time_us(messages[-1])
        begin = self._start_us + self.next * self._batch_us
        if _time_us(messages[0]) < begin:
            at = bisect_left(messages, begin, key=_time_us)
        while at < len(messages):
            end = self._start_us + (self.next + 1) * self._batch_us
            if last < end:
                self._chunks.append(messages[at:] if at else messages)
                return
            until = bisect_left(messages, end, lo=at, key=_time_us)
            if until > at:
                self._chunks.append(messages[at:until])
            self._close()
            at = until

    def _close(self) -> None:
        batch, self.next = self.next, self.next + 1
        chunks, self._chunks = self._chunks, []
        self._give(batch, self._table([m for chunk in chunks for m in chunk]))

    def _table(self, records: Sequence[Message]) -> pa.Table:
        if not records:
            return SOURCE_SCHEMA.empty_table()
        count = len(records)
        times = (
            pa.array([_time_us(record) for record in records], pa.int64())
            if self._with_times
            else pa.nulls(count, pa.int64())
        )
        columns = [
            pa.array([record.value() or b"" for record in records], pa.binary()),
            pa.array(np.full(count, self._partition, dtype=np.int32)),
            pa.array(_offsets(records)),
            times.cast(pa.timestamp("us")),
        ]
        return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)


def _time_us(record: Message) -> int:
    stamp: int = record.timestamp()[1]
    return stamp * 1000


def _offsets(records: Sequence[Message]) -> NDArray[np.int64]:
    """Mostly without gaps; then the ends tell all of them."""
    first, last = records[0].offset(), records[-1].offset()
    if last - first == len(records) - 1:
        return np.arange(first, last + 1, dtype=np.int64)
    return np.array([record.offset() for record in records], dtype=np.int64)


class OutputTail:
    """A sink's output partition, read back from its beginning by the rules of every reader."""

    def __init__(self, sink: int, changed: Callable[[OutputReader], None]) -> None:
        """``changed`` is called when entries of this sink have been read."""
        self.reader = OutputReader()
        self._sink, self._changed = sink, changed

    def take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            entry = entry_of(message, self._sink)
            if entry is not None:
                self.reader.accept(entry)
        self._changed(self.reader)


def entry_of(message: Message, sink: int) -> OutputEntry | None:
    """An entry of ``sink``; None for what another one wrote, or nobody of ours."""
    if header(message, OF_SINK) != sink:
        return None
    try:
        entry = decode(message.value())
    except CorruptData:
        return None
    return entry if isinstance(entry, OutputClaim | OutputBatch) else None


__all__ = [
    "EARLIEST", "FOR_COPY", "NEWEST", "OF_SINK", "Begin", "OutputRecord", "OutputTail", "Sender",
    "SourceReader", "Tail", "consumer_settings", "entry_of", "header", "message_of",
    "source_settings",
]  # fmt: skip
