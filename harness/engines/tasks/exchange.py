"""Batches between tasks and output, through Kafka.

Every task has a partition of the data topic, read by both of its copies, each through a consumer
of its own: one that is given a partition it has not met waits for its outstanding fetches first,
and a new one is taken from those that wait connected (`harness.engines.tasks.spares`). Messages
between tasks may be lost (the protocol asks again), so they are sent with ``acks=1`` and nobody
waits. Output is different: it counts once it has been read back, from the partition itself and by
the rules of every reader (`harness.protocol.output`), so a sink that was fenced off learns it
there and nowhere else."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from harness.engines.deliveries import COPY_HEADER
from harness.engines.tasks import records
from harness.hosting.codec import CorruptData, decode, encode
from harness.protocol.effects import OutputRecord
from harness.protocol.inputs import TaskMessage
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence, OutputReader

FOR_COPY, FROM_NODE, SENT_AT, OF_SINK = "for", "node", "sent", COPY_HEADER
"""Headers: the incarnation that a message is meant for alone; its sender; when it was sent, in
microseconds of the sender's monotonic clock; the sink task that published a record."""

_POLL_S = 1.0
_AT_ONCE = 2_000
_MOST_HELD = 64
"""So many of what it has prepared a reader may keep back."""
_ASK_S = 10.0
SHARE_OF_BATCH, MOST_PATIENCE_S = 0.2, 0.025
"""Longest time for which the reader of a busy source lets the broker gather records: a share of a
batch, and an upper limit. Each answer costs a tenth of a millisecond, whatever its size."""
BUSY_PER_S = 80
"""Answers a second from which on a source is busy. With a quiet one the wait would gain nothing."""

Settings = Mapping[str, Any]


