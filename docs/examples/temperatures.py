"""Mean temperature per hour and sensor, in doubles, from a directory of recorded Parquet files.

``./faultline try temperatures.py --speed 1800``: an hour of event time passes in two seconds."""

from pathlib import Path

from workloads.base import Workload
from workloads.toolkit.recorded import recorded


def query(spark, sources):
    from pyspark.sql import functions as F

    reading = F.from_json(F.col("value").cast("string"), "sensor STRING, celsius DOUBLE")
    return (
        sources["readings"]
        .withWatermark("timestamp", "10 minutes")
        .select("timestamp", reading.alias("reading"))
        .groupBy(F.window("timestamp", "1 hour"), F.col("reading.sensor").alias("sensor"))
        .agg(F.avg("reading.celsius").alias("mean"), F.count("reading.celsius").alias("readings"))
        .where(F.col("readings") > 0)  # a marker is empty: it has no reading
        .select(
            F.col("window.start").alias("window_start"),
            "sensor",
            "mean",
            "readings",
            F.to_date("window.start").alias("day"),
        )
    )


WORKLOAD = Workload(
    name="temperatures",
    sources=[
        recorded(
            "readings", Path(__file__).parent / "temperatures", time="measured_at", partitions=2
        )
    ],
    forms={"query": query},
    identity=["window_start", "sensor"],
    values=["mean", "readings", "day"],
    window_start="window_start",
    window_s=3600,
    watermark_delay_s=600,
)
