"""A reader of an out topic, in the place of a user of the results.

A result arrives when the broker's log would give it to a reader, by the broker's clock (topics with
``message.timestamp.type`` = ``LogAppendTime``): nearest to the sink, and independent of this
reader's own delays. That is its append time, and in a transaction that of the marker with which it
becomes readable (`harness.measure.commits`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import EnvironmentFailure
from harness.measure.commits import read_log, readable

_MOST_AT_ONCE = 20_000
_LOOK_UP_S = 10.0


@dataclass(frozen=True, slots=True)
class Message:
    """One record of the out topic."""

    append_ms: int
    """The broker's append time, in ms since the epoch."""
    partition: int
    offset: int
    value: bytes
    copy: int
    """The copy of the query that sent it; 0 without a header."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    """All of its headers, for the engine (`harness.engines.base.Engine.read`)."""
    key: bytes | None = None
    readable_ms: int = 0
    """When its transaction no longer held it back; 0 before `Collector.finish`, and outside of
    transactions."""

    @property
    def arrival_ms(self) -> int:
        """When a reader could have it, by the broker's clock, in ms since the epoch."""
        return max(self.append_ms, self.readable_ms)


class Collector:
    """A reader with a thread of its own; a context manager."""

    def __init__(
        self, client: Mapping[str, Any], topic: str, partitions: int, *, copy_header: str
    ) -> None:
        """``client`` is a confluent-kafka configuration. Holds a password."""
        from confluent_kafka import Consumer, TopicPartition

        self._topic, self._partitions, self._header = topic, partitions, copy_header
        self._client = client
        self._messages: list[Message] = []
        self._stopping = threading.Event()
        self._finishing = threading.Event()
        self._ends: Sequence[int] | None = None
        self._problem: str | None = None
        self._reached = [0] * partitions
        """The offset up to which each partition has been read; the marks of transactions, which are
        not messages, are counted when its end is met."""
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"collector-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # by default it would go on behind what was deleted
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 5,
                "log_level": 2,  # its end is the broker's too; that is no news
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    @property
    def count(self) -> int:
        """Number of messages that have been read so far."""
        return len(self._messages)

    @property
    def newest(self) -> Message | None:
        """The newest message; None before the first."""
        return self._messages[-1] if self._messages else None

    def since(self, number: int) -> Sequence[Message]:
        """Return the messages from the ``number``-th on, in the order of reading."""
        return self._messages[number:]

    def finish(self, *, silence_s: float = 30) -> Sequence[Message]:
        """Return all messages that are in the topic now, in the order of arrival.

        Raises `EnvironmentFailure` once none has come for ``silence_s``. There is no limit for the
        whole: reading millions takes minutes."""
        self._finishing.set()
        seen, deadline = self.count, time.monotonic() + silence_s
        while self._problem is None and (self._ends is None or not self._has(self._ends)):
            if self.count > seen:
                seen, deadline = self.count, time.monotonic() + silence_s
            if time.monotonic() > deadline:
                raise EnvironmentFailure(
                    f"topic {self._topic} could not be read to its end: nothing came for "
                    f"{silence_s:.0f} s after {seen} results, its partitions end at {self._ends}",
                    remedy="look at the broker's log in the run directory",
                )
            time.sleep(0.02)
        if self._problem is not None:
            raise EnvironmentFailure(
                f"topic {self._topic} cannot be read: {self._problem}",
                remedy="look at the broker's log in the run directory",
            )
        assert self._ends is not None, "they were looked up"
        messages = self._messages
        if len(messages) < sum(self._ends):  # the others are markers, or were aborted
            log = read_log(self._client, self._topic, self._ends)
            times = {partition: readable(batches) for partition, batches in log.items()}
            messages = [replace(m, readable_ms=times[m.partition].of(m.offset)) for m in messages]
        return sorted(messages, key=lambda m: (m.arrival_ms, m.partition, m.offset))

    def _has(self, ends: Sequence[int]) -> bool:
        return all(have >= end for have, end in zip(self._reached, ends, strict=True))

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        try:
            while not self._stopping.is_set():
                if self._finishing.is_set() and self._ends is None:
                    self._ends = self._look_up_ends()
                self._take()
        except KafkaException as error:
            self._problem = str(error)

    def _take(self) -> None:
        """Read the messages that are there, after a short wait for the first one."""
        from confluent_kafka import KafkaError, KafkaException

        first = self._consumer.poll(0.05)
        if first is None:
            return
        for message in [first, *self._consumer.consume(_MOST_AT_ONCE, 0)]:
            error = message.error()
            if error is None:
                self._messages.append(self._read(message))
                self._reached[message.partition()] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached[message.partition()] = message.offset()
            elif error.fatal() or error.code() in (
                KafkaError.OFFSET_OUT_OF_RANGE,
                KafkaError._AUTO_OFFSET_RESET,
            ):
                raise KafkaException(error)

    def _look_up_ends(self) -> Sequence[int]:
        """Return the ends. For the polling thread: a call from another one waits for its polls."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(self._topic, p) for p in range(self._partitions)]
        offsets = [self._consumer.get_watermark_offsets(p, timeout=_LOOK_UP_S) for p in places]
        return [int(end) for _, end in offsets]

    def _read(self, message: Any) -> Message:
        headers = dict(message.headers() or [])
        return Message(
            append_ms=message.timestamp()[1],
            partition=message.partition(),
            offset=message.offset(),
            value=message.value() or b"",
            copy=int(headers.get(self._header, b"0")),
            headers=headers,
            key=message.key(),
        )
