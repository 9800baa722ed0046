"""Series over time as Prometheus and Grafana export them.

* A CSV of Grafana: ``Time`` and a column for each series, or ``Series,Time,Value``. Values may have
  a unit as they are shown: ``225.0 K``, ``1.2 Mil``, ``4.0 GB``, ``300 ms``.
* JSON of Prometheus: the answer to a query of a range (``/api/v1/query_range``).

Tests: ``tests/intervals/test_exports.py``."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError

_VALUE = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([A-Za-zµ]*)(?:/s|ps)?\s*")
_UNITS = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "Mil": 1e6, "G": 1e9, "Bil": 1e9, "T": 1e12,
    "Tri": 1e12, "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10,
    "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3,
    "s": 1.0, "min": 60.0, "mins": 60.0, "m": 60.0, "hour": 3600.0, "h": 3600.0, "rec": 1.0,
    "ops": 1.0, "records": 1.0,
}  # fmt: skip
"""Of a displayed value, to numbers, bytes or seconds."""
_REMEDY = (
    "export it as a CSV of Grafana (Time, then a column for each series), or as the JSON of "
    "Prometheus's query_range"
)
_EMPTY = ("", "null", "undefined", "nan", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series: a number at each time."""

    name: str
    at_s: NDArray[np.float64]
    values: NDArray[np.float64]
    shown_in: str = ""
    """The unit that the values were written with."""


def read_series(text: str, *, name: str) -> list[Series]:
    """Return the series of an export. Raises `UsageError` for anything else."""
    try:
        if text.lstrip().startswith(("{", "[")):
            return _prometheus(json.loads(text))
        return _grafana(list(csv.reader(StringIO(text.lstrip("\ufeff")))))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{name} cannot be read: {error}", remedy=_REMEDY) from error


def added(series: Sequence[Series]) -> Series:
    """Return the sum of series at the times of the first one; a partition is a series."""
    first = series[0]
    values = sum(np.interp(first.at_s, each.at_s, each.values) for each in series)
    return Series(
        name=" + ".join(each.name for each in series), at_s=first.at_s, values=np.asarray(values)
    )


def time_s(text: str) -> float:
    """Return seconds since some instant; without a zone in UTC, whose clock never changes."""
    try:
        number = float(text)
    except ValueError:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return number / 1000 if number > 1e11 else number


def _prometheus(document: Any) -> list[Series]:
    found = document["data"]["result"] if isinstance(document, dict) else document
    series = []
    for one in found:
        labels = dict(one["metric"])
        name = labels.pop("__name__", "")
        shown = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        values = [(float(at), float(value)) for at, value in one["values"]]
        at_s, numbers = (np.array(each) for each in zip(*values, strict=True))
        series.append(Series(name=name or shown, at_s=at_s, values=numbers))
    if not series:
        raise ValueError("it has no series")
    return series


def _grafana(rows: list[list[str]]) -> list[Series]:
    while rows and (not rows[0] or rows[0][0].startswith("sep=")):
        rows = rows[1:]
    header = [column.strip() for column in rows[0]]
    lower = [column.lower() for column in header]
    if lower == ["series", "time", "value"]:
        names = dict.fromkeys(row[0] for row in rows[1:] if row)
        pairs = {name: [row[1:] for row in rows[1:] if row and row[0] == name] for name in names}
    elif lower[0] == "time" and len(header) > 1:
        pairs = {
            name: [[row[0], row[place]] for row in rows[1:] if row]
            for place, name in enumerate(header)
            if place
        }
    else:
        raise ValueError(f"its first line is {', '.join(header)}")
    return [_one(name, cells) for name, cells in pairs.items()]


def _one(name: str, cells: list[list[str]]) -> Series:
    given = [(time_s(at), *_value(value)) for at, value in cells if value.lower() not in _EMPTY]
    if not given:
        raise ValueError(f"{name} has no value")
    at_s, values, units = zip(*given, strict=True)
    unit = max(set(units), key=units.count)
    return Series(name=name, at_s=np.array(at_s), values=np.array(values), shown_in=unit)


def _value(text: str) -> tuple[float, str]:
    match = _VALUE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is no number")
    return float(match[1]) * _UNITS[match[2]], match[2]
