"""An existing cluster: the contract, tried on a local one that is treated as foreign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.base import Cluster
from harness.cluster.external import servers
from harness.cluster.external.cluster import ExternalCluster, prefix_of
from harness.cluster.external.servers import check_kafka, check_redis
from harness.cluster.external.settings import read_settings
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.ownership import ClusterRecords
from harness.errors import EnvironmentFailure
from tests.cluster.contract import SPEC, ClusterContract, started
from tests.cluster.described import describe


@pytest.mark.long
class TestExternalCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def foreign(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        spec = replace(SPEC, append_only=True)
        with started(LocalCluster(spec, remove=remove_made)) as local:
            yield describe(local, tmp_path_factory.mktemp("foreign"))

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, foreign: Path) -> Iterator[Cluster]:
        with started(find_backend(str(foreign)).make(SPEC)) as cluster:
            yield cluster
        assert not (foreign.parent / "checkpoints" / f"faultline-{cluster.run}").exists()

    def test_what_a_dead_run_left_is_removed_and_nothing_else(
        self, cluster: Cluster, foreign: Path
    ) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(cluster.kafka.confluent())
        dead = ExternalCluster(read_settings(foreign), SPEC, remove=remove_made)
        names = [f"{prefix_of(dead.run)}left", "somebody-elses"]
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            future.result(30)
        with cluster.redis.client() as client:
            client.set(f"{prefix_of(dead.run)}left", 1)
            client.set("somebody-elses", 1)
            (record,) = (r for r in ClusterRecords().records() if r.run == cluster.run)
            abandoned = replace(record, run=dead.run, directory=foreign.parent / "none")
            ClusterRecords().add(abandoned)
            ClusterRecords().clean_up(abandoned, remove_made)
            keys = [key.decode() for key in client.keys("*")]
            assert "somebody-elses" in keys
            assert [key for key in keys if key.startswith(prefix_of(dead.run))] == []
        topics = set(admin.list_topics(timeout=30).topics)
        assert "somebody-elses" in topics
        assert names[0] not in topics
        cluster.health()

    def test_servers_that_refuse_are_told_before_anything_is_measured(
        self, foreign: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(servers, "_WITHIN_S", 3.0)  # a client that is refused goes on asking
        settings = read_settings(foreign)
        with pytest.raises(EnvironmentFailure, match="cannot be reached or refuses"):
            check_kafka(replace(settings.kafka, password="wrong", topic_prefix="x-"))
        with pytest.raises(EnvironmentFailure, match="cannot be used"):
            check_redis(replace(settings.redis, password="wrong", key_prefix="x-"))

    def test_a_redis_that_copies_another_one_is_told_before_anything_is_measured(
        self, foreign: Path
    ) -> None:
        endpoint = replace(read_settings(foreign).redis, key_prefix="x-")
        with endpoint.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
            try:
                with pytest.raises(EnvironmentFailure, match="is read-only") as caught:
                    check_redis(endpoint)
            finally:
                client.execute_command("REPLICAOF", "NO", "ONE")
        assert "name the primary" in caught.value.remedy
        check_redis(endpoint)
