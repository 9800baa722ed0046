"""Tidy tables of one or many result directories and machines.

::

    from harness.results import load

    results = load()                              # the small set that ships with the repository
    results = load("results", "/data/other")      # directories of your own, of any machines
    results = load("other.zip")                   # an archive: ./faultline export --raw other.zip
    results.runs                                  # a row per run
    results.wide("ppa/recovery-single")           # a row per run, a column per parameter and value

Every table has a row per observation and the unit at the end of a column's name; ``run`` joins
them. ``docs/results.md`` has an example and a dictionary of every table. Nothing is filtered: an
invalid or failed run is in the tables with its ``status``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from harness.errors import UsageError
from harness.results import archive
from harness.results.kills import COLUMNS
from harness.results.provenance import ROOT
from harness.results.record import OK, decode
from harness.results.recorded import kill_rows
from harness.results.store import StoredRecord, unreadable
from harness.results.tables import read_series, stacked

SHIPPED = ROOT / "results" / "baselines"
"""The real results that come with the repository."""

TABLES = ("runs", "points", "claims", "timelines", "latencies", "failures", "recoveries", "usage")

Warn = Callable[[str], None]


def load(
    *roots: str | Path,
    experiment: str | None = None,
    profile: str | None = None,
    warn: Warn = lambda text: None,
) -> Library:
    """Return the records of result directories or archives, of every machine, as tables.

    Without a directory: those that ship with the repository. ``experiment`` (an id, or a group)
    and ``profile`` filter them. ``warn`` receives a message for each unreadable record. Raises
    `UsageError` for a directory without records and for records of a newer schema."""
    folders = [Path(root) for root in roots] or [SHIPPED]
    found: list[StoredRecord] = []
    for root in folders:
        # Their folders name them: what is not asked for is not read.
        paths = [
            path
            for path in archive.found(root)
            if experiment in (None, "/".join(path.parts[-5:-3]), path.parts[-5])
        ]
        found += _records(root, paths, warn)
    chosen = [each for each in found if profile in (None, each.record.profile)]
    chosen.sort(key=lambda each: (each.record.experiment, each.record.run))
    first: dict[tuple[str, str], StoredRecord] = {}
    for each in chosen:  # a run that is in two directories counts once
        first.setdefault((each.record.run, each.machine_name), each)
    return Library(found=list(first.values()), roots=folders)


def _records(root: Path, paths: Sequence[Path], warn: Warn) -> Iterator[StoredRecord]:
    for path in paths:
        try:
            record = decode(json.loads(path.read_text()))
        except UsageError as error:
            raise UsageError(f"{path}: {error.what}", remedy=error.remedy) from error
        except (ValueError, OSError) as error:
            warn(unreadable(path, error))
            continue
        yield StoredRecord(record, path.parent, root)


@dataclass(frozen=True)
class Library:
    """Tidy tables over a set of records. Each table is built on its first use."""

    found: Sequence[StoredRecord]
    roots: Sequence[Path]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run: the question, the machine, the code, and the status."""
        return pd.DataFrame([_run(each) for each in self.found], columns=list(RUN_COLUMNS))

    @cached_property
    def points(self) -> pd.DataFrame:
        """A row per run and quantity: every parameter of its point and every measured value.

        A number is in ``value``, anything else in ``text`` (lists and objects as JSON)."""
        rows = [row for each in self.found for row in _quantities(each)]
        return pd.DataFrame(rows, columns=list(POINT_COLUMNS))

    @cached_property
    def claims(self) -> pd.DataFrame:
        """A row per claim of the newest campaign of each experiment.

        ``held`` is the verdict of the report in its directory: true, false, or null for not
        measured."""
        rows = [row for root in self.roots for row in _claims(root)]
        frame = pd.DataFrame(rows, columns=list(CLAIM_COLUMNS)).astype({"held": "boolean"})
        wanted = {(each.record.experiment, each.record.profile) for each in self.found}
        kept = [pair in wanted for pair in zip(frame["experiment"], frame["profile"], strict=True)]
        return frame[kept].reset_index(drop=True)

    @cached_property
    def timelines(self) -> pd.DataFrame:
        """A row per time bin of a live run: throughput and latency.

        ``pass`` is ``failed`` for the run with failures and ``twin`` for the one without."""
        return self.series("timeline")

    @cached_property
    def latencies(self) -> pd.DataFrame:
        """A row per window of a live run: its results, when they came, and its latency."""
        return self.series("windows", having="latency_s")

    @cached_property
    def failures(self) -> pd.DataFrame:
        """A row per injected action: planned and actual time, in seconds of the run."""
        return self.series("failures")

    @cached_property
    def recoveries(self) -> pd.DataFrame:
        """A row per failure with a victim.

        ``outage_s`` and ``recovery_s`` are seen from outside, at the out topic;
        ``paper_recovery_s`` is the recovery as the papers define it."""

        def read(run: StoredRecord) -> pd.DataFrame | None:
            rows = kill_rows(run.directory)
            return None if rows is None else rows.filter([*COLUMNS, "variant"])

        return self._each(read)

    @cached_property
    def usage(self) -> pd.DataFrame:
        """A row per sample and process of a live run: CPU seconds so far, resident bytes."""
        return self.series("usage")

    def series(self, name: str, *, having: str | None = None) -> pd.DataFrame:
        """Return a series of every run that has it, with the `SERIES_KEYS` in front.

        ``having``: only where it has that column; some experiments keep one of their own."""

        def read(run: StoredRecord) -> pd.DataFrame | None:
            frame = read_series(run.directory, name)
            return frame if having is None or (frame is not None and having in frame) else None

        return self._each(read)

    def _each(self, read: Callable[[StoredRecord], pd.DataFrame | None]) -> pd.DataFrame:
        """Return what ``read`` has of every run, with the `SERIES_KEYS` in front."""
        parts = []
        for each in self.found:
            frame = read(each)
            if frame is not None:
                keys = _keys(each)
                frame = frame.drop(columns=[key for key in keys if key in frame])
                parts.append(pd.DataFrame(keys, index=frame.index).join(frame))
        return stacked(parts) if parts else pd.DataFrame(columns=list(SERIES_KEYS))

    @cached_property
    def series_names(self) -> Sequence[str]:
        """Names of all series, sorted."""
        return sorted({name for each in self.found for name in each.series})

    def wide(self, experiment: str, *, valid: bool = True) -> pd.DataFrame:
        """Return one experiment with a row per run and a column per parameter and value.

        Only valid runs count unless ``valid`` is false. Raises `UsageError` if there is no run."""
        mine = [each for each in self.found if each.record.experiment == experiment]
        if not mine:
            known = sorted({each.record.experiment for each in self.found})
            raise UsageError(
                f"there is no run of {experiment!r} here",
                remedy=f"use one of: {', '.join(known)}" if known else "load other results",
            )
        return pd.DataFrame(
            [
                {**_keys(each), "repeat": each.record.repeat}
                | dict(each.record.point)
                | dict(each.record.values)
                for each in mine
                if each.record.status == OK or not valid
            ]
        )

    def table(self, name: str) -> pd.DataFrame:
        """Return a table by its name. Raises `UsageError` for an unknown one."""
        if name not in TABLES:
            raise UsageError(
                f"there is no table {name!r}", remedy=f"use one of: {', '.join(TABLES)}"
            )
        frame: pd.DataFrame = getattr(self, name)
        return frame


