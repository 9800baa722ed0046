"""The query as it runs in production: it takes any DataFrame of records."""

from pyspark.sql import functions as F

from shopjob.prices import kind_of


def sales(records):
    kind = F.udf(kind_of, "STRING")
    order = F.from_json(F.col("value").cast("string"), "shop INT, cents LONG")
    return (
        records.withWatermark("timestamp", "1 second")
        .select("timestamp", order.alias("order"))
        .groupBy(F.window("timestamp", "2 seconds"), kind("order.cents").alias("kind"))
        .agg(F.sum("order.cents").alias("cents"))
        .where(F.col("cents") > 0)  # a marker is empty: it has no cents
        .select(F.col("window.start").alias("window_start"), "kind", "cents")
    )
