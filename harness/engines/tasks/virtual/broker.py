"""Kafka in virtual time: partitions, and the clients that the engine has of it.

A client is as librdkafka's: it produces in the background, repeats what was not acknowledged until
its time is over, and may so append a record twice; it fetches from an offset, and reports errors
as messages. `VirtualLog` is one process's port (`harness.engines.tasks.exchange.Log`).

Tests: ``tests/engines/tasks/virtual/test_broker.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.engines.tasks.virtual.loop import (
    EPOCH_S,
    Gate,
    Process,
    Strand,
    Thread,
    running,
    running_thread,
)
from harness.engines.tasks.virtual.streams import VirtualStreams, damaged

HOST = "10.0.0.2"
DELAY_S = (0.000_3, 0.003)
AGAIN_S = 0.1
PRODUCE_WITHIN_S = 10.0
"""As ``message.timeout.ms`` in the engine's settings."""
AWAY = KafkaError._ALL_BROKERS_DOWN
DAMAGED = 0.3
"""Share of the fetched sets of records that have a wrong bit, where any have."""
Place = tuple[str, int]


@dataclass(slots=True)
class Record:
    """One record of a partition."""

    at: int
    time_ms: int
    body: bytes | None
    headers_: list[tuple[str, bytes]] | None
    key_: bytes | None = None

    def value(self) -> bytes | None:
        """As confluent-kafka's."""
        return self.body

    def key(self) -> bytes | None:
        return self.key_

    def offset(self) -> int:
        """As confluent-kafka's."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """As confluent-kafka's."""
        return 2, self.time_ms

    def headers(self) -> list[tuple[str, bytes]] | None:
        """As confluent-kafka's."""
        return self.headers_

    def error(self) -> None:
        """As confluent-kafka's."""
        return


class Failure:
    """An error that comes as a message."""

    def __init__(self, code: int, why: str) -> None:
        self._error = KafkaError(code, why)

    def error(self) -> KafkaError:
        """As confluent-kafka's."""
        return self._error


@dataclass(slots=True)
class Partition:
    """Records from ``low`` on."""

    records: list[Record] = field(default_factory=list)
    low: int = 0
    followed: int | None = None
    """The first offset that no follower has, and that nobody can read; None: they have all."""
    waiting: list[tuple[Thread, int]] = field(default_factory=list)

    @property
    def high(self) -> int:
        """The offset behind the last record that can be read."""
        end = self.low + len(self.records)
        return end if self.followed is None else self.followed

    def since(self, offset: int, most: int) -> list[Record]:
        """Return records from an offset on."""
        return self.records[offset - self.low : min(offset + most, self.high) - self.low]


