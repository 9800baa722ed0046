"""The register of clusters on this machine with their owners, and the removal of dead ones.

One JSON file per cluster under ``$XDG_STATE_HOME/faultline/clusters`` (by default
``~/.local/state``), written before the first process of the cluster starts and removed after the
last one is gone. A cluster's owner is the harness process that started it, or nobody
(``faultline cluster up``): then it stays until ``faultline cluster down``.

A cluster whose owner is dead is removed by the next start: every process with the cluster's run in
its environment, and every process in the cluster's journal whose pid *and* start time still agree,
is killed; its backend removes what else it made; then its directory is removed. Records of another
machine, of another container (which has other pids) or of a living owner are never touched.

Other clusters that live here slow down a measurement: two commands with different ``--out``, or a
cluster that was left up, share processor and disk. Of other users' clusters only the load is seen
(`harness.judging.foreign`)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.cluster.processes import Machine, ProcessIdentity, is_alive
from harness.cluster.run_directory import (
    end_processes,
    remove_run_directory,
    remove_secrets,
)
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_duration

NOBODY = ProcessIdentity(pid=0, started_ticks=0)
"""The identity of no process: the owner of clusters that the next sweep may remove."""


Remove = Callable[["ClusterRecord"], None]
"""Removal of what a backend made for a cluster on record, apart from its processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """One cluster that was started here and has not been removed."""

    run: str
    """A random, unique name, in the environment of every process of the cluster."""
    directory: Path
    machine: Machine
    owner: ProcessIdentity | None
    """The harness process with which it ends; None for ``cluster up``."""
    keep: bool
    """Leave the directory, without its secrets, when the processes are gone."""
    started_unix_s: float
    backend: str = "local"
    """Its name in `harness.cluster.backends`."""
    resources: Mapping[str, Any] = field(default_factory=dict)
    """The backend's notes for finding and removing what it made, apart from processes of this
    machine. JSON without a secret."""

    def abandoned(self, here: Machine) -> bool:
        """Return True if its owner is certainly dead."""
        if self.machine == here:
            return self.owner is not None and not is_alive(self.owner)
        # Another boot of the same machine ended every process there was. Anything else (a home
        # directory on a network file system, a container) cannot be judged from here.
        return self.machine.hostname == here.hostname and self.machine.boot != here.boot


def state_directory() -> Path:
    """Return ``$XDG_STATE_HOME/faultline``, by default ``~/.local/state/faultline``.

    A relative path counts as not set, according to the XDG specification: for a child process with
    another working directory it would be another place."""
    root = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".local" / "state") / "faultline"


class ClusterRecords:
    """The clusters of this user on this machine."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or state_directory()) / "clusters"
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root.chmod(0o700)
        except OSError as error:
            raise EnvironmentFailure(
                f"the directory for cluster records, {self.root}, cannot be made: {error.strerror}",
                remedy="set XDG_STATE_HOME to a directory that you can write to",
            ) from error

    def add(self, record: ClusterRecord) -> None:
        """Write the record so that a crash leaves either all of it or nothing."""
        draft = self.root / f".{record.run}.draft"
        draft.write_bytes(msgspec.json.encode(record, enc_hook=str))
        draft.rename(self._path(record.run))

    def records(self) -> list[ClusterRecord]:
        """Return all clusters on record, oldest first."""
        found = [_read_record(path) for path in self.root.glob("*.json")]
        return sorted(
            (record for record in found if record is not None),
            key=lambda record: record.started_unix_s,
        )

    def sweep(self, report: Notify, remove: Remove) -> list[ClusterRecord]:
        """Remove every abandoned cluster and return the removed ones; those in use stay."""
        here = Machine.here()
        with self._locked():
            removed = []
            for record in [one for one in self.records() if one.abandoned(here)]:
                report(f"removing what a dead run left behind: {record.directory}")
                try:
                    self.clean_up(record, remove)
                except EnvironmentFailure as failure:
                    # A daemon or a foreign broker that does not answer now must not prevent other
                    # starts. The record stays, so that a later start tries again.
                    report(f"some of it is still there: {failure.what}")
                else:
                    removed.append(record)
            return removed

    def clean_up(self, record: ClusterRecord, remove: Remove) -> None:
        """Kill all processes of a cluster; remove its backend's parts, its directory, its record.

        ``remove`` does the backend's part: `harness.cluster.backends.remove_made`."""
        if record.machine == Machine.here():
            end_processes(record.run, record.directory)
        remove(record)
        if record.keep:
            remove_secrets(record.directory)
        else:
            remove_run_directory(record.directory)
        self._path(record.run).unlink(missing_ok=True)  # another harness may have removed it

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _path(self, run: str) -> Path:
        return self.root / f"{run}.json"


def _read_record(path: Path) -> ClusterRecord | None:
    try:
        return msgspec.json.decode(
            path.read_bytes(), type=ClusterRecord, dec_hook=lambda kind, value: kind(value)
        )
    except FileNotFoundError:  # another harness removed it between the listing and now
        return None
    except msgspec.MsgspecError as error:
        raise EnvironmentFailure(
            f"the cluster record {path} cannot be read: {error}",
            remedy="delete the file if you have no cluster running",
        ) from error


def neighbours(records: ClusterRecords | None = None) -> Sequence[ClusterRecord]:
    """Return this user's living clusters on this machine without this process's, oldest first."""
    here = Machine.here()
    return [
        record
        for record in (records or ClusterRecords()).records()
        if record.machine == here
        and not record.abandoned(here)
        and (record.owner is None or record.owner.pid != os.getpid())
    ]


def warn_of_neighbours(report: Notify) -> None:
    """Report other clusters before anything is measured, because both will be slower."""
    for other in neighbours():
        whose = "that was left up" if other.owner is None else f"of process {other.owner.pid}"
        age = format_duration(max(0.0, time.time() - other.started_unix_s))
        report(
            f"beside this a cluster {whose} ({other.backend}, up for {age}, {other.directory}) "
            "runs on this machine: what is measured meanwhile is slower, and the records say so. "
            "Better wait for its end, or take it down (./faultline cluster status, down)"
        )
