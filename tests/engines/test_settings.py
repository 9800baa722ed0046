"""Settings: what was asked for against what the running system reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.base import ClusterSpec, Node
from harness.engines.base import Setup
from harness.engines.flink import engine as flink
from harness.engines.flink.settings import java_command
from harness.engines.kafka_streams import engine as streams
from harness.engines.settings import (
    FIRST_COMPILER,
    Setting,
    demand_reported,
    java_options,
    read_back,
    speed_of,
    table,
)
from harness.engines.structured.applications import application_conf, read_back_of
from harness.errors import EnvironmentFailure


def test_what_does_not_run_as_asked_is_an_error_with_both_values() -> None:
    asked = {"delay": "100 ms", "type": "exponential", "left": None, "on": "true"}
    found = list(read_back("the master", asked, {"delay": "1000 ms", "left": 45, "on": True}))
    with pytest.raises(EnvironmentFailure) as caught:
        demand_reported("flink", found)
    assert caught.value.what == (
        "engine flink does not run with the settings of its row: delay of the master is 1000 ms, "
        "and 100 ms was asked for; type of the master is not reported, and exponential was asked "
        "for"
    )
    assert found[2] == Setting(part="the master", name="left", asked=None, reported="45")
    demand_reported("flink", found[2:])


def test_a_run_keeps_a_row_for_equal_reports() -> None:
    both = [
        one
        for part in ("r1n1", "r2n1")
        for one in read_back(part, {"a": "1", "b": None}, {"a": 1, "b": part})
    ]
    rows = table(both).to_dict("records")
    assert [(row["part"], row["name"], row["reported"]) for row in rows] == [
        ("r1n1 r2n1", "a", "1"), ("r1n1", "b", "r1n1"), ("r2n1", "b", "r2n1"),
    ]  # fmt: skip
    assert list(table([]).columns) == list(table(both).columns)


SPEC = ClusterSpec(racks=2, nodes_per_worker=2, memory_mb_per_worker=1280)


@pytest.mark.parametrize("brief", [False, True])
def test_every_engine_gives_its_java_the_same_memory_and_compilers(
    brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimpleNamespace(spec=SPEC)
    job = SimpleNamespace(
        setup=Setup(scheme="x", brief=brief),
        node=Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.0.2"),
    )
    conf = application_conf(
        {"spark.executor.extraJavaOptions": "-XX:-UsePerfData"}, name="x", cores=2, brief=brief
    )
    spark = ["-Xmx640m", *conf["spark.executor.extraJavaOptions"].split()]
    own = streams._java(cast(Any, job), cast(Any, cluster))
    heap_mb = SPEC.memory_mb_per_node
    command = java_command(flink.HERE, [], "Main", heap_mb=heap_mb, direct_mb=1, brief=brief)
    wanted = "-XX:TieredStopAtLevel=1 -Xmx640m" if brief else "-Xmx640m"
    assert speed_of(own) == speed_of(command) == speed_of(spark) == wanted
    assert (FIRST_COMPILER in java_options(heap_mb, brief=brief)) is brief


def test_spark_reports_its_session_and_no_secret() -> None:
    conf = application_conf({}, name="x", cores=2, own={"spark.locality.wait": "0s"})
    secret, log = "spark.hadoop.fs.s3a.secret.key", "spark.eventLog.dir"
    said = {
        "values": {**conf, "spark.locality.wait": "3s"},
        "java": ["-Xmx768m", "-Dx=y"],
        "state_tasks": [2, 2],
    }
    found = {
        one.name: one
        for one in read_back_of(conf, ["spark.locality.wait", secret, log], said, "checkpoint-0")
    }
    assert not {secret, log} & found.keys()
    assert (found["options of Java"].asked, found["options of Java"].reported) == (
        "-Xmx768m", "-Xmx768m",
    )  # fmt: skip
    assert found["numShufflePartitions"].reported == "2 2"
    with pytest.raises(EnvironmentFailure, match=r"spark.locality.wait of checkpoint-0 is 3s"):
        demand_reported("structured", list(found.values()))
