"""A query that lives in a package of one's own, with its settings of Spark."""

import json
import random

from shopjob.job import sales

from workloads.base import Reference, Source, Workload


class Orders:
    """Made-up orders such as {"shop": 17, "cents": 2243}."""

    def __init__(self, seed):
        self.seed = seed

    def payloads(self, partition, start_index, count):
        return [self.order(partition, start_index + number) for number in range(count)]

    def order(self, partition, index):
        chance = random.Random(f"{self.seed} {partition} {index}")
        return json.dumps(
            {"shop": chance.randrange(200), "cents": chance.randrange(100, 10_000)}
        ).encode()


def query(spark, sources):
    return sales(sources["orders"])


WORKLOAD = Workload(
    name="packaged",
    sources=[
        Source(
            name="orders",
            records=Reference(target=f"{__file__}:Orders", parameters={"seed": 1}),
        )
    ],
    forms={"query": query},
    identity=["window_start", "kind"],
    values=["cents"],
    window_start="window_start",
    window_s=2,
    watermark_delay_s=1,
    packages=["shopjob"],  # what lies beside the file is sent anyway
    conf={"spark.locality.wait": "0s"},
)
