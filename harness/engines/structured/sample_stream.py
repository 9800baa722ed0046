"""The sample as a stream of many small batches: state expires, and records can be late.

Tests: ``tests/workloads/test_own_document.py``, ``tests/workloads/test_own_mistakes.py``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.engines.structured import sinks
from harness.engines.structured.sample import (
    START_MS,
    closing_ms,
    markers_of,
    results_of,
    rows_of,
    schema_of,
    sent_ms,
    silences,
    span_s,
    table_of,
)
from harness.errors import UsageError
from workloads.base import QUERY, SINK, Workload

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LATER_MS = 1000
"""Time between the two markers of a stream."""
BATCHES, MOST_BATCHES = 8, 24
"""Batches of records; each takes some tenths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a stream of the sample gave."""

    results: pd.DataFrame
    late: int
    """Rows that the watermark dropped, as Spark counts them."""
    late_by_s: float
    """How far the latest of them was behind the watermark, at least."""
    again: pd.DataFrame | None = None
    """What a sink of the workload's own has after one batch was written a second time."""


def places(workload: Workload, directory: Path) -> dict[str, Path]:
    """Return the directory of each source's files below that of a sample."""
    found = {source.name: directory / "input" / source.name for source in workload.sources}
    for place in found.values():
        place.mkdir(parents=True, exist_ok=True)
    return found


def write_stream(workload: Workload, directory: Path) -> None:
    """Write the sample as files that a stream reads one by one.

    After the records come two markers: the second one makes a batch that runs with the first
    one's watermark."""
    import pyarrow.parquet

    lag_s = max(source.lag_s for source in workload.sources)
    whole_s, batches = span_s(workload) + lag_s, batches_of(workload, lag_s)
    for source in workload.sources:
        place = places(workload, directory)[source.name]
        parts: list[list[tuple[Any, ...]]] = [[] for _ in range(batches)]
        for row in rows_of(source, workload):
            sent_s = (sent_ms(source, workload, row) - START_MS) / 1000
            parts[int(sent_s / whole_s * batches)].append(row)
        parts += [markers_of(source, workload), markers_of(source, workload, more_ms=LATER_MS)]
        for number, part in enumerate(parts):
            path = place / f"{number:03}.parquet"
            pyarrow.parquet.write_table(table_of(source, part), path)
            os.utime(path, (number, number))


def batches_of(workload: Workload, lag_s: float) -> int:
    """Return the number of batches: four or more for each lag, silence or slide of windows.

    A window must be able to close while what belongs to it is kept. At most `MOST_BATCHES`."""
    late_s = [source.lag_s for source in workload.sources if source.lag_s]
    late_s += [end_s - begin_s for _, begin_s, end_s in silences(workload)]
    shortest_s = min([*late_s, workload.slide_s])
    wanted = 4 * (span_s(workload) + lag_s) / shortest_s if late_s else 0.0
    return min(MOST_BATCHES, max(BATCHES, math.ceil(wanted)))


def as_stream(spark: SparkSession, workload: Workload, directory: Path) -> dict[str, DataFrame]:
    """Return the written sample as one stream a source."""
    written = places(workload, directory)
    return {
        source.name: spark.readStream.schema(schema_of(source))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(written[source.name]))
        for source in workload.sources
    }


def check_stream(
    spark: SparkSession, workload: Workload, directory: Path, *, real_time: bool = False
) -> None:
    """Let Spark judge the plan of the query as a stream, without running it.

    In append mode, or with ``real_time`` as real-time mode needs it. Raises Spark's
    ``AnalysisException``."""
    plan = analyzed(spark, workload, directory)
    jvm = cast(Any, spark._jvm)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    if not real_time:
        checker.checkForStreaming(plan, modes.Append())
        return
    checker.checkForStreaming(plan, modes.Update())
    checker.checkAdditionalRealTimeModeConstraints(plan, modes.Update())


def analyzed(spark: SparkSession, workload: Workload, directory: Path) -> Any:
    """Return Spark's plan of the query as a stream, a Java object."""
    from pyspark.sql import DataFrame

    result: Any = workload.form(QUERY)(spark, as_stream(spark, workload, directory))
    if not isinstance(result, DataFrame):
        raise UsageError(
            f"workload {workload.name!r}: its query returned a {type(result).__name__}",
            remedy="return a DataFrame: Spark starts the stream, or runs the batch",
        )
    return result._jdf.queryExecution().analyzed()


