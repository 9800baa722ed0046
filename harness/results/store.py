"""The append-only store of records, one directory per run.

A run leaves one directory, ``<root>/records/<experiment>/<machine>/<run>/``, with
``record.json`` and one Parquet file per series. It is written elsewhere and renamed into its place,
so a record is whole or absent; nothing is ever overwritten or edited.

Tests: ``tests/results/test_record.py``."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from harness.errors import EnvironmentFailure, UsageError
from harness.results.archive import readable
from harness.results.record import (
    FAILED,
    OK,
    SKIPPED,
    Point,
    Profile,
    Question,
    Record,
    decode,
    plain,
    point_key,
)
from harness.results.tables import Results, read_series


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record and its place."""

    record: Record
    directory: Path
    """Directory of the record, which also has the run's series."""
    root: Path
    """The results directory or archive that contains it."""

    @property
    def machine_name(self) -> str:
        """The name of the machine, which is that of its folder."""
        return self.directory.parent.name

    @property
    def series(self) -> Sequence[str]:
        """The recorded series that are there; large ones may have been left out."""
        names = self.record.series
        return [name for name in names if (self.directory / f"{name}.parquet").exists()]

    def read(self, name: str) -> pd.DataFrame:
        """Return a series, empty if it was not kept."""
        frame = read_series(self.directory, name)
        return pd.DataFrame() if frame is None else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The newest runs of an experiment in one profile that belong together."""

    records: Sequence[Record]
    """The newest record of each point and repetition: a complete one if there is any, else a valid
    or skipped one if there is any. Repetitions beyond the number asked for come last."""
    expected: int
    """Number of runs of a complete campaign, with the further repetitions that are there."""
    directories: Mapping[str, Path]
    left_out: int = 0
    """Missing runs outside of the command's points."""
    others: Sequence[Record] = ()
    """Every other record of the same points, repetitions, and code: invalid or failed attempts,
    and valid ones that a newer one replaces. Oldest first."""

    @property
    def superseded(self) -> Iterator[Campaign]:
        """Versions of this campaign with one valid record replaced by an older one.

        A newer record must not hide the result of an older one of the same code."""
        for older in self.others:
            if older.status == OK:
                key = point_key(older.point, older.repeat)
                yield replace(
                    self,
                    records=[
                        older if point_key(record.point, record.repeat) == key else record
                        for record in self.records
                    ],
                    others=(),
                )

    @property
    def newest(self) -> Record:
        """The record with the latest start."""
        return max(self.records, key=lambda record: record.started_unix_s)

    @property
    def machine_name(self) -> str:
        """The name of the machine that made it, which is that of the records' folder."""
        return next(iter(self.directories.values())).parent.name

    @property
    def engines(self) -> Sequence[str]:
        """Live engines of its runs; none if they were computed or simulated."""
        return sorted({record.engine for record in self.records} - {""})

    @property
    def backends(self) -> Sequence[str]:
        """Kinds of cluster, at most one, because it is part of the question."""
        return sorted({record.backend for record in self.records} - {""})

    @property
    def valid(self) -> Sequence[Record]:
        """The valid records."""
        return [record for record in self.records if record.status == OK]

    @property
    def failed(self) -> int:
        """Number of runs that failed or are missing."""
        bad = sum(record.status == FAILED for record in self.records)
        return bad + self.expected - len(self.records) - self.left_out

    @property
    def skipped(self) -> Sequence[Record]:
        """Points that cannot be run, each with its reason."""
        return [record for record in self.records if record.status == SKIPPED]

    @property
    def points(self) -> Counter[str]:
        """Number of valid runs by point."""
        return Counter(point_key(record.point, 0) for record in self.valid)

    @property
    def samples(self) -> int:
        """Number of valid runs of the point that has the fewest."""
        return min(self.points.values(), default=0)

    @property
    def complete(self) -> bool:
        """True if every point has a valid run, or a reason why it cannot have one."""
        return len(self.valid) + len(self.skipped) == self.expected

    def results(self) -> Results:
        """Return the valid runs as a table, in the order of their points."""
        rows = [
            {**r.values, **r.point, "repeat": r.repeat, "run": r.run, "seconds": r.seconds}
            for r in self.valid
        ]
        cores = next((record.machine.get("cores") for record in self.valid), None)
        return Results(pd.DataFrame(rows), self.directories, cores)


def unreadable(path: Path, error: Exception) -> str:
    """Return the warning about the unreadable record at ``path``, with the remedy."""
    words = f"the record {path} cannot be read and was left out: {error}"
    if isinstance(error, UsageError):
        return words
    return (
        f"{words}\n  What to do: bring it back from a copy, or delete {path.parent}; the same "
        "command then makes that run again"
    )


