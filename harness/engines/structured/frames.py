"""The topics as frames: sources as streams or batches, results as the rows of Spark's sink.

Tests: ``tests/engines/test_contract.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.engines.deliveries import COPY_HEADER
from harness.measure.values import demand_comparable
from harness.measure.versions import STABILITY, Stability
from workloads.base import Source, Workload

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
    found = {}
    for name, topic in topics.items():
        source = workload.source(name)
        chosen = (
            {"subscribe": topic}
            if partitions is None
            else {"assign": json.dumps({topic: list(partitions[name])})}
        )
        found[name] = _rows(spark.readStream, {**kafka, **source.options, **chosen}, source)
    return found


def read_batch(
    spark: SparkSession, kafka: Mapping[str, str], topics: Mapping[str, str], workload: Workload
) -> dict[str, DataFrame]:
    """Each source's topic as it stands now."""
    newest = {**kafka, "endingOffsets": "latest"}
    return {
        name: _rows(spark.read, {**newest, "subscribe": topic}, workload.source(name))
        for name, topic in topics.items()
    }


def _rows(
    reader: DataFrameReader | DataStreamReader, options: Mapping[str, str], source: Source
) -> DataFrame:
    more = {"includeHeaders": "true"} if source.headers else {}
    kafka = reader.format("kafka").options(**options, **more, startingOffsets="earliest")
    return kafka.load().select(*source.columns)


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
