"""Checks of foreign servers before their use, and removal of everything that a run made there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.cluster.base import demand_near
from harness.cluster.clocks import BrokerClock
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.external.nodes import demand_success, run_command
from harness.cluster.external.settings import ExternalSettings
from harness.errors import EnvironmentFailure

OLDEST_REDIS = (5, 0)
_WITHIN_S = 30.0


def check_kafka(kafka: KafkaEndpoint) -> None:
    """Raise `EnvironmentFailure` unless a topic can be made, written, read and deleted.

    The broker's clock must be near, too."""
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import NewTopic

    brokers = reach_kafka(kafka)
    if brokers < kafka.replication:
        raise EnvironmentFailure(
            f"Kafka has {brokers} broker(s), and topics are to have {kafka.replication} copies",
            remedy="lower kafka.replication",
        )
    topic = f"{kafka.topic_prefix}probe"
    copies, append_times = kafka.replication, {"message.timestamp.type": "LogAppendTime"}
    wanted = NewTopic(topic, copies, copies, config=append_times)
    refused: list[Any] = []
    admin = kafka.admin()  # a client that nothing refers to any more ends its requests
    try:
        for future in admin.create_topics([wanted], operation_timeout=_WITHIN_S).values():
            future.result(_WITHIN_S)
        producer = Producer({**kafka.confluent(), "message.timeout.ms": round(_WITHIN_S * 1000)})
        producer.produce(
            topic, b"probe", partition=0, on_delivery=lambda error, _: refused.append(error)
        )
        producer.flush(_WITHIN_S)
        if refused != [None]:
            raise _not_allowed("takes no record", refused or "no answer", "write topics", kafka)
        if (clock := BrokerClock(kafka, topic).compare()) is not None:
            demand_near("of the Kafka broker", clock)
        consumer = Consumer({**kafka.confluent(), "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(_WITHIN_S)
        consumer.close()
        if message is None or message.error() is not None:
            why = message.error() if message else "none came"
            raise _not_allowed(
                "gives back no record that it took", why, "read topics and groups", kafka
            )
    except KafkaException as error:
        raise _not_allowed(
            "lets no topic be made", error.args[0], "make and delete topics", kafka
        ) from error
    finally:
        remove_topics(kafka)


def _not_allowed(what: str, why: object, needs: str, kafka: KafkaEndpoint) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"Kafka {what}: {why}",
        remedy=f"this user must be allowed to {needs} that begin with {kafka.topic_prefix}",
    )


def reach_kafka(kafka: KafkaEndpoint) -> int:
    """Return the number of brokers. Raises `EnvironmentFailure` where none answers."""
    from confluent_kafka import KafkaException

    admin = kafka.admin()
    try:
        return len(admin.list_topics(timeout=_WITHIN_S).brokers)
    except KafkaException as error:
        raise EnvironmentFailure(
            f"Kafka at {kafka.bootstrap} cannot be reached or refuses to talk: {error.args[0]}",
            remedy="see whether the addresses, the mechanism and the credentials are right, and "
            "whether this machine may connect; brokers older than 2.1 are too old",
        ) from error


def remove_topics(kafka: KafkaEndpoint) -> None:
    """Delete every topic with the run's prefix, and wait until they are gone."""
    from confluent_kafka import KafkaException

    assert kafka.topic_prefix, "without a prefix these would be all topics of somebody's broker"
    admin = kafka.admin()
    deadline = time.monotonic() + _WITHIN_S
    try:
        while ours := _topics(admin, kafka.topic_prefix):
            if time.monotonic() > deadline:
                raise EnvironmentFailure(
                    f"{len(ours)} topics that begin with {kafka.topic_prefix} are still there",
                    remedy="this user must be allowed to delete them; delete them by hand",
                )
            for future in admin.delete_topics(ours, operation_timeout=_WITHIN_S).values():
                future.result(_WITHIN_S)
            time.sleep(0.1)
    except KafkaException as error:
        raise EnvironmentFailure(
            f"topics that begin with {kafka.topic_prefix} could not be deleted: {error.args[0]}",
            remedy="delete them by hand, or run `faultline cluster down` once Kafka answers",
        ) from error


def _topics(admin: Any, prefix: str) -> list[str]:
    found = admin.list_topics(timeout=_WITHIN_S).topics
    return [name for name in found if name.startswith(prefix)]


def check_redis(endpoint: RedisEndpoint) -> None:
    """Raise `EnvironmentFailure` unless keys can be set and deleted, and stay until they are."""
    import redis

    where = f"Redis at {endpoint.host}:{endpoint.port}"
    with endpoint.client(socket_timeout=_WITHIN_S) as client:
        try:
            demand_lasting(client.info(), where, endpoint.replicas)
            client.set(f"{endpoint.key_prefix}probe", b"probe", ex=60)
            client.delete(f"{endpoint.key_prefix}probe")
        except redis.ReadOnlyError as error:
            raise EnvironmentFailure(
                f"{where} is read-only", remedy="name the primary, not a replica"
            ) from error
        except redis.RedisError as error:
            raise EnvironmentFailure(
                f"{where} cannot be used: {error}",
                remedy="see whether the address and the credentials are right, and whether this "
                f"user may write keys that begin with {endpoint.key_prefix}",
            ) from error


def demand_lasting(info: Mapping[str, Any], where: str, replicas: int) -> None:
    """Raise `EnvironmentFailure` for a server that is too old, or may lose what it has taken.

    ``info`` is its own answer, and ``replicas`` is how many must have a checkpoint."""
    version = str(info["redis_version"])
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        problem = f"is version {version}"
        remedy = f"use Redis {OLDEST_REDIS[0]} or newer, or Valkey"
    elif int(info.get("cluster_enabled", 0)):
        problem = "is a Redis Cluster, which divides keys that belong together among its servers"
        remedy = "use a server without cluster mode (`cluster-enabled no`), with a replica at will"
    elif policy != "noeviction":
        problem = f"evicts keys when its memory is full (maxmemory-policy {policy})"
        remedy = "set `maxmemory-policy noeviction`: an evicted checkpoint is a lost one"
    elif not int(info.get("aof_enabled", 0)) and not replicas:
        problem = "keeps what it has taken in memory alone, so its restart loses checkpoints"
        remedy = "set `appendonly yes`, or give it a replica and say `replicas: 1`"
    else:
        return
    raise EnvironmentFailure(f"{where} {problem}", remedy=remedy)


def remove_keys(endpoint: RedisEndpoint) -> None:
    """Delete every key with the run's prefix."""
    import redis

    assert endpoint.key_prefix, "without a prefix these would be all keys of somebody's server"
    try:
        with endpoint.client(socket_timeout=_WITHIN_S) as client:
            for key in client.scan_iter(match=f"{endpoint.key_prefix}*", count=1000):
                client.delete(key)
    except redis.RedisError as error:
        raise EnvironmentFailure(
            f"keys that begin with {endpoint.key_prefix} could not be deleted: {error}",
            remedy="delete them by hand, or run `faultline cluster down` once Redis answers",
        ) from error


def remove_checkpoints(settings: ExternalSettings, uri: str) -> None:
    """Remove a run's directory of the checkpoint storage."""
    if settings.remove_checkpoints is None:
        shutil.rmtree(Path(unquote(urlsplit(uri).path)), ignore_errors=True)
        return
    command = settings.remove_checkpoints.filled({"uri": uri})
    demand_success(run_command(command, settings))
