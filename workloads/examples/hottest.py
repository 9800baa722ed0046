"""A workload of one's own, whole in one file: the hottest reading of every sensor.

    ./faultline run stock/worker-kill --workload workloads/examples/hottest.py

docs/own-workload.md goes through it line by line.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workloads.base import Reference, Source, Workload

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
        chance = random.Random(f"{self.seed} {partition} {index}")
        return b"%d,%d" % (chance.randrange(SENSORS), chance.gauss(2000, 300))


def query(spark: SparkSession, sources: Mapping[str, DataFrame]) -> DataFrame:
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


WORKLOAD = Workload(
    name="hottest",
    sources=[
        Source(
            name="readings",
            records=Reference(target=f"{__file__}:Readings", parameters={"seed": 1}),
            partitions=2,
        )
    ],
    query=query,
    identity=["window_start", "sensor"],
    values=["hottest"],
    window_start="window_start",
    window_s=WINDOW_S,
    slide_s=SLIDE_S,
    watermark_delay_s=DELAY_S,
)
