"""An existing cluster: the contract, tried on a local one that is treated as foreign."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.base import Action, Cluster
from harness.cluster.external import servers
from harness.cluster.external.cluster import ExternalCluster, prefix_of
from harness.cluster.external.servers import check_kafka, check_redis
from harness.cluster.external.settings import read_settings
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import marked
from harness.errors import EnvironmentFailure
from tests.cluster.contract import SPEC, ClusterContract, Driver
from tests.cluster.described import describe
from tests.cluster.helpers import silent
from tests.cluster.stranger import NOBODY, try_as_stranger


@pytest.mark.long
class TestExternalCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def foreign(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        spec = replace(SPEC, append_only=True)
        with LocalCluster(spec, remove=remove_made) as local:
            local.start(silent)
            yield describe(local, tmp_path_factory.mktemp("foreign"))

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, foreign: Path) -> Iterator[Cluster]:
        backend = find_backend(str(foreign))
        with backend.make(SPEC) as cluster:
            cluster.start(silent)
            yield cluster
        assert not (foreign.parent / "checkpoints" / f"faultline-{cluster.run}").exists()
        assert cluster.run not in {record.run for record in ClusterRecords().records()}

    def test_its_kind_stands_in_records_and_changes_with_the_file(
        self, cluster: Cluster, foreign: Path, tmp_path: Path
    ) -> None:
        assert re.fullmatch(r"external-foreign-[0-9a-f]{8}", cluster.backend)
        other = tmp_path / "foreign.yaml"
        other.write_text(foreign.read_text().replace("file: ", f"file: {foreign.parent}/") + "\n")
        assert read_settings(other).name != cluster.backend

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

    def test_a_server_that_may_lose_checkpoints_is_refused(
        self, cluster: Cluster, foreign: Path
    ) -> None:
        endpoint = replace(read_settings(foreign).redis, key_prefix="x-")
        with endpoint.client() as client:
            for name, bad, good in (
                ("maxmemory-policy", "allkeys-lru", "noeviction"),
                ("appendonly", "no", "yes"),
            ):
                client.config_set(name, bad)
                with pytest.raises(EnvironmentFailure, match=f"{bad}|in memory alone"):
                    check_redis(endpoint)
                client.config_set(name, good)
        check_redis(endpoint)

    def test_a_kill_that_does_nothing_is_found_out(
        self, foreign: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from harness.cluster.external import nodes

        monkeypatch.setattr(nodes, "EFFECT_LIMIT_S", 0.5)
        settings = read_settings(foreign)
        idle = replace(settings.up, words=("true",))
        broken = replace(settings, actions={**settings.actions, Action.KILL: idle})
        with pytest.raises(EnvironmentFailure, match="after its command `kill` ended well"):
            nodes.ExternalNodes(broken, os.environ).apply(Action.KILL, settings.nodes[:1])

    def test_a_stranger_learns_no_secret_of_a_foreign_cluster(
        self, cluster: Cluster, application: Driver, foreign: Path
    ) -> None:
        """Another user id of this machine, while an application runs; ports are the cluster's."""
        assert application.next_workers()
        secrets = [(foreign.parent / name).read_text().strip() for name in ("kafka", "redis")]
        secrets.append((foreign.parent / "spark").read_text().strip())
        pids = [stat.pid for stat in marked(cluster.run)]
        assert len(pids) >= 2, "a driver and its virtual machine at least"
        reached = try_as_stranger(ports=[], directories=[cluster.run_directory], pids=pids)
        assert (reached.uid, reached.read) == (NOBODY, [])
        assert (reached.signalled, reached.looked) == ([], [])
        assert not [secret for secret in secrets if secret in "".join(reached.commands)]

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
