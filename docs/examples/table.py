"""Sales per shop, in a table of Parquet files: foreachBatch writes them, a batch query reads them.

Each batch has a directory of its own. One that is written again after a failure replaces what it
wrote before, so that no sale is in the table twice."""

import json
import random

from workloads.base import Reference, Source, Workload

SHOPS = 50


class Sales:
    """Made-up sales such as {"shop": 17, "cents": 2243}."""

    def __init__(self, seed):
        self.seed = seed

    def payloads(self, partition, start_index, count):
        return [self.sale(partition, start_index + number) for number in range(count)]

    def sale(self, partition, index):
        chance = random.Random(f"{self.seed} {partition} {index}")
        return json.dumps(
            {"shop": chance.randrange(SHOPS), "cents": chance.randrange(9999)}
        ).encode()


def query(spark, sources):
    from pyspark.sql import functions as F

    sale = F.from_json(F.col("value").cast("string"), "shop INT, cents LONG")
    return (
        sources["sales"]
        .withWatermark("timestamp", "2 seconds")
        .groupBy(F.window("timestamp", "4 seconds"), sale["shop"].alias("shop"))
        .agg(F.sum(sale["cents"]).alias("cents"), F.count(sale["cents"]).alias("sales"))
        .where(F.col("sales") > 0)
        .select(F.col("window.start").alias("window_start"), "shop", "cents", "sales")
    )


def write(batch, batch_id, path):
    batch.write.mode("overwrite").parquet(f"{path}/batch={batch_id}")


def read(spark, path):
    return spark.read.parquet(path)


WORKLOAD = Workload(
    name="table",
    sources=[
        Source(
            name="sales",
            records=Reference(target=f"{__file__}:Sales", parameters={"seed": 1}),
            partitions=2,
        )
    ],
    forms={"query": query, "sink": write, "reader": read},
    identity=["window_start", "shop"],
    values=["cents", "sales"],
    window_start="window_start",
    window_s=4,
    watermark_delay_s=2,
)
