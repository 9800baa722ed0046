"""Output as ordinary records: without a broker."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from harness.engines.deliveries import deliveries
from harness.engines.tasks.exchange import OF_SINK, OutputTail, Sender
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.reading import Reading, read_results
from harness.engines.tasks.records import json_rows, key_of, rows_of
from harness.hosting.codec import Encoded, encode
from harness.measure.collector import Collector, Message
from harness.measure.values import read_json
from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence
from tests.engines.tasks.kit import counts
from tests.load.test_generator import Broker
from workloads.wordcount import word_count

WORKLOAD = word_count()
COLUMNS = WORKLOAD.columns


def publication(
    term: int, sequence: int, batch: int, results: pa.Table | None, kind: Kind = Kind.STABLE
) -> OutputBatch:
    payload = None if results is None else Encoded(results)
    record = OutputRecord(kind=kind, batch=batch, payload=payload)
    return OutputBatch(term=term, sequence=sequence, records=(record,))


def log(*entries: OutputEntry) -> list[Message]:
    """Return the messages of sink 3 for these entries."""
    sent: list[tuple[bytes, bytes, Mapping[str, bytes]]] = []
    for number, entry in enumerate(entries):
        key, (rows, headers) = key_of(3, str(number)), rows_of(entry, COLUMNS)
        sent += [(key, value, each.headers) for each in rows for value in each.values]
        sent.append((key, b"", {OF_SINK: b"3", **headers}))
    return [
        Message(
            append_ms=10_000 + offset,
            partition=0,
            offset=offset,
            value=value,
            copy=int(headers.get(OF_SINK, b"0")),
            headers=headers,
            key=key,
        )
        for offset, (key, value, headers) in enumerate(sent)
    ]


def read(messages: Sequence[Message]) -> list[tuple[str, int, str]]:
    frame = read_results(messages, Reading(WORKLOAD), 0.0)
    return list(zip(frame["word"], frame["count"], frame["stability"], strict=True))


FENCE = OutputFence(term=1)
FIRST = publication(1, 1, 0, counts(5, a=2, b=3))


def test_an_ordinary_consumer_reads_every_result() -> None:
    messages = [one for one in log(FENCE, FIRST) if one.value]
    frame = deliveries(messages, WORKLOAD, 0.0)
    assert frame["word"].tolist() == ["a", "b"]
    assert frame["count"].tolist() == [2, 3]
    assert frame["window_start_s"].tolist() == [5.0, 5.0]
    assert frame["stability"].tolist() == ["stable", "stable"]


def test_a_reader_of_the_entries_gets_each_result_once() -> None:
    again = publication(1, 1, 0, counts(5, a=2, b=3))
    stale = publication(0, 7, 9, counts(9, old=1))
    messages = log(OutputFence(term=0), FENCE, stale, FIRST, again)
    assert read(messages) == [("a", 2, "stable"), ("b", 3, "stable")]


def test_tentative_results_carry_it_and_are_undone() -> None:
    tentative = publication(1, 1, 0, counts(5, a=1), Kind.TENTATIVE)
    undo = publication(1, 2, 0, None, Kind.UNDO)
    messages = log(FENCE, tentative, undo, publication(1, 3, 0, counts(5, a=2)))
    found = read(messages)
    assert [stability for _, _, stability in found] == ["tentative", "undo", "stable"]
    rows = [one for one in messages if one.value]
    assert deliveries(rows, WORKLOAD, 0.0)["stability"].tolist() == ["tentative", "stable"]


def produced(message: Message) -> Any:
    """Return a Kafka message as a sink reads it back."""
    return SimpleNamespace(
        headers=lambda: list(message.headers.items()), key=lambda: message.key,
        offset=lambda: message.offset, value=lambda: message.value or None,
    )  # fmt: skip


class Client:
    """A producer whose queue may be short."""

    room = 100

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.produced: list[bytes | None] = []

    def produce(self, topic: str, value: bytes | None, *_: object, **__: object) -> None:
        self.produced.append(value)

    def produce_batch(self, topic: str, messages: Sequence[Any], **_: object) -> int:
        taken = messages[: self.room]
        self.produced += [one["value"] for one in taken]
        return len(taken)

    def poll(self, seconds: float) -> None:
        """Do nothing."""


def test_the_sender_writes_a_record_per_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.engines.tasks.exchange.Producer", Client)
    lost: list[int] = []
    sender = Sender({}, 0, lambda sink, error: lost.append(sink))
    sender.append_results("out", 0, 3, FIRST, COLUMNS)
    client = cast(Client, sender._of_records)
    assert [value is None for value in client.produced] == [False, False, True]
    client.room = 1
    sender.append_results("out", 0, 3, FIRST, COLUMNS)
    assert lost == [3], "the publication is incomplete, and is sent again"
    assert client.produced[3:] == client.produced[:1]
    sender.append("out", 0, 3, encode(FIRST))
    assert len(cast(Client, sender._producer).produced) == 1, "otherwise one record for all"
    assert not TaskParameters().ordinary_records


def test_values_are_written_as_spark_writes_them() -> None:
    table = pa.table(
        {
            "f": [1.5, math.nan, math.inf, None],
            "d": pa.array([Decimal("1.10"), None, Decimal(2), Decimal(3)], pa.decimal128(5, 2)),
            "t": pa.array([1_500_000, None, 0, 0], pa.timestamp("us")),
            "b": [b"\x00\xff", b"", None, b"x"],
        }
    )
    rows = json_rows(table, ["f", "d", "t", "b"])
    assert rows[0] == b'{"f":1.5,"d":1.10,"t":1500,"b":"AP8="}'
    frame = read_json(rows, ["f", "d", "t", "b"])
    assert frame["f"].tolist() == [Decimal("1.5"), "NaN", "Infinity", None]
    assert json_rows(None, ["f"]) == json_rows(Encoded(table.slice(0, 0)), ["f"]) == []


@pytest.mark.parametrize("words", [["a", "b"], ["a", 'quo"te'], ["a", None], ["ä", "\\\n"]])
def test_any_text_can_be_written(words: list[str | None]) -> None:
    table = pa.table({"n": [1, 2], "w": pa.array(words, pa.string())})
    rows = json_rows(table, ["n", "w"])
    assert [json.loads(row) for row in rows] == table.to_pylist()


def test_a_broker_carries_every_form() -> None:
    """Results in bulk, tentative ones one by one, and entries without a value."""
    broker, lost = Broker(), []
    try:
        sender = Sender(broker.confluent(), 0, lambda sink, error: lost.append(error))
        tentative = publication(1, 1, 0, counts(5, a=1), Kind.TENTATIVE)
        many = publication(1, 2, 0, counts(5, **{f"w{n}": n for n in range(2_000)}))
        for entry in (FENCE, tentative, many):
            sender.append_results("out", 0, 3, entry, COLUMNS)
        sender.flush(20)
        with Collector(broker.confluent(), "out", 1, copy_header=OF_SINK) as collector:
            messages = collector.finish()
    finally:
        broker.close()
    assert lost == []
    found = read(messages)
    assert found[0] == ("a", 1, "tentative")
    assert [one for one in found if one[2] == "stable"] == [
        (f"w{n}", n, "stable") for n in range(2_000)
    ]
    ordinary = deliveries([one for one in messages if one.value], WORKLOAD, 0.0)
    assert ordinary["stability"].value_counts().to_dict() == {"stable": 2_000, "tentative": 1}
    tail = OutputTail(3, lambda reader: None)
    tail.take([produced(one) for one in messages])
    assert (tail.reader.term, tail.reader.sequence) == (1, 2)
