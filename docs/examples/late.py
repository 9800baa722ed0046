"""Readings that come late: event time is in the record, and some are later than the watermark.

`late_data=True` makes the dropped records a quantity of the result: how many without a kill, and
how many with it. Records have keys and a header; one partition of four is hot, one is silent."""

import json
import random

from workloads.base import Reference, Source, Workload

DELAY_S, LATEST_MS = 4, 30_000


class Readings:
    """Readings such as {"age_ms": 1250}, measured that long before they were sent."""

    def __init__(self, seed):
        self.seed = seed

    def chance(self, partition, index):
        return random.Random(f"{self.seed} {partition} {index}")

    def payloads(self, partition, start_index, count):
        return [self.reading(partition, start_index + number) for number in range(count)]

    def reading(self, partition, index):
        chance = self.chance(partition, index).random()
        return json.dumps({"age_ms": int(LATEST_MS * chance**8)}).encode()

    def keys(self, partition, start_index, count):
        return [f"sensor-{(start_index + number) % 20}".encode() for number in range(count)]

    def headers(self, partition, start_index, count):
        return [[("site", b"north" if partition else b"south")]] * count


def query(spark, sources):
    from pyspark.sql import functions as F

    age_ms = F.from_json(F.col("value").cast("string"), "age_ms LONG")["age_ms"]
    # A marker has no age: it moves event time on to its own timestamp.
    at = F.timestamp_millis(F.unix_millis("timestamp") - F.coalesce(age_ms, F.lit(0)))
    site = F.get("headers", F.lit(0))["value"].cast("string")
    return (
        sources["readings"]
        .select(at.alias("at"), F.col("key").cast("string").alias("sensor"), site.alias("site"))
        .withWatermark("at", f"{DELAY_S} seconds")
        .groupBy(F.window("at", "4 seconds"), "sensor", "site")
        .agg(F.count("sensor").alias("readings"))
        .where(F.col("readings") > 0)
        .select(F.col("window.start").alias("window_start"), "sensor", "site", "readings")
    )


WORKLOAD = Workload(
    name="late",
    sources=[
        Source(
            name="readings",
            records=Reference(target=f"{__file__}:Readings", parameters={"seed": 1}),
            partitions=4,
            skew=[5, 1, 1, 0],
            headers=True,
            options={"maxOffsetsPerTrigger": "5000"},
        )
    ],
    forms={"query": query},
    identity=["window_start", "sensor", "site"],
    values=["readings"],
    window_start="window_start",
    window_s=4,
    watermark_delay_s=DELAY_S,
    late_data=True,
)
