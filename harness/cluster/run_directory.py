"""The common contents of run directories: the journal, and files with secrets and credentials."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.processes import (
    ProcessIdentity,
    ProcessStat,
    is_alive,
    marked,
    read_stat,
    signal_all,
    wait_until_gone,
)
from harness.cluster.spark import LOG4J
from harness.errors import EnvironmentFailure, UsageError

PYTHON = "faultline-python"
"""Name of the Python of nodes; it is in the PATH of each machine at another place."""
_PLACES = ("logs", "secrets", "tmp", "spark-local")
_SECRET_PLACES = ("secrets", "driver-conf", "kafka", "redis")


_GONE_LIMIT_S = 15.0
_REMOVALS = 3
"""Attempts at a removal: a dying process may have made a file where one was just removed."""


def journal_path(directory: Path) -> Path:
    """Return the path of the journal, in which every process of a cluster is noted first."""
    return directory / "processes.jsonl"


def write_journal(directory: Path, name: str, identity: ProcessIdentity | None) -> None:
    """Append that a process called ``name`` is about to start (None) or has started."""
    entry: dict[str, Any] = {"name": name, "at_unix_s": time.time()}
    if identity is not None:
        entry |= asdict(identity)
    with journal_path(directory).open("a") as journal:
        journal.write(json.dumps(entry) + "\n")


def read_journal(directory: Path) -> list[tuple[str, ProcessIdentity]]:
    """Return name and identity of every process that was ever started for the cluster.

    A torn line is skipped: its process is found by its environment."""
    found = []
    try:
        lines = journal_path(directory).read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
            if "pid" in entry:
                identity = ProcessIdentity(pid=entry["pid"], started_ticks=entry["started_ticks"])
                found.append((entry["name"], identity))
        except (ValueError, KeyError):
            continue
    return found


def processes_of(run: str, directory: Path) -> list[ProcessStat]:
    """Return the living processes of a run on this machine.

    They are found by their environment, and by the journal: Redis writes over its own."""
    found = {stat.identity: stat for stat in marked(run)}
    for _, identity in read_journal(directory):
        stat = read_stat(identity.pid)
        if stat is not None and stat.identity == identity and stat.pid != os.getpid():
            found[identity] = stat
    return list(found.values())


def end_processes(run: str, directory: Path) -> None:
    """SIGKILL every process of a run on this machine and wait until none is left.

    Raises `EnvironmentFailure` if one survives, because it hangs in a system call."""
    done = signal_all(lambda: processes_of(run, directory), signal.SIGKILL)
    reached = [stat.identity for stat in done.processes]
    if not wait_until_gone(reached, limit_s=_GONE_LIMIT_S):
        left = ", ".join(str(identity.pid) for identity in reached if is_alive(identity))
        raise EnvironmentFailure(
            f"processes {left} of the cluster in {directory} were killed {_GONE_LIMIT_S:.0f} s ago "
            "and are still there",
            remedy="they hang in the kernel (a dead disk or network mount?): see `ps -o stat,wchan`"
            f" for them, then run `faultline cluster down {run}` again",
        )


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner can read, from the first byte on."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def make_layout(directory: Path, *more: str) -> None:
    """Make the subdirectories of a run directory, and the journal; ``more`` names further ones."""
    for name in (*_PLACES, *more):
        (directory / name).mkdir(mode=0o700)
    journal_path(directory).touch()


def write_python(place: Path) -> None:
    """Write the program `PYTHON` into a directory: the interpreter of this process."""
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
    write_private(place / PYTHON, script).chmod(0o700)


def remove_secrets(directory: Path) -> None:
    """Remove every file of a stopped cluster that holds a secret."""
    for name in _SECRET_PLACES:
        shutil.rmtree(directory / name, ignore_errors=True)


def remove_run_directory(directory: Path) -> None:
    """Remove a run directory, its journal last.

    The journal proves that it is one. The process that removes it may be killed on the way (a
    keeper by the next start, which removes the same cluster); the next one then goes on."""
    journal = journal_path(directory)
    if not journal.exists():
        return
    for _ in range(_REMOVALS):
        left = [path for path in directory.iterdir() if path != journal]
        for path in left:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    journal.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def make_place(parent: Path, name: str) -> Path:
    """Make the directory ``name`` in ``parent``, for its owner only, and return it.

    Raises `UsageError` for a name that would lead elsewhere."""
    check_name(name)
    parent.mkdir(mode=0o700, exist_ok=True)
    (parent / name).mkdir(mode=0o700, exist_ok=True)
    return parent / name


def check_name(name: str) -> None:
    """Raise `UsageError` for a directory's name that would lead elsewhere."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(
            f"{name!r} cannot name a directory of a run",
            remedy="use letters, digits, dots, dashes and underscores, a letter or digit first",
        )


def check_room(directory: Path, least_bytes: int) -> None:
    """Raise `EnvironmentFailure` when less is free on the disk of ``directory``."""
    free = shutil.disk_usage(directory).free
    if free < least_bytes:
        raise EnvironmentFailure(
            f"only {free / 2**20:,.0f} MB are free where {directory} lies; a cluster needs "
            f"{least_bytes / 2**20:,.0f} MB",
            remedy="free some disk space, or set XDG_STATE_HOME to a directory on a larger disk",
        )


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
) -> None:
    """Write the files for clients, each readable by its owner only."""
    properties = {"bootstrap.servers": kafka.bootstrap, **kafka.java_properties()}
    # Java's format of properties: a line break inside a value (a certificate) is written as \\n.
    lines = [f"{name}={_escaped(value)}\n" for name, value in properties.items()]
    write_private(kafka_file(directory), "".join(lines))
    write_private(redis_file(directory), redis.url() + "\n")
    driver_configuration(directory).mkdir(mode=0o700, exist_ok=True)
    given = {"spark.authenticate.secret": secret} if secret is not None else {}
    defaults = [f"{key} {value}\n" for key, value in {**settings, **given}.items()]
    write_private(spark_file(directory), "".join(defaults))
    (driver_configuration(directory) / "log4j2.properties").write_text(LOG4J)
    addresses = {
        "kafka": kafka.bootstrap,
        "redis": f"{redis.host}:{redis.port}",
        "spark": settings["spark.master"],
    }
    addresses_file(directory).write_text(json.dumps(addresses, indent=2) + "\n")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
