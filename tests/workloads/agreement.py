"""The comparison of a workload's query with its operators on the same records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from workloads.base import QUERY, Workload
from workloads.toolkit.local import run_locally
from workloads.toolkit.operators import SOURCE_SCHEMA, TableProgram

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_US = 1_800_000_000_000_000
"""The start of runs: a whole multiple of any window used here."""


def source_table(partitions: Sequence[Sequence[tuple[int, bytes]]]) -> pa.Table:
    """Return records of (milliseconds after `START_US`, value), a list per partition in order."""
    rows = [
        (value, partition, offset, START_US + time_ms * 1000)
        for partition, records in enumerate(partitions)
        for offset, (time_ms, value) in enumerate(records)
    ]
    columns = [[row[i] for row in rows] for i in range(len(SOURCE_SCHEMA))]
    arrays = [
        pa.array(column, pa.int64() if field.name == "timestamp" else field.type).cast(field.type)
        for column, field in zip(columns, SOURCE_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SOURCE_SCHEMA)


def generated(workload: Workload, seconds: int, per_s: int) -> dict[str, pa.Table]:
    """Return what the only source of a workload generates, each partition ``per_s`` a second."""
    [source] = workload.sources
    built = source.records.build()
    partitions = [
        [
            (int(i * 1000 / per_s), value)
            for i, value in enumerate(built.payloads(partition, 0, seconds * per_s))
        ]
        for partition in range(source.partitions)
    ]
    return {source.name: source_table(partitions)}


def by_query(
    spark: SparkSession, workload: Workload, sources: Mapping[str, pa.Table]
) -> pd.DataFrame:
    """Return the query's results as a batch."""
    frames = {}
    for name, table in sources.items():
        zoned = table.set_column(
            3, "timestamp", table.column("timestamp").cast(pa.timestamp("us", tz="UTC"))
        )
        keyed = zoned.append_column("key", pa.nulls(len(table), pa.binary()))
        frames[name] = spark.createDataFrame(keyed)
    result = workload.form(QUERY)(spark, frames)
    assert result.columns == workload.columns
    table = result.toArrow()
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            plain = table.column(i).cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
            table = table.set_column(i, field.name, plain)
    return ordered(table.to_pandas(), workload)


def by_operators(
    program: TableProgram, workload: Workload, sources: Mapping[str, pa.Table]
) -> pd.DataFrame:
    """Return the operators' results, run in order in this process."""
    return ordered(run_locally(program, sources).to_pandas(), workload)


def ordered(frame: pd.DataFrame, workload: Workload) -> pd.DataFrame:
    """Return the columns of a workload, in an order that does not depend on arrival."""
    return frame[workload.columns].sort_values(workload.columns, ignore_index=True)


def require_equal(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Fail with the rows that only one of the two has."""
    keys = list(first.columns)
    both = first.merge(second, on=keys, how="outer", indicator="side")
    different = both[both["side"] != "both"]
    assert not len(different), different.to_string()
    assert len(first) == len(second) == len(both)
