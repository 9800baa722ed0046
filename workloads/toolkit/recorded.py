"""Recorded input: Parquet, CSV or JSON lines, replayed at its own pace in event time.

A recording is one file or a directory of files. Its records are sorted by their event time and
dealt to the partitions in turn. Each is sent at its own distance from the first one, in event time,
with its recorded time as the timestamp; a recording that is shorter than the load begins anew.

Tests: ``tests/workloads/test_own_mistakes.py``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from workloads.base import Reference, Source

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FORMATS: Mapping[str, str] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Endings of files, and their formats."""
UNITS_S: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
YEAR_S = 365.2425 * 86_400
LIKELY_YEARS = 1980, 2100
"""Times of a recording whose unit is not given; a broker refuses those of the future anyway."""


def recorded(
    name: str,
    path: Path | str,
    *,
    time: str = "timestamp",
    unit: str | None = None,
    partitions: int = 2,
) -> Source:
    """Return a source that replays a recording.

    ``path`` is a file or a directory of files of one format, ``time`` the column (or field) of the
    event time: a timestamp, ISO text, or a number of ``unit`` ("s", "ms", "us") since the epoch.
    Without a unit numbers are milliseconds, if that makes times that can be meant.
    A record's value is the line of a JSON file, else a JSON object of the row's columns; a column
    ``value`` of binary, as in a topic that was recorded, is the value as it is."""
    parameters = {
        "path": str(Path(path).resolve()),
        "time": time,
        "unit": unit,
        "partitions": partitions,
    }
    records = Reference(target=f"{__name__}:Recording", parameters=parameters)
    return Source(name=name, records=records, partitions=partitions)


class Recording:
    """A `workloads.base.RecordedSource` over files."""

    def __init__(self, path: str, time: str, unit: str | None, partitions: int) -> None:
        self._partitions = partitions
        self._values, self._event_s = _read(path, time, unit)
        self.first_unix_s = float(self._event_s[0])
        count = len(self._event_s)
        gaps_s = np.diff(self._event_s)
        self._span_s = float(self._event_s[-1] - self._event_s[0]) + (
            float(gaps_s.mean()) if count > 1 and gaps_s.any() else 1.0
        )
        self.per_s = count / self._span_s

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        """Return the values of these records; after the last one comes the first one again."""
        first = partition + self._partitions * start_index
        wanted = range(first, first + count * self._partitions, self._partitions)
        return [self._values[number % len(self._values)] for number in wanted]

    def rates(
        self, begin_unix_s: float, duration_s: float, speed: float
    ) -> list[tuple[float, float]]:
        """Return the pace: the records of each instant at once, then the time to the next one."""
        until_s = duration_s * speed
        again = max(1, math.ceil((until_s - self.first_unix_s + begin_unix_s) / self._span_s))
        offsets = self._event_s - begin_unix_s
        whole = np.concatenate([offsets + number * self._span_s for number in range(again)])
        instants, counts = np.unique(whole, return_counts=True)
        there = instants < until_s - 1e-6
        instants, counts = instants[there], counts[there]
        if not len(instants):
            raise UsageError(
                f"no record of the recording is in the {until_s:g} s of a load",
                remedy="let event time run faster (--speed), or leave out what is long before the "
                "rest",
            )
        gaps_s = np.diff(instants, append=until_s) / speed
        pace = [(float(instants[0]) / speed, 0.0)] if instants[0] > 0 else []
        for count, gap_s in zip(counts.tolist(), gaps_s.tolist(), strict=True):
            pace += [(0.0, float(count)), (gap_s, 0.0)]
        return pace


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording; raise `UsageError` if there are none, or of two formats."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [file for file in files if file.suffix in FORMATS and file.is_file()]
    if not files:
        raise UsageError(
            f"there is no recording at {path}",
            remedy=f"name a file, or a directory of files, that end in {', '.join(FORMATS)}",
        )
    if len({FORMATS[file.suffix] for file in files}) > 1:
        raise UsageError(
            f"{path} has files of several formats", remedy="keep each format in a directory"
        )
    return files


@cache
def _read(path: str, time: str, unit: str | None) -> tuple[list[bytes], NDArray[np.float64]]:
    """Return the values and the event times (s since the epoch), by event time."""
    if unit is not None and unit not in UNITS_S:
        raise UsageError(f"{unit!r} is no unit of a time", remedy=f"give {', '.join(UNITS_S)}")
    values: list[bytes] = []
    times: list[NDArray[np.float64]] = []
    for file in files_of(Path(path)):
        found, given = (_lines if FORMATS[file.suffix] == "json" else _rows)(file, time)
        values += found
        times.append(_seconds(given, file, time, unit))
    event_s = np.concatenate(times)
    if not len(event_s):
        raise UsageError(f"{path} has no record", remedy="name a recording with records")
    order = np.argsort(event_s, kind="stable")
    return [values[number] for number in order], event_s[order]


