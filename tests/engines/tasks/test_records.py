"""Output as ordinary records: without a broker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from harness.engines.deliveries import deliveries
from harness.engines.tasks.exchange import OF_SINK, OutputTail, Sender
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.reading import Reading, read_results
from harness.engines.tasks.records import Results, json_rows, records_of
from harness.hosting.codec import Encoded, encode
from harness.measure.collector import Message
from harness.measure.values import read_json
from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence
from workloads.wordcount import word_count

WORKLOAD = word_count()
COLUMNS = WORKLOAD.columns


def counts(second: int, **words: int) -> Encoded:
    table = {
        "window_start": pa.array([second * 1_000_000] * len(words), pa.timestamp("us")),
        "word": list(words),
        "count": list(words.values()),
    }
    return Encoded(pa.table(table))


def publication(
    term: int, sequence: int, batch: int, payload: Any, kind: Kind = Kind.STABLE
) -> OutputBatch:
    record = OutputRecord(kind=kind, batch=batch, payload=payload)
    return OutputBatch(term=term, sequence=sequence, records=(record,))


def log(*entries: OutputEntry, missing: Sequence[int] = ()) -> list[Message]:
    """Return the messages of sink 3 for these entries, without those of some offsets."""
    found: list[Message] = []
    offset = 0
    for number, entry in enumerate(entries):
        for value, headers in records_of(entry, f"0.1.{number}", COLUMNS):
            if offset not in missing:
                found.append(
                    Message(
                        append_ms=10_000 + offset,
                        partition=0,
                        offset=offset,
                        value=value or b"",
                        copy=3,
                        headers={OF_SINK: b"3", **headers},
                    )
                )
            offset += 1
    return found


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


def test_an_incomplete_publication_counts_when_it_was_sent_again() -> None:
    assert read(log(FENCE, FIRST, missing=[1])) == []
    assert read(log(FENCE, FIRST, FIRST, missing=[1])) == [("a", 2, "stable"), ("b", 3, "stable")]


def test_tentative_results_carry_it_and_are_undone() -> None:
    tentative = publication(1, 1, 0, counts(5, a=1), Kind.TENTATIVE)
    undo = publication(1, 2, 0, None, Kind.UNDO)
    messages = log(FENCE, tentative, undo, publication(1, 3, 0, counts(5, a=2)))
    found = read(messages)
    assert [stability for _, _, stability in found] == ["tentative", "undo", "stable"]
    rows = [one for one in messages if one.value]
    assert deliveries(rows, WORKLOAD, 0.0)["stability"].tolist() == ["tentative", "stable"]


class Produced:
    """A Kafka message as a sink reads it back."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self._message.headers.items())

    def value(self) -> bytes | None:
        return self._message.value or None


@pytest.mark.parametrize(("missing", "sequence"), [((), 1), ((2,), 0)])
def test_a_sink_counts_what_it_reads_back(missing: Sequence[int], sequence: int) -> None:
    tail = OutputTail(3, lambda reader: None)
    tail.take([Produced(one) for one in log(FENCE, FIRST, missing=missing)])
    assert (tail.reader.term, tail.reader.sequence) == (1, sequence)
    other = OutputTail(4, lambda reader: None)
    other.take([Produced(one) for one in log(FENCE, FIRST)])
    assert other.reader.term == -1


def test_the_sender_writes_a_record_per_result(monkeypatch: pytest.MonkeyPatch) -> None:
    produced: list[Any] = []
    monkeypatch.setattr(Sender, "_produce", lambda self, *given: produced.append(given))
    sender = Sender({"bootstrap.servers": "127.0.0.1:1"}, 0, lambda sink, error: None)
    sender.append_results("out", 0, 3, FIRST, COLUMNS)
    assert [value is None for *_, value, _ in produced] == [False, False, True]
    sender.append("out", 0, 3, encode(FIRST))
    assert len(produced) == 4, "otherwise one record for all"
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


def test_bytes_of_another_origin_are_passed_over() -> None:
    assert Results().take(None, {"entry": b"nonsense"}) is None
