"""Word count, the workload of the utilization paper: "a continuous stream of data and word
counting was performed in a sliding window" (Jayasekara et al. 2020, section 5).

The text is real: by default the sources of the installed Python's standard library, which
every machine has. A word is a run of ASCII letters, digits and underscores, in lower case.

As a topology of tasks its depth can be chosen: the paper runs it with 5 and with 7 operators in
a row (Table 1). Here these are: ``split`` (a line to words; reads the topic), ``lower``, as many
``pass`` operators as the depth asks for, ``count`` (per window and word, partitioned by word)
and ``collect`` (one task with all results).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.text import text_files
from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import Entry, Query, Reference, Source, Workload
from workloads.toolkit.durations import interval
from workloads.toolkit.operators import (
    SOURCE_SCHEMA,
    Forward,
    Ints,
    PaneTask,
    TableProgram,
    TableTask,
    Timeline,
    joined,
    numbers,
    split_rows,
    timestamps,
    totals,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NOT_IN_WORDS = "[^A-Za-z0-9_]+"
"""What separates words, as a regular expression that Java and Python read alike."""

SHALLOWEST = 4
WORDS = pa.schema([("word", pa.string())])
COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), *COUNTS])
WORDS_PER_LINE = 5.0
"""Of source code, roughly; for the planners."""


def word_count(
    *,
    text: Sequence[str | Path] = (),
    seed: int = 0,
    partitions: int = 2,
    window_s: float = 4,
    slide_s: float = 1,
    watermark_delay_s: float = 1,
    depth: int = 5,
    counters: int = 2,
) -> Workload:
    """Counts of every word in windows of ``window_s`` that begin every ``slide_s``.

    ``text`` are files or directories; none means the standard library's sources. The paper does
    not print its window; these are chosen for runs of a minute. ``depth`` and ``counters`` are
    for the topology of tasks (`program`).
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
            target="datasets.text:TextLines",
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
        members_of=lambda row: {(row["word"], row["count"])},
        reference=Reference(
            target="workloads.wordcount:word_count",
            parameters={**parameters, "depth": depth, "counters": counters},
        ),
        program=Reference(
            target="workloads.wordcount:program",
            parameters={"depth": depth, "partitions": partitions, "counters": counters},
        ),
    )


def _counting(window_s: float, slide_s: float, watermark_delay_s: float) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        word = F.explode(F.split(F.col("value").cast("string"), NOT_IN_WORDS))
        words = (
            sources["lines"]
            .withWatermark("timestamp", interval(watermark_delay_s))
            .select("timestamp", word.alias("word"))
            .where(F.col("word") != "")
            .withColumn("word", F.lower("word"))
        )
        window = F.window("timestamp", interval(window_s), interval(slide_s))
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


# The same as a topology of tasks


def program(
    *,
    timeline: Timeline,
    rate: float | None = None,
    depth: int = 5,
    partitions: int = 2,
    counters: int = 2,
) -> TableProgram:
    """Word count with ``depth`` operators in a row; ``rate`` is lines per second in all, by
    default a chosen 10,000."""
    if depth < SHALLOWEST:
        raise UsageError(
            f"word count cannot have depth {depth}",
            remedy=f"give at least {SHALLOWEST}: split, lower, count and collect",
        )
    chain = ["split", "lower", *(f"pass-{i + 1}" for i in range(depth - SHALLOWEST))]
    operators = [
        Operator(
            name="split",
            parallelism=partitions,
            rate=((rate or 10_000.0) / partitions,) * partitions,
            selectivity=WORDS_PER_LINE,
        ),
        *(Operator(name=name, parallelism=partitions) for name in chain[1:]),
        Operator(name="count", parallelism=counters),
        Operator(name="collect", parallelism=1),
    ]
    edges = [
        Edge(upstream=upstream, downstream=downstream, partitioning=Partitioning.ONE_TO_ONE)
        for upstream, downstream in pairwise(chain)
    ]
    edges += [
        Edge(upstream=chain[-1], downstream="count", partitioning=Partitioning.FULL),
        Edge(upstream="count", downstream="collect", partitioning=Partitioning.FULL),
    ]

    def task(operator: str, index: int) -> TableTask:
        match operator:
            case "split":
                return Split()
            case "count":
                return Count(timeline)
            case "collect":
                return Forward(RESULT)
            case "lower":
                return Lower(counters if chain[-1] == "lower" else None)
            case _:
                return Words(counters) if operator == chain[-1] else Forward(WORDS)

    return TableProgram(
        topology=Topology(operators=tuple(operators), edges=tuple(edges)),
        task=task,
        sources={"split": "lines"},
        timeline=timeline,
    )


_BLANKED = bytes(
    byte if re.fullmatch(r"[A-Za-z0-9_]", chr(byte)) and byte < 128 else ord(" ")
    for byte in range(256)
)
"""A byte of a word to itself, any other to a blank, as `NOT_IN_WORDS` says."""


class Split(TableTask):
    """Lines to words, as the query splits them."""

    reads_times = False

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        lines = joined(inputs, SOURCE_SCHEMA).column("value")
        # All lines as one text, its separators blanked: a third of what a regular expression
        # takes line by line. A byte of a character beyond ASCII separates words, too.
        text = b"\n".join(lines.to_pylist()).translate(_BLANKED).decode("ascii")
        words = pc.list_flatten(pc.ascii_split_whitespace(pa.array([text.strip()])))
        if not text.strip():
            words = words.slice(0, 0)
        return None, (pa.table({"word": words}, schema=WORDS),)


class Words(TableTask):
    """A task that gives words to the next one, or, before the counters, how often each came in
    this batch, to the counter that is the word's: a batch repeats its words, and what crosses the
    full edge is then a row per distinct word."""

    def __init__(self, counters: int | None) -> None:
        """``counters`` is how many there are; None if another task stands between."""
        self.counters = counters

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        return joined(inputs, WORDS)

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        words = self.words(inputs)
        if self.counters is None:
            return None, (words,)
        return None, _counted(words, self.counters)


class Lower(Words):
    """Words in lower case."""

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        words = joined(inputs, WORDS)
        if not words.num_rows:
            return words
        return pa.table({"word": pc.ascii_lower(words.column("word"))}, schema=WORDS)


def _counted(words: pa.Table, counters: int) -> tuple[pa.Table, ...]:
    """A table of `COUNTS` per counter; words in the order in which they first appear."""
    if not words.num_rows:
        return (COUNTS.empty_table(),) * counters
    encoded = words.column("word").combine_chunks().dictionary_encode()
    times = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
    counts = pa.table({"word": encoded.dictionary, "count": times}, schema=COUNTS)
    if counters == 1:
        return (counts,)
    checksums = [crc32(word.encode()) % counters for word in encoded.dictionary.to_pylist()]
    part: Ints = np.asarray(checksums, dtype=np.int64)
    return split_rows(counts, part, counters)


class Count(PaneTask):
    """Counts per word in each window, for the words of this task."""

    schema, result = COUNTS, RESULT

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        fresh = [table for table in inputs if table.num_rows]
        if not fresh:
            return pane
        return totals(joined([pane, *fresh], COUNTS), ["word"], ["count"])

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        counts = totals(joined(panes, COUNTS), ["word"], ["count"])
        assert counts.num_rows == 0 or numbers(counts, "count").min() > 0
        start = timestamps(np.full(counts.num_rows, window_start_us))
        return counts.add_column(0, "window_start", start)


ENTRY = Entry(
    name="word-count",
    label="word count",
    paper="intervals",
    make=word_count,
    paper_rate_per_s=None,
)
