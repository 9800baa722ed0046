"""Jobs after public reports: what the sample accepts, and what it refuses with which words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.engines.structured import sample
from harness.engines.structured.local import sampled
from harness.errors import UsageError
from harness.results.record import Profile
from harness.stock_kills.scale import check_options
from tests.workloads.kit import loaded, write_rows
from workloads.base import Workload
from workloads.toolkit.recorded import Recording, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
HEAD = """
import json
import random

from workloads.base import Reference, Source, Workload


class Some:
    def payloads(self, partition, start_index, count):
        return [self.one(random.Random(f"{partition} {start_index + n}"), start_index + n)
                for n in range(count)]

    def keys(self, partition, start_index, count):
        return [b"odd" if n & 1 else None for n in range(start_index, start_index + count)]

    def one(self, chance, n):
        return json.dumps(%(record)s).encode()


def query(spark, sources):
    from pyspark.sql import functions as F

    def fields(name, schema):
        return sources[name].select(
            "timestamp", F.from_json(F.col("value").cast("string"), schema).alias("r"))

    def clicks(schema="k STRING, v INT"):
        return fields("a", schema).withWatermark("timestamp", "1 second")

%(query)s


WORKLOAD = Workload(
    name="some",
    sources=[
        Source(name=n, records=Reference(target=f"{__file__}:Some"), **%(source)s.get(n, {}))
        for n in %(sources)r
    ],
    **(dict(
        forms={"query": query}, window_start="window_start", window_s=4, watermark_delay_s=1,
        identity=["window_start", "k"], values=["n"],
    ) | dict(%(more)s)),
)
"""
WINDOWS = """    return (
        %s.groupBy(F.window(%s), %s).agg(F.count("r.v").alias("n")).where(F.col("n") > 0)
        .select(F.col("window.start").alias("window_start"), "window.end", "k", "n"))"""
K = 'F.col("r.k").alias("k")'
CLICKS = "clicks()"
LATE = (
    """    aged = fields("a", "k INT, v INT, age LONG")
    age = F.coalesce(F.col("r.age"), F.lit(0))
    aged = aged.withColumn("at", F.timestamp_millis(F.unix_millis("timestamp") - age))
    aged = aged.withWatermark("at", "1 second")
"""
    + WINDOWS % ("aged", '"at", "4 seconds"', K)
)
POLICIES = (
    """    def part(name, behind, delay):
        at = F.timestamp_millis(F.unix_millis("timestamp") - F.lit(behind))
        return fields(name, "k INT, v INT").withColumn("at", at).withWatermark("at", delay)

    both = part("a", 0, "1 second").unionByName(part("b", 6000, "9 seconds"))
"""
    + WINDOWS % ("both", '"at", "4 seconds"', K)
)
JOIN = """    def part(name, at, key):
        return fields(name, "k INT, v INT").select(
            F.col("timestamp").alias(at), F.coalesce("r.k", F.lit(-1)).alias(key), "r.v")

    left = part("a", "t", "k")
    right = part("b", "u", "kk").withWatermark("u", "1 second").drop("v")
    right = right.where("kk % 2 = 0 OR kk = -1")
    on = F.expr("k = kk AND u >= t AND u <= t + interval 1 second")
    return left.join(right, on, "left_outer").where("v IS NOT NULL").select(
        F.date_trunc("second", "t").alias("window_start"), "k", "kk")"""
UNION = (
    """    both = fields("a", "k INT, v INT").unionByName(fields("b", "k INT, v INT"))
    both = both.withWatermark("timestamp", "1 second")
