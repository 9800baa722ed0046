"""The synthetic windowed operators of the PPA papers' recovery topology (ppa TKDE, section 7.1).

16 source tasks, then four operators of 8, 4, 2 and 1 tasks, each task merging two upstream
tasks. Every operator keeps the tuples of a sliding window (10 to 30 s, slide 1 s) and has
selectivity 0.5. The papers do not say what it computes; here it is a sum per key over the
window, once a slide. A key is seen twice a slide in each task's input, so half as many tuples
leave a task as enter it: at the sources by construction, further down because keys 2k and 2k + 1
become one, so that every task of every level receives twice the source rate, as in the papers.

The state is the window's input tuples themselves, not their sums: its size is what makes
recovery cost something (input rate × window at most)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.blocks import BlockSource
from datasets.fields import Layout
from harness.errors import UsageError
from harness.topology.named import recovery
from workloads.base import QUERY, TASKS, Entry, Query, Reference, Source, Workload
from workloads.toolkit import operators as ops
from workloads.toolkit.durations import interval
from workloads.toolkit.records import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEVELS = 4
TUPLE = Layout({"key": 6, "amount": 2})
KEYED = pa.schema([("key", pa.int64()), ("amount", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), *KEYED])


class KeyedTuples(BlockSource):
    """Tuples of ``partitions`` sources: each has ``keys`` keys of its own and takes them in turn.

    With half as many keys as tuples a second, every key comes twice a second."""

    def __init__(self, *, seed: int, partitions: int = 16, keys: int = 500) -> None:
        if not (partitions >= 1 and 1 <= partitions * keys <= 10**6):
            raise UsageError(
                f"{partitions} partitions with {keys} keys each",
                remedy="give at least one of each, and 1,000,000 keys in all at most",
            )
        super().__init__(seed=seed, name="synthetic")
        self.key_count = keys

    def draw(
        self, random: np.random.Generator, partition: int, indices: ops.Ints
    ) -> NDArray[np.void]:
        key = partition * self.key_count + indices % self.key_count
        return TUPLE.encode({"key": key, "amount": random.integers(0, 100, len(indices))})


def synthetic(
    *,
    seed: int = 0,
    levels: int = LEVELS,
    keys: int = 500,
    window_s: float = 10,
    slide_s: float = 1,
    watermark_delay_s: float = 1,
) -> Workload:
    """Sum in a chain of ``levels`` sliding windows over 2^``levels`` partitions of ``keys`` keys.

    Send 2 × ``keys`` tuples a second to each partition for selectivity 0.5."""
    if levels < 1:
        raise UsageError(f"{levels} levels", remedy="give at least one level")
    parameters = {
        "seed": seed,
        "levels": levels,
        "keys": keys,
        "window_s": window_s,
        "slide_s": slide_s,
        "watermark_delay_s": watermark_delay_s,
    }
    tuples = Reference(
        target="workloads.synthetic:KeyedTuples",
        parameters={"seed": seed, "partitions": 2**levels, "keys": keys},
    )
    return Workload(
        name="synthetic",
        sources=[Source(name="tuples", records=tuples, partitions=2**levels)],
        forms={
            QUERY: _query(levels, window_s, slide_s, watermark_delay_s),
            TASKS: Reference(target="workloads.synthetic:program", parameters={"levels": levels}),
        },
        identity=["window_start", "key"],
        values=["amount"],
        window_start="window_start",
        window_s=window_s,
        slide_s=slide_s,
        watermark_delay_s=watermark_delay_s,
        no_real_time=None
        if levels == 1
        else "its aggregations follow each other, and update mode allows one",
        windows_in_a_row=levels,
        reference=Reference(target="workloads.synthetic:synthetic", parameters=parameters),
    )


def _query(levels: int, window_s: float, slide_s: float, watermark_delay_s: float) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        level = whole(sources["tuples"], TUPLE, interval(watermark_delay_s))
        for number in range(levels):
            time = F.window_time("window") if number else F.col("timestamp")
            key = F.floor(F.col("key") / 2) if number else F.col("key")
            window = F.window(time, interval(window_s), interval(slide_s)).alias("window")
            level = level.groupBy(window, key.alias("key")).agg(F.sum("amount").alias("amount"))
        return level.select(F.col("window.start").alias("window_start"), "key", "amount")

    return query


# The same as a topology of tasks


def program(
    *, timeline: ops.Timeline, rate: float | None = None, levels: int = LEVELS
) -> ops.TableProgram:
    """Return the recovery topology (`harness.topology.named.recovery`) with code for its tasks.

    ``rate`` is tuples a second of all sources together, 1,000 for each by default."""
    each = 1_000.0 if rate is None else rate / 2**levels
    topology = recovery(each, levels=levels)
    names = [operator.name for operator in topology.operators[1:]]

    def task(operator: str, index: int) -> ops.TableTask:
        if operator == "source":
            return ReadTuples()
        first, last = operator == names[0], operator == names[-1]
        return WindowSum(timeline, halve=not first, final=last)

    return ops.TableProgram(
        topology=topology,
        task=task,
        sources={"source": "tuples"},
        timeline=timeline,
        windows_in_a_row=levels,
    )


class ReadTuples(ops.TableTask):
    """A source: records to keys and amounts."""

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        _, raw = ops.whole_records(ops.joined(inputs, ops.SOURCE_SCHEMA), TUPLE.size)
        return None, (pa.table(TUPLE.decode(raw), schema=KEYED),)


class WindowSum(ops.PaneTask):
    """Sums per key over the window, once a slide.

    ``halve`` makes keys 2k and 2k + 1 one; ``final`` gives results with their window instead of
    tuples for another level."""

    schema = KEYED

    def __init__(self, timeline: ops.Timeline, *, halve: bool, final: bool) -> None:
        super().__init__(timeline)
        self.halve, self.final = halve, final
        self.result = RESULT if final else KEYED

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        tuples = ops.joined(panes, KEYED)
        if self.halve:
            tuples = tuples.set_column(0, "key", pa.array(ops.numbers(tuples, "key") // 2))
        sums = ops.totals(tuples, ["key"], ["amount"])
        if not self.final:
            return sums
        start = ops.timestamps(np.full(sums.num_rows, window_start_us))
        return sums.add_column(0, "window_start", start)


ENTRY = Entry(
    name="synthetic",
    label="recovery topology",
    paper="ppa",
    make=synthetic,
    paper_rate_per_s=16_000.0,
)
"""1,000 tuples a second from each of 16 sources; the papers also use twice that."""
