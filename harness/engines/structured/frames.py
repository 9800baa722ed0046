"""The topics as frames: sources as streams or batches, results as the rows of Spark's sink.

Accuracy as the papers count it is scored here, too, by the first application, which is warm: the
harness leaves deliveries and results as files in the run's directory, which only its driver reads.

Tests: ``tests/engines/test_contract.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from harness.engines.base import Scored
from harness.engines.deliveries import COPY_HEADER
from harness.measure.values import demand_comparable
from harness.measure.versions import STABILITY, Stability
from workloads.base import Workload
from workloads.toolkit.accuracy import ARRIVAL, over_windows, score

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader


def read_stream(
    spark: SparkSession,
    kafka: Mapping[str, str],
    topics: Mapping[str, str],
    workload: Workload,
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, DataFrame]:
    """Each source's topic from its beginning on, as it grows: these partitions of it, or all."""
    return {
        name: _kafka(spark.readStream, {**kafka, **workload.source(name).options}, workload, name)
        .option(
            *("subscribe", topic)
            if partitions is None
            else ("assign", json.dumps({topic: list(partitions[name])}))
        )
        .load()
        .select(*workload.source(name).columns)
        for name, topic in topics.items()
    }


def read_batch(
    spark: SparkSession, kafka: Mapping[str, str], topics: Mapping[str, str], workload: Workload
) -> dict[str, DataFrame]:
    """Each source's topic as it stands now."""
    return {
        name: _kafka(spark.read, kafka, workload, name)
        .option("subscribe", topic)
        .option("endingOffsets", "latest")
        .load()
        .select(*workload.source(name).columns)
        for name, topic in topics.items()
    }


Reader = TypeVar("Reader", "DataFrameReader", "DataStreamReader")


def _kafka(reader: Reader, options: Mapping[str, str], workload: Workload, name: str) -> Reader:
    more = {"includeHeaders": "true"} if workload.source(name).headers else {}
    return reader.format("kafka").options(**options, **more, startingOffsets="earliest")


def plain_columns(result: DataFrame, workload: Workload) -> list[Column]:
    """Return the result's columns as sent and compared: a window's time as ms since the epoch."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import TimestampType

    for name in workload.columns:
        kind = to_arrow_type(result.schema[name].dataType, timezone="UTC")
        demand_comparable(workload.name, name, kind, identity=name in workload.identity)
    window = workload.window_column
    is_time = isinstance(result.schema[window].dataType, TimestampType)
    return [
        F.unix_millis(name).alias(name) if is_time and name == window else F.col(name)
        for name in workload.columns
    ]


_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""A result as JSON: with its nulls, and with all digits of a time, which Spark cuts to ms."""


def encode(
    result: DataFrame,
    workload: Workload,
    copy: int,
    stability: Stability = Stability.STABLE,
    *,
    more: Sequence[Column] = (),
) -> DataFrame:
    """Return the rows for Spark's Kafka sink; stable ones carry no stability.

    ``more``: columns beside those of the sink.

    The key is a result's identity, so that all of its revisions are in one partition, in order:
    without it the last value to arrive need not be the last one that was computed."""
    from pyspark.sql import functions as F  # noqa: N812

    said = {COPY_HEADER: str(copy)}
    if stability is not Stability.STABLE:
        said[STABILITY] = stability.value
    headers = [
        F.struct(F.lit(name).alias("key"), F.lit(text).cast("binary").alias("value"))
        for name, text in said.items()
    ]
    columns = dict(zip(workload.columns, plain_columns(result, workload), strict=True))

    def as_json(names: Sequence[str]) -> Column:
        chosen = F.struct(*(columns[name] for name in names))
        return F.to_json(chosen, _JSON)

    row = [as_json(workload.columns).alias("value"), F.array(*headers).alias("headers"), *more]
    if stability is Stability.REVISION:
        row.append(as_json(workload.identity).alias("key"))
    return result.select(*row)


_WINDOW_COLUMNS = ("window_start_s", "members", "first", "last")


def write_results(
    frame: pd.DataFrame, workload: Workload, path: Path, *, schema: pa.Schema | None = None
) -> pa.Schema:
    """Write results with ``window_start_s`` for `score_files`; return the columns' types.

    They are in the order of the frame; a window begins that long after the epoch."""
    start_us = (frame["window_start_s"].astype(float) * 1_000_000).round().astype("int64")
    columns = {name: frame[name] for name in workload.columns if name != workload.window_start}
    plain = pd.DataFrame({**columns, workload.window_start: start_us, ARRIVAL: range(len(frame))})
    types = schema
    if schema is not None:
        place = schema.get_field_index(workload.window_start)
        types = schema.set(place, pa.field(workload.window_start, pa.int64()))
    table = pa.Table.from_pandas(plain, schema=types, preserve_index=False)
    place = table.schema.get_field_index(workload.window_start)
    start = table.column(place).cast(pa.timestamp("us", tz="UTC"))
    table = table.set_column(place, workload.window_start, start).replace_schema_metadata()
    pyarrow.parquet.write_table(table, path)
    return table.schema


def score_files(
    spark: SparkSession, workload: Workload, *, accurate: Path, delivered: Path, windows: Path
) -> None:
    """Score what `write_results` left, in Spark, and write the windows to a third file."""
    given, right = (
        spark.createDataFrame(pyarrow.parquet.read_table(path)) for path in (delivered, accurate)
    )
    found = score(workload, given, right.drop(ARRIVAL)).windows
    start = found[workload.window_start].astype("datetime64[us]").astype("int64")
    counts = found.drop(columns=workload.window_start)
    counts.assign(window_start_s=start / 1_000_000).to_parquet(windows)


def read_scores(windows: Path) -> Scored:
    """Read the shares over all windows from a file of `score_files`."""
    found = over_windows(pd.read_parquet(windows)[[*_WINDOW_COLUMNS]])
    reason = "no result of the twin has a member" if found.first is None else None
    return Scored(first=found.first, last=found.last, reason=reason, windows=found.windows)
