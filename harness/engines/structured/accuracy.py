"""Accuracy as the papers count it, of a pass with failures against its twin, scored by Spark.

The harness leaves the deliveries of one pass and the results of the other as files in the run's
directory, and the first application, warm from the queries, scores them
(`workloads.toolkit.accuracy`). Only its driver reads the files, so executors may
be on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from harness.engines.base import Scored
from workloads.base import Workload
from workloads.toolkit.accuracy import ARRIVAL, over_windows, score

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WINDOW_COLUMNS = ("window_start_s", "members", "first", "last")


def write_results(
    frame: pd.DataFrame, workload: Workload, path: Path, *, schema: pa.Schema | None = None
) -> pa.Schema:
    """Write results with ``window_start_s`` for `score_files`; return the columns' types.

    They are in the order of the frame; a window begins that long after the epoch."""
    start_us = (frame["window_start_s"].astype(float) * 1_000_000).round().astype("int64")
    columns = {name: frame[name] for name in workload.columns if name != workload.window_start}
    plain = pd.DataFrame({**columns, workload.window_start: start_us, ARRIVAL: range(len(frame))})
    types = schema and _plain(schema, workload)
    table = pa.Table.from_pandas(plain, schema=types, preserve_index=False)
    place = table.schema.get_field_index(workload.window_start)
    start = table.column(place).cast(pa.timestamp("us", tz="UTC"))
    table = table.set_column(place, workload.window_start, start).replace_schema_metadata()
    pyarrow.parquet.write_table(table, path)
    return table.schema


def _plain(schema: pa.Schema, workload: Workload) -> pa.Schema:
    place = schema.get_field_index(workload.window_start)
    return schema.set(place, pa.field(workload.window_start, pa.int64()))


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
