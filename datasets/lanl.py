"""Failure records of the Los Alamos National Laboratory's systems, 1996 to 2005.

The laboratory published 23,739 node failures of 22 systems as LA-UR-05-7318; Schroeder and
Gibson (DSN 2006) describe them. The table used here is the CSV of the repository
Derek-Jones/ESEUR-code-data on GitHub; it is not part of this repository. Results that rest on
it should acknowledge Los Alamos National Laboratory.

Times are local, to the minute. A file of one's own works too: the columns ``System``,
``Prob Started`` and ``Prob Fixed`` are enough, the others are filled with nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import UsageError
from harness.intervals.failure_models import Trace
from harness.intervals.utilization import Array

CAUSES = ("Facilities", "Hardware", "Human Error", "Network", "Undetermined", "Software")
_REQUIRED = ("System", "Prob Started", "Prob Fixed")
_TIME_FORMAT = "%m/%d/%Y %H:%M"
_FIRST_LINE = 2
"""The first record's line; line 1 is the header."""


def load_failures(path: Path) -> pd.DataFrame:
    """Read the records of a CSV file (``.gz`` too), sorted by system and start.

    Columns: ``system`` (int), ``node`` (float, NaN where unknown), ``nodes`` of the system,
    ``started`` and ``fixed`` (datetime64), ``downtime_min`` as recorded (from the two times where
    it is not), ``cause`` (None where none is given) and ``line`` in the file.

    Raises `UsageError`, naming file, line and value, if the file is missing, a column is missing, a
    time cannot be read, or a repair comes before its failure."""
    raw = _read(path)
    started = _times(raw, "Prob Started", path)
    fixed = _times(raw, "Prob Fixed", path)
    wrong = np.flatnonzero((fixed < started).to_numpy())
    if len(wrong):
        row = raw.iloc[wrong[0]]
        raise UsageError(
            f"{path}, line {wrong[0] + _FIRST_LINE}: repaired {row['Prob Fixed']!r} before it "
            f"failed {row['Prob Started']!r} ({len(wrong)} such lines)",
            remedy="correct the line or remove it; times are month/day/year hour:minute",
        )
    records = pd.DataFrame(
        {
            "system": raw["System"].astype(int),
            "node": _column(raw, "nodenumz"),
            "nodes": _column(raw, "nodes"),
            "started": started,
            "fixed": fixed,
            "downtime_min": _column(raw, "Down Time"),
            "cause": _causes(raw),
            "line": np.arange(len(raw)) + _FIRST_LINE,
        }
    )
    recorded = (fixed - started).dt.total_seconds() / 60.0
    records["downtime_min"] = records["downtime_min"].fillna(recorded)
    return records.sort_values(["system", "started"], kind="stable", ignore_index=True)


def gaps_s(records: pd.DataFrame, system: int) -> Array:
    """Seconds between consecutive failures of one system, zeros (ties) included.

    Raises `UsageError` for a system with fewer than three failures."""
    started = records.loc[records["system"] == system, "started"]
    if len(started) < 3:
        known = records["system"].value_counts()
        raise UsageError(
            f"system {system} has {len(started)} failures in these records",
            remedy="use one of: " + ", ".join(f"{i} ({n})" for i, n in known.head(8).items()),
        )
    return np.diff(started.sort_values().to_numpy()).astype("timedelta64[s]").astype(float)


def trace(records: pd.DataFrame, system: int) -> Trace:
    """Return the failures of one system, to replay in a simulation."""
    return Trace(gaps_s(records, system))


def _read(path: Path) -> pd.DataFrame:
    try:
        raw = pd.read_csv(path, low_memory=False)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", remedy="give the failure records' CSV") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", remedy="give a CSV file") from error
    missing = [name for name in _REQUIRED if name not in raw]
    if missing:
        raise UsageError(
            f"{path} has no column {missing[0]!r}",
            remedy=f"give a CSV with the columns {', '.join(_REQUIRED)}",
        )
    return raw


def _times(raw: pd.DataFrame, column: str, path: Path) -> pd.Series[pd.Timestamp]:
    times = pd.to_datetime(raw[column], format=_TIME_FORMAT, errors="coerce")
    bad = np.flatnonzero(times.isna().to_numpy())
    if len(bad):
        value = raw[column].iloc[bad[0]]
        shown = "empty" if pd.isna(value) else repr(value)
        raise UsageError(
            f"{path}, line {bad[0] + _FIRST_LINE}: {column} is {shown}",
            remedy="write month/day/year hour:minute, like 6/21/2005 10:54",
        )
    return times


def _column(raw: pd.DataFrame, name: str) -> pd.Series[float]:
    if name not in raw:
        return pd.Series(np.nan, index=raw.index)
    return pd.to_numeric(raw[name], errors="coerce").astype(float)


def _causes(raw: pd.DataFrame) -> pd.Series[str]:
    """Return the name of the one cause column that is filled, or None."""
    causes = np.full(len(raw), None, dtype=object)
    for name in reversed(CAUSES):
        if name in raw:
            causes[raw[name].notna().to_numpy()] = name.lower()
    return pd.Series(causes, index=raw.index)
