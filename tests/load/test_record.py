"""A topic that is recorded, from a consumer that is made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition

from harness.cli.main import cli
from harness.cluster.endpoints import login
from harness.errors import EnvironmentFailure, UsageError
from harness.load.record import record_topic, settings_of
from workloads.toolkit.recorded import Recording


def message(partition: int, offset: int) -> Any:
    return SimpleNamespace(
        error=lambda: None, partition=lambda: partition, offset=lambda: offset,
        timestamp=lambda: (1, 1000 * offset + partition), key=lambda: b"key",
        value=lambda: b"%d/%d" % (partition, offset),
    )  # fmt: skip


class Consumer:
    """Partition 0 has offsets 3 to 6, 1 is empty, 2 has offset 0; records go on arriving."""

    ends = {0: (3, 7), 1: (5, 5), 2: (0, 1)}  # noqa: RUF012 - a constant of the test

    def __init__(self, error: str | None = None) -> None:
        self.assigned: list[TopicPartition] = []
        known = SimpleNamespace(str=lambda: error) if error else None
        self.found = SimpleNamespace(error=known, partitions=self.ends)

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: self.found})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return self.ends[place.partition]

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = places

    def consume(self, most: int, timeout: float) -> list[Any]:
        first = [
            message(place.partition, place.offset + n) for place in self.assigned for n in (0, 1)
        ]
        for place in self.assigned:
            place.offset += 2
        return first


def test_a_topic_is_recorded_to_its_present_end(tmp_path: Path) -> None:
    consumer = Consumer()
    table = record_topic(consumer, "orders", most=100)
    values = sorted(table["value"].to_pylist())
    assert values == [b"0/3", b"0/4", b"0/5", b"0/6", b"2/0"], "no later record, no empty partition"
    pyarrow.parquet.write_table(table, tmp_path / "orders.parquet")
    recording = Recording(str(tmp_path / "orders.parquet"), "timestamp", "ms", 1)
    assert recording.payloads(0, 0, 3) == [b"2/0", b"0/3", b"0/4"], "by their time, as they are"
    assert recording.first_unix_s == pytest.approx(0.002)


def test_most_is_kept_and_a_topic_that_cannot_be_read_is_named() -> None:
    assert len(record_topic(Consumer(), "orders", most=2)) == 2
    with pytest.raises(UsageError, match="topic 'orders' cannot be read: unknown"):
        record_topic(Consumer("unknown"), "orders", most=2)


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# a comment\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n")
    assert settings_of(file) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert settings_of(None) == {}
    java = login("SCRAM-SHA-256", "me", 'a "b" \\c')
    file.write_text(f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={java}\n")
    assert settings_of(file) == {
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "me", "sasl.password": 'a "b" \\c'
    }  # fmt: skip
    with pytest.raises(UsageError, match="cannot be read"):
        settings_of(tmp_path / "none")


def test_a_broker_that_does_not_answer_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.load.record.WITHIN_S", 0.5)
    to = ["--to", f"{tmp_path}/new/o.parquet"]
    done = CliRunner().invoke(cli, ["record", "orders", "--bootstrap", "127.0.0.1:1", *to])
    assert isinstance(done.exception, EnvironmentFailure)
    assert "127.0.0.1:1 does not answer" in done.exception.what
    assert "rdkafka" not in capfd.readouterr().err, "one message, not a line for every attempt"


def test_a_setting_that_the_client_does_not_know_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("security.protokol=SSL\n")
    to = ["--to", str(tmp_path / "o.parquet"), "--client", str(file)]
    done = CliRunner().invoke(cli, ["record", "orders", "--bootstrap", "127.0.0.1:1", *to])
    assert isinstance(done.exception, UsageError)
    assert 'No such configuration property: "security.protokol"' in done.exception.what
