"""The collector on librdkafka's own mock broker: no server is started."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, Producer

from harness.errors import EnvironmentFailure
from harness.measure import collector as collecting
from harness.measure.collector import Collector
from harness.measure.commits import Batch, readable
from tests.engines.tasks.pushing import FETCH, pushing_broker
from tests.load.test_generator import Broker


def send(client: Mapping[str, str | int], topic: str, *values: tuple[int, int, bytes]) -> None:
    """Send records of (partition, timestamp in ms, value), from copy 3."""
    producer = Producer({**client, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    for partition, at_ms, value in values:
        headers = [("copy", b"3")]
        producer.produce(topic, value, partition=partition, timestamp=at_ms, headers=headers)
        assert producer.flush(10) == 0


def test_everything_is_read_in_the_order_of_arrival() -> None:
    broker = Broker()
    client = broker.confluent()
    send(client, "two", (0, 2000, b"second"), (1, 1000, b"first"), (1, 3000, b"third"))
    with Collector(client, "two", 2, copy_header="copy") as collector:
        messages = collector.finish()
        assert collector.count == 3
    assert [m.value for m in messages] == [b"first", b"second", b"third"]
    assert [m.append_ms for m in messages] == [1000, 2000, 3000]
    assert {m.copy for m in messages} == {3}
    broker.close()


def test_a_broker_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_LOOK_UP_S", 0.2)
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    with (
        Collector(nobody, "out", 1, copy_header="copy") as collector,
        pytest.raises(EnvironmentFailure, match="topic out cannot be read"),
    ):
        collector.finish()


def test_records_that_were_deleted_before_they_were_read_are_an_error() -> None:
    with pushing_broker() as broker:
        broker.create("short")
        send(broker.client, "short", (0, 1, b"a"), (0, 2, b"b"))
        broker.push(FETCH, [KafkaError.OFFSET_OUT_OF_RANGE])
        with (
            Collector(broker.client, "short", 1, copy_header="copy") as collector,
            pytest.raises(EnvironmentFailure, match="topic short cannot be read"),
        ):
            collector.finish(silence_s=5)


def data(first: int, last: int, at_ms: int, producer: int = -1) -> Batch:
    transactional = producer >= 0
    return Batch(
        first=first, last=last, append_ms=at_ms, producer=producer, transactional=transactional
    )


def marker(offset: int, at_ms: int, producer: int) -> Batch:
    return Batch(
        first=offset, last=offset, append_ms=at_ms, producer=producer, transactional=True,
        marker=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param([data(0, 1, 10), data(2, 2, 20)], {0: 10, 1: 10, 2: 20}, id="none"),
        pytest.param([data(0, 3, 10, 7), marker(4, 90, 7)], {0: 90, 3: 90}, id="one"),
        pytest.param(
            [data(0, 0, 10, 7), marker(1, 90, 7), data(2, 2, 95, 7), marker(3, 99, 7)],
            {0: 90, 2: 99},
            id="one after the other",
        ),
        pytest.param(
            [data(0, 0, 10, 7), data(1, 1, 20, 8), marker(2, 30, 8), data(3, 3, 40),
             marker(4, 90, 7), data(5, 5, 95)],
            {0: 90, 1: 90, 3: 90, 5: 95},
            id="behind an earlier one",
        ),
        pytest.param(
            [data(0, 0, 10, 8), data(1, 1, 20, 7), marker(2, 30, 8), marker(3, 90, 7)],
            {0: 30, 1: 90},
            id="before a later one",
        ),
    ],
)  # fmt: skip
def test_a_record_is_there_when_nothing_holds_it_back(
    batches: list[Batch], expected: dict[int, int]
) -> None:
    times = readable(batches)
    assert {offset: times.of(offset) for offset in expected} == expected
