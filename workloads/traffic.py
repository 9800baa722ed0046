"""Q2 of the PPA papers: incidents that jam the traffic.

The four operators of the papers (ppa TKDE, section 7.2 and Fig. 13):

* O1: the average speed of each road segment in each second, from the users' positions;
* O2: distinct incidents, from the users' reports;
* O3 joins them: an incident counts as a jam if its segment was slow in a second of the same
  pane (one slide) in which the incident was reported;
* O4: all distinct jam incidents of the sliding window, 5 min long with a slide of 10 s.

A segment is slow in a second when its users drove at less than ``slow_kmh`` on the average; the
papers give no threshold, 30 km/h is chosen. A result is one row per window: its start, and
``incidents``, the numbers of the incidents in ascending order as text; a window without jams
gives no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datasets.fields import Layout
from datasets.traffic import LOCATION, REPORT, Population
from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import QUERY, TASKS, Entry, Query, Reference, Source, Workload
from workloads.toolkit import operators as ops
from workloads.toolkit.durations import interval
from workloads.toolkit.records import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLOW_KMH = 30
SPEEDS = pa.schema(
    [("second", pa.int64()), ("segment", pa.int64()), ("total", pa.int64()), ("users", pa.int64())]
)
INCIDENTS = pa.schema([("segment", pa.int64()), ("incident", pa.int64())])
RESULT = pa.schema([("window_start", pa.timestamp("us")), ("incidents", pa.string())])
_SECOND_US = 1_000_000


def traffic_jams(
    *,
    seed: int = 0,
    users: int = 100_000,
    segments: int = 1_000,
    partitions: int = 2,
    window_s: float = 300,
    slide_s: float = 10,
    watermark_delay_s: float = 1,
    slow_kmh: int = SLOW_KMH,
) -> Workload:
    """Run Q2 over generated traffic.

    Send at `Population.location_rate` + `Population.report_rate` records a second in all for the
    papers' clock (20,098/s with 100,000 users)."""
    parameters = {
        "seed": seed,
        "users": users,
        "segments": segments,
        "partitions": partitions,
        "window_s": window_s,
        "slide_s": slide_s,
        "watermark_delay_s": watermark_delay_s,
        "slow_kmh": slow_kmh,
    }
    shape = {name: parameters[name] for name in list(parameters)[:4]}
    if slide_s % 1:
        raise UsageError(
            f"a slide of {slide_s} s cuts seconds apart, and speeds are per second",
            remedy="give a slide of whole seconds",
        )
    population = Population(users=users, segments=segments, partitions=partitions)
    return Workload(
        name="traffic-jams",
        sources=[
            Source(
                name="locations",
                records=Reference(target="datasets.traffic:Locations", parameters=shape),
                partitions=partitions,
                share=population.location_rate,
            ),
            Source(
                name="reports",
                records=Reference(target="datasets.traffic:Reports", parameters=shape),
                partitions=partitions,
                share=population.report_rate,
            ),
        ],
        forms={
            QUERY: _query(window_s, slide_s, watermark_delay_s, slow_kmh),
            TASKS: Reference(
                target="workloads.traffic:program",
                parameters={
                    name: parameters[name]
                    for name in ("users", "segments", "partitions", "slow_kmh")
                },
            ),
        },
        identity=["window_start"],
        values=["incidents"],
        window_start="window_start",
        window_s=window_s,
        slide_s=slide_s,
        watermark_delay_s=watermark_delay_s,
        no_real_time="it joins two streams",
        members=lambda row: set(parse_incidents(row["incidents"])),
        reference=Reference(target="workloads.traffic:traffic_jams", parameters=parameters),
    )


