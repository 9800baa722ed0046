"""Queries that Spark refuses: each gets its reason, the line of its file, and the remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.engines.structured import sample, sample_stream
from harness.engines.structured.refusals import REFUSALS, explained, refusal_of, said
from harness.errors import UsageError
from tests.workloads.kit import loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
from workloads.base import Reference, Source, Workload


class Clicks:
    def payloads(self, partition, start_index, count):
        return [b'1'] * count


def query(spark, sources):
    from pyspark.sql import functions as F

    def clicks(name="a"):
        return sources[name].select("timestamp", F.col("offset").alias("k"), F.lit(1).alias("v"))

    def watermarked(name="a"):
        return clicks(name).withWatermark("timestamp", "5 seconds")

    def windows(frame):
        return frame.groupBy(F.window("timestamp", "10 seconds"), "k").agg(
            F.count("v").alias("n")
        ).select(F.col("window.start").alias("window"), "k", "n")

    other = clicks("b").select(F.col("timestamp").alias("at"), F.col("k").alias("kk"))
    return {query}


WORKLOAD = Workload(
    name="clicks",
    sources=[Source(name=name, records=Reference(target=f"{{__file__}}:Clicks")) for name in "ab"],
    forms={{"query": query}},
    identity=["window", "k"],
    values=["n"],
    window_start="window",
    window_s=10,
    watermark_delay_s=5,
)
"""
JOIN = "{}.join(other, F.expr('k = kk'), 'left_outer')"
QUERIES = {
    "windows(clicks())": ("has no watermark", "withWatermark"),
    "windows(clicks()).withWatermark('window', '5 seconds')": ("has no watermark", "in front of"),
    "watermarked().groupBy('k').count()": ("has no watermark", "on the column of the window"),
    "windows(watermarked()).orderBy('k')": ("it sorts", "leave orderBy out"),
    "windows(watermarked()).selectExpr('*', 'row_number() OVER (ORDER BY n) AS r')": (
        "a function over a window of rows",
        "max_by",
    ),
    "watermarked().groupBy(F.window('timestamp', '10 seconds')).agg(F.countDistinct('k'))": (
        "it counts distinct values",
        "collect_set",
    ),
    "watermarked().count()": ("asks for rows while the query is made", "without an action"),
    "windows(watermarked().cache())": ("asks for rows while the query is made", "Spark runs it"),
    "windows(watermarked()).toPandas()": ("asks for rows", "without an action"),
    "watermarked().groupBy(F.window('timestamp', '10 seconds')).pivot('k').sum('v')": (
        "it pivots",
        "one aggregate for each value",
    ),
    "watermarked().sample(0.5)": ("an operation on whole tables", "hash of the key"),
    "watermarked().intersect(watermarked('b'))": ("an operation on whole tables", "left_semi"),
    JOIN.format("clicks()"): ("its outer join needs a watermark", "on both sources"),
    "clicks().dropDuplicatesWithinWatermark(['k'])": ("removes duplicates", "in front of"),
    "windows(watermarked().dropDuplicatesWithinWatermark(['k']))": (
        "the batch that computes the right results cannot run it",
        "'batch': batch",
    ),
    "clicks().withColumn('t', F.lit('x')).withWatermark('t', '5 seconds')": (
        "on a column that is not a timestamp",
        "to_timestamp",
    ),
    "clicks().withWatermark('timestamp', '5 fortnights')": ("does not understand", "5 seconds"),
    "windows(watermarked()).select('nope')": ("Spark refuses its query", "correct the column"),
    "watermarked().where('k >')": ("Spark refuses its query", "correct the column"),
    "windows(watermarked().withColumn('v', F.monotonically_increasing_id()))": (
        "cannot run as a stream in append mode",
        "a result must be final",
    ),
    "watermarked().writeStream.format('noop').start()": ("StreamingQuery", "DataFrame"),
    "windows(watermarked()).collect": ("returned a method", "return a DataFrame"),
    "sources['c']": ("KeyError", "a DataFrame for each of a, b"),
}
"""Queries, with words of the reason and of the remedy."""


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_a_refusal_names_reason_line_and_remedy(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    workload = loaded(tmp_path / "clicks.py", FILE.format(query=query))

    def run() -> None:
        sample_stream.check_stream(sample_stream.stream_of(spark, workload, tmp_path))
        sample.check_query(spark, workload)

    try:
        with pytest.raises(UsageError) as caught:
            explained(workload, run)
    finally:
        for running in spark.streams.active:
            running.stop()
    what, remedy = QUERIES[query]
    assert what in caught.value.what, caught.value.what
    assert remedy in caught.value.remedy, caught.value.remedy
    assert "\n" not in caught.value.what
    if "returned a" not in caught.value.what and "column" not in caught.value.what[:60]:
        assert re.search(r"clicks\.py, line \d+", caught.value.what), caught.value.what


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("[UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS] Store ...", "of RocksDB"),
        ("[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL", "time to live"),
        ("anything else", REFUSALS[-1].what),
    ],
)
def test_words_of_spark_lead_to_the_first_kind_that_fits(words: str, what: str) -> None:
    assert what in refusal_of(words).what


def test_the_words_of_spark_lose_their_codes() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [A.B] The feature "
        "is not supported: x. SQLSTATE: 0A000\n  at org.apache"
    )
    assert said(text) == "The feature is not supported: x."
