"""Queries as streams in append mode equal their batch results, and markers close all windows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.levels import deep
from tests.workloads.agreement import START_US, ordered, require_equal, source_table, steady
from workloads.accident import accidents
from workloads.base import QUERY, Workload
from workloads.own import load_workload_file
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS = 8
RATES: dict[str, dict[str, float]] = {
    "world-cup": {"requests": 50},
    "traffic-jams": {"locations": 40, "reports": 15},
    "accidents": {"cars": 100},
    "word-count": {"lines": 10},
    "hottest": {"readings": 20},
}
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "world-cup": lambda: world_cup(window_s=2, slide_s=1),
    "traffic-jams": lambda: traffic_jams(users=400, segments=20, window_s=4, slide_s=2),
    "accidents": lambda: accidents(partitions=2),
    "word-count": lambda: word_count(text=[__file__], window_s=2, slide_s=1),
    "word-count-per-slide": lambda: word_count(
        text=[__file__], window_s=2, slide_s=1, per_slide=True
    ),
    "hottest": lambda: load_workload_file(
        Path(__file__).parents[2] / "workloads/examples/hottest.py"
    ),
}


WORD_COUNTS = ["word-count", "word-count-per-slide"]
"""Whose batches are equal, too."""


def files(directory: Path, workload: Workload, name: str) -> None:
    """Write two halves of the input and two markers, a file each.

    The second marker makes a batch that runs with the first one's watermark."""
    source = workload.source(name)
    rate = RATES[workload.name][name]
    built = source.records.build()
    number = int(SECONDS * rate)
    payloads = [built.payloads(p, 0, number) for p in range(source.partitions)]
    table = steady(payloads, rate)
    half = START_US + SECONDS * 500_000
    early = pc.less(table.column("timestamp").cast(pa.int64()), half)
    closed_s = SECONDS + 2 * workload.window_s + workload.watermark_delay_s
    markers = [
        source_table([[(round(1000 * at_s), source.marker)] for _ in range(source.partitions)])
        for at_s in (closed_s, closed_s + 1)
    ]
    directory.mkdir()
    for order, part in enumerate([table.filter(early), table.filter(pc.invert(early)), *markers]):
        zoned = part.column("timestamp").cast(pa.timestamp("us", tz="UTC"))
        whole = part.set_column(3, "timestamp", zoned)
        path = directory / f"{order}.parquet"
        pq.write_table(whole.add_column(0, "key", pa.nulls(len(whole), pa.binary())), path)
        os.utime(path, (order, order))


def plain(result: DataFrame, workload: Workload) -> pd.DataFrame:
    frame = result.toPandas()
    frame[workload.window_start] = frame[workload.window_start].astype("datetime64[us]")
    return ordered(frame, workload)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", [*WORD_COUNTS, *deep(*sorted({*WORKLOADS} - {*WORD_COUNTS}))])
def test_a_stream_equals_its_batch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    workload = WORKLOADS[name]()
    batches, streams = {}, {}
    for source in workload.sources:
        place = tmp_path / source.name
        files(place, workload, source.name)
        batches[source.name] = spark.read.parquet(str(place))
        streams[source.name] = (
            spark.readStream.schema(batches[source.name].schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(place))
        )
    sink = f"sink_{name.replace('-', '_')}"
    query = (
        workload.form(QUERY)(spark, streams)
        .writeStream.outputMode("append")
        .format("memory")
        .queryName(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    dropped = sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )
    assert dropped == 0
    batch = WORKLOADS["word-count"]() if name in WORD_COUNTS else workload
    expected = plain(batch.form(QUERY)(spark, batches), workload)
    assert len(expected) > 3
    require_equal(plain(spark.table(sink), workload), expected)
