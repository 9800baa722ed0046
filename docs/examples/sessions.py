"""Sessions of users: clicks with at most 2 s between them, in doubles."""

import json
import random

from workloads.base import Reference, Source, Workload

USERS = 200


class Clicks:
    """Made-up clicks such as {"user": 17, "seconds": 0.4318}."""

    def __init__(self, seed):
        self.seed = seed

    def payloads(self, partition, start_index, count):
        return [self.click(partition, start_index + number) for number in range(count)]

    def click(self, partition, index):
        chance = random.Random(f"{self.seed} {partition} {index}")
        # Few users are busy, most come back after a pause: sessions of different lengths.
        user = int(USERS * chance.random() ** 3)
        return json.dumps({"user": user, "seconds": chance.random()}).encode()


def query(spark, sources):
    from pyspark.sql import functions as F

    click = F.from_json(F.col("value").cast("string"), "user INT, seconds DOUBLE")
    return (
        sources["clicks"]
        .withWatermark("timestamp", "1 second")
        .select("timestamp", click.alias("click"))
        .groupBy(
            F.session_window("timestamp", "2 seconds").alias("session"),
            F.col("click.user").alias("user"),
        )
        .agg(F.count("click.user").alias("clicks"), F.avg("click.seconds").alias("average"))
        .where(F.col("clicks") > 0)  # a marker is empty: it has no user to count
        .select(
            F.col("session.end").alias("session_end"),
            "user",
            F.col("session.start").alias("session_start"),
            "clicks",
            "average",
        )
    )


WORKLOAD = Workload(
    name="sessions",
    sources=[
        Source(
            name="clicks",
            records=Reference(target=f"{__file__}:Clicks", parameters={"seed": 1}),
            partitions=2,
        )
    ],
    forms={"query": query},
    identity=["session_end", "user"],
    values=["session_start", "clicks", "average"],
    window_end="session_end",  # sessions differ in length: the end says when one is due
    window_s=2,  # the gap
    watermark_delay_s=1,
)
