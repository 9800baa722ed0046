"""A workload's query over a sample of its records, before it gets a load.

Finds what would spoil a run: columns that are missing, markers that become results, results that
their identity does not tell apart, a query that gives nothing.

Tests: ``tests/workloads/test_own_document.py``, ``tests/workloads/test_own_mistakes.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.engines.structured.frames import plain_columns
from harness.errors import UsageError
from harness.measure.values import from_arrow, identities
from harness.text import did_you_mean, format_bytes
from workloads import packages
from workloads.base import HeadedSource, KeyedSource, Reference, Source, Workload
from workloads.sizes import MOST_RECORD_BYTES, fitting

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_800_000_000_000
"""Event time of the first record: a whole multiple of any usual window."""
RECORDS = 400
"""Records of each source, over all of its partitions."""
MOST_BYTES = 1 << 24
"""Size of the records of a source together: with larger ones there are fewer."""
WINDOWS = 3
"""Windows over which the records are spread."""
PARTITION, PLACE = 2, 4
"""The places of a record's partition and event time in a row."""
SCHEMA = "key binary, value binary, partition int, offset long, timestamp timestamp"
HEADERS_SCHEMA = "headers array<struct<key: string, value: binary>>"


def schema_of(source: Source) -> str:
    """Return the schema of a source's frame, as Spark writes one."""
    return f"{SCHEMA}, {HEADERS_SCHEMA}" if source.headers else SCHEMA


def span_s(workload: Workload) -> float:
    """Return the event time that the records of a sample take."""
    ends_s = [end_s for _, _, _, end_s in silences(workload)]
    after_s = max(ends_s) + workload.slide_s if ends_s else 0.0
    return max(WINDOWS * workload.slide_s, workload.window_s, after_s)


def silences(workload: Workload) -> list[tuple[str, int, float, float]]:
    """Return source, partition, begin and end of each silence, in seconds of the sample.

    The first begins in the second slide of windows, at its place within the slide, and the others
    as long after it as in a run."""
    found = [
        (source.name, partition, *span)
        for source in workload.sources
        for partition, span in source.silent.items()
    ]
    slides = min((begin_s for _, _, begin_s, _ in found), default=0.0) // workload.slide_s - 1
    moved_s = slides * workload.slide_s
    return [
        (name, part, begin_s - moved_s, end_s - moved_s) for name, part, begin_s, end_s in found
    ]


def sent_s(source: Source, workload: Workload, row: Sequence[Any]) -> float:
    """Return when a record is sent, in seconds of the sample, with the lag of its source."""
    at_s: float = (row[PLACE] - START_MS) / 1000 + source.lag_s
    for name, partition, begin_s, end_s in silences(workload):
        if (name, partition) == (source.name, row[PARTITION]) and begin_s <= at_s < end_s:
            return end_s
    return at_s


