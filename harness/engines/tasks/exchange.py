"""Sources and output through Kafka.

A source's records and a sink's own output are read by a thread each (`Tail`). Output counts once it
has been read back, from the partition itself and by the rules of every reader
(`harness.protocol.output`), so a sink that was fenced off learns it there and nowhere else.
Batches between tasks go from node to node (`harness.engines.tasks.direct`)."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.engines.deliveries import COPY_HEADER
from harness.engines.tasks import records
from harness.hosting.codec import CorruptData, decode
from harness.protocol.output import OutputBatch, OutputEnd, OutputEntry, OutputFence, OutputReader

OF_SINK = COPY_HEADER
"""A header: the sink task that published a record."""

_POLL_S = 1.0
_AT_ONCE = 2_000
_MOST_HELD = 64
"""So many of what it has prepared a reader may keep back."""
_ASK_S, _ASKED = 10.0, 5
"""Longest wait for the ends of a partition, and how often they are asked for where they are the
same and do not fit: of two questions the client answers a refused one like the other."""
_READ_AGAIN = 10
"""Fetches of records that fail their check before the run ends."""
_OUT_OF_RANGE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
_DAMAGED = "look at the disks and the memory of the broker, and at the network to it"
_RETENTION = "the broker's retention has deleted what was not read yet: give the topic a longer one"
SHARE_OF_BATCH, MOST_PATIENCE_S = 0.1, 0.01
"""Longest time for which the reader of a busy source lets the broker gather records: a share of a
batch, and an upper limit. Each answer costs a tenth of a millisecond, whatever its size."""

Settings = Mapping[str, Any]

_COMMON = {
    "socket.timeout.ms": 6_000,  # for a broker that does not answer; the default is a minute
    "socket.connection.setup.timeout.ms": 3_000,  # the default is half of one
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.nagle.disable": True,
    "log_level": 2,
}
"""Settings of every client."""


def consumer_settings(client: Settings) -> dict[str, Any]:
    """Return the settings of a client that reads given partitions, and commits nothing."""
    return {
        **client,
        **_COMMON,
        "group.id": "faultline",  # the client demands one; nothing is ever committed to it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "check.crcs": True,  # the default is to deliver wrong bits
        "fetch.wait.max.ms": 4_000,  # an answer without records is of no use
        "fetch.queue.backoff.ms": 5,  # the default of 1 s stalls a reader that fell behind
        "fetch.error.backoff.ms": 20,
        "queued.max.messages.kbytes": 16_384,
    }


def source_settings(client: Settings, batch_us: int) -> dict[str, Any]:
    """Return the settings of a source's reader.

    It asks for records again only a while after the last ones, if there were any. A quiet source
    has no such wait: its request is at the broker already."""
    patience_s = min(MOST_PATIENCE_S, SHARE_OF_BATCH * batch_us / 1e6)
    return {
        **consumer_settings(client),
        "queued.min.messages": 1,
        "fetch.queue.backoff.ms": max(1, round(patience_s * 1000)),
    }


def producer_settings(client: Settings) -> dict[str, Any]:
    """Return the settings of a client whose records may be lost; the protocol repeats them."""
    return {
        **client,
        **_COMMON,
        "acks": 1,
        "enable.idempotence": False,
        "linger.ms": 0,
        "compression.type": "none",
        "message.max.bytes": 16_000_000,
        "message.timeout.ms": 10_000,
        "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The begin of a reader: an instant, or an offset.

    By an instant, a partition whose first record is deleted must hold one from before it: else
    nobody can tell whether a record that is due was deleted, too, and it is reported as gone."""

    at_ms: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadError:
    """Something that a reader's client, or the reader itself, has reported."""

    place: str
    """The topic and partition."""
    why: str
    final: bool
    """True if nothing more is read from there."""
    gone: bool = False
    """True if the broker has deleted what was not read yet."""
    remedy: str = "see whether another program writes to the topic, and whether the broker has it"


class Log(Protocol):
    """Kafka's clients, and the threads that block in them."""

    def consumer(self, settings: Settings) -> Any:
        """Return a `confluent_kafka.Consumer`, or what behaves like one."""

    def producer(self, settings: Settings) -> Any:
        """Return a `confluent_kafka.Producer`, or what behaves like one."""

    def gate(self) -> Any:
        """Return a `threading.Event` that such a thread may wait for."""

    def start(self, run: Callable[[], None], name: str) -> None:
        """Call a function in a thread that nobody waits for."""


class _Kafka:
    """The live clients."""

    def consumer(self, settings: Settings) -> Any:
        return Consumer(dict(settings))

    def producer(self, settings: Settings) -> Any:
        return Producer(dict(settings))

    def gate(self) -> Any:
        return threading.Event()

    def start(self, run: Callable[[], None], name: str) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()


KAFKA = _Kafka()


