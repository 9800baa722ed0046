"""Word count, the workload of the utilization paper: "a continuous stream of data and word
counting was performed in a sliding window" (Jayasekara et al. 2020, section 5).

The text is real: by default the sources of the installed Python's standard library, which
every machine has. A word is a run of ASCII letters, digits and underscores, in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.base import Query, Reference, Source, Workload
from workloads.text import text_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NOT_IN_WORDS = "[^A-Za-z0-9_]+"
"""What separates words, as a regular expression that Java and Python read alike."""


def word_count(
    *,
    text: Sequence[str | Path] = (),
    seed: int = 0,
    partitions: int = 2,
    window_s: float = 4,
    slide_s: float = 1,
    watermark_delay_s: float = 1,
) -> Workload:
    """Counts of every word in windows of ``window_s`` that begin every ``slide_s``.

    ``text`` are files or directories; none means the standard library's sources. The paper does
    not print its window; these are chosen for runs of a minute.
    """
    files = [str(path.resolve()) for path in text_files([Path(path) for path in text])]
    parameters = {
        "text": files,
        "seed": seed,
        "partitions": partitions,
        "window_s": window_s,
        "slide_s": slide_s,
        "watermark_delay_s": watermark_delay_s,
    }
    lines = Source(
        name="lines",
        partitions=partitions,
        records=Reference(
            target="workloads.text:TextLines",
            parameters={"paths": files, "partitions": partitions, "seed": seed},
        ),
    )
    return Workload(
        name="word-count",
        sources=[lines],
        query=_counting(window_s, slide_s, watermark_delay_s),
        identity=["window_start", "word"],
        values=["count"],
        window_start="window_start",
        window_s=window_s,
        slide_s=slide_s,
        watermark_delay_s=watermark_delay_s,
        members=_counted_word,
        reference=Reference(target="workloads.wordcount:word_count", parameters=parameters),
    )


def _counting(window_s: float, slide_s: float, watermark_delay_s: float) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        word = F.explode(F.split(F.col("value").cast("string"), NOT_IN_WORDS))
        words = (
            sources["lines"]
            .withWatermark("timestamp", _interval(watermark_delay_s))
            .select("timestamp", word.alias("word"))
            .where(F.col("word") != "")
            .withColumn("word", F.lower("word"))
        )
        window = F.window("timestamp", _interval(window_s), _interval(slide_s))
        return (
            words.groupBy(window, "word")
            .count()
            .select(F.col("window.start").alias("window_start"), "word", "count")
        )

    return query


def _counted_word() -> Column:
    """A word with its count: right or wrong as a whole."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.array(F.concat_ws(" ", "word", "count"))


def _interval(seconds: float) -> str:
    return f"{round(seconds * 1000)} milliseconds"
