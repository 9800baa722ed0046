"""Word count as a topology of tasks, of a depth that can be chosen.

The utilization paper (Jayasekara et al. 2020, Table 1) runs word count with 5 and with 7
operators in a row. Here these are: ``split`` (a line to words; reads the topic), ``lower``, as
many ``pass`` operators as the depth asks for, ``count`` (per window and word, partitioned by
word) and ``collect`` (one task with all results).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.operators import (
    SOURCE_SCHEMA,
    Ints,
    PaneTask,
    Pass,
    Program,
    TableTask,
    Timeline,
    joined,
    numbers,
    split_rows,
    timestamps,
    totals,
)
from workloads.wordcount import NOT_IN_WORDS

SHALLOWEST = 4
WORDS = pa.schema([("word", pa.string())])
COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), *COUNTS])


def program(
    *,
    timeline: Timeline,
    depth: int = 5,
    partitions: int = 2,
    counters: int = 2,
    rate: float = 10_000,
    words_per_line: float = 5,
) -> Program:
    """Word count with ``depth`` operators in a row; ``rate`` is lines per second in all."""
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
            rate=(rate / partitions,) * partitions,
            selectivity=words_per_line,
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
                return Pass(RESULT)
            case "lower":
                return Lower(counters if chain[-1] == "lower" else 1)
            case _:
                return ByWord(counters) if operator == chain[-1] else Pass(WORDS)

    return Program(
        topology=Topology(operators=tuple(operators), edges=tuple(edges)),
        task=task,
        sources={"split": "lines"},
        timeline=timeline,
    )


class Split(TableTask):
    """Lines to words, as the query splits them."""

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        lines = joined(inputs, SOURCE_SCHEMA).column("value").cast(pa.string())
        words = pc.list_flatten(pc.split_pattern_regex(lines, NOT_IN_WORDS))
        words = words.filter(pc.not_equal(words, ""))
        return None, (pa.table({"word": words}, schema=WORDS),)


class ByWord(TableTask):
    """Words to the counter that is theirs."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        return joined(inputs, WORDS)

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        words = self.words(inputs)
        if self.parts == 1:
            return None, (words,)
        return None, split_rows(words, _part(words, self.parts), self.parts)


class Lower(ByWord):
    """Words in lower case."""

    def words(self, inputs: Sequence[pa.Table]) -> pa.Table:
        lower = pc.ascii_lower(joined(inputs, WORDS).column("word"))
        return pa.table({"word": lower}, schema=WORDS)


def _part(words: pa.Table, parts: int) -> Ints:
    """A part per row by the word's checksum, which is computed once per distinct word."""
    if not words.num_rows:
        return np.zeros(0, dtype=np.int64)
    encoded = words.column("word").combine_chunks().dictionary_encode()
    checksums = [crc32(word.encode()) % parts for word in encoded.dictionary.to_pylist()]
    parts_of_rows: Ints = np.asarray(checksums, dtype=np.int64)[encoded.indices.to_numpy()]
    return parts_of_rows


class Count(PaneTask):
    """Counts per word in each window, for the words of this task."""

    schema, result = COUNTS, RESULT

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        words = joined(inputs, WORDS)
        ones = pa.array(np.ones(words.num_rows, dtype=np.int64))
        fresh = words.append_column("count", ones)
        return totals(joined([pane, fresh], COUNTS), ["word"], ["count"])

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        counts = totals(joined(panes, COUNTS), ["word"], ["count"])
        assert counts.num_rows == 0 or numbers(counts, "count").min() > 0
        start = timestamps(np.full(counts.num_rows, window_start_us))
        return counts.add_column(0, "window_start", start)
