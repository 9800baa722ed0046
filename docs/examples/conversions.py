"""Orders and payments per shop and window, joined: a full outer join of two sources."""

import json
import random

from workloads.base import Reference, Source, Workload

SHOPS = 200


class Amounts:
    """Made-up amounts such as {"shop": 17, "amount": 2243}; each source has shops without any."""

    def __init__(self, seed, shops):
        self.seed, self.shops = seed, shops

    def payloads(self, partition, start_index, count):
        return [self.amount(partition, start_index + number) for number in range(count)]

    def amount(self, partition, index):
        chance = random.Random(f"{self.seed} {partition} {index}")
        first, last = self.shops
        return json.dumps(
            {"shop": chance.randrange(first, last), "amount": chance.randrange(100, 10_000)}
        ).encode()


def per_shop(source, name):
    from pyspark.sql import functions as F

    amount = F.from_json(F.col("value").cast("string"), "shop INT, amount LONG")
    return (
        source.withWatermark("timestamp", "1 second")
        .select("timestamp", amount.alias("record"))
        .groupBy(F.window("timestamp", "4 seconds"), F.col("record.shop").alias("shop"))
        .agg(F.sum("record.amount").alias(name))
        .where(F.col(name) > 0)  # a marker is empty: it has no amount
    )


def query(spark, sources):
    from pyspark.sql import functions as F

    orders, payments = per_shop(sources["orders"], "ordered"), per_shop(sources["payments"], "paid")
    return orders.join(payments, ["window", "shop"], "full_outer").select(
        F.col("window.start").alias("window_start"), "shop", "ordered", "paid"
    )


def source(name, seed, shops):
    parameters = {"seed": seed, "shops": shops}
    return Source(
        name=name,
        records=Reference(target=f"{__file__}:Amounts", parameters=parameters),
        partitions=2,
    )


WORKLOAD = Workload(
    name="conversions",
    sources=[source("orders", 1, [0, 150]), source("payments", 2, [50, SHOPS])],
    forms={"query": query},
    identity=["window_start", "shop"],
    values=["ordered", "paid"],
    window_start="window_start",
    window_s=4,
    watermark_delay_s=1,
)
