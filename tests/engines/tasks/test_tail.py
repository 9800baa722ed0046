"""Following a partition, on the client library's own imitation of a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from harness.engines.tasks import exchange, reading
from harness.engines.tasks.exchange import Begin, consumer_settings, source_settings
from harness.errors import EnvironmentFailure
from tests.engines.tasks.kit import heard

MESSAGES = 1_000


@pytest.fixture(scope="module")
def client() -> Iterator[dict[str, str]]:
    """Give an imitation of a broker that holds numbers in one partition."""
    producer = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=5).brokers.values()
    for number in range(MESSAGES):
        producer.produce("busy", str(number).encode(), partition=0, timestamp=1_000 + number)
    producer.flush(5)
    yield {"bootstrap.servers": ",".join(f"{b.host}:{b.port}" for b in brokers)}
    assert len(producer) == 0, "it lives as long as its imitation is used"


def test_a_partition_is_read_patiently_and_without_a_gap(
    client: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_AT_ONCE", 10)  # so that there are many answers
    settings = source_settings(client, 100_000)
    assert settings["fetch.queue.backoff.ms"] == 10
    numbers, _ = heard(settings, "busy", Begin(), records=MESSAGES)
    assert numbers == list(range(MESSAGES))


def test_an_offset_that_the_partition_does_not_have_is_no_beginning(client: dict[str, str]) -> None:
    _, (error,) = heard(consumer_settings(client), "busy", Begin(offset=MESSAGES + 1))
    assert (error.final, error.gone) == (True, True)
    assert f"records 0 to {MESSAGES}" in error.why


@pytest.mark.parametrize(
    ("lows", "first"),
    [
        pytest.param([0, 0], 500, id="nothing was deleted"),
        pytest.param([499, 499], 500, id="a record before the due ones is there"),
        pytest.param([500, 500], None, id="the one before may have been due"),
        pytest.param([600, 600], None, id="due ones were deleted"),
        pytest.param([0, 600], None, id="they are deleted between two questions"),
    ],
)
def test_by_time_a_partition_is_read_only_where_no_due_record_was_deleted(
    client: dict[str, str], monkeypatch: pytest.MonkeyPatch, lows: list[int], first: int | None
) -> None:
    asked = iter(lows)

    class Shortened:
        def __init__(self, settings: Any) -> None:
            self._real = Consumer(settings)

        def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
            return next(asked), MESSAGES

        def offsets_for_times(self, places: list[Any], timeout: float) -> list[Any]:
            place = TopicPartition("busy", 0, max(places[0].offset - 1_000, lows[0]))
            return [place]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(exchange, "Consumer", Shortened)
    numbers, errors = heard(consumer_settings(client), "busy", Begin(at_ms=1_500))
    if first is not None:
        assert numbers[0] == first
    else:
        assert numbers == []
        (error,) = errors
        assert (error.final, error.gone) == (True, True)
        assert f"records {lows[1]} to {MESSAGES}" in error.why
        assert "retention" in error.remedy


def test_time_stamps_that_go_backwards_end_with_what_to_do(client: dict[str, str]) -> None:
    def cut(messages: Sequence[Message]) -> list[Message]:
        raise exchange.Unreadable("record 7 is late", remedy="let the broker stamp the records")

    _, (error,) = heard(consumer_settings(client), "busy", Begin(), prepare=cut)
    assert (error.why, error.final) == ("record 7 is late", True)
    assert error.remedy == "let the broker stamp the records"


def test_what_is_due_is_not_computed_from_what_the_broker_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shortened = SimpleNamespace(
        get_watermark_offsets=lambda place, timeout: (5 * place.partition, 9),
        close=lambda: None,
    )
    monkeypatch.setattr(reading, "Consumer", lambda settings: shortened)
    with pytest.raises(EnvironmentFailure, match=r"deleted records 0 to 4 of busy\[1\]"):
        reading.read_input({}, "busy", 2, 0)
