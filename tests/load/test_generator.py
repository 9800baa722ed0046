"""The generator as it is used: a process of its own, against a small broker inside this one.

The broker is librdkafka's own imitation, which speaks the real protocol over real sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.cluster.endpoints import KafkaEndpoint
from harness.errors import EnvironmentFailure
from harness.load.generator import LoadGenerator
from harness.load.plan import LoadPlan, Stream
from harness.load.profile import RateProfile
from tests.cluster.helpers import eventually
from workloads.base import Reference


class Broker:
    """An endpoint without credentials."""

    def __init__(self) -> None:
        self._host: Any = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
        found = next(iter(self._host.list_topics(timeout=20).brokers.values()))
        self.bootstrap = f"{found.host}:{found.port}"
        self.topic_prefix, self.replication = "", 1

    def confluent(self, *, on_executor: bool = False) -> dict[str, str | int]:
        return {"bootstrap.servers": self.bootstrap}

    def close(self) -> None:
        self._host = None

    def read(self, topic: str, partition: int, count: int) -> list[tuple[int, int, bytes]]:
        """Return (offset, timestamp in ms, value) of all records of a partition."""
        consumer = Consumer({**self.confluent(), "group.id": "test", "fetch.wait.max.ms": 10})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[tuple[int, int, bytes]] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 0.1):
                assert message.error() is None, message.error()
                found.append((message.offset(), message.timestamp()[1], message.value()))
        consumer.close()
        return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


class Numbered:
    """Records that say who they are; some sources take their time."""

    def __init__(self, *, seconds_per_call: float = 0, fails_at: int = 1 << 60) -> None:
        self._seconds_per_call = seconds_per_call
        self._fails_at = fails_at

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        if self._seconds_per_call and start_index:
            time.sleep(self._seconds_per_call)
        assert start_index < self._fails_at, "this source has run dry"
        return [b"%d:%d" % (partition, i) for i in range(start_index, start_index + count)]


def stream(rate: RateProfile, partitions: int = 2, topic: str = "lines", **source: Any) -> Stream:
    records = Reference(target=f"{Path(__file__).resolve()}:Numbered", parameters=source)
    return Stream(topic=topic, partitions=partitions, rate=rate, records=records)


def generate(
    broker: Broker | KafkaEndpoint, log: Path, *streams: Stream, **options: Any
) -> LoadGenerator:
    plan = LoadPlan(streams=streams)
    return LoadGenerator(plan, broker, log=log, **options)  # type: ignore[arg-type]


def test_every_record_is_where_and_when_the_plan_says(broker: Broker, tmp_path: Path) -> None:
    planned = stream(RateProfile(((0.2, 1000), (0.2, 0), (0.2, 3001))), partitions=3)
    start = float(int(time.time()) + 2)
    with generate(broker, tmp_path / "log", planned) as load:
        load.start(start)
        assert load.wait(60)
        result = load.result()
    counts = planned.counts()
    assert result.records == planned.rate.records == sum(counts) == result.lag["records"]
    for partition, count in enumerate(counts):
        got = broker.read("lines", partition, count)
        assert [item[2] for item in got] == [b"%d:%d" % (partition, i) for i in range(count)]
        assert [item[0] for item in got] == list(range(count)), "no repeat, no gap"
        meant = planned.intended_s(partition, np.arange(count)) + start
        assert all(
            abs(item[1] / 1000 - m) <= 0.001 for item, m in zip(got, meant.tolist(), strict=True)
        )


def test_a_schedule_that_was_not_kept_is_invalid(broker: Broker, tmp_path: Path) -> None:
    slow = stream(RateProfile.constant(2000, 0.5), seconds_per_call=0.3)
    with generate(broker, tmp_path / "log", slow) as load:
        load.start(time.time() + 0.5)
        assert load.wait(60)
        result = load.result()
    assert result.records == 1000, "late, but complete"
    assert result.lag["late_share"] > 0.01
    assert result.invalid is not None
    assert "100 ms late" in result.invalid


def test_records_that_a_dead_broker_did_not_take_are_counted(tmp_path: Path) -> None:
    broker = Broker()
    planned = stream(RateProfile.constant(2000, 60))
    with generate(broker, tmp_path / "log", planned, delivery_timeout_s=2) as load:
        load.start(time.time())
        eventually(lambda: load.progress.acknowledged > 0)
        broker.close()
        assert load.wait(60), "it gives up by itself, long before the plan's end"
        with pytest.raises(EnvironmentFailure, match=r"took \d+ of 120000 records \(.+\)"):
            load.result()


def test_a_source_that_fails_is_shown(broker: Broker, tmp_path: Path) -> None:
    dry = stream(RateProfile.constant(2000, 5), fails_at=400)
    with generate(broker, tmp_path / "log", dry) as load:
        load.start(time.time() + 0.5)
        assert load.wait(60)
        with pytest.raises(EnvironmentFailure, match="run dry"):
            load.result()


def test_its_process_shows_no_credentials_and_ends_with_its_parent(
    broker: Broker, tmp_path: Path
) -> None:
    load = generate(broker, tmp_path / "log", stream(RateProfile.constant(100, 3600)))
    load.start(time.time())
    command = Path(f"/proc/{load._child.pid}/cmdline").read_bytes()
    surroundings = Path(f"/proc/{load._child.pid}/environ").read_bytes()
    assert b"harness.load.child" in command
    assert broker.bootstrap.encode() not in command + surroundings, "all of it comes by stdin"
    load._child.hang_up()  # what the kernel does when the harness is killed
    assert load.wait(30)
    assert load._child.exit_code == 1
    load.stop()
