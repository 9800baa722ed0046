"""Word count, the workload of the utilization paper (intervals, section 5).

In its words: "a continuous stream of data and word counting was performed in a sliding window". The
text is real: by default the sources of the installed Python's standard library, which every machine
has. A word is a run of ASCII letters, digits and underscores, in lower case.

The topology of tasks has a chosen depth: the paper runs it with 5 and with 7 operators in a row
(Table 1). Here these are: ``split`` (a line to words; reads the topic), ``lower``, a number of
``pass`` operators that follows from the depth, ``count`` (per window and word, partitioned by word)
and ``collect`` (one task with all results). Between them a word goes once per batch with its count,
as Spark's own aggregation counts before it exchanges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.text import text_files
from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import QUERY, TASKS, Entry, Query, Reference, Source, Workload
from workloads.toolkit import operators as ops
from workloads.toolkit.durations import interval, sql_seconds

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

NOT_IN_WORDS = "[^A-Za-z0-9_]+"
"""The separator of words, a regular expression that Java and Python read alike."""

SHALLOWEST = 4
COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), *COUNTS])
WORDS_PER_LINE = 5.0
"""Words per line of source code, roughly; for the planners."""
TWO_AGGREGATIONS = "it adds counts of slides up, and update mode allows one aggregation"


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
    traced: bool = False,
    per_slide: bool = False,
) -> Workload:
    """Count every word in windows of ``window_s`` that begin every ``slide_s``.

    ``text`` are files or directories; none means the standard library's sources. The paper does not
    print its window; these are chosen for runs of a minute. ``depth`` and ``counters`` are for the
    topology of tasks (`program`). With ``per_slide`` the query counts per slide first, and adds the
    counts up per window, as the topology does; otherwise each word goes into every window.
    ``traced``: with contributions, which a judge computes again for every word of a pass: for low
    rates."""
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
        forms={
            QUERY: _counting(window_s, slide_s, watermark_delay_s, per_slide=per_slide),
            TASKS: Reference(
                target="workloads.wordcount:program",
                parameters={"depth": depth, "partitions": partitions, "counters": counters},
            ),
            "kafka-streams": {"class": "faultline.WordCount", "counters": counters},
            "flink": _flink(window_s, slide_s, depth),
        },
        identity=["window_start", "word"],
        values=["count"],
        window_start="window_start",
        window_s=window_s,
        slide_s=slide_s,
        watermark_delay_s=watermark_delay_s,
        contributions=partial(_contributions, window_s, slide_s) if traced else None,
        no_real_time=TWO_AGGREGATIONS if per_slide else None,
        members=lambda row: {(row["word"], row["count"])},
        reference=Reference(
            target="workloads.wordcount:word_count",
            # Without the text: only the load reads it, and other machines have no such files.
            parameters={name: value for name, value in parameters.items() if name != "text"}
            | {"depth": depth, "counters": counters, "per_slide": per_slide},
        ),
    )


def _contributions(
    window_s: float,
    slide_s: float,
    source: str,
    payloads: Sequence[bytes],
    event_ms: NDArray[np.int64],
) -> pd.DataFrame:
    import pandas as pd

    window_ms, slide_ms = round(window_s * 1000), round(slide_s * 1000)
    lines = [
        {word.lower() for word in re.split(NOT_IN_WORDS, line.decode(errors="replace")) if word}
        for line in payloads
    ]
    records = np.repeat(np.arange(len(lines)), [len(words) for words in lines])
    last = event_ms[records] - event_ms[records] % slide_ms
    found = pd.DataFrame(
        {"record": records, "last": last, "word": [word for line in lines for word in line]}
    )
    each = [
        found.assign(window_start=found["last"] - before)
        for before in range(0, window_ms, slide_ms)
    ]
    inside = [
        one[one["window_start"] + window_ms > event_ms[one["record"].to_numpy()]] for one in each
    ]
    whole: pd.DataFrame = pd.concat(inside, ignore_index=True)
    return whole.drop(columns="last")


def _counting(
    window_s: float, slide_s: float, watermark_delay_s: float, *, per_slide: bool
) -> Query:
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
        if per_slide:
            slides = words.groupBy(F.window("timestamp", interval(slide_s)).alias("pane"), "word")
            window = F.window(F.window_time("pane"), interval(window_s), interval(slide_s))
            counted = slides.count().groupBy(window.alias("window"), "word")
            counts = counted.agg(F.sum("count").alias("count"))
        else:
            window = F.window("timestamp", interval(window_s), interval(slide_s))
            counts = words.groupBy(window, "word").count()
        return counts.select(F.col("window.start").alias("window_start"), "word", "count")

    return query


def _flink(window_s: float, slide_s: float, depth: int) -> Mapping[str, Any]:
    """Return the same in Flink SQL (`harness.engines.flink.sql`): ``depth`` operators in a row.

    They are the source, the split, the counts and the sink. Each count beyond the first one adds up
    what the one before counted for parts of a word, so that every one has input from all tasks."""
    words = "UNNEST(REGEXP_EXTRACT_ALL(`value`, '[A-Za-z0-9_]+', 0)) AS split (`found`)"
    hop = f"HOP(TABLE words, DESCRIPTOR(`at`), {sql_seconds(slide_s)}, {sql_seconds(window_s)})"
    views = {
        "words": "SELECT `at`, LOWER(`found`) AS `word`, CHAR_LENGTH(`value`) AS `part` "
        f"FROM lines CROSS JOIN {words}"
    }
    found, counted = f"TABLE({hop})", "COUNT(*)"
    for parts in range(depth - SHALLOWEST, 0, -1):
        part, name = f"MOD(`part`, {2**parts})", f"counts-{depth - SHALLOWEST - parts + 1}"
        views[name] = (
            f"SELECT window_start, window_end, `word`, {part} AS `part`, {counted} AS `count` "
            f"FROM {found} GROUP BY window_start, window_end, `word`, {part}"
        )
        found, counted = f"`{name}`", "SUM(`count`)"
    return {
        "charset": "ISO-8859-1",
        "views": views,
        "query": (
            f"SELECT window_start, `word`, {counted} AS `count` FROM {found} "
            "GROUP BY window_start, window_end, `word`"
        ),
    }


# The same as a topology of tasks


def program(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    depth: int = 5,
    partitions: int = 2,
    counters: int = 2,
) -> ops.TableProgram:
    """Return word count with ``depth`` operators in a row.

    ``rate`` is lines per second in all, by default a chosen 10,000."""
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

    def task(operator: str, index: int) -> ops.TableTask:
        match operator:
            case "split":
                return Split()
            case "count":
                return Count(timeline)
            case "collect":
                return ops.Forward(RESULT)
            case "lower":
                return Lower(counters if chain[-1] == "lower" else None)
            case _:
                return Words(counters) if operator == chain[-1] else ops.Forward(COUNTS)

    return ops.TableProgram(
        topology=Topology(operators=tuple(operators), edges=tuple(edges)),
        task=task,
        sources={"split": "lines"},
        timeline=timeline,
    )


_BLANKED = bytes(
    byte if re.fullmatch(r"[A-Za-z0-9_]", chr(byte)) and byte < 128 else ord(" ")
    for byte in range(256)
)
"""A byte of a word to itself, any other to a blank, as in `NOT_IN_WORDS`."""


class Split(ops.TableTask):
    """Lines to words, as the query splits them, each with how often it came in this batch.

    A batch repeats its words: a row stands for all of a word's occurrences, so that what the next
    operators do, and what crosses between them, is a third of the words."""

    reads_times = False

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        # All lines as one text, its separators blanked: a third of what a regular expression
        # takes line by line. A byte of a character beyond ASCII separates words, too.
        text = _text([table.column("value") for table in inputs]).translate(_BLANKED).strip()
        if not text:
            return None, (COUNTS.empty_table(),)
        words = pc.ascii_split_whitespace(pa.array([text], pa.string())).values
        return None, (_counted(words),)


def _text(columns: Sequence[pa.ChunkedArray]) -> bytes:
    """All values of binary columns, joined by line feeds."""
    chunks = [chunk for column in columns for chunk in column.chunks if len(chunk)]
    texts = []
    for chunk in chunks:
        ends = pa.array([0, len(chunk)], pa.int32())
        (text,) = pc.binary_join(pa.ListArray.from_arrays(ends, chunk), b"\n")
        texts.append(text.as_py())
    return b"\n".join(texts)


def _counted(words: pa.Array, times: ops.Ints | None = None) -> pa.Table:
    """Return each distinct word with its count, in the order of first appearance.

    Where each row stands for ``times`` words, the count is their sum."""
    encoded = words.dictionary_encode()
    # Sums of floats up to 2**53 are exact.
    sums = np.bincount(encoded.indices.to_numpy(), weights=times, minlength=len(encoded.dictionary))
    return pa.Table.from_arrays([encoded.dictionary, sums.astype(np.int64)], schema=COUNTS)


class Words(ops.TableTask):
    """A task that gives counted words to the next one.

    Before the counters, each word goes to its own counter."""

    def __init__(self, counters: int | None) -> None:
        """``counters`` is how many there are; None if another task stands between."""
        self.counters = counters

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        """Words: a row stands for as many as it counts."""
        return sum(int(ops.numbers(table, "count").sum()) for table in inputs if table is not None)

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        """Return the rows of all inputs, one after the other."""
        return ops.joined(inputs, COUNTS)

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        words = self.words(inputs)
        if self.counters is None or self.counters == 1:
            return None, (words,)
        if not words.num_rows:
            return None, (words,) * self.counters
        return None, ops.split_rows(words, _counter_of(words, self.counters), self.counters)


class Lower(Words):
    """Words in lower case."""

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        words = ops.joined(inputs, COUNTS)
        if not words.num_rows:
            return words
        lower = pc.ascii_lower(words.column("word").chunk(0))
        return _counted(lower, ops.numbers(words, "count"))


def _counter_of(words: pa.Table, counters: int) -> ops.Ints:
    """Which counter is each word's: the sum of its bytes decides, on every machine alike."""
    column = words.column("word").combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset :][: len(column) + 1]
    letters = np.frombuffer(data, dtype=np.uint8)[: ends[-1]]
    sums = np.add.reduceat(letters, ends[:-1], dtype=np.int64)
    part: ops.Ints = sums % counters
    return part


class Count(ops.PaneTask):
    """Counts per word in each window, for the words of this task."""

    schema, result = COUNTS, RESULT

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        """Append the words of a batch to those of the pane; they are added up later."""
        fresh = [table for table in inputs if table.num_rows]
        return pa.concat_tables([pane, *fresh]) if fresh else pane

    def compact(self, pane: pa.Table) -> pa.Table:
        return _summed([pane])

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        counts = _summed(panes)
        assert counts.num_rows == 0 or ops.numbers(counts, "count").min() > 0
        start = ops.timestamps(np.full(counts.num_rows, window_start_us))
        return counts.add_column(0, "window_start", start)


def _summed(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the counts with those of the same words added up."""
    rows = ops.joined([table for table in tables if table.num_rows], COUNTS)
    if not rows.num_rows:
        return rows
    return _counted(rows.column("word").chunk(0), ops.numbers(rows, "count"))


ENTRY = Entry(
    name="word-count", label="word count", paper="intervals", make=word_count, paper_rate_per_s=None
)
