"""What an application on a local cluster is configured with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import harness
from harness.cluster.base import ClusterSpec
from harness.cluster.connection import driver_configuration
from harness.cluster.local.programs import Programs
from harness.cluster.local.spark_standalone import rack_resource
from harness.cluster.processes import RUN_VARIABLE
from harness.errors import UsageError

REPOSITORY = Path(harness.__file__).parent.parent

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
"""Of the harness's environment; SPARK_*, HADOOP_* and JAVA options of the user's would change
what is measured."""

FIXED = {
    "spark.authenticate": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.speculation": "false",
    # A dead or frozen executor is given up after 20 s instead of two minutes.
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
    # A cancelled task that does not end takes its executor with it rather than blocking a slot.
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "30s",
    # A long task that emits nothing is not idle.
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.python.worker.faulthandler.enabled": "true",
    # The default pattern, and the Kafka credentials in sasl.jaas.config.
    "spark.redaction.regex": "(?i)secret|password|passwd|token|credential|access[.]?key|jaas",
}


def application_settings(
    *,
    master_url: str,
    spec: ClusterSpec,
    programs: Programs,
    run_directory: Path,
    racks: Sequence[str] | None,
) -> dict[str, str]:
    """Everything but the secret. Raises `UsageError` for racks that cannot be asked for."""
    java_options = f'-XX:-UsePerfData "-Djava.io.tmpdir={run_directory / "tmp"}"'
    return {
        **FIXED,
        "spark.master": master_url,
        "spark.jars": ",".join(str(jar) for jar in programs.connector_jars),
        "spark.executor.cores": str(spec.cores_per_worker),
        "spark.executor.memory": f"{spec.memory_mb_per_worker}m",
        "spark.executor.extraJavaOptions": java_options,
        "spark.driver.extraJavaOptions": java_options,
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.warehouse.dir": str(run_directory / "warehouse"),
        **_on_racks(spec, racks),
    }


def _on_racks(spec: ClusterSpec, racks: Sequence[str] | None) -> dict[str, str]:
    known = [f"r{number}" for number in range(1, spec.racks + 1)]
    wanted = set(known if racks is None else racks)
    if unknown := sorted(wanted - set(known)):
        raise UsageError(
            f"this cluster has no rack {', '.join(unknown)}",
            remedy=f"use one of its racks: {', '.join(known)}",
        )
    if wanted == set(known):
        return {}
    if len(wanted) != 1:
        raise UsageError(
            f"an application can be kept on one rack or use all of them, not on {sorted(wanted)}",
            remedy="name one rack, or start a cluster with other racks",
        )
    return {f"spark.executor.resource.{rack_resource(wanted.pop())}.amount": "1"}


def server_environment(programs: Programs, run_directory: Path) -> dict[str, str]:
    """The whole environment of every server; executors and their Python inherit it."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "JAVA_HOME": str(programs.java_home),
        "SPARK_HOME": str(programs.spark_home),
        # Without a distribution's directory layout Spark cannot tell its Scala version.
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(run_directory / "tmp"),
    }


def driver_environment(programs: Programs, run_directory: Path, run: str) -> dict[str, str]:
    """What a driver needs on top of its own environment."""
    return {
        "JAVA_HOME": str(programs.java_home),
        "SPARK_HOME": str(programs.spark_home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONF_DIR": str(driver_configuration(run_directory)),
        "SPARK_LOCAL_DIRS": str(run_directory / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
        RUN_VARIABLE: run,
    }
