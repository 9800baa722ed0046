"""The session of a sample: which settings reach it, and what its JVM is started with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.engines.structured.session import FIXED, _of_java, settings_of, with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE = "spark.sql.streaming.stateStore.providerClass"


def test_settings_of_the_job_reach_it_and_those_of_a_cluster_do_not() -> None:
    found = settings_of(
        {
            STORE: "RocksDB", "spark.sql.session.timeZone": "Asia/Kolkata",
            "spark.sql.shuffle.partitions": "200", "spark.executor.memory": "8g",
        }
    )  # fmt: skip
    assert found[STORE] == "RocksDB"
    assert found["spark.sql.session.timeZone"] == "Asia/Kolkata"
    assert found["spark.sql.shuffle.partitions"] == FIXED["spark.sql.shuffle.partitions"] == "1"
    assert "spark.executor.memory" not in found


def test_a_secret_is_not_on_the_command_line_of_java() -> None:
    settings = settings_of({"spark.hadoop.fs.s3a.secret.key": "s3cret"})
    assert "s3cret" in settings.values()
    java = dict(_of_java(settings.items()))
    assert "spark.driver.extraJavaOptions" in java
    assert "s3cret" not in str(java)


@pytest.mark.spark
def test_a_session_that_runs_takes_settings_for_a_while(spark: SparkSession) -> None:
    before = spark.conf.get(STORE)
    with with_settings(spark, {STORE: "other", "spark.master": "no"}):
        assert spark.conf.get(STORE) == "other"
        assert spark.conf.get("spark.master") != "no"
    assert spark.conf.get(STORE) == before
