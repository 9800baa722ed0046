"""Output as ordinary records: a JSON object per result, as every Kafka consumer reads it.

A publication is then its results, a record each, and behind them a record without a value that has
the entry of `harness.protocol.output` in a header, with the number of the results. An ordinary
consumer passes over the latter and reads every result at least once, as from Spark's own sink. A
reader that follows the entries gets each result once: those of a publication that is fenced off,
incomplete or repeated do not count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from harness.hosting.codec import CorruptData, Encoded, decode, encode
from harness.measure.versions import STABILITY, Stability
from harness.protocol.effects import Kind
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence

PART, ENTRY = "part", "entry"
"""Headers: the publication that a result belongs to; an entry, in a record without a value."""
_TO_JSON = msgspec.json.Encoder(decimal_format="number").encode

Headers = Mapping[str, bytes]


def is_ordinary(headers: Headers) -> bool:
    """Return True if a record has this form."""
    return PART in headers or ENTRY in headers


def records_of(
    entry: OutputEntry, part: str, columns: Sequence[str]
) -> Iterator[tuple[bytes | None, dict[str, bytes]]]:
    """Yield the records of an entry, value and headers; ``part`` names this attempt at it."""
    if isinstance(entry, OutputFence):
        yield None, {ENTRY: encode(entry)}
        return
    counts, bare = [], []
    for record in entry.records:
        rows = json_rows(record.payload, columns)
        headers = {PART: part.encode()}
        if record.kind is not Kind.STABLE:
            headers[STABILITY] = Stability.TENTATIVE.value.encode()
        for row in rows:
            yield row, headers
        counts.append(str(len(rows)))
        bare.append(replace(record, payload=None))
    whole = replace(entry, records=tuple(bare))
    yield None, {PART: f"{part} {' '.join(counts)}".encode(), ENTRY: encode(whole)}


def json_rows(payload: Any, columns: Sequence[str]) -> list[bytes]:
    """Return the rows of a payload as JSON objects, none for None."""
    table = payload.value if isinstance(payload, Encoded) else payload
    if table is None or not table.num_rows:
        return []
    values = [_plain(array.to_pylist(), array.type) for array in in_ms(table, columns).columns]
    return [_TO_JSON(dict(zip(columns, row, strict=True))) for row in zip(*values, strict=True)]


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

    def take(
        self, value: bytes | None, headers: Headers
    ) -> tuple[OutputEntry, list[list[bytes]]] | None:
        """Return an entry with the results of each of its records, when it is complete.

        None for a result, and for an entry some of whose results are missing, which is sent again.
        """
        if ENTRY not in headers:
            self._waiting.setdefault(headers[PART], []).append(value or b"")
            return None
        try:
            entry = decode(headers[ENTRY])
        except CorruptData:
            return None
        if isinstance(entry, OutputFence):
            return entry, []
        if not isinstance(entry, OutputBatch):
            return None
        part, _, counts = headers[PART].partition(b" ")
        rows = self._waiting.pop(part, [])
        sizes = [int(size) for size in counts.split()]
        if len(rows) != sum(sizes):
            return None
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        return entry, [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)]
