"""Q1 of the PPA papers: the top 100 entries of the World Cup site, by hierarchical aggregation.

Three levels, as the papers draw them (ppa TKDE, section 7.2 and Fig. 13):

* O1, partitioned by server: every partition is cut into slices of 100 tuples, slice number
  ⌊offset / 100⌋, and requests are counted per slice and object;
* O2 merges every 100 of those counts;
* O3, one task, keeps the sums of the sliding window and gives its 100 most requested objects,
  ties going to the lower object id.

The window is one of event time (intended send time), which the papers call sliding and give no
length; ours is 10 s with a slide of 2 s unless asked otherwise. A slice that the end of a pane
(one slide) cuts counts in both panes with the tuples that fell there. So slices decide how much
travels between the levels, never what a window's result is, and a window is final as soon as
the watermark has passed its end.

A result is one row per window: its start, and ``top``, the text "id:requests id:requests …" in
order. One row, so that a reader can never see half of a top 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.worldcup.facts import DAY_66_REQUESTS
from datasets.worldcup.format import RECORD, RECORD_BYTES
from datasets.worldcup.generator import REPLAY_FACTOR, Day66
from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import QUERY, TASKS, Entry, Query, Reference, Source, Workload
from workloads.toolkit import operators as ops
from workloads.toolkit.durations import interval, sql_seconds
from workloads.toolkit.records import behind_watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLICE_TUPLES = 100
TOP = 100
OBJECT_AT = 8
"""First byte of a record's object, four bytes (`datasets.worldcup.format`)."""
SLICERS_PER_MERGER = 5
COUNTS = pa.schema([("object", pa.int64()), ("requests", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), ("top", pa.string())])


def world_cup(
    *,
    seed: int = 0,
    partitions: int = 2,
    requests: int = DAY_66_REQUESTS,
    start_share: float = 0.5,
    window_s: float = 10,
    slide_s: float = 2,
    watermark_delay_s: float = 1,
    mergers: int | None = None,
) -> Workload:
    """Q1 over generated records of day 66.

    ``start_share`` is how much of the day's requests have passed when the run begins: 0.5 is in
    the hour after the first match. Send at 40,718 records a second for the papers' replay.
    ``mergers`` is the degree of O2 (`program`)."""
    parameters = {
        "seed": seed,
        "partitions": partitions,
        "requests": requests,
        "start_share": start_share,
        "window_s": window_s,
        "slide_s": slide_s,
        "watermark_delay_s": watermark_delay_s,
    }
    records = Reference(
        target="datasets.worldcup.generator:Day66",
        parameters={name: parameters[name] for name in list(parameters)[:4]},
    )
    return Workload(
        name="world-cup",
        sources=[Source(name="requests", records=records, partitions=partitions)],
        forms={
            QUERY: _query(window_s, slide_s, watermark_delay_s),
            TASKS: Reference(
                target="workloads.worldcup:program",
                parameters={"slicers": partitions, "mergers": mergers},
            ),
            "kafka-streams": {
                "class": "faultline.TopK",
                "counters": 1,
                "record.bytes": RECORD_BYTES,
                "object.offset": OBJECT_AT,
                "top": TOP,
            },
            "flink": _flink(window_s, slide_s),
        },
        identity=["window_start"],
        values=["top"],
        window_start="window_start",
        window_s=window_s,
        slide_s=slide_s,
        watermark_delay_s=watermark_delay_s,
        no_real_time="its three aggregations follow each other, and update mode allows one",
        members=lambda row: {item for item, _ in parse_top(row["top"])},
        reference=Reference(
            target="workloads.worldcup:world_cup", parameters={**parameters, "mergers": mergers}
        ),
    )