class RecordStore:
    """The directory of records."""

    def __init__(self, root: Path, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self.root = root
        self._warn = warn
        self._unreadable: set[Path] = set()
        """Records with a warning already."""

    @property
    def records(self) -> Path:
        """The directory of the records that are read, by experiment and machine."""
        return readable(self.root) / "records"

    def machines(self) -> Sequence[str]:
        """Return the names of all machines with a record, sorted."""
        return sorted({path.name for path in self.records.glob("*/*/*") if path.is_dir()})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory, so that only one command at a time measures into it."""
        with _disk_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / ".lock").open("a+")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                owner = lock.read().strip() or "unknown"
                raise UsageError(
                    f"another run (process {owner}) is measuring into {self.root}",
                    remedy="wait until it ends, or give this one a directory of its own: --out DIR",
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def scratch(self) -> Path:
        """Make an empty directory for a run in progress; `append` moves it into place."""
        with _disk_errors(self.root):
            path = self.root / "records" / f".partial-{uuid.uuid4().hex}"
            path.mkdir(parents=True)
        return path

    def discard_partial(self) -> None:
        """Remove the partial files of interrupted runs."""
        for path in (self.root / "records").glob(".partial-*"):
            shutil.rmtree(path, ignore_errors=True)

    def append(
        self, record: Record, scratch: Path, series: Mapping[str, pd.DataFrame], machine: str
    ) -> Path:
        """Store a run and return its directory."""
        target = self.root / "records" / record.experiment / machine / record.run
        with _disk_errors(target):
            for name, table in series.items():
                table.to_parquet(scratch / f"{name}.parquet", index=False, compression="zstd")
            text = json.dumps(asdict(record), indent=1, default=plain, ensure_ascii=False)
            with (scratch / "record.json").open("w") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch.rename(target)
        return target

    def read(self, experiment: str, machine: str = "*") -> Sequence[StoredRecord]:
        """Return every readable record of an experiment, on one machine or all, oldest first."""
        there = []
        for path in sorted((self.records / experiment).glob(f"{machine}/*/record.json")):
            try:
                record = decode(json.loads(path.read_text()))
                there.append(StoredRecord(record, path.parent, self.root))
            except (ValueError, OSError, UsageError) as error:
                if path not in self._unreadable:
                    self._unreadable.add(path)
                    self._warn(unreadable(path, error))
        return there

    def profiles(self, experiment: str, machine: str) -> Sequence[Profile]:
        """Return the profiles with at least one record, the latest first."""
        newest = {
            each.record.profile: each.record.started_unix_s
            for each in self.read(experiment, machine)
        }
        return [Profile(name) for name in sorted(newest, key=lambda name: -newest[name])]

    def newest_campaign(
        self, experiment: str, machine: str, profile: Profile, grid: Sequence[Point]
    ) -> Campaign | None:
        """Return the campaign of the newest record of this profile, or None."""
        of_profile = [
            each for each in self.read(experiment, machine) if each.record.profile == profile
        ]
        if not of_profile:
            return None
        newest = of_profile[-1].record
        return _gathered(of_profile, newest.question, newest.code, newest.repeats, grid)

    def campaign(
        self,
        question: Question,
        code: str,
        machine: str,
        repeats: int,
        grid: Sequence[Point],
        asked: Sequence[Point] | None = None,
    ) -> Campaign:
        """Return the answers of that code to a question so far.

        ``asked``: the points that the command was asked for, None for all of ``grid``."""
        items = self.read(question.experiment, machine)
        return _gathered(items, question, code, repeats, grid, asked)


def _gathered(
    items: Sequence[StoredRecord],
    question: Question,
    code: str,
    repeats: int,
    grid: Sequence[Point],
    asked: Sequence[Point] | None = None,
) -> Campaign:
    wanted = [point_key(point, repeat) for point in grid for repeat in range(repeats)]
    chosen: dict[str, Record] = {}
    answers = {
        each.record.run: each
        for each in items
        if each.record.code == code and each.record.question == question
    }
    for record in (each.record for each in answers.values()):
        key = point_key(record.point, record.repeat)
        if key not in chosen or _worth(record) >= _worth(chosen[key]):
            chosen[key] = record
    points = {point_key(point, 0) for point in grid}
    more = [
        key
        for key, record in chosen.items()
        if record.repeat >= repeats and record.settled and point_key(record.point, 0) in points
    ]
    kept = [chosen[key] for key in [*wanted, *more] if key in chosen]
    runs = {record.run for record in kept}
    missing = [key for key in wanted if key not in chosen]
    now = [point_key(point, repeat) for point in asked or grid for repeat in range(repeats)]
    return Campaign(
        records=kept,
        expected=len(wanted) + len(more),
        left_out=sum(key not in now for key in missing),
        directories={run: each.directory for run, each in answers.items()},
        others=[
            each.record
            for run, each in answers.items()
            if run not in runs and point_key(each.record.point, each.record.repeat) in wanted
        ],
    )


def _worth(record: Record) -> int:
    """Return the rank of a record: settled ones first, complete ones before all."""
    return 0 if not record.settled else 1 if record.again is not None else 2


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        raise EnvironmentFailure(
            f"cannot write {path}: {error.strerror}",
            remedy="free some space there, or choose another directory with --out DIR; "
            "every run that was recorded before is whole and will not be run again",
        ) from error