SERIES_KEYS = ("run", "experiment", "profile", "machine_name", "status")

RUN_COLUMNS: Mapping[str, str] = {
    "run": "Identifies a run; begins with the UTC time of its start.",
    "experiment": "The experiment; `./faultline list` shows all.",
    "profile": "The amount that was run: smoke, quick or paper.",
    "machine_name": "Class of machine; like machines have the same name.",
    "status": "ok, invalid (measured, not to be trusted), failed (ended with an error) or skipped "
    "(an engine or a backend cannot run it).",
    "reason": "Reason if it is invalid, failed or skipped.",
    "engine": "The measured live engine; empty where none ran, and in records from before "
    "schema 3.",
    "backend": "The kind of cluster it was measured on; empty where no server ran.",
    "repeat": "Number of the repetition of its point, from 0.",
    "campaign": "Runs of one campaign have the same code, seed, options and machine; only these "
    "may be in one comparison.",
    "root_seed": "The seed from which all random choices were derived.",
    "commit": "The code's commit; + if files differed from it.",
    "cpu": "Processor model.",
    "cores": "Cores that the run could use.",
    "memory_gib": "Memory of the machine, in GiB.",
    "started": "Start, UTC.",
    "seconds": "Duration, in seconds.",
    "peak_memory_bytes": "Largest resident memory of its processes together, in bytes; empty in "
    "records from before schema 4.",
    "disk_bytes": "Size of the files of the run and of its servers at its end, in bytes; empty in "
    "records from before schema 4.",
    "directory": "Directory of its record and series.",
}