def _query(window_s: float, slide_s: float, watermark_delay_s: float) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        requests = (
            sources["requests"]
            .withWatermark("timestamp", interval(watermark_delay_s))
            .where(behind_watermark(F.length("value") == RECORD_BYTES))
            .select(
                "timestamp",
                "partition",
                F.floor(F.col("offset") / SLICE_TUPLES).alias("slice"),
                F.substring("value", 9, 4).alias("object"),
            )
        )
        pane = F.window("timestamp", interval(slide_s)).alias("pane")
        slices = requests.groupBy(pane, "partition", "slice", "object").agg(
            F.count("*").alias("requests")
        )
        window = F.window(F.window_time("pane"), interval(window_s), interval(slide_s))
        merged = slices.groupBy(window.alias("window"), "object").agg(
            F.sum("requests").alias("requests")
        )
        # The object stays four raw bytes up to here: decoding each record would cost more than
        # counting it. Least first by (−requests, id) is most requested first, ties by id.
        number = F.conv(F.hex("object"), 16, 10).cast("long")
        ranked = F.array_sort(
            F.collect_list(F.struct((-F.col("requests")).alias("rank"), number.alias("object")))
        )
        entries = F.transform(
            F.slice(ranked, 1, TOP), lambda entry: F.concat_ws(":", entry.object, -entry.rank)
        )
        return (
            merged.groupBy("window")
            .agg(F.array_join(entries, " ").alias("top"))
            .select(F.col("window.start").alias("window_start"), "top")
        )

    return query


def _flink(window_s: float, slide_s: float) -> Mapping[str, Any]:
    """Return the same in Flink SQL (`harness.engines.flink.sql`).

    A byte is a character of Latin-1, and its value is its place among all of them: there is no
    function that gives it. The entries of a window are sorted as text by their rank, so that it
    does not matter in what order they come."""
    every = "".join(f"\\{byte:04x}" for byte in range(256))
    number = "CAST(0 AS BIGINT)"
    for place in range(OBJECT_AT + 1, OBJECT_AT + 5):  # SQL counts from 1
        byte = f"POSITION(SUBSTRING(`value`, {place}, 1) IN U&'{every}') - 1"
        number = f"({number}) * 256 + {byte}"
    hop = f"HOP(TABLE hits, DESCRIPTOR(`at`), {sql_seconds(slide_s)}, {sql_seconds(window_s)})"
    entry = "LPAD(CAST(`place` AS STRING), 3, '0') || ',' || CAST(`object` AS STRING) || ':' || "
    entries = f"ARRAY_SORT(ARRAY_AGG({entry}CAST(`number` AS STRING)))"
    return {
        "charset": "ISO-8859-1",
        "views": {
            "hits": f"SELECT `at`, {number} AS `object` FROM requests "
            f"WHERE CHAR_LENGTH(`value`) = {RECORD_BYTES}",
            "counted": "SELECT window_start, window_end, `object`, COUNT(*) AS `number` "
            f"FROM TABLE({hop}) GROUP BY window_start, window_end, `object`",
            "ranked": "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
            "ORDER BY `number` DESC, `object`) AS `place` FROM counted",
            "best": f"SELECT * FROM ranked WHERE `place` <= {TOP}",
        },
        "query": (
            f"SELECT window_start, REGEXP_REPLACE(ARRAY_JOIN({entries}, ' '), '[0-9]{{3}},', '') "
            "AS `top` FROM best GROUP BY window_start, window_end"
        ),
    }


def parse_top(text: str) -> list[tuple[int, int]]:
    """Return the (object, requests) pairs of a result, most requested first."""
    pairs = (entry.split(":") for entry in text.split())
    return [(int(item), int(requests)) for item, requests in pairs]


# The same as a topology of tasks


