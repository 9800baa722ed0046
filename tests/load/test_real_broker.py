"""A real broker with credentials: results in transactions, its settings, and its death."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.cluster.backends import remove_made
from harness.cluster.base import BROKER, Action, ClusterSpec
from harness.cluster.configuration import OWN_SETTINGS
from harness.cluster.local.cluster import LocalCluster
from harness.engines.kafka_streams.engine import _of_broker
from harness.engines.settings import demand_reported
from harness.engines.topics import topics
from harness.errors import EnvironmentFailure
from harness.load.profile import RateProfile
from harness.measure.collector import Collector
from tests.cluster.helpers import eventually
from tests.load.test_generator import generate, stream

pytestmark = [pytest.mark.cluster, pytest.mark.deep]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(ClusterSpec(racks=1), directory, keep=True, remove=remove_made) as cluster:
        cluster.start(print)
        yield cluster


def test_a_result_in_a_transaction_arrives_with_its_end(cluster: LocalCluster) -> None:
    """By the broker's clock alone: one that was held back by an older transaction, with its end."""
    kafka, topic = cluster.kafka, "committed"

    def sender(name: str | None) -> Producer:
        made = Producer({**kafka.confluent(), **({"transactional.id": name} if name else {})})
        if name:
            made.init_transactions(30)
        return made

    def send(producer: Producer, value: bytes, partition: int = 0) -> None:
        producer.produce(topic, value, partition=partition)
        assert producer.flush(30) == 0

    first, second, plain = sender("first"), sender("second"), sender(None)
    with topics(kafka, {topic: 2}, appended=[topic]):
        first.begin_transaction()
        send(first, b"held")
        second.begin_transaction()
        send(second, b"behind it")
        second.commit_transaction(30)
        send(plain, b"outside")
        send(plain, b"elsewhere", partition=1)
        time.sleep(1)
        before_ms = time.time() * 1000
        first.commit_transaction(30)
        second.begin_transaction()
        send(second, b"never", partition=1)
        second.abort_transaction(30)
        with Collector(kafka.confluent(), topic, 2, copy_header="copy") as collector:
            read_ms = time.time() * 1000
            found = {one.value: one for one in collector.finish()}
    assert found.keys() == {b"held", b"behind it", b"outside", b"elsewhere"}
    held = [found[name] for name in (b"held", b"behind it", b"outside")]
    (arrival_ms,) = {one.arrival_ms for one in held}
    assert before_ms - 1 <= arrival_ms <= read_ms, "the marker's own append time"
    assert all(one.append_ms < before_ms - 900 for one in held)
    assert found[b"elsewhere"].arrival_ms == found[b"elsewhere"].append_ms


def test_the_brokers_settings_are_those_of_the_run(cluster: LocalCluster) -> None:
    found = list(_of_broker(cluster.kafka))
    assert {one.name: one.asked for one in found} == OWN_SETTINGS
    demand_reported("kafka-streams", found)


def test_a_killed_broker_is_one_clear_message(cluster: LocalCluster, tmp_path: Path) -> None:
    """The broker is back afterwards, for the other tests."""
    planned = stream(RateProfile.constant(1000, 300), topic="interrupted")
    with (
        topics(cluster.kafka, {"interrupted": 2}),
        generate(cluster.kafka, tmp_path / "log", planned, delivery_timeout_s=3) as load,
    ):
        load.start(time.time())
        eventually(lambda: load.progress.acknowledged > 0)
        cluster.apply(Action.KILL, BROKER)
        try:
            assert load.wait(60), "it gives up long before the schedule ends"
            with pytest.raises(EnvironmentFailure, match=r"the broker took \d+ of 300000 records"):
                load.result()
        finally:
            cluster.restore(print)
