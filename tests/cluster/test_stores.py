"""Kafka on several brokers, and Redis behind a tunnel with a replica, all on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.cluster.agent.launching import Server
from harness.cluster.backends import remove_made
from harness.cluster.base import STORE, Action, ClusterSpec
from harness.cluster.clocks import BrokerClock
from harness.cluster.configuration import REDIS_SOCKET, BrokerIdentity
from harness.cluster.endpoints import Tls
from harness.cluster.local.cluster import LocalCluster, Site
from harness.cluster.local.stores import RedisDaemon, RedisReplica, Tunnel
from harness.cluster.machines.certificates import run_certificate
from harness.engines.topics import topics
from harness.load.generator import send_markers
from tests.cluster.contract import started
from tests.cluster.helpers import eventually, silent


class ReplicatedCluster(LocalCluster):
    """Three brokers, and a Redis with a replica, side by side."""

    def _broker_identity(self) -> BrokerIdentity:
        self.certificate = run_certificate(["127.0.0.1"])
        return BrokerIdentity(tls=self.certificate)

    def _broker_sites(self) -> Sequence[Site]:
        return [self._site] * 3

    def _make_stores(self, program: Path, password: str) -> Sequence[Server]:
        tls, launcher = self.certificate, self._launcher
        front = Tunnel(launcher, "into-redis", to=REDIS_SOCKET, tls=tls, encrypted="in")
        self._redis = RedisDaemon(
            launcher, program=program, password=password, append_only=True, front=front
        )
        elsewhere = replace(launcher, directory=launcher.directory / "elsewhere")
        for name in ("secrets", "redis"):
            launcher.make(elsewhere.directory / name)
        primary = f"127.0.0.1:{front.port}"
        way = Tunnel(elsewhere, "to-the-primary", to=primary, tls=tls, encrypted="out")
        self.replica = RedisReplica(elsewhere, self._redis, way, program=program, number=1)
        self._redis.endpoint = replace(self._redis.endpoint, replicas=1)
        return [front, self._redis, way, self.replica]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ReplicatedCluster]:
    spec = ClusterSpec(racks=1, memory_mb_per_worker=512)
    with started(ReplicatedCluster(spec, remove=remove_made)) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _whole(cluster: ReplicatedCluster) -> Iterator[None]:
    yield
    cluster.restore(silent)


pytestmark = [pytest.mark.cluster, pytest.mark.long]


def leaders(cluster: ReplicatedCluster, topic: str) -> set[int]:
    about = cluster.kafka.admin().list_topics(topic, timeout=20).topics[topic]
    return {partition.leader for partition in about.partitions.values()}


def led_by(cluster: ReplicatedCluster, topic: str, numbers: set[int]) -> bool:
    return leaders(cluster, topic) <= numbers


def test_any_broker_may_die_and_what_was_sent_is_there(cluster: ReplicatedCluster) -> None:
    assert set(cluster.breakable()) == {"broker", "broker2", "broker3", STORE}
    assert cluster.kafka.replication == 3
    with topics(cluster.kafka, {"kept": 3}):
        assert leaders(cluster, "kept") == {1, 2, 3}
        for number, name in enumerate(("broker", "broker2", "broker3"), start=1):
            (victim,) = cluster.apply(Action.KILL, name)
            assert victim.felt
            cluster.health()
            others = {1, 2, 3} - {number}
            eventually(partial(led_by, cluster, "kept", others), limit_s=60)
            send_markers(cluster.kafka, "kept", 3, payload=b"sent", at_unix_s=1.0)
            assert cluster.apply(Action.RESTART, name)[0].reached
            cluster.restore(silent)


def test_the_clocks_of_all_brokers_are_compared(cluster: ReplicatedCluster) -> None:
    with topics(cluster.kafka, {"practice": 3}, appended=["practice"]):
        sample = BrokerClock(cluster.kafka, "practice").compare()
    assert sample is not None
    assert abs(sample.offset_s) <= sample.bound_s, "they are all this machine's"


def test_what_redis_is_sent_is_encrypted_and_a_replica_has_it(cluster: ReplicatedCluster) -> None:
    import redis

    endpoint = cluster.redis
    with endpoint.client() as client:
        client.set("kept", "stays")
        assert client.execute_command("WAIT", 1, 5000) == 1
    plain = replace(endpoint, tls=None)
    with plain.client(socket_timeout=5) as client, pytest.raises(redis.RedisError):
        client.ping()
    stranger = replace(endpoint, tls=Tls(ca=run_certificate(["127.0.0.1"]).ca))
    with stranger.client(socket_timeout=5) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    cluster.apply(Action.KILL, STORE)
    with endpoint.client(socket_timeout=5) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    cluster.apply(Action.RESTART, STORE)

    def there() -> bool:
        try:
            with endpoint.client(socket_timeout=5) as client:
                return bool(client.get("kept") == b"stays")
        except redis.RedisError:
            return False

    eventually(there)