class Broker:
    """The one broker."""

    def __init__(self, loop: VirtualStreams) -> None:
        self.loop = loop
        self.away = self.silent = self.full = False
        """`away`: it refuses connections; `silent`: it answers nothing, and then everything;
        `full`: its disk takes nothing more."""
        self.damages = False
        """True while some of what is read has a wrong bit."""
        self.disk_s = self.free_at = 0.0
        """What its disk takes for a record, and when that has written all it was given."""
        self.loses_answers = 0.0
        """Share of the acknowledgements that get lost."""
        self.refuses: int | None = None
        """The code with which it refuses every record, for a while."""
        self.appended: Callable[[Place, Record], None] = lambda place, record: None
        self._partitions: dict[Place, Partition] = {}

    def partition(self, place: Place) -> Partition:
        """Return a partition, which exists as soon as somebody names it."""
        return self._partitions.setdefault(place, Partition())

    def reachable(self, process: Process) -> bool:
        """Return True if a process's requests are answered."""
        return not (self.away or self.silent) and self.loop.network.reaches(process.host, HOST)

    def wall_ms(self) -> int:
        """Return the broker's clock."""
        return round((EPOCH_S + self.loop.now) * 1000)

    def append(
        self,
        place: Place,
        value: bytes | None,
        headers: list[tuple[str, bytes]] | None = None,
        key: bytes | None = None,
        time_ms: int | None = None,
    ) -> None:
        """Append a record, which those hear that wait for it."""
        partition = self.partition(place)
        time_ms = self.wall_ms() if time_ms is None else time_ms
        end = partition.low + len(partition.records)
        record = Record(end, time_ms, value, headers, key)
        partition.records.append(record)
        if partition.followed is None:
            self.appended(place, record)
            self.wake(place)

    def write(self, waiting: _Waiting) -> float:
        """Append a record once the disk has it; return when that is."""
        now, entry = self.loop.now, (waiting.place, waiting.value, waiting.headers, waiting.key)
        if not self.disk_s and self.free_at <= now:
            self.append(*entry)
            return now
        self.free_at = max(self.free_at, now) + self.disk_s
        self.loop.outside(self.free_at, self.append, *entry)
        return self.free_at

    def lag(self, place: Place) -> None:
        """Let no follower of a partition have its next records."""
        partition = self.partition(place)
        partition.followed = partition.high

    def lead(self, place: Place) -> None:
        """Let a follower lead, which lacks what it did not follow."""
        partition = self.partition(place)
        del partition.records[partition.high - partition.low :]
        partition.followed = None

    def wake(self, place: Place) -> None:
        """Let the readers of a partition look again."""
        partition = self.partition(place)
        waiting, partition.waiting = partition.waiting, []
        for thread, pause in waiting:
            thread.wake_at(self.loop.now + self.loop.dice.uniform(*DELAY_S), pause)

    def wake_all(self) -> None:
        """Let all readers look again, after an outage."""
        for place in list(self._partitions):
            self.wake(place)

    def forget(self, place: Place, below: int) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        partition = self.partition(place)
        gone = max(0, min(below, partition.high) - partition.low)
        del partition.records[:gone]
        partition.low += gone


class VirtualConsumer:
    """A consumer of one partition, in a thread of its process."""

    def __init__(self, broker: Broker, process: Process, settings: Mapping[str, Any]) -> None:
        self._broker, self._process = broker, process
        self._checks = bool(settings.get("check.crcs"))
        self._place: Place = ("", -1)
        self._at = 0
        self._told_away = False

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return the first and the next offset; raise `KafkaException` after the timeout."""
        self._ask(timeout)
        partition = self._broker.partition((place.topic, place.partition))
        return partition.low, partition.high

    def offsets_for_times(
        self, places: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """Return the offsets of the first records from instants on, -1 for none."""
        self._ask(timeout)
        found = []
        for place in places:
            partition = self._broker.partition((place.topic, place.partition))
            later = (one.at for one in partition.records if one.time_ms >= place.offset)
            found.append(TopicPartition(place.topic, place.partition, next(later, -1)))
        return found

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """As confluent-kafka's."""
        (place,) = places
        self._place, self._at = (place.topic, place.partition), place.offset

    def poll(self, timeout: float) -> Any:
        """Return a record or an error; None after the timeout."""
        found = self._next(1)
        if not found:
            thread, loop = running_thread(), self._broker.loop
            self._broker.partition(self._place).waiting.append((thread, thread.pause))
            thread.wake_at(loop.now + timeout, thread.pause)
            thread.block()
            found = self._next(1)
        return found[0] if found else None

    def consume(self, most: int, timeout: float) -> list[Any]:
        """Return what is there."""
        return self._next(most)

    def close(self) -> None:
        """Do nothing: it holds nothing."""

    def _next(self, most: int) -> list[Any]:
        broker = self._broker
        if self._process.bad_threads:
            raise RuntimeError("an error that nobody expects")
        if not broker.reachable(self._process):
            if self._told_away or broker.silent:
                return []
            self._told_away = True
            return [Failure(AWAY, "1/1 brokers are down")]
        self._told_away = False
        partition = broker.partition(self._place)
        if not partition.low <= self._at <= partition.high:
            return [Failure(KafkaError._AUTO_OFFSET_RESET, "offset out of range")]
        found = partition.since(self._at, most)
        self._at += len(found)
        if found and broker.damages and broker.loop.dice.random() < DAMAGED:
            if self._checks:  # it goes on behind them, as librdkafka does
                return [Failure(KafkaError._BAD_MSG, "a set of records failed its check")]
            wrong = found[0]
            found[0] = replace(wrong, body=damaged(wrong.body or b"\0", broker.loop.dice))
        return list(found)

    def _ask(self, timeout: float) -> None:
        """Wait for an answer of the broker."""
        broker, thread = self._broker, running_thread()
        until = broker.loop.now + timeout
        while True:
            wait = broker.loop.dice.uniform(*DELAY_S)
            if not broker.reachable(self._process):
                wait = AGAIN_S
            thread.wake_at(broker.loop.now + wait, thread.pause)
            thread.block()
            if broker.reachable(self._process):
                return
            if broker.loop.now > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


