"""Credential files of a running cluster, for people and programs that connect to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.run_directory import write_private


def driver_configuration(run_directory: Path) -> Path:
    """Return SPARK_CONF_DIR of drivers: logging, and spark-defaults.conf with the secret."""
    return run_directory / "driver-conf"


def kafka_file(directory: Path) -> Path:
    """Return the path of a client's properties, in the format of Kafka's command line tools."""
    return directory / "secrets" / "kafka-client.properties"


def redis_file(directory: Path) -> Path:
    """Return the path of a file with one line: the server's URL, password included."""
    return directory / "secrets" / "redis-url"


def spark_file(directory: Path) -> Path:
    """Return the path of all settings of an application, in a SPARK_CONF_DIR."""
    return driver_configuration(directory) / "spark-defaults.conf"


def addresses_file(directory: Path) -> Path:
    """Return the path of the servers' addresses, as JSON without a secret."""
    return directory / "addresses.json"


def write_credentials(
    directory: Path,
    *,
    kafka: KafkaEndpoint,
    redis: RedisEndpoint,
    settings: Mapping[str, str],
    secret: str | None,
    log4j: str,
) -> None:
    """Write the files for clients, each readable by its owner only."""
    properties = {"bootstrap.servers": kafka.bootstrap, **kafka.java_properties()}
    # Java's format of properties: a line break inside a value (a certificate) is written as \\n.
    lines = [f"{name}={_escaped(value)}\n" for name, value in properties.items()]
    write_private(kafka_file(directory), "".join(lines))
    write_private(redis_file(directory), redis.url() + "\n")
    driver_configuration(directory).mkdir(mode=0o700, exist_ok=True)
    write_private(spark_file(directory), defaults_text(settings, secret))
    (driver_configuration(directory) / "log4j2.properties").write_text(log4j)
    addresses = {
        "kafka": kafka.bootstrap,
        "redis": f"{redis.host}:{redis.port}",
        "spark": settings["spark.master"],
    }
    addresses_file(directory).write_text(json.dumps(addresses, indent=2) + "\n")


def defaults_text(settings: Mapping[str, str], secret: str | None) -> str:
    """Return the text of spark-defaults.conf."""
    values = dict(settings)
    if secret is not None:
        values["spark.authenticate.secret"] = secret
    return "".join(f"{key} {value}\n" for key, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
