"""Visits per user: a state of one's own with timers of event time, by transformWithState.

A visit ends when a user has not clicked for 4 s of event time. The state store is RocksDB, which
this API of Spark needs. As a batch the same visits are session windows."""

import json
import random

from workloads.base import Reference, Source, Workload

USERS, GAP_MS = 40, 4000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Clicks:
    """Made-up clicks such as {"user": 17}; some users click often, others seldom."""

    def __init__(self, seed):
        self.seed = seed

    def payloads(self, partition, start_index, count):
        return [self.click(partition, start_index + number) for number in range(count)]

    def click(self, partition, index):
        chance = random.Random(f"{self.seed} {partition} {index}")
        return json.dumps({"user": int(USERS * chance.random() ** 3)}).encode()


def visits():
    """Return the processor of one user's clicks; made here, because PySpark takes a while."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Visits(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            # Newest click and number of clicks of each open visit, by its begin.
            self.open = handle.getMapState("open", "begin LONG", "newest LONG, clicks LONG")

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - names of Spark
            if key[0] is None:
                return  # markers
            for row in rows:
                self.add(row["ms"])
            yield from ()

        def add(self, ms):
            """Join the click with the visits that it touches: clicks come in any order."""
            begin, newest, clicks = ms, ms, 1
            for (other,), (last, count) in list(self.open.iterator()):
                if other - GAP_MS < ms < last + GAP_MS:
                    begin, newest, clicks = min(begin, other), max(newest, last), clicks + count
                    self.open.removeKey((other,))
                    self.handle.deleteTimer(last + GAP_MS)
            self.open.updateValue((begin,), (newest, clicks))
            self.handle.registerTimer(newest + GAP_MS)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
            now = timerValues.getCurrentWatermarkInMs()
            for (begin,), (newest, clicks) in list(self.open.iterator()):
                if newest + GAP_MS <= now:
                    self.open.removeKey((begin,))
                    yield Row(user=key[0], ends=newest + GAP_MS, begins=begin, clicks=clicks)

        def close(self):
            pass

    return Visits()


def clicks_of(sources):
    from pyspark.sql import functions as F

    click = F.from_json(F.col("value").cast("string"), "user LONG")
    return (
        sources["clicks"]
        .withWatermark("timestamp", "2 seconds")
        .select("timestamp", click["user"].alias("user"), F.unix_millis("timestamp").alias("ms"))
    )


def as_stream(spark, sources):
    from pyspark.sql import functions as F

    found = (
        clicks_of(sources)
        .groupBy("user")
        .transformWithState(
            statefulProcessor=visits(),
            outputStructType="user LONG, ends LONG, begins LONG, clicks LONG",
            outputMode="Append",
            timeMode="EventTime",
        )
    )
    return found.select(F.timestamp_millis("ends").alias("visit_end"), "user", "begins", "clicks")


def as_batch(spark, sources):
    from pyspark.sql import functions as F

    return (
        clicks_of(sources)
        .where("user IS NOT NULL")
        .groupBy(F.session_window("timestamp", f"{GAP_MS} milliseconds").alias("visit"), "user")
        .agg(F.count("ms").alias("clicks"), F.min("ms").alias("begins"))
        .select(F.col("visit.end").alias("visit_end"), "user", "begins", "clicks")
    )


WORKLOAD = Workload(
    name="visits",
    sources=[
        Source(
            name="clicks",
            records=Reference(target=f"{__file__}:Clicks", parameters={"seed": 1}),
            partitions=2,
        )
    ],
    forms={"query": as_stream, "batch": as_batch},
    identity=["visit_end", "user"],
    values=["begins", "clicks"],
    window_end="visit_end",
    window_s=4,
    watermark_delay_s=2,
    conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)
