"""Comparisons of other clocks with the harness's, by round trips; each has a bound.

Tests: ``tests/cluster/test_clocks.py``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.cluster.endpoints import KafkaEndpoint

_KEPT_S = 60.0
"""Age of the oldest sample that counts: two crystals drift apart by microseconds."""
_ROUNDS = 8
_BROKER_ROUNDS = 5
_BROKER_WITHIN_S = 1.0
_BROKER_RESOLUTION_S = 0.001
"""Append times are whole milliseconds, rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One comparison of two clocks."""

    offset_s: float
    """The other clock minus the harness's."""
    bound_s: float
    """Largest error of the offset: half of the round trip."""
    at_monotonic_s: float = 0.0

    @property
    def certain_s(self) -> float:
        """The part of the offset, without its sign, that no round trip explains."""
        return max(0.0, abs(self.offset_s) - self.bound_s)


SAME = Sample(offset_s=0.0, bound_s=0.0)
"""The comparison of a clock with itself."""


class Clock:
    """Another clock, as it was read lately."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=200)

    def compare(
        self, read: Callable[[], float], rounds: int = _ROUNDS, *, resolution_s: float = 0.0
    ) -> Sample:
        """Read it some times; return the best comparison of the last minute.

        ``resolution_s``: its readings are rounded down to multiples of this."""
        for _ in range(rounds):
            began, before = time.monotonic(), time.time()
            there = read() + resolution_s / 2
            trip_s = time.monotonic() - began
            self._samples.append(
                Sample(
                    offset_s=there - (before + trip_s / 2),
                    bound_s=(trip_s + resolution_s) / 2,
                    at_monotonic_s=began,
                )
            )
        return self.best()

    def best(self) -> Sample:
        """Return the comparison of the last minute with the smallest error."""
        if not self._samples:
            return SAME
        newest = self._samples[-1].at_monotonic_s
        recent = [one for one in self._samples if newest - one.at_monotonic_s < _KEPT_S]
        return min(recent, key=lambda one: one.bound_s)


def spanning(samples: Sequence[Sample]) -> Sample:
    """Return one sample whose bound covers several clocks: any of them may have given a time."""
    first = min(one.offset_s - one.bound_s for one in samples)
    last = max(one.offset_s + one.bound_s for one in samples)
    newest = max(one.at_monotonic_s for one in samples)
    return Sample(offset_s=(first + last) / 2, bound_s=(last - first) / 2, at_monotonic_s=newest)


class BrokerClock:
    """The brokers' clocks, read by records to a topic with append times.

    The topic has as many partitions as copies of each, so every broker leads one of them."""

    def __init__(self, kafka: KafkaEndpoint, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({**kafka.confluent(), "linger.ms": 0, "log_level": 2})
        self._topic = topic
        self._clocks = [Clock() for _ in range(kafka.replication)]

    def compare(self) -> Sample | None:
        """Return the best comparison of the last minute; None while no broker answers."""
        found = []
        for partition, clock in enumerate(self._clocks):
            with suppress(TimeoutError):
                read = partial(self._read, partition)
                found.append(clock.compare(read, _BROKER_ROUNDS, resolution_s=_BROKER_RESOLUTION_S))
        return spanning(found) if found else None

    def _read(self, partition: int) -> float:
        """Return the append time of a new record. Raises `TimeoutError`."""
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        appended: list[int] = []

        def note(error: Any, message: Any) -> None:
            kind, unix_ms = message.timestamp()
            if error is None and kind == TIMESTAMP_LOG_APPEND_TIME:
                appended.append(unix_ms)

        self._producer.produce(self._topic, b"", partition=partition, on_delivery=note)
        self._producer.flush(_BROKER_WITHIN_S)
        if not appended:
            self._producer.purge()
            raise TimeoutError(f"no append time came from the topic {self._topic}")
        return appended[0] / 1000
