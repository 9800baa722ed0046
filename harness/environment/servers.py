"""Versions of the servers: Java as found here, Kafka and Redis as pinned."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.environment.jars import locked_jars
from harness.environment.java import PROBE_DEADLINE_S, find_java
from harness.environment.redis_server import find_redis
from harness.errors import EnvironmentFailure

UNKNOWN = "unknown"
BROKER = "kafka_2.13"
"""The broker's artifact; Spark's connector contains a client of another version."""


@functools.cache
def server_versions() -> dict[str, str]:
    """Return the versions of ``java``, ``kafka`` and ``redis``, read once, without fetching.

    "unknown" where one is not there yet: a measurement fetches it before it begins."""
    pinned = {jar.artifact: jar.version for jars in locked_jars().values() for jar in jars}
    return {
        "java": _said(_java, "-version", r'version "([^"]+)"'),
        "kafka": pinned.get(BROKER, UNKNOWN),
        "redis": _said(_redis, "--version", r"v=(\S+)"),
    }


def _java() -> Path:
    return find_java(_quietly, fetch=False).executable


def _redis() -> Path:
    return find_redis(_quietly, fetch=False)


def _quietly(line: str) -> None:
    """Print nothing: the start of the servers has reported it."""


def _said(find: Callable[[], Path], option: str, pattern: str) -> str:
    try:
        done = subprocess.run(
            [find(), option],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PROBE_DEADLINE_S,
            check=False,
        )
    except (EnvironmentFailure, OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    match = re.search(pattern, done.stdout + done.stderr)
    return match[1] if match else UNKNOWN
