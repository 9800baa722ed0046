"""The experiments as plain data, so that listing them does not import them.

Importing every experiment takes seconds, so the list is kept in the user's cache under a
fingerprint of all code and of the shipped records; any change makes it anew.

Tests: ``tests/running/test_catalogue.py``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from harness.cache import cache_directory
from harness.errors import EnvironmentFailure
from harness.results.provenance import ROOT

_CODE = ("harness", "experiments", "workloads", "datasets")
_SHIPPED = ROOT / "results" / "baselines"
_KEPT = 8
"""Lists in the cache, one a checkout and state of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one run of an experiment needed, the most of its shipped runs."""

    seconds: float
    """Of all runs together."""
    peak_memory_bytes: int | None
    disk_bytes: int | None
    """Of the largest run; None where no record has it."""
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One experiment in the list."""

    id: str
    paper: str
    figure: str
    title: str
    origin: str
    statement: str
    accepts: Sequence[str]
    seconds: Mapping[str, float]
    """Estimated duration on two cores, by profile."""
    needs: Needs | None
    """What the shipped runs needed, None without any."""


def listed() -> Sequence[Listed]:
    """Return every experiment, from the cache if nothing has changed."""
    path = _path()
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        if path is not None:
            kept = msgspec.json.decode(path.read_bytes(), type=list[Listed])
            os.utime(path)
            return kept
    made = [*_made()]
    if path is not None:
        _keep(path, made)
    return made


def _path() -> Path | None:
    """Return the file of this state of the checkout; None without a cache."""
    try:
        folder = cache_directory() / "catalogue"
        folder.mkdir(exist_ok=True)
    except (EnvironmentFailure, OSError):
        return None
    return folder / f"{_fingerprint()}.json"


def _fingerprint() -> str:
    """Return a hash of the size and time of every source file and folder of shipped records."""
    found = sha256(str(ROOT).encode())
    files = sorted(path for top in _CODE for path in (ROOT / top).rglob("*.py"))
    shipped = [*sorted(_SHIPPED.glob("records/*/*/*")), *_SHIPPED.glob("records.zip")]
    for path in [*files, *shipped]:
        status = path.stat()
        size = 0 if path.is_dir() else status.st_size
        found.update(f"{path}\0{size}\0{status.st_mtime_ns}\0".encode())
    return found.hexdigest()[:32]


def _made() -> Iterator[Listed]:
    """Yield every experiment, imported."""
    from harness.results.record import Profile
    from harness.running.discovery import all_experiments, estimate_s

    for each in all_experiments():
        yield Listed(
            id=each.id,
            paper=each.paper,
            figure=each.figure,
            title=each.title,
            origin=each.origin.value,
            statement=each.statement,
            accepts=sorted(each.measurement.accepts),
            seconds={profile.value: estimate_s(each, profile) for profile in Profile},
            needs=needs(each.measurement.id, _SHIPPED),
        )


def needs(measurement: str, root: Path) -> Needs | None:
    """Return what the newest runs of a measurement in a results directory needed."""
    from harness.results.store import RecordStore

    records = [each.record for each in RecordStore(root).read(measurement)]
    if not records:
        return None
    newest = max(records, key=lambda record: record.started_unix_s)
    mine = [each for each in records if each.campaign == newest.campaign]
    memory = [each.peak_memory_bytes for each in mine if each.peak_memory_bytes is not None]
    disk = [each.disk_bytes for each in mine if each.disk_bytes is not None]
    return Needs(
        seconds=sum(each.seconds for each in mine),
        peak_memory_bytes=max(memory, default=None),
        disk_bytes=max(disk, default=None),
        profile=str(newest.profile),
    )


def _keep(path: Path, made: Sequence[Listed]) -> None:
    """Write the list into the cache, and remove the oldest ones from it."""
    partial = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        partial.write_bytes(msgspec.json.encode(made))
        partial.rename(path)
        kept = sorted(path.parent.glob("*.json"), key=lambda each: -each.stat().st_mtime)
        for old in kept[_KEPT:]:
            old.unlink(missing_ok=True)