POINT_COLUMNS: Mapping[str, str] = {
    **{name: RUN_COLUMNS[name] for name in SERIES_KEYS},
    "kind": "parameter (part of the question) or value (part of the outcome).",
    "quantity": "Name of the quantity, with the unit at the end; see the metrics below.",
    "value": "The quantity's value, if it is a number; true is 1, false is 0.",
    "text": "A value that is not a number, as text or JSON.",
}

CLAIM_COLUMNS: Mapping[str, str] = {
    "experiment": RUN_COLUMNS["experiment"],
    "profile": RUN_COLUMNS["profile"],
    "machine_name": "As in `runs`; empty in results of versions that did not write it.",
    "paper": "The paper of the figure.",
    "figure": "The figure or table.",
    "kind": "invariant (must hold), paper (a paper's sentence) or hypothesis (ours).",
    "text": "The claim.",
    "id": "The claim's name, which never changes.",
    "verdict": "holds, does not hold, undecided (too few samples, or their interval contains the "
    "limit), not measured.",
    "held": "True for the verdict holds, false for does not hold, else null.",
    "samples": "Number of independent samples, if the claim compares a statistic of them.",
    "post_hoc": "True if its rule was changed after data of this seed had been seen.",
    "measured": "The numbers behind the verdict, as JSON.",
    "why": "Reason why it does not hold or was not measured, if known; else empty.",
    "cause": "Reason why it does not hold, in a word: our reading, lost parameter, not so, "
    "machine; else empty.",
    "rests_on": "live, simulated, computed, or circular or by construction.",
    "foregone": "circular, semi-circular or by construction, where that is so; else empty.",
    "sentence": "The key of the sentence, which several figures, profiles and readings can judge.",
    "counts": "True for the one verdict that counts for its sentence on the first page.",
}


def _run(each: StoredRecord) -> dict[str, Any]:
    record = each.record
    named = ("run", "status", "reason", "engine", "backend", "repeat", "campaign", "root_seed")
    used = ("seconds", "peak_memory_bytes", "disk_bytes")
    return {
        **{name: getattr(record, name) for name in (*named, "experiment", "commit", *used)},
        **{name: record.machine.get(name) for name in ("cpu", "cores", "memory_gib")},
        "profile": str(record.profile),
        "machine_name": each.machine_name,
        "started": pd.Timestamp(record.started_unix_s, unit="s", tz="UTC"),
        "directory": str(each.directory),
    }


def _keys(each: StoredRecord) -> dict[str, Any]:
    run = _run(each)
    return {key: run[key] for key in SERIES_KEYS}


def _quantities(each: StoredRecord) -> Iterator[dict[str, Any]]:
    keys = _keys(each)
    for kind, quantities in (("parameter", each.record.point), ("value", each.record.values)):
        for name, value in quantities.items():
            number = isinstance(value, int | float)
            text = None if number else value
            if text is not None and not isinstance(text, str):
                text = json.dumps(text, ensure_ascii=False)
            yield {
                **keys,
                "kind": kind,
                "quantity": name,
                "value": float(value) if number else None,
                "text": text,
            }


def _claims(root: Path) -> Iterator[dict[str, Any]]:
    path = archive.claims_of(root)
    if path is None:
        return
    try:
        documents = json.loads(path.read_text())
    except ValueError as error:
        raise UsageError(
            f"{path} is not JSON: {error}",
            remedy=f"make it anew: ./faultline report --out {root}",
        ) from error
    for document in documents:
        yield {
            **{name: document.get(name) for name in CLAIM_COLUMNS},
            "measured": json.dumps(document.get("measured"), ensure_ascii=False),
        }