def consumer_settings(client: Settings) -> dict[str, Any]:
    """Return the settings of a client that reads given partitions, and commits nothing."""
    return {
        **client,
        "group.id": "faultline",  # the client demands one; nothing is ever committed to it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 10_000,  # an answer without records is of no use
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
    """Return the settings of a client whose messages may be lost; the protocol repeats them."""
    return {
        **client,
        "acks": 1,
        "enable.idempotence": False,
        "linger.ms": 0,
        "compression.type": "none",
        "message.max.bytes": 16_000_000,
        "message.timeout.ms": 10_000,
        "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "socket.nagle.disable": True,
        "log_level": 2,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The begin of a reader: an instant if one is given, else an end of the partition."""

    at_ms: int | None = None
    newest: bool = False


EARLIEST, NEWEST = Begin(), Begin(newest=True)


class Tail:
    """One partition from some point on, read by a thread of its own."""

    def __init__(
        self,
        consumer: Callable[[], Consumer],
        topic: str,
        partition: int,
        begin: Begin,
        *,
        deliver: Callable[[Any], None],
        ready: Callable[[int], None] = lambda end: None,
        prepare: Callable[[Sequence[Message]], Sequence[Any]] = lambda messages: messages,
        due: Callable[[Any], bool] = lambda newest: True,
        patient: Settings | None = None,
    ) -> None:
        """Start a reader; its two callbacks are called in the running event loop.

        ``consumer`` returns a consumer without a partition; it is called in the reader's thread,
        and the consumer closed at the end. ``ready`` is called once the position is fixed, with the
        end of the partition at that time; ``deliver`` with messages in their order, or with the
        results of ``prepare``.

        ``prepare`` and ``due`` are called in the reader's thread; prepared messages are kept back
        until the newest is due, because waking the loop costs more than most messages. ``patient``
        are the settings of another consumer, which goes on once the partition is busy
        (`BUSY_PER_S`)."""
        self._consumer, self._begin = consumer, begin
        self._place = (topic, partition)
        self._deliver, self._ready = deliver, ready
        self._prepare, self._due = prepare, due
        self._patient, self._answers, self._since_s = patient, 0, 0.0
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
        consumer = self._consumer()
        held: list[Any] = []
        try:
            self._position(consumer)
            while not self._stopped:
                self._may_read.wait()
                first = consumer.poll(_POLL_S)
                if first is None:
                    continue
                # `consume` would wait its whole timeout for a full batch.
                messages = [first, *consumer.consume(_AT_ONCE, 0)]
                good = [m for m in messages if m.error() is None]
                held += self._prepare(good) if good else ()
                if held and (self._due(held[-1]) or len(held) > _MOST_HELD):
                    self._call(self._give, held)
                    held = []
                if good and self._patient is not None and self._is_busy():
                    consumer = self._change(consumer, self._patient, good[-1].offset() + 1)
        finally:
            consumer.close()

    def _is_busy(self) -> bool:
        """Return True if there was one answer too many within a second."""
        now_s = time.monotonic()
        if now_s - self._since_s > 1.0:
            self._answers, self._since_s = 0, now_s
        self._answers += 1
        return self._answers > BUSY_PER_S

    def _change(self, consumer: Consumer, settings: Settings, offset: int) -> Consumer:
        """Go on with other settings, exactly there."""
        self._patient = None
        other = Consumer(settings)
        other.assign([TopicPartition(*self._place, offset)])
        consumer.close()
        return other

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

    def _give(self, prepared: Sequence[Any]) -> None:
        if not self._stopped:
            self._deliver(prepared)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: this process ends
            self._loop.call_soon_threadsafe(function, *arguments)


class Sender:
    """The output of a node. Nothing here waits."""

    def __init__(self, client: Settings, node: int) -> None:
        self._producer = Producer(producer_settings(client))
        self._node = str(node).encode()
        self._client, self._attempts = client, 0
        self._of_records: Producer | None = None
        """A client of its own for output as ordinary records."""
        self.lost = 0
        """Messages that found the client's queue full."""

    def send(
        self, topic: str, to: int, incarnation: int | None, message: TaskMessage, now_us: int
    ) -> None:
        """Send a message to the copies of a task, or to one of them. It may get lost."""
        headers = [(FROM_NODE, self._node), (SENT_AT, str(now_us).encode())]
        if incarnation is not None:
            headers.append((FOR_COPY, str(incarnation).encode()))
        self._produce(topic, to, encode(message), headers)

    def append(
        self, topic: str, partition: int, sink: int, entry: OutputEntry, columns: Sequence[str] = ()
    ) -> None:
        """Append an entry to an output partition. It counts once it has been read back.

        With ``columns`` its results are ordinary records (`harness.engines.tasks.records`)."""
        own = [(OF_SINK, str(sink).encode())]
        if not columns:
            self._produce(topic, partition, encode(entry), own)
            return
        self._attempts += 1
        key = records.key_of(sink, f"{self._node.decode()}.{os.getpid()}.{self._attempts}")
        producer = self._of_records = self._of_records or Producer(
            {**producer_settings(self._client), **records.LINGER}
        )
        rows, headers = records.rows_of(entry, columns)
        try:
            for each in rows:
                if each.headers:
                    for value in each.values:
                        producer.produce(topic, value, key, partition, headers=dict(each.headers))
                else:
                    batch = [{"value": value, "key": key} for value in each.values]
                    self.lost += len(batch) - producer.produce_batch(topic, batch, partition)
            producer.produce(topic, None, key, partition, headers=[*own, *headers.items()])
        except (BufferError, KafkaException):  # the protocol repeats it
            self.lost += 1
        producer.poll(0)

    def tend(self) -> None:
        """Let the client report what it gave up. Call it now and then."""
        self._producer.poll(0)

    def flush(self, within_s: float) -> None:
        """Wait until all messages have left, at most these seconds."""
        self._producer.flush(within_s)

    def _produce(
        self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]
    ) -> None:
        try:
            self._producer.produce(topic, value, partition=partition, headers=headers)
        except (BufferError, KafkaException):  # a full queue, or a message that is too large
            self.lost += 1
            self.tend()


def header(message: Message, name: str) -> int | None:
    """Return the number in a header."""
    for key, value in message.headers() or ():
        if key == name:
            return int(value)
    return None


def message_of(message: Message) -> TaskMessage | None:
    """Return the message in a record of the data topic; None for bytes of another origin."""
    try:
        found: TaskMessage = decode(message.value())
    except CorruptData:
        return None
    return found


class OutputTail:
    """A sink's output partition, read back from its beginning by the rules of every reader."""

    def __init__(self, sink: int, changed: Callable[[OutputReader], None]) -> None:
        """Follow a sink; ``changed`` is called when entries of it have been read."""
        self.reader = OutputReader()
        self._sink, self._changed = sink, changed
        self._results = records.Results()

    def take(self, messages: Sequence[Message]) -> None:
        """Follow the entries of the partition, and report when its end has moved."""
        for message in messages:
            entry = entry_of(message, self._sink, self._results)
            if entry is not None:
                self.reader.accept(entry)
        self._changed(self.reader)


def entry_of(
    message: Message, sink: int, results: records.Results | None = None
) -> OutputEntry | None:
    """Return an entry of ``sink``; None for one of another writer, and for a single result."""
    key = message.key()
    if key is not None and results is not None:
        if not key.startswith(records.key_of(sink)):
            return None
        value = message.value()
        if value:
            results.add(key, value)
            return None
        found = results.close(key, dict(message.headers() or ()))
        return None if found is None else found[0]
    if header(message, OF_SINK) != sink:
        return None
    try:
        entry = decode(message.value())
    except CorruptData:
        return None
    return entry if isinstance(entry, OutputFence | OutputBatch) else None


__all__ = [
    "EARLIEST", "FOR_COPY", "NEWEST", "OF_SINK", "Begin", "OutputRecord", "OutputTail", "Sender",
    "Tail", "consumer_settings", "entry_of", "header", "message_of",
    "source_settings",
]  # fmt: skip
