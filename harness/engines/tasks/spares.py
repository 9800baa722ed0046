"""Consumers that are connected before anyone needs them.

A copy that is restored here needs a reader, and a new consumer takes tens of milliseconds of
processor time until it is connected: threads, three connections, and a proof of the password on
each. So a node keeps a few. One that is taken is replaced later, once nobody takes any: a recovery
must not share the processor with its own preparations for the next one."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.engines.tasks.exchange import Settings

KEPT = 2
"""A sink reads two partitions; most others one."""
CALM_S = 0.5
"""Seconds without a demand before new spares are made."""
_WITHIN_S = 10.0


class Spares:
    """Hands out consumers; its own thread makes them. It lives as long as its process."""

    def __init__(self, client: Settings, topic: str, *, kept: int = KEPT) -> None:
        """Make spares for ``topic``, whose partition 0 is on the broker in question."""
        self._client, self.topic, self._kept = client, topic, kept
        self._ready: deque[Consumer] = deque()
        self._taken = threading.Event()
        self.full = threading.Event()
        """Set while there are as many as there should be."""
        threading.Thread(target=self._fill, name="make spare readers", daemon=True).start()

    def take(self) -> Consumer:
        """One without a partition, for any thread: a spare, or a new one where there is none."""
        self.full.clear()
        try:
            return self._ready.popleft()
        except IndexError:
            return Consumer(self._client)
        finally:
            self._taken.set()

    def _fill(self) -> None:
        while True:
            while self._taken.wait(CALM_S):
                self._taken.clear()
            while len(self._ready) < self._kept and not self._taken.is_set():
                self._ready.append(self._connected())
            if len(self._ready) == self._kept:
                self.full.set()
            self._taken.wait()

    def _connected(self) -> Consumer:
        consumer = Consumer(self._client)
        with suppress(KafkaException):  # the broker is away: it connects when it is back
            consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=_WITHIN_S)
        return consumer
