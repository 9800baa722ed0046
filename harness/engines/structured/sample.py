"""A workload's query over a sample of its records, before it gets a load.

Finds what would spoil a run: columns that are missing, markers that become results, results that
their identity does not tell apart, a query that gives nothing.

Tests: ``tests/workloads/test_own_document.py``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from harness.engines.structured.frames import plain_columns
from harness.errors import UsageError
from harness.measure.values import from_arrow, identities
from harness.text import did_you_mean
from workloads import packages
from workloads.base import QUERY, SOURCE_COLUMNS, Reference, Source, Workload

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_800_000_000_000
"""Event time of the first record: a whole multiple of any usual window."""
RECORDS = 400
"""Records of each source, over all of its partitions."""
LATER_MS = 1000
"""Time between the two markers of a stream."""
WINDOWS = 3
"""Windows over which the records are spread."""
_SCHEMA = "key binary, value binary, partition int, offset long, timestamp timestamp"


def span_s(workload: Workload) -> float:
    """Return the event time that the records of a sample take."""
    return max(WINDOWS * workload.slide_s, workload.window_s)


def closing_ms(workload: Workload) -> int:
    """Return an event time far behind the last window of the sample: that of the markers."""
    reach_s = (workload.windows_in_a_row + 1) * workload.window_s
    after_s = span_s(workload) + reach_s + workload.watermark_delay_s + workload.slide_s
    return START_MS + round(after_s * 1000)


def rows_of(source: Source, workload: Workload, records: int = RECORDS) -> list[tuple[Any, ...]]:
    """Return records of all partitions, in the order of `SOURCE_COLUMNS`, times in ms."""
    each = max(1, records // source.partitions)
    step_ms = span_s(workload) * 1000 / each
    built = source.records.build()
    return [
        (None, value, partition, offset, START_MS + int(offset * step_ms))
        for partition in range(source.partitions)
        for offset, value in enumerate(built.payloads(partition, 0, each))
    ]


def markers_of(source: Source, workload: Workload, more_ms: int = 0) -> list[tuple[Any, ...]]:
    """Return one marker a partition, behind the last window."""
    at_ms = closing_ms(workload) + more_ms
    return [(None, source.marker, p, 1 << 40, at_ms) for p in range(source.partitions)]


def as_batch(
    spark: SparkSession, workload: Workload, *, markers: bool = True
) -> dict[str, DataFrame]:
    """Return the sample as one frame a source."""
    return {
        source.name: _frame(
            spark,
            rows_of(source, workload) + (markers_of(source, workload) if markers else []),
        )
        for source in workload.sources
    }


def _frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    kinds = (pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC"))
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, kinds, strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=list(SOURCE_COLUMNS)))


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


def send_packages(spark: SparkSession, workload: Workload, reference: Reference) -> None:
    """Send what a user's file imports to the executors; they get it again after a failure."""
    file = Path(reference.target.rpartition(":")[0])
    if needed := packages.places(file, workload.packages):
        archive = packages.packed(needed, Path(tempfile.mkdtemp(prefix="faultline-")))
        spark.sparkContext.addPyFile(str(archive))


def check_query(spark: SparkSession, workload: Workload) -> pd.DataFrame:
    """Run the query over a sample as a batch; return its results, or raise `UsageError`."""
    found = results_of(workload.form(QUERY)(spark, as_batch(spark, workload)), workload)
    check_results(found, workload)
    return found


def check_results(found: pd.DataFrame, workload: Workload) -> None:
    """Raise `UsageError` for results of markers, for repeated identities, and for none at all."""
    name = f"workload {workload.name!r}"
    reach_s = (workload.windows_in_a_row - 1) * workload.window_s
    last_ms = START_MS + round((span_s(workload) + reach_s) * 1000)
    of_markers = found[_begins_ms(found, workload) >= last_ms]
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
    (number,) = identities([found], workload.identity)
    again = found[np.bincount(number)[number] > 1]
    if len(again):
        raise UsageError(
            f"{name}: identity {list(workload.identity)} does not tell results apart: "
            f"{len(again)} of {len(found)} results share theirs, such as "
            f"{_shown(again, workload)} and {_shown(again.iloc[1:], workload)}",
            remedy="name every grouping column in identity",
        )


def _check_windows(found: pd.DataFrame, workload: Workload) -> None:
    """Raise `UsageError` for windows that begin elsewhere than the workload says."""
    slide_ms = round(1000 * workload.slide_s)
    if workload.window_end or not slide_ms:
        return
    apart = found[found[workload.window_column] % slide_ms != 0]
    if len(apart):
        raise UsageError(
            f"workload {workload.name!r}: its windows do not begin every {workload.slide_s:g} s, "
            f"such as {_shown(apart, workload)}",
            remedy="give window_s and slide_s as in the query's window, and for windows of "
            "different lengths, such as sessions, window_end instead of window_start",
        )


