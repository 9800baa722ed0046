"""The engine's clients of Kafka against errors that a broker answers, with the real library.

The virtual host has a model of these clients; here the library itself decides what is repeated,
what is reported and what is the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import KafkaError, Producer

from harness.engines.tasks.exchange import Begin, ReadError, Sender, consumer_settings
from tests.engines.tasks.kit import heard
from tests.engines.tasks.pushing import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    PushingBroker,
    pushing_broker,
)

RECORDS = 10
LASTING = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_REQUIRED_ACKS,
    KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD,
)  # fmt: skip


@pytest.fixture
def broker() -> Iterator[PushingBroker]:
    with pushing_broker() as broker:
        broker.create("out")
        yield broker


def filled(broker: PushingBroker) -> None:
    producer = Producer({**broker.client, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("out", str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def sent(broker: PushingBroker) -> list[tuple[int, int]]:
    """Append one record; return what was reported as lost, sink and code."""
    lost: list[tuple[int, int]] = []
    sender = Sender(broker.client, 0, lambda sink, error: lost.append((sink, error.code())))
    sender.append("out", 0, 7, b"x")
    sender.flush(30)
    sender.tend()
    return lost


def read(broker: PushingBroker) -> tuple[list[int], list[ReadError]]:
    """Return the numbers and errors that a reader has until the last record or its end."""
    # Unlike a broker, the imitation waits for records before it answers with an error.
    settings = {**consumer_settings(broker.client), "fetch.wait.max.ms": 50}
    return heard(settings, "out", Begin(), records=RECORDS)


@pytest.mark.parametrize("code", LASTING)
def test_errors_that_do_not_pass_are_reported(broker: PushingBroker, code: int) -> None:
    broker.push(PRODUCE, [code])
    assert sent(broker) == [(7, code)]
    assert sent(broker) == [], "and the next record is taken"


MOVED = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


@pytest.mark.parametrize(
    ("request_kind", "codes"),
    [
        (FETCH, MOVED),
        (FETCH, (KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.KAFKA_STORAGE_ERROR)),
        (FETCH, (KafkaError.TOPIC_AUTHORIZATION_FAILED,)),
        (FETCH, (KafkaError.UNKNOWN,)),
        (LIST_OFFSETS, (*MOVED[::-1], KafkaError.TOPIC_AUTHORIZATION_FAILED)),
    ],
)
def test_a_reader_goes_on_after_errors(
    broker: PushingBroker, request_kind: int, codes: Sequence[int]
) -> None:
    filled(broker)
    broker.push(request_kind, codes)
    numbers, errors = read(broker)
    assert numbers == list(range(RECORDS)), "without a gap or a repetition"
    assert not any(error.final for error in errors)


def test_a_reader_whose_records_are_gone_says_so_and_ends(broker: PushingBroker) -> None:
    filled(broker)
    broker.push(FETCH, [KafkaError.OFFSET_OUT_OF_RANGE])
    numbers, errors = read(broker)
    assert numbers == []
    assert [(error.final, error.gone) for error in errors] == [(True, True)]
