"""The configuration files of each role of a container. All of them may hold secrets."""

from __future__ import annotations

from pathlib import PurePath

from harness.cluster.kafka import HEAP, BrokerIdentity
from harness.cluster.kafka import LOG4J as KAFKA_LOG4J
from harness.cluster.redis_settings import redis_configuration
from harness.cluster.spark import (
    DAEMON_JAVA,
    LOG4J,
    MASTER_PROPERTIES,
    daemon_properties,
    rack_resources,
    worker_properties,
)

KAFKA_PORT, CONTROLLER_PORT, REDIS_PORT, MASTER_PORT = 9092, 9093, 6379, 7077

_DAEMON = {"daemon.options": " ".join(DAEMON_JAVA), "log4j2.properties": LOG4J}


def kafka_files(broker: BrokerIdentity, host: str, place: PurePath) -> dict[str, str]:
    """Return the texts of the broker's container, by file name; ``place`` is their directory."""
    return {
        "server.properties": broker.properties(
            client=f"{host}:{KAFKA_PORT}",
            controller=f"{host}:{CONTROLLER_PORT}",
            data="/tmp/kafka/data",
        ),
        "format.arguments": broker.format_arguments(str(place / "server.properties")),
        "broker.options": " ".join(HEAP),
        "kafka-log4j2.properties": KAFKA_LOG4J,
    }


def redis_files(host: str, password: str, *, append_only: bool = False) -> dict[str, str]:
    """Return the texts of a Redis container, by file name."""
    text = redis_configuration(
        host=host,
        port=REDIS_PORT,
        password=password,
        directory=PurePath("/tmp"),
        append_only=append_only,
    )
    return {"redis.conf": text}


def master_files(secret: str, key: str) -> dict[str, str]:
    """Return the texts of the master's container, by file name."""
    return {"master.properties": daemon_properties(secret, key, MASTER_PROPERTIES), **_DAEMON}


def worker_files(secret: str, key: str, rack: str, cores: int, place: PurePath) -> dict[str, str]:
    """Return the texts of the container of a worker in ``rack``, by file name."""
    properties = worker_properties(rack, cores, str(place / "resources.json"))
    return {
        "worker.properties": daemon_properties(secret, key, properties),
        "resources.json": rack_resources(rack, cores),
        **_DAEMON,
    }