@dataclass(slots=True)
class _Waiting:
    place: Place
    value: bytes | None
    headers: list[tuple[str, bytes]] | None
    key: bytes | None
    report: Callable[[KafkaError | None, Any], None] | None
    until: float
    sent: bool = False


class VirtualProducer:
    """A producer, with its thread in the background."""

    def __init__(self, broker: Broker, process: Process, settings: Mapping[str, Any]) -> None:
        self._broker, self._settings = broker, settings
        self._process = process
        self._context = Strand(process).context()
        self._failed: list[tuple[_Waiting, KafkaError]] = []
        self._free = 0.0

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int,
        headers: Any = None,
        on_delivery: Any = None,
    ) -> None:
        """Append a record soon."""
        if len(value or b"") > self._settings["message.max.bytes"]:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
        loop = self._broker.loop
        pairs = dict(headers).items() if headers else ()
        waiting = _Waiting(
            (topic, partition), value, list(pairs), key, on_delivery, loop.now + PRODUCE_WITHIN_S
        )
        self._free = max(self._free, loop.now + loop.dice.uniform(*DELAY_S))
        loop.call_at(self._free, self._attempt, waiting, context=self._context)

    def poll(self, timeout: float) -> int:
        """Report what was given up."""
        failed, self._failed = self._failed, []
        for waiting, error in failed:
            if waiting.report is not None:
                waiting.report(error, None)
        return len(failed)

    def flush(self, timeout: float) -> None:
        """Do nothing: a node that ends does not wait."""

    def _attempt(self, waiting: _Waiting) -> None:
        broker, loop, host = self._broker, self._broker.loop, self._process.host
        answered = loop.network.carries(HOST, host)
        heard = broker.reachable(self._process)
        if not heard and not waiting.sent:  # on a connection of before: a new one needs answers
            heard = not (broker.away or broker.silent) and loop.network.carries(host, HOST)
        if heard and answered and broker.refuses is not None and not broker.full:
            self._failed.append((waiting, KafkaError(broker.refuses, "refused")))
            return
        if heard and not broker.full:
            waiting.sent = True
            written = broker.write(waiting)
            if answered and loop.dice.random() >= broker.loses_answers:
                if written > waiting.until:  # it is given up, and appended nevertheless
                    loop.call_at(waiting.until, self._give_up, waiting, context=self._context)
                return
        if loop.now >= waiting.until:
            self._give_up(waiting)
            return
        loop.call_later(AGAIN_S, self._attempt, waiting, context=self._context)

    def _give_up(self, waiting: _Waiting) -> None:
        error = KafkaError(KafkaError._MSG_TIMED_OUT, "timed out in the queue")
        self._failed.append((waiting, error))


class VirtualLog:
    """The clients of the process that runs, and their threads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def consumer(self, settings: Mapping[str, Any]) -> VirtualConsumer:
        return VirtualConsumer(self._broker, running(), settings)

    def producer(self, settings: Mapping[str, Any]) -> VirtualProducer:
        return VirtualProducer(self._broker, running(), settings)

    def gate(self) -> Gate:
        return Gate()

    def start(self, run: Callable[[], None], name: str) -> None:
        Thread(self._broker.loop, run, name)
