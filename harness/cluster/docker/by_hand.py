"""``python -m harness.cluster.docker.by_hand DIRECTORY``: configuration for containers by hand.

It serves ``docker/compose.yaml`` and ``docker/kubernetes.yaml``. It runs in the image, once, before
the servers, and writes each role's files into a directory of its own, with fresh passwords, and the
files for clients. Existing files are kept, so a second ``docker compose up`` finds its cluster
again."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from harness.cluster.connection import write_credentials
from harness.cluster.docker.configuration import (
    KAFKA_PORT,
    MASTER_PORT,
    REDIS_PORT,
    kafka_files,
    master_files,
    redis_files,
    worker_files,
)
from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.kafka import BrokerIdentity
from harness.cluster.run_directory import write_private
from harness.cluster.spark import FIXED, LOG4J, new_ui_key

KAFKA, REDIS, MASTER = "10.88.0.2", "10.88.0.3", "10.88.0.4"
"""The addresses in compose.yaml; on Kubernetes they are names."""
WORKERS = {"r1w1": "r1", "r2w1": "r2"}
CORES = 1


def main(directory: Path, kafka: str = KAFKA, redis: str = REDIS, master: str = MASTER) -> None:
    """Write the configuration of servers at these addresses into ``directory``."""
    if (directory / "addresses.json").exists():
        return
    broker, secret, key = BrokerIdentity(), secrets.token_urlsafe(32), new_ui_key()
    password = secrets.token_urlsafe(24)
    files = {
        "kafka": kafka_files(broker, kafka, directory / "kafka"),
        "redis": redis_files(redis, password),
        "master": master_files(secret, key),
        **{
            worker: worker_files(secret, key, rack, CORES, directory / worker)
            for worker, rack in WORKERS.items()
        },
    }
    for role, texts in files.items():
        (directory / role).mkdir(mode=0o700, exist_ok=True)
        for name, text in texts.items():
            write_private(directory / role / name, text)
    (directory / "secrets").mkdir(mode=0o700, exist_ok=True)
    write_credentials(
        directory,
        kafka=broker.endpoint(f"{kafka}:{KAFKA_PORT}"),
        redis=RedisEndpoint(host=redis, port=REDIS_PORT, password=password),
        settings={**FIXED, "spark.master": f"spark://{master}:{MASTER_PORT}"},
        secret=secret,
        log4j=LOG4J,
    )
    print(f"configuration written to {directory}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    for option, default in (("--kafka", KAFKA), ("--redis", REDIS), ("--master", MASTER)):
        parser.add_argument(option, default=default, help="its address or name")
    main(**vars(parser.parse_args()))
