"""What servers and applications of a local cluster are started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cluster import spark
from harness.cluster.base import ClusterSpec
from harness.cluster.programs import Programs


def application_settings(
    *,
    master_url: str,
    spec: ClusterSpec,
    programs: Programs,
    run_directory: Path,
    driver_host: str,
    racks: Sequence[str] | None,
) -> dict[str, str]:
    """Everything but the secret. Raises `UsageError` for racks that cannot be asked for."""
    return spark.application_settings(
        master_url=master_url,
        spec=spec,
        jars=programs.connector_jars,
        driver_host=driver_host,
        java_options=f'-XX:-UsePerfData "-Djava.io.tmpdir={run_directory / "tmp"}"',
        executor_python=sys.executable,
        warehouse=run_directory / "warehouse",
        racks=racks,
    )


def server_environment(programs: Programs, run_directory: Path) -> dict[str, str]:
    """The whole environment of every server; executors and their Python inherit it."""
    kept = {name: os.environ[name] for name in spark.KEPT if name in os.environ}
    return {
        **kept,
        "JAVA_HOME": str(programs.java_home),
        "SPARK_HOME": str(programs.spark_home),
        # Without a distribution's directory layout Spark cannot tell its Scala version.
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(spark.REPOSITORY),
        "TMPDIR": str(run_directory / "tmp"),
    }
