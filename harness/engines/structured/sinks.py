"""A sink of the user's own in the place of the out topic, and the reader of what it wrote.

A row of such a sink is readable when its file is: by the time of the file's last change, and for
Spark's file sink by that of the log entry with which its batch was committed, if that is later.
Readers of a table that has no files name the time themselves, in the column `READABLE_AT`.

Tests: ``tests/workloads/test_own_sinks.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from harness.engines.structured import frames
from harness.errors import UsageError
from workloads.base import READER, SINK, Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

READABLE_AT = "readable_at"
"""A timestamp column of a reader's DataFrame: when the row became readable."""
LOG = "_spark_metadata"
"""The directory in which Spark's file sink lists the files of each batch."""
COPY, VALUE, ARRIVAL = "copy", "value", "arrival_ms"
"""Columns of `rows_of`."""


def place(checkpoint: str) -> str:
    """Return the path of a query's own sink, beside its checkpoints."""
    return f"{checkpoint}-out"


def writing(writer: DataStreamWriter, workload: Workload, path: str) -> DataStreamWriter:
    """Let a query write to the workload's own sink, below ``path``."""
    sink = workload.forms[SINK]
    if isinstance(sink, str):
        return writer.format(sink).option("path", path)
    return writer.foreachBatch(lambda batch, number: sink(batch, number, path))


def read(spark: SparkSession, workload: Workload, path: str) -> DataFrame:
    """Return what the workload's reader reads; raise `UsageError` if its rows have no times."""
    from pyspark.sql import DataFrame

    found = workload.forms[READER](spark, path)
    if not isinstance(found, DataFrame):
        raise UsageError(
            f"workload {workload.name!r}: its reader returned a {type(found).__name__}",
            remedy="return a DataFrame of what the sink wrote: spark.read.parquet(path)",
        )
    _times(found, workload)
    return found


def rows_of(spark: SparkSession, workload: Workload, paths: Sequence[str]) -> pa.Table:
    """Return every row in the sinks of the copies as JSON, with the time when it was readable.

    Columns: `COPY`, the place of its path; `VALUE`; `ARRIVAL`, in ms since the epoch."""
    rows = []
    for copy, path in enumerate(paths):
        system, place = _file_system(spark, path)
        if not system.exists(place):
            continue
        committed_ms = _committed_ms(spark, path)
        found = read(spark, workload, path)
        sent = frames.encode(found, workload, copy, more=_times(found, workload))
        for row in sent.drop("headers").collect():
            name = PurePosixPath(row["file"]).name
            at_ms = max(row["at_ms"], committed_ms.get(name, 0))
            rows.append({COPY: copy, VALUE: row["value"], ARRIVAL: at_ms})
    schema = pa.schema([(COPY, pa.int32()), (VALUE, pa.string()), (ARRIVAL, pa.int64())])
    return pa.Table.from_pylist(rows, schema=schema)


def _times(found: DataFrame, workload: Workload) -> list[Column]:
    """Return the columns ``at_ms`` and ``file`` of a reader's rows."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    if READABLE_AT in found.columns:
        return [F.unix_millis(READABLE_AT).alias("at_ms"), F.lit("").alias("file")]
    columns = [
        F.unix_millis("_metadata.file_modification_time").alias("at_ms"),
        F.col("_metadata.file_path").alias("file"),
    ]
    try:
        found.select(*columns)
    except AnalysisException as error:
        raise UsageError(
            f"workload {workload.name!r}: its reader's rows do not show when they became readable",
            remedy="leave its rows as the files have them (filters and columns are fine, groups "
            f"and joins are not), or give it a timestamp column {READABLE_AT!r}",
        ) from error
    return columns


def _file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a path, and the path for it."""
    place = cast(Any, spark._jvm).org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(cast(Any, spark)._jsc.hadoopConfiguration()), place


def _committed_ms(spark: SparkSession, path: str) -> Mapping[str, int]:
    """Return when Spark's file sink committed each file, by name; empty for any other sink.

    A compacted entry repeats the files of earlier ones, so it gives no time of its own."""
    system, log = _file_system(spark, f"{path}/{LOG}")
    if not system.exists(log):
        return {}
    written_ms = {s.getPath().getName(): s.getModificationTime() for s in system.listStatus(log)}
    entries = spark.sparkContext.wholeTextFiles(f"{path}/{LOG}/*").collect()
    return {
        PurePosixPath(json.loads(line)["path"]).name: written_ms[batch]
        for entry, text in entries
        if (batch := PurePosixPath(entry).name).isdecimal()
        for line in text.splitlines()[1:]  # the first one is the version
    }
