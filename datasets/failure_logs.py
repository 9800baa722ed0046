"""Logs of failures and repairs of real systems, in the forms in which people have them.

* **LANL**: the node failures of Los Alamos, 1996 to 2005 (LA-UR-05-7318; Schroeder and Gibson, DSN
  2006), as the CSV of the repository Derek-Jones/ESEUR-code-data on GitHub. It is not part of this
  repository. Results that rest on it should acknowledge Los Alamos National Laboratory. Its times
  are local, to the minute.
* **Failure Trace Archive**: the table ``event_trace.tab`` of any of its traces.
* **Google**: machine events of 2011 (no header) and 2019 (CSV, or a JSON object a line). What is
  removed comes back when it is added again.
* **Backblaze**: a row for each disk and day, of one day or of many. A failed disk stays away.
* **Your own**: a CSV with a column for the node, one for the failure and, if there is one, one for
  the repair. Times are ISO 8601 (without a zone in UTC) or seconds, milliseconds or microseconds.

A repair that is empty is open: the node was away when the log ended."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.intervals.failure_models import Trace

Array = NDArray[Any]

_NODE = ("node", "nodenumz", "node_name", "node_id", "host", "hostname", "machine", "server")
_BEGAN = ("failed", "prob started", "failed_at", "began", "start", "started", "down", "time")
_ENDED = (
    "repaired", "prob fixed", "repaired_at", "ended", "end", "fixed", "up", "recovered", "restored",
)  # fmt: skip
_SYSTEM = ("system", "cluster")
_LANL_TIME = "%m/%d/%Y %H:%M"
_GOOGLE_2011 = ("time", "machine_id", "type", "platform", "cpus", "memory")
_MOST_SECONDS, _MOST_MILLISECONDS = 1e11, 1e14
"""Numbers of seconds, then of milliseconds, since the epoch that lie in the next thousand years."""
_REMEDY = (
    "give a CSV with the columns node, failed and repaired, a table of the Failure Trace Archive, "
    "or a log of Google's, Backblaze's or LANL's"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """A table as it was read, and where its rows are."""

    path: Path
    table: pd.DataFrame
    """All values are texts; columns are in lower case."""
    lines: Array
    """The line of each row."""


def read_failures(path: Path) -> pd.DataFrame:
    """Read a log (``.gz`` too) in any of the forms, sorted by system and time.

    Columns: ``system`` and ``node`` (texts; one system where the log has none), ``began_s`` and
    ``ended_s`` (seconds since the epoch or since the log's own beginning; NaN where the repair is
    open) and ``line`` in the file.

    Raises `UsageError`, naming file, line and value, for a missing file or column, a time that
    cannot be read, and a repair before its failure."""
    raw = _read(path)
    failures = _kind_of(raw)(raw)
    wrong = np.flatnonzero((failures["ended_s"] < failures["began_s"]).to_numpy())
    if len(wrong):
        row = failures.iloc[wrong[0]]
        began, ended = (pd.Timestamp(row[name], unit="s") for name in ("began_s", "ended_s"))
        raise UsageError(
            f"{path}, line {row['line']}: repaired at {ended} before it failed at {began} "
            f"({len(wrong)} such lines)",
            remedy="correct the line or remove it",
        )
    if not len(failures):
        raise UsageError(f"{path} has no failure", remedy=_REMEDY)
    return failures.sort_values(["system", "began_s"], kind="stable", ignore_index=True)


def of_system(failures: pd.DataFrame, system: str | None, name: str) -> pd.DataFrame:
    """Return the failures of one system, by time; ``name`` is the file's.

    Raises `UsageError` where there are several and none was chosen, or none of that name."""
    known = failures["system"].value_counts()
    if system is None and len(known) > 1:
        raise UsageError(
            f"{name} holds the systems {', '.join(known.index)}", remedy="choose one with --system"
        )
    if system is not None and system not in known.index:
        raise UsageError(
            f"system {system} has no failure in {name}",
            remedy="use one of: " + ", ".join(f"{i} ({n})" for i, n in known.head(8).items()),
        )
    return failures if system is None else failures[failures["system"] == system]


def gaps_s(failures: pd.DataFrame) -> Array:
    """Return the seconds between consecutive failures of one system, zeros (ties) included.

    Raises `UsageError` for fewer than three failures."""
    if len(failures) < 3:
        raise UsageError(
            f"system {failures['system'].iloc[0]} has {len(failures)} failures in this log",
            remedy="give a longer one: gaps need at least 3",
        )
    return np.diff(np.sort(failures["began_s"].to_numpy()))


def trace(failures: pd.DataFrame) -> Trace:
    """Return the failures of one system, to replay in a simulation."""
    return Trace(gaps_s(failures))


def _read(path: Path) -> _Raw:
    try:
        packed = path.read_bytes()
        text = (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", remedy=_REMEDY) from None
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", remedy=_REMEDY) from error
    first = text.lstrip("\ufeff \n").partition("\n")[0]
    try:
        table, begins = _parsed(text.lstrip("\ufeff"), first)
    except (ValueError, pd.errors.ParserError) as error:
        raise UsageError(f"{path} cannot be read: {error}", remedy=_REMEDY) from error
    table.columns = [str(name).strip(" #\t").lower() for name in table.columns]
    return _Raw(path=path, table=table, lines=np.arange(len(table)) + begins)


def _parsed(text: str, first: str) -> tuple[pd.DataFrame, int]:
    """Return the table and the line of its first row."""
    if first.startswith("{"):
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return pd.DataFrame(rows).astype("string"), 1
    separator = "\t" if "\t" in first else ";" if first.count(";") > first.count(",") else ","
    headless = _number(first.split(separator)[0].strip()) is not None
    table = pd.read_csv(
        StringIO(text),
        sep=separator,
        dtype="string",
        header=None if headless else 0,
        names=list(_GOOGLE_2011) if headless and separator == "," else None,
        skipinitialspace=True,
    )
    return table, 1 if headless else 2


def _kind_of(raw: _Raw) -> Callable[[_Raw], pd.DataFrame]:
    columns = set(raw.table.columns)
    if {"event_type", "event_start_time", "event_stop_time"} <= columns:
        return _archive
    if {"time", "machine_id", "type"} <= columns:
        return _google
    if {"date", "serial_number", "failure"} <= columns:
        return _backblaze
    return _own


def _archive(raw: _Raw) -> pd.DataFrame:
    """Return the times without the node: events of type 0."""
    table = raw.table
    away = (table["event_type"].str.strip() == "0").to_numpy()
    node = _first(raw, ("node_id", "node_name", "component_id"))
    if node is None:
        raise UsageError(f"{raw.path} has no column for the node", remedy=_REMEDY)
    return _frame(
        node=_texts(raw, node)[away],
        began_s=_seconds(raw, "event_start_time")[away],
        ended_s=_seconds(raw, "event_stop_time", may_lack=True)[away],
        lines=raw.lines[away],
    )


def _google(raw: _Raw) -> pd.DataFrame:
    """Return the times from the removal of a machine until it is added again.

    In 2011 0 means added and 1 removed, since 2019 1 and 2."""
    kind = raw.table["type"].str.strip().str.upper()
    old = bool((kind == "0").any())
    removes = kind.isin(["REMOVE", "1" if old else "2"]).to_numpy()
    adds = kind.isin(["ADD", "0" if old else "1"]).to_numpy()
    at_s = _numbers(raw, "time") / 1e6
    machine = raw.table["machine_id"].str.strip().to_numpy()
    ended_s = np.full(len(at_s), np.nan)
    away: dict[str, int] = {}
    for row in np.argsort(at_s, kind="stable"):
        if removes[row]:
            away.setdefault(machine[row], int(row))
        elif adds[row] and (since := away.pop(machine[row], None)) is not None:
            ended_s[since] = at_s[row]
    return _frame(
        node=machine[removes], began_s=at_s[removes], ended_s=ended_s[removes],
        lines=raw.lines[removes],
    )  # fmt: skip


def _backblaze(raw: _Raw) -> pd.DataFrame:
    failed = (raw.table["failure"].str.strip() == "1").to_numpy()
    return _frame(
        node=raw.table["serial_number"].to_numpy()[failed],
        began_s=_seconds(raw, "date")[failed],
        ended_s=np.nan,
        lines=raw.lines[failed],
    )


def _own(raw: _Raw) -> pd.DataFrame:
    began, ended = _first(raw, _BEGAN), _first(raw, _ENDED)
    node, system = _first(raw, _NODE), _first(raw, _SYSTEM)
    if began is None:
        has = ", ".join(raw.table.columns)
        raise UsageError(
            f"{raw.path} has no column with the time of a failure, but {has}", remedy=_REMEDY
        )
    return _frame(
        node=_texts(raw, node) if node else "node",
        began_s=_seconds(raw, began),
        ended_s=_seconds(raw, ended, may_lack=True) if ended else np.nan,
        lines=raw.lines,
        system=_texts(raw, system) if system else "1",
    )


def _frame(
    *,
    node: Array | str,
    began_s: Array,
    ended_s: Array | float,
    lines: Array,
    system: Array | str = "1",
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "system": system,
            "node": node,
            "began_s": began_s,
            "ended_s": ended_s,
            "line": lines,
        }
    ).astype({"system": str, "node": str, "began_s": float, "ended_s": float})


def _first(raw: _Raw, names: Sequence[str]) -> str | None:
    """Return the first of these names that a column has."""
    return next((name for name in names if name in raw.table.columns), None)


def _texts(raw: _Raw, name: str) -> Array:
    return raw.table[name].fillna("unknown").str.strip().to_numpy()


def _numbers(raw: _Raw, name: str) -> Array:
    numbers = pd.to_numeric(raw.table[name], errors="coerce").astype(float).to_numpy()
    _demand(raw, name, np.isfinite(numbers), "write a number")
    return np.asarray(numbers)


def _seconds(raw: _Raw, name: str, *, may_lack: bool = False) -> Array:
    """Return times as seconds; NaN for an empty one, where that may be.

    Every value of a column is in the same form."""
    texts = raw.table[name].str.strip()
    empty = (
        texts.isna() | (texts == "") | texts.str.lower().isin(["null", "none", "nan"])
    ).to_numpy(dtype=bool)
    given = texts[~empty]
    numbers = pd.to_numeric(given, errors="coerce").astype(float)
    if len(given) and numbers.notna().all():
        largest = float(numbers.abs().max())
        unit = 1.0 if largest < _MOST_SECONDS else 1e3 if largest < _MOST_MILLISECONDS else 1e6
        seconds = numbers / unit
    else:
        american = given.str.fullmatch(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}").fillna(False)
        form = _LANL_TIME if len(given) and bool(american.iloc[0]) else "ISO8601"
        times = pd.to_datetime(given, format=form, errors="coerce", utc=True)
        seconds = (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    found = np.full(len(texts), np.nan)
    found[~empty] = seconds.to_numpy(dtype=float)
    readable = np.isfinite(found) | (empty if may_lack else False)
    _demand(
        raw, name, readable, "write an ISO time such as 2026-03-01T10:54:00Z, seconds since the "
        "epoch, or month/day/year hour:minute, the same in every line",
    )  # fmt: skip
    return found


def _demand(raw: _Raw, name: str, readable: Array, remedy: str) -> None:
    bad = np.flatnonzero(~readable)
    if len(bad):
        value = raw.table[name].iloc[bad[0]]
        shown = "empty" if pd.isna(value) or not str(value).strip() else repr(str(value))
        where = f"{raw.path}, line {int(raw.lines[bad[0]])}"
        raise UsageError(f"{where}: {name} is {shown}", remedy=remedy)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