"""
    + WINDOWS % ("both", '"timestamp", "4 seconds"', K)
)
COUNTS = """    def counts(name, n):
        seen = fields(name, "k INT, v INT").withWatermark("timestamp", "1 second")
        return (
            seen.groupBy(F.window("timestamp", "4 seconds"), F.col("r.k").alias("k"))
            .agg(F.count("r.v").alias(n)).where(F.col(n) > 0))

    both = counts("a", "n").join(counts("b", "m"), ["window", "k"], "left_outer")
    return both.select(F.col("window.start").alias("window_start"), "k", "n", "m")"""
LAGGING = {"sources": "ab", "query": COUNTS, "more": "values=['n', 'm']"}
EXPLODED = """    tags = clicks("tags ARRAY<STRING>").select(
        "timestamp", F.explode("r.tags").alias("k"))
    return (
        tags.groupBy(F.window("timestamp", "4 seconds"), "k").agg(F.count("k").alias("n"))
        .where(F.col("n") > 0).select(F.col("window.start").alias("window_start"), "k", "n"))"""
TAGS = {"record": '{"tags": ["all", f"tag {n % 3}"]}'}
MINUTE = {
    "query": WINDOWS % (CLICKS, '"timestamp", "60 seconds"', K),
    "more": "window_s=60",
}
CHAINED = """    key = F.col("r.k").alias("k")
    small = clicks().groupBy(F.window("timestamp", "2 seconds"), key).agg(
        F.count("r.v").alias("v"))
    return (
        small.groupBy(F.window(F.window_time("window"), "4 seconds"), "k")
        .agg(F.max("v").alias("n")).where(F.col("n") > 0)
        .select(F.col("window.start").alias("window_start"), "k", "n"))"""
LOOKED_UP = """    rows = [(k, f"shop {k}") for k in range(4)]
    shops = spark.createDataFrame(rows, "k LONG, name STRING")
    seen = clicks().select("timestamp", F.col("r.k").cast("long").alias("k"), "r.v")
    named = seen.join(F.broadcast(shops), "k", "left")
    return (
        named.groupBy(F.window("timestamp", "4 seconds"), F.col("name").alias("k"))
        .agg(F.count("v").alias("n")).where(F.col("n") > 0)
        .select(F.col("window.start").alias("window_start"), "k", "n"))"""
ONCE = (
    """    seen = clicks("k INT, v INT, id LONG").withColumn("id", F.col("r.id"))
    once = seen.dropDuplicates(["id", "timestamp"])
"""
    + WINDOWS % ("once", '"timestamp", "4 seconds"', K)
)
OVER = """    every = clicks().select("timestamp", F.col("r.k").alias("k"))
    count = "count(k) OVER (PARTITION BY k) AS n"
    return every.selectExpr("timestamp AS window_start", "k", count)"""
KEYED = """    clicks = sources["a"].withWatermark("timestamp", "1 second")
    who = F.col("key").cast("string").alias("k")
    return (
        clicks.groupBy(F.window("timestamp", "4 seconds"), who)
        .agg(F.sum(F.when(F.length("value") > 0, 1).otherwise(0)).alias("n"))
        .where(F.col("n") > 0)
        .select(F.col("window.start").alias("window_start"), "k", "n"))"""
STATE = """    import pandas as pd

    def count(key, frames, state):
        if state.hasTimedOut:
            n, = state.get
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "begin": [key[1]], "n": [n]})
            return
        n = sum(int(frame["v"].notna().sum()) for frame in frames)
        if n:
            state.update(((state.get[0] if state.exists else 0) + n,))
            state.setTimeoutTimestamp(int(key[1]) + 4000)

    ms = F.unix_millis("timestamp")
    clicks = fields("a", "k STRING, v INT").withWatermark("timestamp", "1 second").select(
        "timestamp", "r.k", "r.v", (ms - F.pmod(ms, F.lit(4000))).alias("begin"))
    found = clicks.groupBy("k", "begin").applyInPandasWithState(
        count, "k STRING, begin LONG, n LONG", "n LONG", "append", "EventTimeTimeout")
    return found.select(F.timestamp_millis("begin").alias("window_start"), "k", "n")


