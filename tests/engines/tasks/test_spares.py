"""Consumers that wait connected, on the client library's own imitation of a broker."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.engines.tasks import spares
from harness.engines.tasks.exchange import consumer_settings
from harness.engines.tasks.spares import Spares


class CountedConsumers:
    """A counter of new consumers that reports when there are enough."""

    def __init__(self, enough: int) -> None:
        self.count, self._enough, self.all = 0, enough, threading.Event()

    def __call__(self, settings: dict[str, object]) -> Consumer:
        self.count += 1
        if self.count >= self._enough:
            self.all.set()
        return Consumer(settings)


def test_spares_are_connected_and_replaced_once_nobody_takes_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=5).brokers.values()
    client = {"bootstrap.servers": ",".join(f"{b.host}:{b.port}" for b in brokers)}
    producer.produce("data", b"here", partition=0)
    producer.flush(5)
    made = CountedConsumers(enough=5)
    monkeypatch.setattr(spares, "Consumer", made)
    monkeypatch.setattr(spares, "CALM_S", 0.01)
    kept = Spares(consumer_settings(client), "data", kept=2)
    assert kept.full.wait(60)
    assert made.count == 2
    taken = [kept.take() for _ in range(3)]  # the third is made at once
    assert made.all.wait(60), "two more were made for those that were taken"
    for consumer in taken:
        consumer.assign([TopicPartition("data", 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"here"
        consumer.close()


def test_there_is_a_consumer_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "_WITHIN_S", 0.01)
    monkeypatch.setattr(spares, "CALM_S", 0.01)
    kept = Spares(consumer_settings({"bootstrap.servers": "127.0.0.1:1"}), "data", kept=1)
    assert kept.full.wait(60)
    kept.take().close()