def program(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    slicers: int = 20,
    mergers: int | None = None,
    full: bool = False,
) -> ops.TableProgram:
    """Q1 as tasks: ``slicers`` (O1, one per partition), ``mergers`` (O2) and one top task (O3).

    20 slicers follow from the papers' "20 MC-trees"; a merger for every five of them is chosen.
    With ``full`` every slicer sends to every merger, by object: then the MC-trees are as many as
    slicers times mergers. ``rate`` is records per second in all, by default the mean of the papers'
    replay."""
    if mergers is None:
        mergers = max(1, slicers // SLICERS_PER_MERGER)
    total = DAY_66_REQUESTS * REPLAY_FACTOR / 86_400 if rate is None else rate
    shares = [_share(slicers, task) for task in range(slicers)]
    topology = Topology(
        operators=(
            Operator(name="slice", parallelism=slicers, rate=tuple(total * s for s in shares)),
            Operator(name="merge", parallelism=mergers),
            Operator(name="top", parallelism=1),
        ),
        edges=(
            Edge(
                upstream="slice",
                downstream="merge",
                partitioning=Partitioning.FULL if full else ops.merging(slicers, mergers),
            ),
            Edge(upstream="merge", downstream="top", partitioning=ops.merging(mergers, 1)),
        ),
    )

    def task(operator: str, index: int) -> ops.TableTask:
        if operator == "slice":
            slices = SliceCount(timeline)
            return ByObject(slices, mergers) if full else slices
        return MergeCounts(timeline) if operator == "merge" else Top(timeline)

    return ops.TableProgram(
        topology=topology, task=task, sources={"slice": "requests"}, timeline=timeline
    )


def _share(partitions: int, partition: int) -> float:
    if partitions > 30:
        raise UsageError(
            f"{partitions} slicers cannot share 30 servers", remedy="give at most 30 slicers"
        )
    return Day66(seed=0, partitions=partitions).share(partition)


class SliceCount(ops.TableTask):
    """O1: counts per object within each slice of 100 tuples of its partition.

    The state is the slice that is not full yet. It is sent when its last tuple has come or its
    pane ends, whichever is first."""

    def __init__(self, timeline: ops.Timeline) -> None:
        self.timeline = timeline
        self.memory = timeline.batches_per_slide

    def initial(self) -> pa.Table:
        return _NO_SLICE

    def work(
        self, state: pa.Table, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        table = ops.joined(inputs, ops.SOURCE_SCHEMA)
        whole, raw = ops.whole_values(table, RECORD_BYTES)
        if not len(raw):
            return self._without_records(state, batch)
        offsets = ops.numbers(table, "offset")[whole]
        objects = raw.reshape(-1).view(RECORD)["object"]
        keys, requests = ops.summed(
            np.concatenate([_keys(state), _key(offsets // SLICE_TUPLES, objects)]),
            np.concatenate([ops.numbers(state, "requests"), np.ones(len(raw), dtype=np.int64)]),
        )
        # Keys ascend, so those of the slice that is not full yet are the last ones.
        last, open_from = int(offsets[-1]), len(keys)
        if not self.timeline.ends_pane(batch) and last % SLICE_TUPLES != SLICE_TUPLES - 1:
            open_from = int(np.searchsorted(keys, last // SLICE_TUPLES << OBJECT_BITS))
        ready = _counts(keys[:open_from] & _OBJECT, requests[:open_from])
        if open_from == len(keys):
            return self.initial(), (ready,)
        kept = [keys[open_from:] >> OBJECT_BITS, keys[open_from:] & _OBJECT, requests[open_from:]]
        return pa.Table.from_arrays([pa.array(part) for part in kept], schema=_SLICED), (ready,)

    def _without_records(
        self, state: pa.Table, batch: int
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        """Keep the open slice until its pane ends."""
        if state.num_rows and self.timeline.ends_pane(batch):
            return self.initial(), (state.select(COUNTS.names),)
        return state, (_NO_COUNTS,)


class ByObject(ops.TableTask):
    """O1 where each merger has objects of its own: the counts of ``inner``, split."""

    def __init__(self, inner: SliceCount, mergers: int) -> None:
        self.inner, self.mergers = inner, mergers
        self.memory = inner.memory

    def initial(self) -> pa.Table:
        return self.inner.initial()

    def work(
        self, state: pa.Table, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        state, (counts,) = self.inner.work(state, batch, inputs)
        return state, ops.split_rows(
            counts, ops.numbers(counts, "object") % self.mergers, self.mergers
        )


_SLICED = pa.schema([("slice", pa.int64()), *COUNTS])
_NO_SLICE, _NO_COUNTS = _SLICED.empty_table(), COUNTS.empty_table()
"""Made once: most batches of a slow partition are empty, and cost next to nothing."""
OBJECT_BITS = 32
"""Bits of an object's number; above them a key has the slice, or the place of a hundred."""
_OBJECT = (1 << OBJECT_BITS) - 1


def _key(group: ops.Ints, objects: NDArray[Any]) -> ops.Ints:
    key: ops.Ints = group << OBJECT_BITS | objects.astype(np.int64)
    return key


def _keys(state: pa.Table) -> ops.Ints:
    return _key(ops.numbers(state, "slice"), ops.numbers(state, "object"))


def _counts(objects: ops.Ints, requests: ops.Ints) -> pa.Table:
    return pa.Table.from_arrays([pa.array(objects), pa.array(requests)], schema=COUNTS)


class MergeCounts(ops.TableTask):
    """O2: sums per object over every 100 input tuples; the rest waits, until its pane ends."""

    def __init__(self, timeline: ops.Timeline) -> None:
        self.timeline = timeline
        self.memory = timeline.batches_per_slide

    def initial(self) -> pa.Table:
        return _NO_COUNTS

    def work(
        self, state: pa.Table, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        ends = self.timeline.ends_pane(batch)
        fresh = [table for table in inputs if table.num_rows]
        if not fresh and not (state.num_rows and ends):
            return state, (_NO_COUNTS,)
        waiting = ops.joined([state, *fresh], COUNTS)
        full = waiting.num_rows if ends else waiting.num_rows - waiting.num_rows % SLICE_TUPLES
        if not full:
            return waiting, (_NO_COUNTS,)
        taken = waiting.slice(0, full)
        hundreds = np.arange(full) // SLICE_TUPLES
        keys, requests = ops.summed(
            _key(hundreds, ops.numbers(taken, "object")), ops.numbers(taken, "requests")
        )
        return waiting.slice(full).combine_chunks(), (_counts(keys & _OBJECT, requests),)


class Top(ops.PaneTask):
    """O3: sums per object and pane, and the top 100 of each window when it ends."""

    schema, result = COUNTS, RESULT

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        fresh = [table for table in inputs if table.num_rows]
        return pa.concat_tables([pane, *fresh]) if fresh else pane

    def compact(self, pane: pa.Table) -> pa.Table:
        return _by_object([pane])

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        window = _by_object(panes)
        if not window.num_rows:
            return self.nothing
        start = ops.timestamps([window_start_us])
        return pa.table({"window_start": start, "top": [top_text(window)]}, schema=RESULT)


def _by_object(tables: Sequence[pa.Table]) -> pa.Table:
    rows = ops.joined([table for table in tables if table.num_rows], COUNTS)
    if not rows.num_rows:
        return rows
    return _counts(*ops.summed(ops.numbers(rows, "object"), ops.numbers(rows, "requests")))


def top_text(counts: pa.Table) -> str:
    """Return the 100 most requested objects of ``counts`` as a result's text; ties go by id."""
    objects, requests = ops.numbers(counts, "object"), ops.numbers(counts, "requests")
    order = np.lexsort((objects, -requests))[:TOP]
    return " ".join(f"{objects[i]}:{requests[i]}" for i in order.tolist())


ENTRY = Entry(
    name="world-cup",
    label="World Cup top 100",
    paper="ppa",
    make=world_cup,
    paper_rate_per_s=DAY_66_REQUESTS * REPLAY_FACTOR / 86_400,
)
"""The paper replays the whole day 48 times as fast."""
