"""The sample as a stream of many small batches: state expires, and records can be late.

Tests: ``tests/workloads/test_own_document.py``, ``tests/workloads/test_own_mistakes.py``."""

from __future__ import annotations

import bisect
import json
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
    ends_s,
    markers_of,
    results_of,
    rows_of,
    schema_of,
    sent_s,
    silences,
    span_s,
    table_of,
)
from harness.errors import UsageError
from workloads.base import QUERY, SINK, Workload

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

LATER_MS = 1000
"""Time between the two markers of a stream."""
PARTS = 4
"""Batches of records, where none ends nearby because the watermark passes the end of a window; each
takes some tenths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What a stream of the sample gave."""

    results: pd.DataFrame
    late: int
    """Rows that the watermark dropped, as Spark counts them."""
    late_by_s: float
    """How far the latest record was behind the watermark, at least."""
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

    cuts = cuts_s(workload)
    for source in workload.sources:
        place = places(workload, directory)[source.name]
        parts: list[list[tuple[Any, ...]]] = [[] for _ in [*cuts, None]]
        for row in rows_of(source, workload):
            parts[bisect.bisect(cuts, sent_s(source, workload, row))].append(row)
        parts += [markers_of(source, workload), markers_of(source, workload, more_ms=LATER_MS)]
        for number, part in enumerate(parts):
            path = place / f"{number:03}.parquet"
            pyarrow.parquet.write_table(table_of(source, part), path)
            os.utime(path, (number, number))


def cuts_s(workload: Workload) -> list[float]:
    """Return the ends of the batches of records but the last, in seconds of the sample.

    Where the watermark passes the end of a window, and where a silence ends, come two at once:
    Spark drops what is late from the second batch on after the one that moved the watermark."""
    whole_s = span_s(workload) + max(source.lag_s for source in workload.sources)
    passes_s = {end_s + workload.watermark_delay_s for end_s in ends_s(workload)}
    passes_s |= {end_s for _, _, _, end_s in silences(workload)}
    even_s, apart_s = [whole_s * number / PARTS for number in range(1, PARTS)], whole_s / PARTS / 2
    cuts = {at_s for at_s in even_s if all(abs(at_s - one) > apart_s for one in passes_s)}
    cuts |= {at_s + more_s for at_s in passes_s for more_s in (0.001, 0.002)}
    return sorted(at_s for at_s in cuts if at_s < whole_s)


def as_stream(spark: SparkSession, workload: Workload, directory: Path) -> dict[str, DataFrame]:
    """Return the written sample as one stream a source."""
    written = places(workload, directory)
    return {
        source.name: spark.readStream.schema(schema_of(source))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(written[source.name]))
        for source in workload.sources
    }


def stream_of(spark: SparkSession, workload: Workload, directory: Path) -> DataFrame:
    """Return the query over the sample as a stream; raise `UsageError` if it gives something else.

    It calls the user's function, and is called once: checks and the run take the same plan."""
    from pyspark.sql import DataFrame

    result: Any = workload.form(QUERY)(spark, as_stream(spark, workload, directory))
    if not isinstance(result, DataFrame):
        raise UsageError(
            f"workload {workload.name!r}: its query returned a {type(result).__name__}",
            remedy="return a DataFrame: Spark starts the stream, or runs the batch",
        )
    return result


def plan_of(stream: DataFrame) -> Any:
    """Return Spark's plan of a stream, a Java object."""
    return cast(Any, stream)._jdf.queryExecution().analyzed()


def check_stream(stream: DataFrame, *, real_time: bool = False) -> None:
    """Let Spark judge the plan of a stream, without running it.

    In append mode, or with ``real_time`` as real-time mode needs it. Raises Spark's
    ``AnalysisException``."""
    plan, jvm = plan_of(stream), cast(Any, stream.sparkSession._jvm)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    if not real_time:
        checker.checkForStreaming(plan, modes.Append())
        return
    checker.checkForStreaming(plan, modes.Update())
    checker.checkAdditionalRealTimeModeConstraints(plan, modes.Update())


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


def filters_in_front(spark: SparkSession, plan: Any) -> list[str]:
    """Return the conditions on records that Spark tests in front of a watermark, once optimized."""
    optimizer = cast(Any, spark)._jsparkSession.sessionState().optimizer()
    return [
        node.condition().sql()
        for node, above in nodes_of(optimizer.execute(plan))
        if node.nodeName() == "Filter"
        and "EventTimeWatermark" in {each.nodeName() for each in above}
    ]


def has_join(plan: Any) -> bool:
    """Return True if a plan joins."""
    return any(node.nodeName() == "Join" for node, _ in nodes_of(plan))


def python_part(plan: Any) -> str | None:
    """Return the first part of a plan that runs in Python; None if there is none."""
    for node, _ in nodes_of(plan):
        name: str = node.nodeName()
        if any(word in name for word in ("Python", "Pandas", "PySpark", "Arrow")):
            return name
        if "PythonUDF" in node.expressions().mkString(" ", " ", " "):
            return "PythonUDF"
    return None


def run_stream(workload: Workload, directory: Path, stream: DataFrame) -> Streamed:
    """Run the query over the sample as a stream in append mode.

    Into a sink of its own, if it has one; then the last batch is written there a second time, as
    after a failure between its write and its commit."""
    write_stream(workload, directory)
    spark, checkpoint = stream.sparkSession, directory / "checkpoint"
    own, table = SINK in workload.forms, f"sample_{workload.name.replace('-', '_')}"
    out = sinks.place(str(checkpoint))

    def run() -> list[dict[str, Any]]:
        writer = stream.writeStream.outputMode("append").trigger(availableNow=True)
        if own:
            writer = sinks.writing(writer, workload, out)
        else:
            writer = writer.format("memory").queryName(table)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.awaitTermination()
            return [json.loads(report.json) for report in query.recentProgress]
        finally:
            query.stop()

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


def _forget_commit(checkpoint: Path, reports: Sequence[Mapping[str, Any]]) -> None:
    """Remove the commit of the last batch with records, so that the query runs it again."""
    last = max(report["batchId"] for report in reports if report["numInputRows"])
    for log, first in (("commits", last), ("offsets", last + 1)):
        for path in (checkpoint / log).iterdir():
            number = path.name.strip(".").removesuffix(".crc")
            if number.isdecimal() and int(number) >= first:
                path.unlink()


def late_of(reports: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """Return the rows that the watermark dropped, and how far the latest record was behind it.

    One behind it is not dropped as long as its window is open."""
    dropped = sum(o["numRowsDroppedByWatermark"] for r in reports for o in r["stateOperators"])
    times = [t for r in reports if {"min", "watermark"} <= set(t := r.get("eventTime", {}))]
    behind_ms = (_ms(each["watermark"]) - _ms(each["min"]) for each in times)
    return dropped, max(0, 0, *behind_ms) / 1000


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