def _query(window_s: float, slide_s: float, watermark_delay_s: float, slow_kmh: int) -> Query:
    def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

        delay, slide = interval(watermark_delay_s), interval(slide_s)
        speeds = (
            whole(sources["locations"], LOCATION, delay)
            .groupBy(F.window("timestamp", "1 second").alias("second"), "segment")
            .agg(F.sum("speed").alias("total"), F.count("*").alias("users"))
            .where(F.col("total") < F.lit(slow_kmh) * F.col("users"))
            .select(
                F.window(F.window_time("second"), slide).alias("pane"),
                F.col("segment").alias("slow_segment"),
            )
        )
        incidents = (
            whole(sources["reports"], REPORT, delay)
            .groupBy(F.window("timestamp", slide).alias("reported"), "segment", "incident")
            .agg(F.count("*").alias("reports"))
        )
        jams = speeds.join(
            incidents,
            (F.col("pane") == F.col("reported")) & (F.col("slow_segment") == F.col("segment")),
        )
        window = F.window(F.window_time("pane"), interval(window_s), slide)
        found = F.array_join(F.array_sort(F.collect_set("incident")), " ")
        return (
            jams.groupBy(window.alias("window"))
            .agg(found.alias("incidents"))
            .select(F.col("window.start").alias("window_start"), "incidents")
        )

    return query


def parse_incidents(text: str) -> list[int]:
    """Return the incidents of a result."""
    return [int(number) for number in text.split()]


# The same as a topology of tasks


def program(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    users: int = 100_000,
    segments: int = 1_000,
    partitions: int = 4,
    slow_kmh: int = SLOW_KMH,
) -> ops.TableProgram:
    """Return Q2 as tasks.

    O1, O2 and O3 have one task per partition (a segment is in the same one everywhere), O4 has one.
    The papers' degrees are lost. ``rate`` is records per second in all, by default that of the
    papers' clock, spread evenly as segments are dealt out by their users."""
    population = Population(users=users, segments=segments, partitions=partitions)
    tasks, clock = partitions, population.location_rate + population.report_rate
    speed = 1.0 if rate is None else rate / clock
    location_rate, report_rate = speed * population.location_rate, speed * population.report_rate
    incident_rate = report_rate / population.mean_reports
    topology = Topology(
        operators=(
            Operator(
                name="speeds",
                parallelism=tasks,
                rate=(location_rate / tasks,) * tasks,
                selectivity=min(1.0, population.segments / population.location_rate),
            ),
            Operator(
                name="incidents",
                parallelism=tasks,
                rate=(report_rate / tasks,) * tasks,
                selectivity=incident_rate / report_rate,
            ),
            Operator(name="jams", parallelism=tasks, join=True),
            Operator(name="window", parallelism=1),
        ),
        edges=(
            Edge(upstream="speeds", downstream="jams", partitioning=Partitioning.ONE_TO_ONE),
            Edge(upstream="incidents", downstream="jams", partitioning=Partitioning.ONE_TO_ONE),
            Edge(upstream="jams", downstream="window", partitioning=ops.merging(tasks, 1)),
        ),
    )

    def task(operator: str, index: int) -> ops.TableTask:
        match operator:
            case "speeds":
                return SegmentSpeeds(timeline)
            case "incidents":
                return DistinctIncidents(timeline)
            case "jams":
                return JoinJams(timeline, slow_kmh)
            case _:
                return WindowIncidents(timeline)

    return ops.TableProgram(
        topology=topology,
        task=task,
        sources={"speeds": "locations", "incidents": "reports"},
        timeline=timeline,
    )


def _columns(inputs: Sequence[pa.Table], layout: Layout) -> tuple[ops.Ints, dict[str, ops.Ints]]:
    """Return the times in µs and the fields of the whole records among ``inputs``."""
    rows, raw = ops.whole_records(ops.joined(inputs, ops.SOURCE_SCHEMA), layout.size)
    return ops.numbers(rows, "timestamp"), layout.decode(raw)