def ends_s(workload: Workload) -> list[float]:
    """Return the ends of two windows, and of one in each silence, in seconds of the sample.

    A record before such an end is late if it is sent when the watermark has passed it."""
    first_s = workload.window_s % workload.slide_s or workload.slide_s
    begins_s = [begin_s for _, _, begin_s, _ in silences(workload)]
    slides = {0, 1, *(int((begin_s - first_s) // workload.slide_s) + 1 for begin_s in begins_s)}
    return [first_s + number * workload.slide_s for number in sorted(slides)]


def closing_ms(workload: Workload) -> int:
    """Return an event time far behind the last window of the sample: that of the markers."""
    reach_s = (workload.windows_in_a_row + 1) * workload.window_s
    after_s = span_s(workload) + reach_s + workload.watermark_delay_s + workload.slide_s
    return START_MS + round(after_s * 1000)


def rows_of(source: Source, workload: Workload) -> list[tuple[Any, ...]]:
    """Return records of all partitions, in the order of `Source.columns`, times in ms."""
    built = source.records.build()
    total = fitting(built, MOST_BYTES, RECORDS)
    shares = source.skew or (1,) * source.partitions
    # Each partition that has any gets one at least, however few there are.
    counts = [max(1, round(total * share / sum(shares))) if share else 0 for share in shares]
    found = []
    for partition, count in enumerate(counts):
        values = built.payloads(partition, 0, count)
        keys = built.keys(partition, 0, count) if isinstance(built, KeyedSource) else [None] * count
        heads = built.headers(partition, 0, count) if isinstance(built, HeadedSource) else ()
        times_ms = _times_ms(workload, count)
        for offset, (key, value) in enumerate(zip(keys, values, strict=True)):
            _check_size(workload, source, value)
            row = (key, value, partition, offset, times_ms[offset])
            found.append((*row, list(heads[offset])) if source.headers else row)
    return found


def _times_ms(workload: Workload, count: int) -> list[int]:
    """Return event times at equal distances, but for two at each of `ends_s`.

    One lies right before the end, and one where the watermark passes it."""
    if not count:  # a partition without a share of the load
        return []
    span_ms = round(span_s(workload) * 1000)
    times_ms = [offset * span_ms // count for offset in range(count)]
    for end_s in ends_s(workload):
        end_ms = round(end_s * 1000)
        for at_ms in (end_ms - 1, end_ms + round(workload.watermark_delay_s * 1000)):
            if at_ms < span_ms:
                times_ms[min(count - 1, round(at_ms / span_ms * count))] = at_ms
    return [START_MS + at_ms for at_ms in times_ms]


def _check_size(workload: Workload, source: Source, value: bytes) -> None:
    if len(value) > MOST_RECORD_BYTES:
        raise UsageError(
            f"workload {workload.name!r}: a record of source {source.name!r} has "
            f"{format_bytes(len(value))}, and a broker takes {format_bytes(MOST_RECORD_BYTES)}",
            remedy="make the records smaller: send a reference to a large document, or its parts",
        )


def markers_of(source: Source, workload: Workload, more_ms: int = 0) -> list[tuple[Any, ...]]:
    """Return one marker a partition, behind the last window."""
    at_ms = closing_ms(workload) + more_ms
    more: tuple[Any, ...] = ([],) if source.headers else ()
    return [(None, source.marker, p, 1 << 40, at_ms, *more) for p in range(source.partitions)]


def as_batch(spark: SparkSession, workload: Workload) -> dict[str, DataFrame]:
    """Return the sample with its markers as one frame a source."""
    return {
        source.name: spark.createDataFrame(
            table_of(source, rows_of(source, workload) + markers_of(source, workload))
        )
        for source in workload.sources
    }


def table_of(source: Source, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows of a source as a table."""
    import pyarrow as pa

    kinds = [pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")]
    if source.headers:
        fields = [("key", pa.string()), ("value", pa.binary())]
        kinds.append(pa.list_(pa.struct(fields)))
        rows = [(*row[:-1], [{"key": k, "value": v} for k, v in row[-1]]) for row in rows]
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=list(source.columns))


def results_of(result: DataFrame, workload: Workload) -> pd.DataFrame:
    """Return a query's rows with the workload's columns, the window's time in ms."""
    missing = [name for name in workload.columns if name not in result.columns]
    if missing:
        raise UsageError(
            f"workload {workload.name!r}: the query's result has no column {missing[0]!r}, only "
            f"{', '.join(result.columns)}",
            remedy=did_you_mean(missing[0], result.columns),
        )
    return from_arrow(result.select(*plain_columns(result, workload)).toArrow())


def send_code(spark: SparkSession, workload: Workload, reference: Reference) -> None:
    """Send a user's file and what it imports to the executors; they get it again after a failure.

    They have no module of the file's name: its functions travel by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(reference.module())
    file = Path(reference.target.rpartition(":")[0])
    if needed := packages.places(file, workload.packages):
        archive = packages.packed(needed, Path(tempfile.mkdtemp(prefix="faultline-")))
        spark.sparkContext.addPyFile(str(archive))


def check_query(spark: SparkSession, workload: Workload) -> pd.DataFrame:
    """Run the query over a sample as a batch; return its results.

    Raises `UsageError` for results of markers, for repeated identities, and for none at all."""
    found = results_of(workload.truth(spark, as_batch(spark, workload)), workload)
    name = f"workload {workload.name!r}"
    reach_s = (workload.windows_in_a_row - 1) * workload.window_s
    last_ms = START_MS + round((span_s(workload) + reach_s) * 1000)
    # The begin of a session's window is its last record.
    before_s = workload.window_s if workload.window_end else 0.0
    of_markers = found[found[workload.window_column] - 1000 * before_s >= last_ms]
    if len(of_markers):
        raise UsageError(
            f"{name}: markers become results, such as {_shown(of_markers, workload)}",
            remedy="a marker is an empty record (or the source's marker) and must be in no result: "
            "leave out what it gives after the aggregation, such as "
            '.where(F.col("orders") > 0) with F.count(...) of a field that a marker lacks',
        )
    if not len(found):
        raise UsageError(
            f"{name}: the query gives no result for {RECORDS} records over {span_s(workload):g} s",
            remedy="see that records parse (from_json gives nulls for one that does not fit its "
            "schema), and that a filter does not leave out all of them",
        )
    _check_windows(found, workload)
    _check_members(found, workload)
    (number,) = identities([found], workload.identity)
    again = found[np.bincount(number)[number] > 1]
    if len(again):
        raise UsageError(
            f"{name}: identity {list(workload.identity)} does not tell results apart: "
            f"{len(again)} of {len(found)} results share theirs, such as "
            f"{_shown(again, workload)} and {_shown(again.iloc[1:], workload)}",
            remedy="name every grouping column in identity",
        )
    return found


def _check_windows(found: pd.DataFrame, workload: Workload) -> None:
    """Raise `UsageError` for windows that begin elsewhere than the workload says."""
    slide_ms = round(1000 * workload.slide_s)
    if workload.window_end or not slide_ms:
        return
    beyond_ms = found[workload.window_column] % slide_ms
    apart = found[beyond_ms != 0]
    if not len(apart):
        return
    if beyond_ms.nunique() == 1:
        raise UsageError(
            f"workload {workload.name!r}: its windows have an offset: they begin "
            f"{beyond_ms.iloc[0] / 1000:g} s after each whole multiple of {workload.slide_s:g} s",
            remedy='give window_end, the column where a window ends (F.col("window.end")), '
            "instead of window_start, also in identity: a window is due by its end",
        )
    raise UsageError(
        f"workload {workload.name!r}: its windows do not begin every {workload.slide_s:g} s, "
        f"such as {_shown(apart, workload)}",
        remedy="give window_s and slide_s as in the query's window, and for windows of "
        "different lengths, such as sessions, window_end instead of window_start",
    )


def _check_members(found: pd.DataFrame, workload: Workload) -> None:
    row = found.iloc[0].drop(workload.window_column).to_dict()
    try:
        set(workload.members(row) if workload.members is not None else ())
    except Exception as error:  # it is the user's code
        raise UsageError(
            f"workload {workload.name!r}: members raised {type(error).__name__} for {row}: {error}",
            remedy="give a function of a result's columns (but for the window) that returns its "
            'members: lambda row: row["top"].split()',
        ) from error


def _shown(rows: pd.DataFrame, workload: Workload) -> str:
    row = rows.sort_values(workload.window_column, kind="stable").iloc[0]
    return ", ".join(f"{name}={row[name]}" for name in workload.columns)
