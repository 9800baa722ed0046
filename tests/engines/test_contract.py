"""The engines of `harness.engines.kinds` under their contract; `test_toy` has the toy's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import admin

from harness.cluster.backends import remove_made
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.endpoints import KafkaEndpoint
from harness.cluster.local.cluster import LocalCluster
from harness.engines.base import Setup
from harness.engines.kafka_streams.parameters import TUNED
from harness.engines.kinds import ENGINES, find_engine
from harness.engines.topics import topics
from harness.errors import UsageError
from tests.cluster.helpers import silent
from tests.engines.contract import EngineContract, EngineKindContract
from tests.engines.tasks.live import PARAMETERS, SPEC, WORDS, own_state


def test_a_broker_deletes_nothing_of_a_pass_but_by_the_retention_that_it_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker's own defaults may limit the bytes of a topic, or compact it."""
    made: dict[str, Any] = {}

    def create(new: Any, operation_timeout: float) -> dict[str, Any]:
        made.update({topic.topic: topic.config for topic in new})
        return {}

    client = SimpleNamespace(create_topics=create, delete_topics=lambda names, **_: {})
    monkeypatch.setattr(admin, "AdminClient", lambda settings: client)
    kafka = KafkaEndpoint(bootstrap="nobody:1")
    with topics(kafka, {"in": 1, "out": 1}, retention_s={"out": 60.0}):
        for config in made.values():
            assert config["retention.bytes"] == "-1"
            assert config["cleanup.policy"] == "delete"
        assert [made[name]["retention.ms"] for name in ("in", "out")] == ["-1", "60000"]


class TestStockKind(EngineKindContract):
    kind, workload = find_engine("structured"), WORDS


class TestTasksKind(EngineKindContract):
    kind, workload = find_engine("tasks"), WORDS


@pytest.mark.cluster
class OnLocalCluster(EngineContract):
    """A cluster of local processes with the shape ``spec``."""

    spec: ClassVar[ClusterSpec]

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        with own_state(tmp_path_factory), LocalCluster(cls.spec, remove=remove_made) as cluster:
            cluster.start(silent)
            yield cluster


@pytest.mark.spark
class TestStock(OnLocalCluster):
    kind, workload, setup = find_engine("structured"), WORDS, Setup(scheme="checkpoint", brief=True)
    spec = ClusterSpec(racks=2, workers_per_rack=1, memory_mb_per_worker=1024)
    interval_s, load_s, kill_s = 1.0, 8.0, 3.0


@pytest.mark.spark
class TestTasks(OnLocalCluster):
    kind, workload = find_engine("tasks"), WORDS
    setup, spec = Setup(scheme="checkpoint", parameters=PARAMETERS), SPEC


@pytest.mark.long  # its jars are fetched when a run first asks for them
class TestKafkaStreams(OnLocalCluster):
    kind, workload = find_engine("kafka-streams"), WORDS
    setup = Setup(scheme="standby", parameters=replace(TUNED, in_memory=True))
    spec = ClusterSpec(racks=2, workers_per_rack=1, memory_mb_per_worker=512)
    load_s, kill_s, away_s = 8.0, 3.0, 1.0


@pytest.mark.long
class TestFlink(OnLocalCluster):
    kind, workload = find_engine("flink"), WORDS
    setup = Setup(scheme="standby")
    spec = ClusterSpec(racks=2, workers_per_rack=1, memory_mb_per_worker=512)
    load_s, kill_s, away_s = 12.0, 5.0, 1.0


def test_every_engine_is_under_the_contract() -> None:
    tested = {each.kind.name for each in (TestStock, TestTasks, TestKafkaStreams, TestFlink)}
    assert tested == {kind.name for kind in ENGINES}


def test_engines_are_found_by_name() -> None:
    assert [find_engine(kind.name) for kind in ENGINES] == list(ENGINES)
    with pytest.raises(UsageError, match="did you mean 'structured'"):
        find_engine("structred")