def _begins_ms(found: pd.DataFrame, workload: Workload) -> pd.Series[float]:
    """Return the begins of the windows of results; that of a session is its last record."""
    before_s = workload.window_s if workload.window_end else 0.0
    return found[workload.window_column] - 1000 * before_s


def _shown(rows: pd.DataFrame, workload: Workload) -> str:
    row = rows.sort_values(list(workload.identity), kind="stable").iloc[0]
    return ", ".join(f"{name}={row[name]}" for name in workload.columns)


def write_stream(spark: SparkSession, workload: Workload, directory: Path) -> Mapping[str, Path]:
    """Write the sample as files that a stream reads one by one; return a directory a source.

    Two halves of the records, then two markers: the second one makes a batch that runs with the
    first one's watermark."""
    import pyarrow as pa
    import pyarrow.parquet

    written = places(workload, directory)
    for source in workload.sources:
        place = written[source.name]
        place.mkdir(parents=True, exist_ok=True)
        rows = rows_of(source, workload)
        half_ms = START_MS + round(span_s(workload) * 500)
        parts = [
            [row for row in rows if row[4] < half_ms],
            [row for row in rows if row[4] >= half_ms],
            markers_of(source, workload),
            markers_of(source, workload, more_ms=LATER_MS),
        ]
        for number, part in enumerate(parts):
            path = place / f"{number}.parquet"
            pyarrow.parquet.write_table(pa.table(_frame(spark, part).toArrow()), path)
            os.utime(path, (number, number))
    return written


def places(workload: Workload, directory: Path) -> dict[str, Path]:
    """Return the directory of each source's files below that of a sample."""
    return {source.name: directory / "input" / source.name for source in workload.sources}


def as_stream(spark: SparkSession, written: Mapping[str, Path]) -> dict[str, DataFrame]:
    """Return the written sample as one stream a source."""
    return {
        name: spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place))
        for name, place in written.items()
    }


def check_stream(
    spark: SparkSession, workload: Workload, directory: Path, *, real_time: bool = False
) -> None:
    """Let Spark judge the plan of the query as a stream, without running it.

    In append mode, or with ``real_time`` as real-time mode needs it. Raises Spark's
    ``AnalysisException``."""
    written = places(workload, directory)
    for place in written.values():
        place.mkdir(parents=True, exist_ok=True)
    result: Any = workload.form(QUERY)(spark, as_stream(spark, written))
    plan, jvm = result._jdf.queryExecution().analyzed(), cast(Any, spark._jvm)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    if not real_time:
        checker.checkForStreaming(plan, modes.Append())
        return
    checker.checkForStreaming(plan, modes.Update())
    checker.checkAdditionalRealTimeModeConstraints(plan, modes.Update())


def run_stream(spark: SparkSession, workload: Workload, directory: Path) -> pd.DataFrame:
    """Run the query over the sample as a stream in append mode; return its results."""
    sources = as_stream(spark, write_stream(spark, workload, directory))
    result = workload.form(QUERY)(spark, sources)
    sink = _sink(workload)
    query = (
        result.writeStream.outputMode("append")
        .format("memory")
        .queryName(sink)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    _check_delay([report.json for report in query.recentProgress], workload)
    return results_of(spark.table(sink), workload)


def _sink(workload: Workload) -> str:
    return f"sample_{workload.name.replace('-', '_')}"


def _check_delay(reports: Sequence[str], workload: Workload) -> None:
    """Raise `UsageError` if the watermark is not as far behind as the workload says."""
    texts = [json.loads(report).get("eventTime", {}).get("watermark") for report in reports]
    marks_ms = [round(datetime.fromisoformat(text).timestamp() * 1000) for text in texts if text]
    if not marks_ms or max(marks_ms) <= START_MS:
        return
    last_ms = closing_ms(workload)
    delay_ms = round(1000 * workload.watermark_delay_s)
    newest_ms = {max(row[4] for row in rows_of(source, workload)) for source in workload.sources}
    if max(marks_ms) + delay_ms in newest_ms:
        return  # the markers never reached it: the windows that stay open show that
    # The last marker moves the watermark only if another batch was made after it.
    behind_ms = {last_ms - max(marks_ms), last_ms + LATER_MS - max(marks_ms)}
    if delay_ms not in behind_ms:
        raise UsageError(
            f"workload {workload.name!r}: its watermark is {max(behind_ms) / 1000:g} s behind, and "
            f"watermark_delay_s is {workload.watermark_delay_s:g}",
            remedy=f"give watermark_delay_s={max(behind_ms) / 1000:g}, or change the query's "
            "withWatermark: from it follows when a window is due",
        )
