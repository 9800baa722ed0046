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
from workloads.source import Header

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
    key: str | None = None,
    headers: Sequence[str] = (),
) -> Source:
    """Return a source that replays a recording.

    ``path`` is a file or a directory of files of one format, ``time`` the column (or field) of the
    event time: a timestamp, ISO text, or a number of ``unit`` ("s", "ms", "us") since the epoch.
    Without a unit numbers are milliseconds, if that makes times that can be meant.
    A record's value is the line of a JSON file, else a JSON object of the row's columns; a column
    ``value`` of binary, as in a topic that was recorded, is the value as it is.
    ``key`` names the column or field of the record's key, ``headers`` those of its headers: binary
    and text as they are, anything else as JSON; null is no key, and no header."""
    parameters: dict[str, Any] = {
        "path": str(Path(path).resolve()),
        "time": time,
        "unit": unit,
        "partitions": partitions,
        "key": key,
    }
    kind = Recording.__name__
    if headers:
        parameters["headers"], kind = [*headers], HeadedRecording.__name__
    records = Reference(target=f"{__name__}:{kind}", parameters=parameters)
    return Source(name=name, records=records, partitions=partitions, headers=bool(headers))


class Recording:
    """A `workloads.base.RecordedSource` over files."""

    def __init__(
        self,
        path: str,
        time: str,
        unit: str | None,
        partitions: int,
        key: str | None = None,
        headers: Sequence[str] = (),
    ) -> None:
        self._partitions = partitions
        fields = tuple(headers) if key is None else (*headers, key)
        stamps = tuple(file.stat().st_mtime_ns for file in files_of(Path(path)))
        self._values, self._event_s, self._fields = _read(path, stamps, time, unit, fields)
        self._key, self._headers = key, headers
        self.first_unix_s = float(self._event_s[0])
        count = len(self._event_s)
        gaps_s = np.diff(self._event_s)
        self._span_s = float(self._event_s[-1] - self._event_s[0]) + (
            float(gaps_s.mean()) if count > 1 and gaps_s.any() else 1.0
        )
        self.per_s = count / self._span_s

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        """Return the values of these records; after the last one comes the first one again."""
        return [self._values[number] for number in self._numbers(partition, start_index, count)]

    def keys(self, partition: int, start_index: int, count: int) -> list[bytes | None]:
        """Return the keys of these records."""
        if self._key is None:
            return [None] * count
        return [self._fields[n][-1] for n in self._numbers(partition, start_index, count)]

    def _numbers(self, partition: int, start_index: int, count: int) -> list[int]:
        first = partition + self._partitions * start_index
        wanted = range(first, first + count * self._partitions, self._partitions)
        return [number % len(self._values) for number in wanted]

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


class HeadedRecording(Recording):
    """A recording whose records have headers."""

    def headers(self, partition: int, start_index: int, count: int) -> list[list[Header]]:
        """Return the headers of these records."""
        return [
            [
                (name, value)
                for name, value in zip(self._headers, self._fields[number], strict=False)
                if value is not None
            ]
            for number in self._numbers(partition, start_index, count)
        ]


Fields = tuple[bytes | None, ...]
"""The key or headers of a record."""


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
def _read(
    path: str, stamps: tuple[int, ...], time: str, unit: str | None, fields: tuple[str, ...]
) -> tuple[list[bytes], NDArray[np.float64], list[Fields]]:
    """Return the values, the event times (s since the epoch) and these fields, by event time.

    ``stamps``: the times of the files' last changes."""
    if unit is not None and unit not in UNITS_S:
        raise UsageError(f"{unit!r} is no unit of a time", remedy=f"give {', '.join(UNITS_S)}")
    values: list[bytes] = []
    more: list[Fields] = []
    times: list[NDArray[np.float64]] = []
    for file in files_of(Path(path)):
        read = _lines if FORMATS[file.suffix] == "json" else _rows
        found, columns = read(file, time, fields)
        values += found
        times.append(_seconds(columns[0], file, time, unit))
        more += zip(*(map(_as_bytes, column) for column in columns[1:]), strict=True)
    event_s = np.concatenate(times)
    if not len(event_s):
        raise UsageError(f"{path} has no record", remedy="name a recording with records")
    order = np.argsort(event_s, kind="stable")
    in_order = [more[number] for number in order] if fields else []
    return [values[number] for number in order], event_s[order], in_order


def _as_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


Columns = list[list[Any]]
"""The event times, then each of the fields that are wanted."""


def _lines(file: Path, time: str, fields: tuple[str, ...]) -> tuple[list[bytes], Columns]:
    lines = [(n, line) for n, line in enumerate(file.read_bytes().split(b"\n"), 1) if line.strip()]
    columns: Columns = [[] for _ in (time, *fields)]
    for number, line in lines:
        try:
            record = json.loads(line)
            columns[0].append(record[time])
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
        for column, name in zip(columns[1:], fields, strict=True):
            column.append(record.get(name))
    for column, name in zip(columns[1:], fields, strict=True):
        if lines and all(value is None for value in column):
            raise UsageError(
                f"{file}: no record has a field {name!r}",
                remedy="name the field of the key in key=..., those of headers in headers=[...]",
            )
    return [line for _, line in lines], columns


def _rows(file: Path, time: str, fields: tuple[str, ...]) -> tuple[list[bytes], Columns]:
    table = _table(file)
    for name in (time, *fields):
        if name not in table.column_names:
            raise UsageError(
                f"{file} has no column {name!r}, only {', '.join(table.column_names)}",
                remedy='name the column of the event time, such as time="at", and those of key '
                "and headers, if there are any",
            )
    return list(_values(file, table)), [table[name].to_pylist() for name in (time, *fields)]


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