class Unreadable(Exception):
    """Records that cannot be read as they are, for a reason that the user can mend."""

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class Tail:
    """One partition from some point on, read by a thread of its own."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        partition: int,
        begin: Begin,
        *,
        deliver: Callable[[Any], None],
        failed: Callable[[ReadError], None],
        prepare: Callable[[Sequence[Message]], Sequence[Any]] = lambda messages: messages,
        due: Callable[[Any], bool] = lambda newest: True,
        log: Log = KAFKA,
    ) -> None:
        """Start a reader of a partition.

        ``deliver`` and ``failed`` are called in the running event loop, the first with messages in
        their order or with the results of ``prepare``. ``prepare`` and ``due`` are called in the
        reader's thread; prepared messages are kept back until the newest is due, because waking the
        loop costs more than most messages."""
        self._settings, self._begin, self._log = settings, begin, log
        self._place = (topic, partition)
        self._deliver, self._failed = deliver, failed
        self._prepare, self._due = prepare, due
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._behind: int | None = None
        self._damaged = 0
        """The offset behind the last record, and the fetches since then that failed their check."""
        self._may_read = log.gate()
        self._may_read.set()
        log.start(self._run, f"read {topic}[{partition}]")

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
        try:
            self._read()
        except Unreadable as error:
            self._report(str(error), final=True, remedy=error.remedy)
        except Exception as error:  # it would end unheard in a thread
            self._report("".join(traceback.format_exception(error))[-4000:], final=True)

    def _read(self) -> None:
        """Read until the end."""
        consumer = self._log.consumer(self._settings)
        held: list[Any] = []
        try:
            if not self._position(consumer):
                return
            while not self._stopped:
                self._may_read.wait()
                first = consumer.poll(_POLL_S)
                if first is None:
                    continue
                # `consume` would wait its whole timeout for a full batch.
                messages = [first, *consumer.consume(_AT_ONCE, 0)]
                whole = list(takewhile(_is_whole, messages))  # the client goes on behind others
                good = [m for m in whole if m.error() is None]
                if good:
                    self._behind, self._damaged = good[-1].offset() + 1, 0
                held += self._prepare(good) if good else ()
                if held and (self._due(held[-1]) or len(held) > _MOST_HELD):
                    self._call(self._deliver, held)
                    held = []
                if len(good) < len(whole) and self._ends(whole):
                    return
                wrong = messages[len(whole) : len(whole) + 1]
                if wrong and not self._read_again(consumer, wrong[0].error()):
                    return
        finally:
            consumer.close()

    def _read_again(self, consumer: Any, error: KafkaError) -> bool:
        """Go back to records that failed their check; return False if they are wrong for good."""
        self._damaged += 1
        final = self._damaged > _READ_AGAIN
        self._report(f"records are damaged: {error.str()}", final=final, remedy=_DAMAGED)
        if final or self._behind is None:
            return not final and self._position(consumer)
        consumer.assign([TopicPartition(*self._place, self._behind)])
        return True

    def _ends(self, messages: Sequence[Message]) -> bool:
        """Report the errors among ``messages``; return True if nothing more can be read."""
        for error in filter(None, (message.error() for message in messages)):
            gone = error.code() in _OUT_OF_RANGE
            final = gone or bool(error.fatal())
            self._report(f"{error.name()}: {error.str()}", final=final, gone=gone)
            if final:
                return True
        return False

    def _position(self, consumer: Any) -> bool:
        """Fix where it begins, once the broker answers; return False if that is gone."""
        place, asked = TopicPartition(*self._place), 0
        while not self._stopped:
            try:
                low, high = consumer.get_watermark_offsets(place, timeout=_ASK_S)
                if self._begin.at_ms is None:
                    place.offset, due = self._begin.offset, str(self._begin.offset)
                    there = low <= place.offset <= high
                else:
                    place.offset = self._begin.at_ms
                    (found,) = consumer.offsets_for_times([place], timeout=_ASK_S)
                    place.offset = high
                    if found.offset >= 0:
                        place.offset = found.offset
                        low, high = consumer.get_watermark_offsets(place, timeout=_ASK_S)
                    there = not low or place.offset > low
                    due = f"the first from {self._begin.at_ms} ms on, perhaps a deleted one,"
                if not there:
                    asked += 1
                    if low == high and asked < _ASKED:
                        continue
                    why = f"it has records {low} to {high}, and {due} is due"
                    self._report(why, final=True, gone=True)
                    return False
                consumer.assign([place])
            except KafkaException as error:  # the broker is away: what it holds can wait for it
                self._report(str(error), final=False)
                continue
            return True
        return False

    def _report(
        self, why: str, *, final: bool, gone: bool = False, remedy: str | None = None
    ) -> None:
        place = "{}[{}]".format(*self._place)
        more = {"remedy": remedy} if remedy else {"remedy": _RETENTION} if gone else {}
        self._call(self._failed, ReadError(place=place, why=why, final=final, gone=gone, **more))

    def _call(self, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function in the loop, unless this was stopped by then."""

        def call() -> None:
            if not self._stopped:
                function(argument)

        with suppress(RuntimeError):  # the loop is closed: this process ends
            self._loop.call_soon_threadsafe(call)