class SegmentSpeeds(ops.TableTask):
    """O1: speeds and users per segment and second, sent when the second is over.

    The state is the second that is not over yet: nothing if batches end with seconds."""

    def __init__(self, timeline: ops.Timeline) -> None:
        self.timeline = timeline
        self.memory = max(1, -(-_SECOND_US // timeline.batch_us))

    def initial(self) -> pa.Table:
        return SPEEDS.empty_table()

    def work(
        self, state: pa.Table, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        time_us, fields = _columns(inputs, LOCATION)
        fresh = pa.table(
            {
                "second": time_us // _SECOND_US,
                "segment": fields["segment"],
                "total": fields["speed"],
                "users": np.ones(len(time_us), dtype=np.int64),
            }
        )
        speeds = ops.totals(
            ops.joined([state, fresh], SPEEDS), ["second", "segment"], ["total", "users"]
        )
        over = ops.numbers(speeds, "second") < self.timeline.end_us(batch) // _SECOND_US
        return speeds.filter(pa.array(~over)), (speeds.filter(pa.array(over)),)


class DistinctIncidents(ops.TableTask):
    """O2: each incident once per pane, when its first report of that pane comes.

    The state is the incidents of the pane so far."""

    def __init__(self, timeline: ops.Timeline) -> None:
        self.timeline = timeline
        self.memory = timeline.batches_per_slide

    def initial(self) -> pa.Table:
        return INCIDENTS.empty_table()

    def work(
        self, state: pa.Table, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[pa.Table, tuple[pa.Table, ...]]:
        _, fields = _columns(inputs, REPORT)
        reported = pa.table({name: fields[name] for name in INCIDENTS.names})
        # First appearances keep their order, so what is new stands behind what was known.
        known = ops.distinct(ops.joined([state, reported], INCIDENTS), INCIDENTS.names)
        fresh = known.slice(state.num_rows)
        return (self.initial() if self.timeline.ends_pane(batch) else known), (fresh,)


class JoinJams(ops.TableTask):
    """O3: incidents whose segment was slow in a second of the pane, when the pane ends.

    The state is the slow segments and the incidents of the pane so far."""

    def __init__(self, timeline: ops.Timeline, slow_kmh: int) -> None:
        self.timeline, self.slow_kmh = timeline, slow_kmh
        self.memory = timeline.batches_per_slide

    def initial(self) -> tuple[pa.Table, pa.Table]:
        return _SEGMENTS.empty_table(), INCIDENTS.empty_table()

    def work(
        self, state: tuple[pa.Table, pa.Table], batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[tuple[pa.Table, pa.Table], tuple[pa.Table, ...]]:
        # A missing input may be either of the two, so they are told apart by their columns.
        speeds = ops.joined([table for table in inputs if "total" in table.column_names], SPEEDS)
        slow = ops.numbers(speeds, "total") < self.slow_kmh * ops.numbers(speeds, "users")
        segments = speeds.filter(pa.array(slow)).select(_SEGMENTS.names)
        slow_segments = ops.distinct(ops.joined([state[0], segments], _SEGMENTS), _SEGMENTS.names)
        reported = [table for table in inputs if "incident" in table.column_names]
        incidents = ops.joined([state[1], *reported], INCIDENTS)
        if not self.timeline.ends_pane(batch):
            return (slow_segments, incidents), (INCIDENTS.empty_table(),)
        jams = np.isin(ops.numbers(incidents, "segment"), ops.numbers(slow_segments, "segment"))
        return self.initial(), (incidents.filter(pa.array(jams)),)


_SEGMENTS = pa.schema([("segment", pa.int64())])


class WindowIncidents(ops.PaneTask):
    """O4: the distinct jam incidents of each window."""

    schema, result = INCIDENTS, RESULT

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        incidents = np.unique(ops.numbers(ops.joined(panes, INCIDENTS), "incident"))
        if not len(incidents):
            return RESULT.empty_table()
        text = " ".join(map(str, incidents.tolist()))
        return pa.table(
            {"window_start": ops.timestamps([window_start_us]), "incidents": [text]}, schema=RESULT
        )


_PAPER = Population()
ENTRY = Entry(
    name="traffic-jams",
    label="traffic jams",
    paper="ppa",
    make=traffic_jams,
    paper_rate_per_s=_PAPER.location_rate + _PAPER.report_rate,
)
