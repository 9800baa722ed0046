"""A workload of one's own, whole in one file: the hottest reading of every sensor.

    ./faultline run stock/worker-kill --workload workloads/examples/hottest.py
    ./faultline endure --kills 20 --workload workloads/examples/hottest.py

docs/own-workload.md explains the parts of such a file."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import QUERY, TASKS, Reference, Source, Workload
from workloads.toolkit.operators import (
    PaneTask,
    TableProgram,
    TableTask,
    Timeline,
    joined,
    timestamps,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SENSORS = 50
WINDOW_S, SLIDE_S, DELAY_S = 4, 1, 1


class Readings:
    """Made-up records such as ``b"17,2243"``: a sensor and hundredths of a degree."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [self.reading(partition, index) for index in range(start_index, start_index + count)]

    def reading(self, partition: int, index: int) -> bytes:
        """One record: a sensor and a reading."""
        chance = random.Random(f"{self.seed} {partition} {index}")
        return b"%d,%d" % (chance.randrange(SENSORS), chance.gauss(2000, 300))


def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Per window and sensor, the highest reading."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    fields = F.split(F.col("value").cast("string"), ",")
    sensor, hundredths = (F.get(fields, F.lit(i)).try_cast("int") for i in range(2))
    readings = (
        sources["readings"]
        .withWatermark("timestamp", f"{DELAY_S} seconds")
        .select("timestamp", sensor.alias("sensor"), hundredths.alias("hundredths"))
    )
    window = F.window("timestamp", f"{WINDOW_S} seconds", f"{SLIDE_S} seconds")
    return (
        readings.groupBy(window, "sensor")
        .agg(F.max("hundredths").alias("hottest"))
        .where(F.col("hottest").isNotNull())  # a marker is empty and has no reading
        .select(F.col("window.start").alias("window_start"), "sensor", "hottest")
    )


# The same as a topology of tasks, for the task engine: it may be left out.

READINGS = pa.schema([("sensor", pa.int32()), ("hundredths", pa.int32())])
RESULT = pa.schema(
    [("window_start", pa.timestamp("us")), ("sensor", pa.int32()), ("hottest", pa.int32())]
)
PARTITIONS = 2


def program(*, timeline: Timeline, rate: float | None = None) -> TableProgram:
    """Return the tasks: one reads each partition, and one keeps the windows."""
    each = (rate or 1_000.0) / PARTITIONS

    def task(operator: str, index: int) -> TableTask:
        return Read() if operator == "read" else Hottest(timeline)

    return TableProgram(
        topology=Topology(
            operators=(
                Operator(name="read", parallelism=PARTITIONS, rate=(each,) * PARTITIONS),
                Operator(name="hottest", parallelism=1),
            ),
            edges=(Edge(upstream="read", downstream="hottest", partitioning=Partitioning.FULL),),
        ),
        task=task,
        sources={"read": "readings"},
        timeline=timeline,
    )


class Read(TableTask):
    """Records to readings; what is none (a marker) is left out."""

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        values = [value for table in inputs for value in table.column("value").to_pylist()]
        parts = [value.split(b",") for value in values if value.count(b",") == 1]
        readings = [(int(sensor), int(hundredths)) for sensor, hundredths in parts]
        columns: list[Sequence[int]] = list(zip(*readings, strict=True)) or [[], []]
        return None, (pa.table([pa.array(c, pa.int32()) for c in columns], schema=READINGS),)


class Hottest(PaneTask):
    """Gathers readings, and gives the greatest of each sensor when a window ends."""

    schema, result = READINGS, RESULT

    def compact(self, pane: pa.Table) -> pa.Table:
        found = pane.group_by("sensor").aggregate([("hundredths", "max")])
        return pa.table([found["sensor"], found["hundredths_max"]], schema=READINGS)

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        found = self.compact(joined(panes, READINGS)).sort_by("sensor")
        start = timestamps([window_start_us] * found.num_rows)
        return pa.table([start, found["sensor"], found["hundredths"]], schema=RESULT)


WORKLOAD = Workload(
    name="hottest",
    sources=[
        Source(
            name="readings",
            records=Reference(target=f"{__file__}:Readings", parameters={"seed": 1}),
            partitions=PARTITIONS,
        )
    ],
    forms={QUERY: query, TASKS: Reference(target=f"{__file__}:program")},
    identity=["window_start", "sensor"],
    values=["hottest"],
    window_start="window_start",
    window_s=WINDOW_S,
    slide_s=SLIDE_S,
    watermark_delay_s=DELAY_S,
)
