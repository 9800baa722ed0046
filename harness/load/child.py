"""The generator's own process: ``python -m harness.load.child``.

Standard input: one JSON line with the client's configuration (a password among it) and the
plan, then one with the start. Standard output: JSON lines (`harness.child`)."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from harness.child import Emit, end_with_parent, orders, speaker
from harness.load.lag import LagHistogram
from harness.load.plan import BY_THE_CLOCK, EventTime, LoadPlan, Stream, whole_ms
from harness.load.profile import Floats
from workloads.base import HeadedSource, KeyedSource, RecordSource
from workloads.sizes import MOST_RECORD_BYTES, fitting

_MOST_AT_ONCE = 20_000
_MOST_QUEUED = 400_000
"""Records handed to the client but not acknowledged; beyond it the generator waits and lags."""
_NICE = -10
_REPORT_S = 0.5
_PRACTICE, _PRACTICE_S = 200, 20.0
PRACTICE_BYTES = 1 << 22
"""Records that a source makes before the load begins."""
_POLL_S = 0.05


class _Sender:
    """One stream with its position in the schedule."""

    def __init__(
        self,
        stream: Stream,
        producer: Producer,
        start_unix_s: float,
        event: EventTime = BY_THE_CLOCK,
    ) -> None:
        self.stream = stream
        self._event = event
        self._producer = producer
        self._start_unix_s = start_unix_s
        self._began_s = time.monotonic() + start_unix_s - time.time()
        """The start by the monotonic clock: the wall clock may be set before and after."""
        built = stream.records.build()
        assert isinstance(built, RecordSource), stream.records
        self._source = built
        self.total = stream.rate.records
        self.sent = 0
        self._kept: dict[int, tuple[int, list[Floats]]] = {}
        """Records of silent partitions: the first one, and the event times of them all."""
        self._marked = 0
        """The last marker that was sent to every partition."""
        self.acknowledged = 0
        self.lost: Counter[str] = Counter()
        """Records that the client gave up, counted by its reason."""
        self.lag = LagHistogram()
        self.delivery = LagHistogram()

    def advance(self) -> int:
        """Send the due records; return their number."""
        elapsed_s = self._elapsed_s()
        due = self.stream.rate.due(elapsed_s)
        until = min(due, self.sent + _MOST_AT_ONCE)
        if len(self._producer) > _MOST_QUEUED:
            return 0
        if until <= self.sent:
            self._mark(elapsed_s)
            return 0
        indices = np.arange(self.sent, until)
        intended_s = self.stream.rate.intended_s(indices)
        event = self.stream.stamped(self._event, intended_s, self._start_unix_s)
        places, offsets = self.stream.places(indices)
        for partition in range(self.stream.partitions):
            mine = places == partition
            if mine.any():
                self._deal(partition, int(offsets[mine][0]), intended_s[mine], event[mine])
        self.lag.add(self._elapsed_s() - intended_s)
        count = until - self.sent
        self.sent = until
        self._mark(elapsed_s if until == due else float(intended_s[-1]))
        return count

    @property
    def done(self) -> bool:
        """True once every record has been sent."""
        return self.sent >= self.total and not self._kept

    def _deal(self, partition: int, first: int, intended_s: Floats, event: Floats) -> None:
        """Send records of a partition from this one on, but keep those of its silence."""
        span = self.stream.silent.get(partition, (math.inf, math.inf))
        begin, end = np.searchsorted(intended_s, span).tolist()
        if begin:
            self._send(partition, first, event[:begin])
        if end > begin:
            self._kept.setdefault(partition, (first + begin, []))[1].append(event[begin:end])
        if end < len(event):
            self._release(partition)
            self._send(partition, first + end, event[end:])

    def _release(self, partition: int) -> None:
        """Send what a partition has kept."""
        if partition in self._kept:
            first, event = self._kept.pop(partition)
            self._send(partition, first, np.concatenate(event), kept=True)

    def _silent(self, partition: int, at_s: float) -> bool:
        begin_s, end_s = self.stream.silent.get(partition, (math.inf, math.inf))
        return begin_s <= at_s < min(end_s, self.stream.rate.duration_s)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _mark(self, reached_s: float) -> None:
        """Mark once in every partition that all records before ``reached_s`` have been sent.

        The marker says that instant, not its own: after a pause of this process records of a later
        batch may stand in front of it, and time must not go backwards in a partition. Partitions
        whose silence has ended send what they kept first; silent ones get no marker."""
        for partition in [p for p in self._kept if not self._silent(p, reached_s)]:
            self._release(partition)
        marker = self.stream.markers_until(reached_s)
        if marker <= self._marked:
            return
        self._marked = marker
        reached_s = min(reached_s, self.stream.rate.duration_s)
        at_s = self.stream.stamped(self._event, reached_s, self._start_unix_s)
        for partition in range(self.stream.partitions):
            if self._silent(partition, reached_s):
                continue
            self._producer.produce(
                self.stream.topic,
                self.stream.marker,
                partition=partition,
                timestamp=int(whole_ms(np.array([at_s]))[0]),
                on_delivery=self._count_marker,
            )

    def _count_marker(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.lost[str(error)] += 1

    def _send(self, partition: int, first: int, event: Floats, *, kept: bool = False) -> None:
        """Send records of a partition from this one on, with these event times.

        The delivery of ``kept`` ones is not measured: it is late on purpose."""
        stamps = whole_ms(event).tolist()
        payloads = self._source.payloads(partition, first, len(stamps))
        # One call a record: the batch call of this client takes no timestamps.
        produce, topic = self._producer.produce, self.stream.topic
        # One of each slice is sampled.
        counts = [*[self._count] * (len(stamps) - 1), self._count if kept else self._sample]
        more = self._more(partition, first, len(stamps))
        for value, stamp, count, extra in zip(payloads, stamps, counts, more, strict=True):
            produce(topic, value, partition=partition, timestamp=stamp, on_delivery=count, **extra)

    def _more(self, partition: int, first: int, count: int) -> Iterable[Mapping[str, Any]]:
        """Return what these records have beside values: keys, headers."""
        given: dict[str, Sequence[Any]] = {}
        if isinstance(self._source, KeyedSource):
            given["key"] = self._source.keys(partition, first, count)
        if isinstance(self._source, HeadedSource):
            given["headers"] = [list(h) for h in self._source.headers(partition, first, count)]
        if not given:
            return repeat({}, count)
        return [dict(zip(given, each, strict=True)) for each in zip(*given.values(), strict=True)]

    def _count(self, error: KafkaError | None, message: Message) -> None:
        """Account for a record: one that expires in the client leaves its queue too."""
        if error is None:
            self.acknowledged += 1
        else:
            self.lost[str(error)] += 1

    def _sample(self, error: KafkaError | None, message: Message) -> None:
        """Account for a record and add the time of its delivery: one of each slice is sampled."""
        self._count(error, message)
        if error is None:
            event_s = message.timestamp()[1] / 1000 + self.stream.lag_s
            sent_s = self._event.elapsed_s(event_s, self._start_unix_s)
            self.delivery.add(np.array([self._elapsed_s() - sent_s]))

    def summary(self) -> dict[str, Any]:
        return {
            "acknowledged": self.acknowledged,
            "lost": dict(self.lost),
            "lag": self.lag.summary(),
            "delivery": self.delivery.summary(),
        }


def generate(orders: Iterator[Mapping[str, Any]], emit: Emit) -> None:
    """Build the sources, say ready, wait for the start, send, and report."""
    config = next(orders)
    nice = _come_first()
    problems: list[str] = []
    producer = Producer(_settings(config["client"], config["delivery_timeout_s"], problems))
    plan = msgspec.convert(config["plan"], LoadPlan, str_keys=True)
    for stream in plan.streams:
        producer.list_topics(stream.topic, timeout=20)  # its first record must not wait for this
        source = stream.records.build()
        source.payloads(0, 0, fitting(source, PRACTICE_BYTES, 1000))
    if config["practice_topic"] is not None:
        _practise(producer, config["practice_topic"])
    emit({"event": "ready"})
    start = next(orders, None)
    if start is None:  # the harness is gone
        return
    end_with_parent()
    began_s = start["start_unix_s"]
    senders = [_Sender(stream, producer, began_s, plan.event) for stream in plan.streams]
    cpu_began_s = time.process_time()
    _send_all(senders, producer, emit, plan.gather_s)
    _drain(senders, producer, within_s=config["delivery_timeout_s"])
    emit(
        {
            "event": "done",
            "streams": [sender.summary() for sender in senders],
            "errors": sorted(set(problems)),
            "nice": nice,
            "cpu_s": time.process_time() - cpu_began_s,
        }
    )


def _send_all(senders: list[_Sender], producer: Producer, emit: Emit, gather_s: float) -> None:
    """Send until the schedule ends, or until a record is lost: the run is spoilt then."""
    reported = 0.0
    while not all(sender.done for sender in senders) and not _spoilt(senders):
        moved = sum(sender.advance() for sender in senders)
        producer.poll(0)
        if time.monotonic() - reported >= _REPORT_S:
            reported = time.monotonic()
            emit(
                {
                    "event": "progress",
                    "sent": sum(sender.sent for sender in senders),
                    "acknowledged": sum(sender.acknowledged for sender in senders),
                }
            )
        if moved < _MOST_AT_ONCE:
            time.sleep(gather_s)


def _practise(producer: Producer, topic: str) -> None:
    """Send records that are not read, so that connection, producer id and broker are warm."""
    for _ in range(_PRACTICE):
        producer.produce(topic, b"")
        producer.poll(0)
    producer.flush(_PRACTICE_S)


def _drain(senders: list[_Sender], producer: Producer, *, within_s: float) -> None:
    """Wait for pending records. `Producer.flush` would spin on a core while a broker is silent."""
    deadline = time.monotonic() + within_s
    while len(producer) and not _spoilt(senders) and time.monotonic() < deadline:
        producer.poll(_POLL_S)


def _spoilt(senders: list[_Sender]) -> bool:
    return any(sender.lost for sender in senders)


def _come_first() -> int:
    """Raise the priority above the engine's, which may load every core; return the nice value.

    Threads inherit it, so this comes before the client starts its own."""
    with contextlib.suppress(OSError):  # below 0 it takes root, or RLIMIT_NICE
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    return os.getpriority(os.PRIO_PROCESS, 0)


def _settings(
    client: Mapping[str, Any], delivery_timeout_s: float, problems: list[str]
) -> dict[str, Any]:
    return {
        **client,
        "enable.idempotence": True,
        # With several requests under way the client's thread spins on a whole core, ours before
        # all others, as soon as a busy broker answers late (seen: 5.8 CPU seconds in 6 s, 0.2 with
        # one). One is no slower: 0.8 CPU seconds in 6 s at 50,000 records/s, with either.
        "max.in.flight.requests.per.connection": 1,
        "linger.ms": 2,
        "batch.size": 262_144,
        "message.max.bytes": MOST_RECORD_BYTES,
        "compression.type": "none",
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "message.timeout.ms": round(delivery_timeout_s * 1000),
        "error_cb": lambda error: problems.append(str(error)),
    }


if __name__ == "__main__":
    generate(orders(), speaker())