def _lines(file: Path, time: str) -> tuple[list[bytes], list[Any]]:
    lines = [(n, line) for n, line in enumerate(file.read_bytes().split(b"\n"), 1) if line.strip()]
    times = []
    for number, line in lines:
        try:
            record = json.loads(line)
            times.append(record[time])
        except ValueError as error:
            raise UsageError(
                f"{file}, line {number} is not a JSON object: {error}",
                remedy="give one JSON object a line, and leave out the lines that are broken",
            ) from None
        except (KeyError, TypeError):
            raise UsageError(
                f"{file}, line {number} has no field {time!r}: {line.decode(errors='replace'):.80}",
                remedy='name the field of the event time, such as time="at"',
            ) from None
    return [line for _, line in lines], times


def _rows(file: Path, time: str) -> tuple[list[bytes], list[Any]]:
    table = _table(file)
    if time not in table.column_names:
        raise UsageError(
            f"{file} has no column {time!r}, only {', '.join(table.column_names)}",
            remedy='name the column of the event time, such as time="at"',
        )
    return list(_values(file, table)), table[time].to_pylist()


def _table(file: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if FORMATS[file.suffix] == "csv":
            return pyarrow.csv.read_csv(file)
        return pyarrow.parquet.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}",
            remedy="give files that end in the name of their format, and leave out broken ones",
        ) from None


def _values(file: Path, table: pa.Table) -> Iterator[bytes]:
    from pyarrow import types

    names = table.column_names
    if "value" in names and types.is_binary(table["value"].type):
        yield from (value or b"" for value in table["value"].to_pylist())
        return
    for row in table.to_pylist():
        try:
            yield json.dumps(row, default=_text).encode()
        except TypeError as error:
            raise UsageError(
                f"{file}: a row cannot be written as JSON: {error}",
                remedy="leave the column out, or give the values as text",
            ) from None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        raise TypeError("it has a column of binary that is not called value")
    return str(value)


def _check_meant(numbers: NDArray[np.float64], unit: str | None, what: str) -> None:
    """Raise `UsageError` for times that lie where no recording does: another unit is meant."""

    def year(at: float, of: str) -> float:
        return float(1970 + at * UNITS_S[of] / YEAR_S)

    first = float(numbers.min()) if len(numbers) else math.nan
    last = float(numbers.max()) if len(numbers) else math.nan
    begin, end = LIKELY_YEARS
    # A unit that is given may count from a begin of its own, but not beyond the present.
    if math.isnan(first) or (
        year(last, unit or "ms") <= end and (unit is not None or year(first, "ms") >= begin)
    ):
        return
    likely = [each for each in UNITS_S if begin <= year(first, each) <= year(last, each) <= end]
    where = f"about the year {year(last, unit or 'ms'):.0f}"
    if abs(first) < UNITS_S["s"] * YEAR_S / UNITS_S["ms"]:
        where = f"in {datetime.fromtimestamp(first * UNITS_S[unit or 'ms'], UTC):%B %Y}"
    fits = " or ".join(f'unit="{each}"' for each in likely)
    raise UsageError(
        f"{what} lies {where} as a number of {unit or 'ms'} since 1970: the first is {first:.0f}",
        remedy=f"give {fits or 'the unit'} with recorded(...)"
        + ("" if unit or year(last, "ms") > end else ', or unit="ms" if times do begin there'),
    )


def _seconds(given: Sequence[Any], file: Path, time: str, unit: str | None) -> NDArray[np.float64]:
    """Return times as seconds since the epoch; a time without a zone is in UTC."""
    import pandas as pd

    for number, one in enumerate(given, 1):
        if one is None or isinstance(one, bool | list | dict):
            raise UsageError(
                f"{file}, record {number}: {time!r} is {one!r}, which is not a time",
                remedy="leave these records out, or name another field with time=...",
            )
    if all(isinstance(one, int | float) for one in given):
        numbers = np.asarray(given, dtype=float)
        _check_meant(numbers, unit, f"{file}: {time!r}")
        return numbers * UNITS_S[unit or "ms"]
    try:
        stamps: pd.Series[Any] = pd.to_datetime(
            pd.Series(list(given), dtype=object).astype(str), utc=True, format="ISO8601"
        )
    except ValueError as error:
        raise UsageError(
            f"{file}: {time!r} has a value that is not a time: {error}",
            remedy="write timestamps, ISO texts such as 2026-11-23T05:38:00Z, or numbers",
        ) from None
    return stamps.astype("datetime64[us, UTC]").astype("int64").to_numpy() / 1e6