def nodes_of(plan: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each node of a plan with those above it."""
    yield plan, above
    children = plan.children()
    for number in range(children.size()):
        yield from nodes_of(children.apply(number), (*above, plan))


def without_watermark(plan: Any, workload: Workload) -> list[str]:
    """Return the sources that no watermark is set on."""
    bare = {
        Path(node.dataSource().options().get("path").get()).name
        for node, above in nodes_of(plan)
        if node.nodeName() == "StreamingRelation"
        and "EventTimeWatermark" not in {each.nodeName() for each in above}
    }
    return [source.name for source in workload.sources if source.name in bare]


def python_part(plan: Any) -> str | None:
    """Return the first part of a plan that runs in Python; None if there is none."""
    for node, _ in nodes_of(plan):
        name: str = node.nodeName()
        if any(word in name for word in ("Python", "Pandas", "PySpark", "Arrow")):
            return name
        if "PythonUDF" in node.expressions().mkString(" ", " ", " "):
            return "PythonUDF"
    return None


def run_stream(spark: SparkSession, workload: Workload, directory: Path) -> Streamed:
    """Run the query over the sample as a stream in append mode.

    Into a sink of its own, if it has one; then the last batch is written there a second time, as
    after a failure between its write and its commit."""
    write_stream(workload, directory)
    result = workload.form(QUERY)(spark, as_stream(spark, workload, directory))
    checkpoint = directory / "checkpoint"
    own, table = SINK in workload.forms, f"sample_{workload.name.replace('-', '_')}"
    out = sinks.place(str(checkpoint))

    def run() -> list[dict[str, Any]]:
        writer = result.writeStream.outputMode("append").trigger(availableNow=True)
        if own:
            writer = sinks.writing(writer, workload, out)
        else:
            writer = writer.format("memory").queryName(table)
        return _reports(writer.option("checkpointLocation", str(checkpoint)).start())

    def read() -> pd.DataFrame:
        found = sinks.read(spark, workload, out) if own else spark.table(table)
        return results_of(found, workload)

    reports = run()
    late, late_by_s = late_of(reports)
    if not late or workload.late_data:
        _check_delay(reports, workload)
    results, again = read(), None
    if own:
        _forget_commit(checkpoint, reports)
        run()
        again = read()
    else:
        spark.catalog.dropTempView(table)
    return Streamed(results=results, late=late, late_by_s=late_by_s, again=again)


def _reports(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the reports of a query that ends by itself."""
    try:
        query.awaitTermination()
        return [json.loads(report.json) for report in query.recentProgress]
    finally:
        query.stop()


def _forget_commit(checkpoint: Path, reports: Sequence[Mapping[str, Any]]) -> None:
    """Remove the commit of the last batch with records, so that the query runs it again."""
    last = max(report["batchId"] for report in reports if report["numInputRows"])
    for log, first in (("commits", last), ("offsets", last + 1)):
        for path in (checkpoint / log).iterdir():
            number = path.name.strip(".").removesuffix(".crc")
            if number.isdecimal() and int(number) >= first:
                path.unlink()


def late_of(reports: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """Return the rows that the watermark dropped, and how far the latest was behind it."""
    late, by_ms = 0, 0
    for report in reports:
        dropped = sum(each["numRowsDroppedByWatermark"] for each in report["stateOperators"])
        late += dropped
        times = report.get("eventTime", {})
        if dropped and {"min", "watermark"} <= set(times):
            by_ms = max(by_ms, _ms(times["watermark"]) - _ms(times["min"]))
    return late, by_ms / 1000


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _check_delay(reports: Sequence[Mapping[str, Any]], workload: Workload) -> None:
    """Raise `UsageError` if the watermark is not as far behind as the workload says."""
    texts = [report.get("eventTime", {}).get("watermark") for report in reports]
    marks_ms = [_ms(text) for text in texts if text]
    if not marks_ms or max(marks_ms) <= START_MS + 1000 * span_s(workload):
        return  # the markers never reached it: the windows that stay open show that
    last_ms = closing_ms(workload)
    delay_ms = round(1000 * workload.watermark_delay_s)
    # The last marker moves the watermark only if another batch was made after it.
    behind_ms = {last_ms - max(marks_ms), last_ms + LATER_MS - max(marks_ms)}
    if delay_ms not in behind_ms:
        raise UsageError(
            f"workload {workload.name!r}: its watermark is {max(behind_ms) / 1000:g} s behind, and "
            f"watermark_delay_s is {workload.watermark_delay_s:g}",
            remedy=f"give watermark_delay_s={max(behind_ms) / 1000:g}, or change the query's "
            "withWatermark: from it follows when a window is due",
        )
