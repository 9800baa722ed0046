"""Output as ordinary records: a JSON object per result, as every Kafka consumer reads it.

A publication is then its results, a record each with a common key, and behind them a record without
a value that has the entry of `harness.protocol.output` in a header, with the number of the results.
An ordinary consumer passes over the latter and reads every result at least once, as from Spark's
own sink. A reader that follows the entries gets each result once: those of a publication that is
fenced off, incomplete or repeated do not count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from harness.hosting.codec import CorruptData, Encoded, decode, encode
from harness.measure.versions import STABILITY, Stability
from harness.protocol.effects import Kind
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence

ENTRY, ROWS = "entry", "rows"
"""Headers of a record without a value: the entry, and the number of results of its records."""
LINGER = {"linger.ms": 2, "batch.num.messages": 100_000}
"""Settings of the client that sends them: a request has many."""
_TO_JSON = msgspec.json.Encoder(decimal_format="number").encode
_ESCAPED = r'["\\\x00-\x1f\x7f]'

Headers = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The results of one record of an entry."""

    values: Sequence[bytes]
    headers: Headers
    """Empty for stable results."""


def key_of(sink: int, attempt: str = "") -> bytes:
    """Return the key of one attempt at a publication, or the beginning of a sink's keys."""
    return f"{sink}.{attempt}".encode()


def rows_of(entry: OutputEntry, columns: Sequence[str]) -> tuple[Sequence[Rows], Headers]:
    """Return the results of an entry, and the headers of the record behind them."""
    if not entry.records:
        return [], {ENTRY: encode(entry)}
    rows = [
        Rows(
            values=json_rows(record.payload, columns),
            headers={}
            if record.kind is Kind.STABLE
            else {STABILITY: Stability.TENTATIVE.value.encode()},
        )
        for record in entry.records
    ]
    bare = replace(entry, records=tuple(replace(one, payload=None) for one in entry.records))
    counts = " ".join(str(len(each.values)) for each in rows)
    return rows, {ENTRY: encode(bare), ROWS: counts.encode()}


def json_rows(payload: Any, columns: Sequence[str]) -> list[bytes]:
    """Return the rows of a payload as JSON objects, none for None."""
    table = payload.value if isinstance(payload, Encoded) else payload
    if table is None or not table.num_rows:
        return []
    table = in_ms(table, columns)
    texts = [_texts(array) for array in table.columns]
    if all(text is not None for text in texts):
        parts: list[Any] = []
        for name, text in zip(columns, texts, strict=True):
            parts += [("," if parts else "{") + f"{_TO_JSON(name).decode()}:", text]
        joined = pc.binary_join_element_wise(*parts, "}", "")
        return joined.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    values = [_plain(array.to_pylist(), array.type) for array in table.columns]
    return [_TO_JSON(dict(zip(columns, row, strict=True))) for row in zip(*values, strict=True)]


def _texts(array: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return values as JSON; None where that takes more than putting them between quotes."""
    if array.null_count:
        return None
    if pa.types.is_integer(array.type):
        return array.cast(pa.string())
    if not pa.types.is_string(array.type):
        return None
    if pc.any(pc.match_substring_regex(array, _ESCAPED)).as_py():
        return None
    return pc.binary_join_element_wise('"', array, '"', "")


def in_ms(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns, timestamps as milliseconds since the epoch, as every engine's are."""
    arrays = [table.column(name) for name in columns]
    whole = [
        array.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(array.type)
        else array
        for array in arrays
    ]
    return pa.table(whole, names=list(columns))


def _plain(values: list[Any], kind: pa.DataType) -> list[Any]:
    """Return floating-point values that JSON lacks as Spark writes them."""
    if not pa.types.is_floating(kind):
        return values
    return [v if v is None or math.isfinite(v) else _NAMED.get(v, "NaN") for v in values]


_NAMED = {math.inf: "Infinity", -math.inf: "-Infinity"}


class Results:
    """The results of one sink that wait for the entry behind them."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def clear(self) -> None:
        """Drop the results that wait: their entries will not count."""
        self._waiting.clear()

    def add(self, key: bytes, value: bytes) -> None:
        """Take a result."""
        self._waiting.setdefault(key, []).append(value)

    def close(self, key: bytes, headers: Headers) -> OutputEntry | None:
        """Return the entry of a record without a value, with its results as lists of bytes.

        None if some of them are missing, so that it is sent again, and for bytes of another origin.
        A fence counts without them."""
        try:
            entry = decode(headers.get(ENTRY, b""))
            sizes = [int(size) for size in headers.get(ROWS, b"").split()]
        except (CorruptData, ValueError):
            return None
        if not isinstance(entry, OutputFence | OutputBatch):
            return None
        rows = self._waiting.pop(key, [])
        if len(rows) != sum(sizes) or len(sizes) != len(entry.records):
            return replace(entry, records=()) if isinstance(entry, OutputFence) else None
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        each = [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        whole = zip(entry.records, each, strict=True)
        return replace(entry, records=tuple(replace(one, payload=own) for one, own in whole))
