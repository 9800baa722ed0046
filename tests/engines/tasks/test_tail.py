"""Following a partition, on the client library's own imitation of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from harness.engines.tasks import exchange
from harness.engines.tasks.exchange import EARLIEST, Tail, consumer_settings, source_settings

MESSAGES = 1_000


def test_a_busy_partition_is_read_on_patiently_and_without_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "BUSY_PER_S", 3)
    monkeypatch.setattr(exchange, "_AT_ONCE", 10)  # so that there are many answers
    producer = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=5).brokers.values()
    client = {"bootstrap.servers": ",".join(f"{b.host}:{b.port}" for b in brokers)}
    for number in range(MESSAGES):
        producer.produce("busy", str(number).encode(), partition=0)
    producer.flush(5)
    found: list[int] = []

    async def follow() -> Tail:
        whole = asyncio.Event()

        def deliver(messages: Sequence[Message]) -> None:
            found.extend(int(message.value() or b"") for message in messages)
            if len(found) >= MESSAGES:
                whole.set()

        tail = Tail(
            lambda: Consumer(consumer_settings(client)),
            "busy",
            0,
            EARLIEST,
            deliver=deliver,
            patient=source_settings(client, 0.005),
        )
        await asyncio.wait_for(whole.wait(), 60)
        tail.stop()
        return tail

    tail: Any = asyncio.run(follow())
    assert found == list(range(MESSAGES))
    assert tail._patient is None, "it has become patient on the way"
