"""Settings of Spark applications, and the environment of everything that is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness.cluster.base import ClusterSpec
from harness.errors import UsageError

REPOSITORY = Path(harness.__file__).parent.parent

KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_STATE_HOME",
)  # fmt: skip
"""Variables that are taken from the harness's environment; the user's SPARK_*, HADOOP_* and JAVA
options would change what is measured."""

LOG4J = """\
status=error
appender.c.type=Console
appender.c.name=C
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex
rootLogger.level=warn
rootLogger.appenderRef.c.ref=C
logger.m.name=org.apache.spark.deploy.master.Master
logger.m.level=info
logger.w.name=org.apache.spark.deploy.worker.Worker
logger.w.level=info
# Two warnings that every start repeats and nobody can act on: no native Hadoop library, and an
# executor resource (the rack) that no single task asks for.
logger.n.name=org.apache.hadoop.util.NativeCodeLoader
logger.n.level=error
logger.r.name=org.apache.spark.resource.ResourceProfile
logger.r.level=error
"""

FIXED = {
    "spark.authenticate": "true",
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
    # The default pattern, and the Kafka credentials in sasl.jaas.config and ssl.keystore.key.
    "spark.redaction.regex": (
        "(?i)secret|password|passwd|token|credential|access[.]?key|jaas|keystore"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAccess:
    """The way in for drivers of one cluster."""

    master_url: str
    driver_host: str
    """Address of the harness's machine, for executors."""
    executor_python: str
    java_options: str = "-XX:-UsePerfData"
    """Of drivers and executors."""
    secret: str | None = field(repr=False)
    """The secret that the master demands; None if it demands none."""


def one_rack(spec: ClusterSpec, racks: Sequence[str] | None) -> str | None:
    """Return the rack that an application must stay on; None for all of them.

    Raises `UsageError` for racks that are unknown or several."""
    known = spec.rack_names
    wanted = set(known if racks is None else racks)
    if unknown := sorted(wanted - set(known)):
        raise UsageError(
            f"this cluster has no rack {', '.join(unknown)}",
            remedy=f"use one of its racks: {', '.join(known)}",
        )
    if wanted == set(known):
        return None
    if len(wanted) != 1:
        raise UsageError(
            f"an application can be kept on one rack or use all of them, not on {sorted(wanted)}",
            remedy="name one rack, or start a cluster with other racks",
        )
    return wanted.pop()


def server_environment(java_home: Path, spark_home: Path) -> dict[str, str]:
    """Return the common variables of servers and drivers.

    They are named one by one: a user's other variables would change what is measured, or reach a
    log."""
    return {**kept_environment(), **spark_environment(java_home, spark_home, str(REPOSITORY))}


def kept_environment() -> dict[str, str]:
    """Return the variables of this process that everything that is started gets (`KEPT`)."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def spark_environment(java_home: Path, spark_home: Path, python_path: str) -> dict[str, str]:
    """Return the variables that lead to Java, Spark and the Python code of a machine."""
    return {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        # Without a distribution's directory layout Spark cannot tell its Scala version.
        "SPARK_SCALA_VERSION": "2.13",
        "PYTHONPATH": python_path,
    }


def rack_resource(rack: str) -> str:
    """Return the worker resource of a rack; an application that demands it stays there."""
    return f"rack_{rack}"
