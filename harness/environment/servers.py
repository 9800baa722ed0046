"""Versions of the servers: Java and Redis as they are here, Kafka and the jars as pinned."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import subprocess
from pathlib import Path

from harness.environment.jars import LOCK, locked_jars
from harness.environment.java import answer_of, find_java
from harness.environment.redis_server import find_redis
from harness.errors import EnvironmentFailure

UNKNOWN = "unknown"
BROKER = "kafka_2.13"
"""The broker's artifact; Spark's connector contains a client of another version."""


def server_versions() -> dict[str, str]:
    """Return the versions of Java, with its vendor, and of Kafka and Redis, without fetching.

    "unknown" where one is not there yet: a measurement fetches it before it begins."""
    pinned = {jar.artifact: jar.version for jars in locked_jars().values() for jar in jars}
    found = {"java": UNKNOWN, "java_vendor": UNKNOWN, "kafka": pinned.get(BROKER, UNKNOWN)}
    with contextlib.suppress(EnvironmentFailure):
        found["java"], found["java_vendor"] = _java()
    try:
        found["redis"] = _redis()
    except (EnvironmentFailure, OSError, subprocess.TimeoutExpired):
        found["redis"] = UNKNOWN
    return found


def jar_versions(*packages: Path) -> str:
    """Return the pinned jars of the servers, and jars and wheels of further packages.

    Of a jar's dependencies none is named, and no pinned Java and Redis: others may run."""
    locks = [LOCK, *(package / LOCK.name for package in packages)]
    found = [
        f"{root['artifact']} {root['version']}"
        for lock in locks
        if lock.is_file()
        for root in json.loads(lock.read_text())["roots"]
    ]
    for wheel in sorted(wheel for package in packages for wheel in package.glob("*.lock")):
        pins = re.findall(r"^([\w.-]+)==([^\s;]+)", wheel.read_text(), re.MULTILINE)
        found += [f"{name} {version}" for name, version in pins]
    return ", ".join(found)


@functools.cache
def _java() -> tuple[str, str]:
    """Return version and vendor; raises `EnvironmentFailure`, which is not remembered."""
    java = find_java(_quietly, fetch=False)
    return java.build or str(java.version), java.vendor or UNKNOWN


@functools.cache
def _redis() -> str:
    done = answer_of(find_redis(_quietly, fetch=False), "--version")
    match = re.search(r"v=(\S+)", done.stdout + done.stderr)
    return match[1] if match else UNKNOWN


def _quietly(line: str) -> None:
    """Print nothing: the start of the servers has reported it."""