def batch(spark, sources):
    from pyspark.sql import functions as F

    r = F.from_json(F.col("value").cast("string"), "k STRING, v INT")
    return (
        sources["a"].groupBy(F.window("timestamp", "4 seconds"), r["k"].alias("k"))
        .agg(F.count(r["v"]).alias("n")).where(F.col("n") > 0)
        .select(F.col("window.start").alias("window_start"), "k", "n"))"""
NUMBERS = """    seen = clicks("k INT, v INT, exact STRING, big STRING, real STRING")
    real = F.col("real").cast("double")
    return (
        seen.select("timestamp", "r.*").groupBy(F.window("timestamp", "4 seconds"), "k").agg(
            F.count("v").alias("n"),
            F.sum(F.col("exact").cast("decimal(38,18)")).alias("total"),
            F.max(F.col("big").cast("decimal(20,0)") + 1).alias("beyond"),
            F.sum(real).alias("real"),
            F.array_sort(F.collect_set(real)).alias("reals"),
            F.max(F.from_utc_timestamp("timestamp", "America/New_York")).alias("local"))
        .where(F.col("n") > 0).withColumn("window_start", F.col("window.start")))"""
ODD = [None, "", " ", "null", "café", "café", "a\tb\nc", "\0", "\u2028", "x" * 3000, "0", "-0"]
SIMPLE = {
    "record": '{"k": n % 5, "v": 1}', "sources": "a", "source": "{}", "more": "",
    "query": WINDOWS % (CLICKS, '"timestamp", "4 seconds"', K),
}  # fmt: skip


def job(tmp_path: Path, **changes: str) -> Workload:
    return loaded(tmp_path / "some.py", HEAD % {**SIMPLE, **changes})


REFUSED = {
    "late": ({"record": '{"k": n % 3, "v": 1, "age": chance.randrange(30_000)}', "query": LATE},
             "late records were dropped by the watermark: ", "late_data=True"),
    "policy": ({"sources": "ab", "query": POLICIES,
                "more": f"watermark_delay_s=15, conf={{{POLICY!r}: 'max'}}"},
               "late records were dropped by the watermark: ", "multipleWatermarkPolicy at min"),
    "one side": ({"sources": "ab", "query": JOIN,
                  "record": '{"k": chance.randrange(2**29) * 2 + n % 2, "v": 1}',
                  "more": "values=['kk'], window_s=1"},
                 "a has no watermark, so the stream never gives", "on every source"),
    "no batch": ({"query": STATE}, "applyInPandasWithState is unsupported in batch", "'batch'"),
    "offset": ({"query": WINDOWS % (CLICKS, '"timestamp", "4 seconds", "4 seconds", "3 seconds"',
                                    K)},
               "they begin 3 s after each whole multiple of 4 s", "give window_end"),
    "a slow source": ({"sources": "ab", "source": "{'b': {'lag_s': 6}}", "query": UNION},
                      "late records were dropped by the watermark: ", "late_data=True"),
    "a join without keys": (
        {**LAGGING, "source": "{'b': {'lag_s': 6}}"},
        "Spark keeps only records with (from_json(CAST(value AS STRING)).`k` IS NOT NULL)",
        "a marker with a key"),
    "a lag in long windows": (
        {"sources": "ab", "source": "{'b': {'lag_s': 4}}", **MINUTE,
         "query": UNION.replace('"4 seconds"', '"60 seconds"')},
        "late records were dropped by the watermark: ", "watermark_delay_s to 4 s or more"),
    "an offline device": (
        {"source": "{'a': {'silent': {1: (58, 63)}}}", **MINUTE},
        "late records were dropped by the watermark: ", "watermark_delay_s to 5 s or more"),
    "an offline device over the end of a window": (
        {"source": "{'a': {'silent': {1: (11, 13.9)}}}"},
        "late records were dropped by the watermark: ", "watermark_delay_s to 2.9 s or more"),
    "devices offline in turn": (
        {"source": "{'a': {'silent': {0: (10, 25), 1: (40, 55)}}}"},
        "late records were dropped by the watermark: ", "watermark_delay_s to 15 s or more"),
    "over": ({"query": OVER}, "a function over a window of rows (OVER)", "groupBy(F.window("),
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", REFUSED)
def test_a_job_is_refused_with_its_cause(spark: SparkSession, tmp_path: Path, name: str) -> None:
    changes, what, remedy = REFUSED[name]
    with pytest.raises(UsageError) as caught:
        sampled(spark, job(tmp_path, **changes))
    assert what in caught.value.what, caught.value.what
    assert remedy in caught.value.remedy, caught.value.remedy


ACCEPTED = {
    "odd keys": {"record": f'{{"k": {ODD!r}[n % {len(ODD)}], "v": 1}}'},
    "the other policy": {"sources": "ab", "query": POLICIES, "more": "watermark_delay_s=15"},
    "a form for the batch": {"query": STATE, "more": "forms={'query': query, 'batch': batch}"},
    "offset by end": {
        "query": REFUSED["offset"][0]["query"],
        "more": "window_start='', window_end='end', identity=['end', 'k']",
    },
    "a join with keys in its markers": {
        **LAGGING,
        "source": """{'a': {'marker': b'{"k": -1}'}, 'b': {'lag_s': 60, 'marker': b'{"k": -1}'}}""",
    },
    "a source that is silent as a whole": {
        "source": "{'a': {'silent': {0: (10, 25), 1: (10, 25)}}}",
    },
    "exploded": {**TAGS, "query": EXPLODED},
    "behind the watermark, in an open window": {
        "record": '{"k": n % 3, "v": 1, "age": chance.randrange(6_000)}',
        "query": LATE.replace('"4 seconds"', '"60 seconds"'),
        "more": "window_s=60",
    },
    "within the delay": {
        "record": '{"k": n % 3, "v": 1, "age": chance.randrange(900)}',
        "query": LATE,
    },
    "an offline device within the delay": {"source": "{'a': {'silent': {1: (10, 10.9)}}}"},
    "chained windows": {"query": CHAINED, "more": "windows_in_a_row=2"},
    "a static table": {"query": LOOKED_UP},
    "no doubles": {"record": '{"k": n % 5, "v": 1, "id": n // 2}', "query": ONCE},
    "numbers and local times": {
        "record": """{"k": n % 3, "v": 1, "exact": f"{n}.{n:018d}", "big": str(2**63 - 1 - n % 2),
                      "real": ["NaN", "Infinity", "-0.0"][n % 3]}""",
        "query": NUMBERS,
        "more": "values=['n', 'total', 'beyond', 'real', 'reals', 'local']",
    },
    "records of 1.2 MB": {"record": '{"k": n % 3, "v": 1, "pad": "x" * 1_200_000}'},
    "broken records": {"record": '{"k": n % 5, "v": 1} if n % 3 else "broken"'},
    "the key of the record": {"query": KEYED, "record": '{"v": 1}'},
}


@pytest.mark.spark
@pytest.mark.parametrize("name", ACCEPTED)
def test_a_job_is_accepted(spark: SparkSession, tmp_path: Path, name: str) -> None:
    found = sampled(spark, job(tmp_path, **ACCEPTED[name]))
    assert (found.late, found.difference) == (0, "")
    assert (found.late_by_s > 0) == name.startswith("behind")
    if name == "a static table":
        assert found.results["k"].isna().any(), "what the table lacks is null, and not lost"
    if name == "numbers and local times":
        assert found.results["beyond"].max() == 2**63
    if name == "odd keys":
        assert {None if pd.isna(key) else key for key in found.results["k"]} == set(ODD)


@pytest.mark.spark
def test_a_setting_of_the_command_reaches_the_sample(spark: SparkSession, tmp_path: Path) -> None:
    workload = job(tmp_path, **ACCEPTED["the other policy"])
    with pytest.raises(UsageError, match="late records were dropped"):
        sampled(spark, workload, {POLICY: "max"})
    assert spark.conf.get(POLICY) == "min", "it is the sample's alone"


@pytest.mark.deep
def test_large_records_are_fewer_and_too_large_ones_refused(tmp_path: Path) -> None:
    workload = job(tmp_path, record='{"k": n % 3, "v": 1, "pad": "x" * 1_200_000}')
    rows = sample.rows_of(workload.sources[0], workload)
    assert {row[2] for row in rows} == {0, 1}, "each partition has some"
    assert sum(len(row[1]) for row in rows) <= 1.1 * sample.MOST_BYTES
    options = {"workload": tmp_path / "some.py"}
    with pytest.raises(UsageError, match=r"500 records/s of 1\.2 MB are 600 MB/s") as caught:
        check_options(Profile.QUICK, options)
    assert "--rate 4" in caught.value.remedy
    check_options(Profile.QUICK, {**options, "rate": 4.0})
    larger = job(tmp_path, record='{"k": 1, "v": 1, "pad": "x" * 17_000_000}')
    with pytest.raises(UsageError, match="a broker takes 16 MB"):
        sample.rows_of(larger.sources[0], larger)


@pytest.mark.parametrize(
    ("first", "where", "unit"),
    [
        (1_793_000_000, "in January 1970", "s"),
        (1_793_000_000_000_000, "about the year 58788", "us"),
    ],
)
def test_a_recording_in_another_unit_is_noticed(
    tmp_path: Path, first: int, where: str, unit: str
) -> None:
    path = write_rows(tmp_path / "some.csv", [{"at": first + n, "n": n} for n in range(9)])
    with pytest.raises(UsageError, match=where) as caught:
        Recording(str(path), "at", None, 1)
    assert f'unit="{unit}"' in caught.value.remedy
    assert Recording(str(path), "at", unit, 1).first_unix_s == 1_793_000_000


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_recording_has_keys_and_headers(tmp_path: Path, ending: str) -> None:
    rows = [{"at": 1_793_000_000_000 + n, "user": f"u{n}", "site": n} for n in range(4)]
    path = write_rows(tmp_path / f"some.{ending}", rows)
    source = recorded("some", path, time="at", key="user", headers=["site"])
    built = source.records.build()
    assert source.headers
    assert built.keys(1, 0, 3) == [b"u1", b"u3", b"u1"], "it begins anew"
    assert built.headers(1, 0, 2) == [[("site", b"1")], [("site", b"3")]]
    plain = recorded("some", path, time="at").records.build()
    assert plain.keys(0, 0, 2) == [None, None]
    assert not hasattr(plain, "headers")
    with pytest.raises(UsageError, match=r"no (column|record has a field) 'users'"):
        recorded("some", path, time="at", key="users").records.build()


def test_pods_without_a_volume_read_the_whole_store_at_each_start() -> None:
    asked = "advise --system kafka-streams --state 20GB --rate 5000 --mttf 30d --nodes 6"
    done = CliRunner().invoke(cli, asked.split())
    for words in ("restore       33.3 s", "a node's state, 3,333 MB", "num.standby.replicas"):
        assert words in done.output, done.output
