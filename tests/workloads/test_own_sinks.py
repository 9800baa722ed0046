"""Sinks of a workload's own: what the sample says of them, and when their rows were readable."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.engines.structured import sample_stream, sinks
from harness.engines.structured.local import sampled
from harness.engines.structured.session import with_settings
from harness.errors import UsageError
from tests.workloads.kit import loaded
from workloads.base import READER, SINK, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = (Path(__file__).parents[2] / "docs/examples/table.py").read_text()
WRITE, READ = (
    FILE[FILE.index("    batch.write") :].splitlines()[0],
    "    return spark.read.parquet(path)",
)
APPEND = '    batch.write.mode("append").parquet(path)\n'
ADD = """    new = batch.select("window_start", "shop", "cents", "sales").collect()
    spark, old = batch.sparkSession, []
    if (marked := __import__("pathlib").Path(path)).exists():
        old = read(spark, path).collect()
    rows = {(row[0], row[1]): row for row in old}
    for row in new:
        before = rows.get((row[0], row[1]))
        sums = [a + b for a, b in zip(row[2:], before[2:])] if before else list(row[2:])
        rows[row[0], row[1]] = (row[0], row[1], *sums)
    spark.createDataFrame([*rows.values()], batch.schema).write.mode("overwrite").parquet(path)
"""
FILES = ('"sink": write', '"sink": "parquet"')


def job(tmp_path: Path, *changes: tuple[str, str]) -> Workload:
    return loaded(tmp_path / "table.py", FILE, *changes)


def ran(spark: SparkSession, workload: Workload, tmp_path: Path) -> sample_stream.Streamed:
    stream = sample_stream.stream_of(spark, workload, tmp_path)
    return sample_stream.run_stream(workload, tmp_path, stream)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ((FILES,), "changes nothing"),
        (((WRITE, APPEND),), r"gives \d+ results twice"),
        (((WRITE, ADD),), "makes its results wrong: "),
    ],
    ids=["the file sink", "append", "added up"],
)
def test_a_sample_writes_one_batch_twice(
    spark: SparkSession, tmp_path: Path, changes: tuple[tuple[str, str], ...], again: str
) -> None:
    found = sampled(spark, job(tmp_path, *changes))
    assert re.match(again, found.again), found.again
    assert found.difference == ""
    assert found.no_real_time == "its sink is written batch by batch"


REFUSED = {
    "twice": (
        (WRITE, '    batch.union(batch).write.mode("append").parquet(path)'),
        r"(\d+) of \1 results twice, without a failure",
    ),
    "replaced": ((WRITE, '    batch.write.mode("overwrite").parquet(path)'), "missing"),
    "grouped": (
        (READ, '    return spark.read.parquet(path).groupBy("shop", "window_start").max("sales")'),
        "do not show when they became readable",
    ),
    "raises": ((WRITE, "    batch.prite"), "its query failed on a sample"),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", REFUSED)
def test_a_sink_is_refused_with_its_cause(spark: SparkSession, tmp_path: Path, name: str) -> None:
    change, what = REFUSED[name]
    with pytest.raises(UsageError, match=what):
        sampled(spark, job(tmp_path, change))


@pytest.mark.parametrize("more", [{SINK: "kafka"}, {SINK: "parquet", READER: None}, {SINK: None}])
def test_a_sink_and_its_reader_go_together(tmp_path: Path, more: dict[str, object]) -> None:
    workload = job(tmp_path)
    with pytest.raises(UsageError, match="sink is "):
        replace(workload, forms={**workload.forms, **more})


@pytest.mark.spark
def test_a_row_is_readable_since_the_commit_of_its_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Entries of the log are later than their files here, and a compacted one tells no time."""
    workload = job(tmp_path, FILES)
    with with_settings(spark, {"spark.sql.streaming.fileSink.log.compactInterval": "5"}):
        results = ran(spark, workload, tmp_path).results
    out = Path(sinks.place(str(tmp_path / "checkpoint")))
    for entry in (out / sinks.LOG).iterdir():
        number = entry.name.removesuffix(".compact")
        if number.isdecimal():
            os.utime(entry, (4_000_000_000 + int(number),) * 2)
    rows = sinks.rows_of(spark, workload, [str(out), str(tmp_path / "none")])
    assert rows[sinks.COPY].unique().to_pylist() == [0]
    times = sorted(set(rows[sinks.ARRIVAL].to_pylist()))
    compacted, committed = times[0], times[1:]
    assert len(rows) == len(results) > 100
    assert compacted < 4_000_000_000_000 <= committed[0], "a file's own time, where it is the only"
    assert all(4_000_000_000_000 < time < 4_000_000_011_000 for time in committed)


@pytest.mark.spark
def test_a_reader_may_name_the_time_itself(spark: SparkSession, tmp_path: Path) -> None:
    at = "TIMESTAMP'2020-01-01 00:00:07'"
    timed = (READ, f'{READ}.distinct().selectExpr("*", "{at} AS readable_at")')
    workload = job(tmp_path, timed)
    ran(spark, workload, tmp_path)
    rows = sinks.rows_of(spark, workload, [sinks.place(str(tmp_path / "checkpoint"))])
    assert set(rows[sinks.ARRIVAL].to_pylist()) == {1_577_836_807_000}
