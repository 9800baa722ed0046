"""How a result travels in the out topic: a JSON object, and the copy that made it in a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from workloads.base import SOURCE_COLUMNS, Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COPY_HEADER = "copy"
"""Carries the number of the application that sent a result, in ASCII digits."""


def read_stream(
    spark: SparkSession, kafka: Mapping[str, str], topics: Mapping[str, str]
) -> dict[str, DataFrame]:
    """Each source's topic from its beginning on, as it grows."""
    return {
        source: spark.readStream.format("kafka")
        .options(**kafka)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(*SOURCE_COLUMNS)
        for source, topic in topics.items()
    }


def read_batch(
    spark: SparkSession, kafka: Mapping[str, str], topics: Mapping[str, str]
) -> dict[str, DataFrame]:
    """Each source's topic as it stands now."""
    return {
        source: spark.read.format("kafka")
        .options(**kafka)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
        .select(*SOURCE_COLUMNS)
        for source, topic in topics.items()
    }


def plain_columns(result: DataFrame, workload: Workload) -> list[Column]:
    """The result's columns as they are sent and compared: timestamps as ms since the epoch."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F
    from pyspark.sql.types import TimestampType

    return [
        (F.unix_millis(name) if _is(result, name, TimestampType) else F.col(name)).alias(name)
        for name in workload.columns
    ]


def _is(result: DataFrame, name: str, kind: type) -> bool:
    return isinstance(result.schema[name].dataType, kind)


def encode(result: DataFrame, workload: Workload, copy: int) -> DataFrame:
    """The rows that Spark's Kafka sink takes."""
    from pyspark.sql import functions as F  # noqa: N812

    header = F.struct(
        F.lit(COPY_HEADER).alias("key"), F.lit(str(copy)).cast("binary").alias("value")
    )
    return result.select(
        F.to_json(F.struct(*plain_columns(result, workload))).alias("value"),
        F.array(header).alias("headers"),
    )


def decode(values: Sequence[bytes], columns: Sequence[str]) -> pd.DataFrame:
    """The results in these values, a row each, with the columns of a workload.

    Raises `ValueError` for a value without one of the columns: another query wrote it.
    """
    import io

    import pyarrow.json

    if not values:
        return pd.DataFrame(columns=list(columns))
    options = pyarrow.json.ReadOptions(block_size=1 << 24)
    table = pyarrow.json.read_json(io.BytesIO(b"\n".join(values)), read_options=options)
    missing = sorted(set(columns) - set(table.column_names))
    if missing or len(table) != len(values):
        raise ValueError(f"{len(values)} results gave {len(table)} rows without {missing}")
    frame: pd.DataFrame = table.select(list(columns)).to_pandas()
    return frame
