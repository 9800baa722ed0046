"""A local cluster, described as its owner would describe it for others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from harness.cluster.local.cluster import LocalCluster
from harness.cluster.run_directory import read_journal

FOREIGN = Path(__file__).parent / "foreign.py"
LIVES = 'grep -qs "^State:[[:space:]]*[RSDTtI]"'
"""Finds the line of a process that is not a zombie."""


def describe(local: LocalCluster, directory: Path) -> Path:
    """Write its description, as its owner would."""
    daemons = dict(read_journal(local.run_directory))
    for name, text in {
        "kafka": local.kafka.password,
        "redis": local.redis.password,
        "spark": local.spark_access().secret,
    }.items():
        (directory / name).write_text(f"{text}\n")
    workers = {node.worker: node for node in local.nodes()}
    for worker in workers:  # `foreign.py` notes the process that it starts
        (directory / f"{worker}.pid").write_text(f"{daemons[worker].pid}\n")
    document: dict[str, Any] = {
        "kafka": {
            "bootstrap": local.kafka.bootstrap,
            "mechanism": local.kafka.mechanism,
            "username": local.kafka.username,
            "password": {"file": "kafka"},
        },
        "redis": {
            "url": f"redis://{local.redis.host}:{local.redis.port}/0",
            "password": {"file": "redis"},
        },
        "spark": {
            "master": local.spark_conf()["spark.master"],
            "secret": {"file": "spark"},
            "driver_host": "127.0.0.1",
            "python": sys.executable,
            "rack_conf": {
                rack: {f"spark.executor.resource.rack_{rack}.amount": "1"} for rack in ("r1", "r2")
            },
        },
        "checkpoints": (directory / "checkpoints").as_uri(),
        "nodes": [
            {
                "rack": node.rack,
                "host": node.host,
                "unit": node.worker,
                "pid_file": str(directory / f"{node.worker}.pid"),
            }
            for node in workers.values()
        ],
        "commands": {
            # Asked often, so no Python starts for it. What was killed and not waited for is down.
            "up": f"sh -c '{LIVES} /proc/$(cat {{pid_file}})/status'",
            "up_process": f"sh -c '{LIVES} /proc/{{pid}}/status'",
            "kill_process": "kill -KILL {pid}",
            "clock": "date +%s.%N",
            **{
                order: f"{sys.executable} {FOREIGN} {order} {local.run} {{unit}} {{pid_file}}"
                for order in ("kill", "restart")
            },
        },
    }
    path = directory / "foreign.yaml"
    path.write_text(yaml.safe_dump(document))
    return path