def _is_whole(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() != KafkaError._BAD_MSG


class Sender:
    """The output of a node. Nothing here waits."""

    def __init__(
        self,
        client: Settings,
        node: int,
        lost: Callable[[int, Any], None],
        log: Log = KAFKA,
    ) -> None:
        """Call ``lost(sink, error)`` for each record that the client or the broker gave up.

        It is called in `tend` and in both ways to append. Such an error has a ``code``, as Kafka's
        have."""
        self._producer = log.producer(producer_settings(client))
        self._node, self._lost = node, lost
        self._client, self._log, self._attempts = client, log, 0
        self._of_records: Any = None
        """A client of its own for output as ordinary records."""

    def append(self, topic: str, partition: int, sink: int, data: bytes) -> None:
        """Append an encoded entry to an output partition. It counts once it has been read back."""
        own = [(OF_SINK, str(sink).encode())]
        try:
            self._producer.produce(
                topic,
                data,
                partition=partition,
                headers=own,
                on_delivery=partial(self._delivered, sink),
            )
        except KafkaException as error:
            self._lost(sink, error.args[0])
        except BufferError:  # the client's queue is full: the record is appended later
            self._lost(sink, KafkaError(KafkaError._QUEUE_FULL))

    def append_results(
        self, topic: str, partition: int, sink: int, entry: OutputEntry, columns: Sequence[str]
    ) -> None:
        """Append an entry as ordinary records (`harness.engines.tasks.records`)."""
        self._attempts += 1
        key = records.key_of(sink, f"{self._node}.{os.getpid()}.{self._attempts}")
        producer = self._of_records = self._of_records or self._log.producer(
            {**producer_settings(self._client), **records.LINGER}
        )
        more = {"partition": partition, "on_delivery": partial(self._delivered, sink)}
        rows, headers = records.rows_of(entry, columns)
        try:
            for each in rows:
                if each.headers:
                    for value in each.values:
                        producer.produce(topic, value, key, headers=dict(each.headers), **more)
                    continue
                batch = [{"value": value, "key": key} for value in each.values]
                if producer.produce_batch(topic, batch, **more) < len(batch):
                    raise BufferError
            own = (OF_SINK, str(sink).encode())
            producer.produce(topic, None, key, headers=[own, *headers.items()], **more)
        except KafkaException as error:
            self._lost(sink, error.args[0])
        except BufferError:
            self._lost(sink, KafkaError(KafkaError._QUEUE_FULL))

    def tend(self) -> None:
        """Let the clients report what they gave up. Call it now and then."""
        for producer in self._producers:
            producer.poll(0)

    def flush(self, within_s: float) -> None:
        """Wait until all records have left, at most these seconds."""
        for producer in self._producers:
            producer.flush(within_s)

    @property
    def _producers(self) -> Sequence[Any]:
        return [one for one in (self._producer, self._of_records) if one is not None]

    def _delivered(self, sink: int, error: KafkaError | None, _: Message) -> None:
        """Report a record that the client gives up."""
        if error is not None:
            self._lost(sink, error)


class OutputTail:
    """A sink's output partition, read back by the rules of every reader."""

    def __init__(
        self,
        sink: int,
        changed: Callable[[OutputReader], None],
        end: OutputEnd | None = None,
    ) -> None:
        """Follow a sink from ``end`` on, None: from the first record.

        ``changed`` is called when entries of it have been read."""
        self.reader = OutputReader()
        self.offset = 0
        """The first record without which another reader could not continue."""
        if end is not None:
            self.reader.begin(end)
            self.offset = end.offset
        self._sink, self._changed = sink, changed
        self._results = records.Results()

    def take(self, messages: Sequence[Message]) -> None:
        """Follow the entries of the partition, and report when its end has moved."""
        for message in messages:
            entry = entry_of(message, self._sink, self._results)
            if entry is not None:
                before = self.reader.term, self.reader.sequence
                self.reader.accept(entry)
                if before != (self.reader.term, self.reader.sequence):
                    self._results.clear()  # those of other attempts, or of an older term
            if not self._results:
                self.offset = message.offset() + 1
        self._changed(self.reader)

    @property
    def end(self) -> OutputEnd:
        """The end from which another reader can continue."""
        return self.reader.end(self.offset)


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
        return results.close(key, dict(message.headers() or ()))
    numbers = (value for key, value in message.headers() or () if key == OF_SINK)
    if int(next(numbers, -1)) != sink:
        return None
    try:
        entry = decode(message.value())
    except CorruptData:
        return None
    return entry if isinstance(entry, OutputFence | OutputBatch) else None
