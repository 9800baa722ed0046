"""Configuration of every Spark standalone cluster and every application on it.

Access: `spark.authenticate` with a random secret closes the RPC ports. The web pages of master and
workers cannot be switched off in standalone mode (`Master.onStart` always binds one), and they show
executor logs, so they are behind Spark's own `JWSFilter` with a random key that is given to nobody:
every request is answered with 403. The REST submission port, on by default since Spark 4, is off.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness.cluster.base import ClusterSpec
from harness.cluster.processes import RUN_VARIABLE
from harness.cluster.run_directory import driver_configuration
from harness.errors import UsageError

REPOSITORY = Path(harness.__file__).parent.parent

WORKER_TIMEOUT_S = 15
"""The master gives up a worker that is silent for this time; must be the same on workers."""

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

DAEMON_JAVA = (
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
    ),
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx256m",
    "-XX:-UsePerfData",
)
"""Options of the virtual machines of master and workers. They are not measured, so the first
compiler is enough for them."""

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


def application_settings(
    access: SparkAccess,
    *,
    spec: ClusterSpec,
    jars: Iterable[Path],
    warehouse: Path,
    racks: Sequence[str] | None,
) -> dict[str, str]:
    """Return all settings but the secret. Raises `UsageError` for unknown or several racks."""
    return {
        **FIXED,
        "spark.master": access.master_url,
        "spark.driver.host": access.driver_host,
        "spark.driver.bindAddress": access.driver_host,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.executor.cores": str(spec.cores_per_worker),
        "spark.executor.memory": f"{spec.memory_mb_per_worker}m",
        "spark.executor.extraJavaOptions": access.java_options,
        "spark.driver.extraJavaOptions": access.java_options,
        "spark.pyspark.python": access.executor_python,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.warehouse.dir": str(warehouse),
        **_on_rack(one_rack(spec, racks)),
    }


def one_rack(spec: ClusterSpec, racks: Sequence[str] | None) -> str | None:
    """Return the rack that an application must stay on; None for all of them.

    Raises `UsageError` for racks that are unknown or several."""
    known = [f"r{number}" for number in range(1, spec.racks + 1)]
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


def _on_rack(rack: str | None) -> dict[str, str]:
    return {f"spark.executor.resource.{rack_resource(rack)}.amount": "1"} if rack else {}


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


def driver_environment(
    access: SparkAccess, *, java_home: Path, spark_home: Path, run_directory: Path, run: str
) -> dict[str, str]:
    """Return the whole environment of a driver."""
    return {
        **server_environment(java_home, spark_home),
        "SPARK_CONF_DIR": str(driver_configuration(run_directory)),
        "SPARK_LOCAL_DIRS": str(run_directory / "spark-local"),
        "SPARK_LOCAL_IP": access.driver_host,
        # PySpark sends this to the executors, whatever spark.pyspark.python says.
        "PYSPARK_PYTHON": access.executor_python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        RUN_VARIABLE: run,
    }


def daemon_properties(secret: str, key: str, extra: Mapping[str, str]) -> str:
    """Return the text of a properties file of master or worker. It holds secrets."""
    values = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
        "spark.org.apache.spark.ui.JWSFilter.param.secretKey": key,
        "spark.ui.killEnabled": "false",
        "spark.worker.timeout": str(WORKER_TIMEOUT_S),
        **extra,
    }
    return "".join(f"{name} {value}\n" for name, value in values.items())


MASTER_PROPERTIES = {"spark.master.rest.enabled": "false", "spark.deploy.maxExecutorRetries": "-1"}


def worker_properties(rack: str, cores: int, resources: str) -> dict[str, str]:
    """Return a worker's properties; ``resources`` is its path of `rack_resources`."""
    return {
        f"spark.worker.resource.{rack_resource(rack)}.amount": str(cores),
        "spark.worker.resourcesFile": resources,
    }


def rack_resources(rack: str, cores: int) -> str:
    """Return the text of a worker's resource file: one of its rack's resource per task slot."""
    resource = {
        "id": {"componentName": "spark.worker", "resourceName": rack_resource(rack)},
        "addresses": [str(slot) for slot in range(cores)],
    }
    return json.dumps([resource])


def rack_resource(rack: str) -> str:
    """Return the worker resource of a rack; an application that demands it stays there."""
    return f"rack_{rack}"


def new_ui_key() -> str:
    """Return a random key for the web pages' filter."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


class MasterLog:
    """The registered workers, read from a master's log.

    This needs no web page and costs only the new bytes."""

    def __init__(self) -> None:
        self._registered: set[str] = set()
        self._rest = ""
        self._read_bytes = 0

    @staticmethod
    def url_in(text: str) -> str | None:
        """Return the master's URL, once it leads."""
        found = re.search(r"Starting Spark master at (spark://\S+)", text)
        return found[1] if found and "I have been elected leader" in text else None

    def read(self, path: Path) -> frozenset[str]:
        """Read what was added to the log; return "host:port" of every registered worker."""
        with path.open("rb") as log:
            log.seek(self._read_bytes)
            fresh = log.read()
        self._read_bytes += len(fresh)
        return self.take(fresh.decode(errors="replace"))

    def take(self, fresh: str) -> frozenset[str]:
        """Return "host:port" of every registered worker after ``fresh``, the log's next part."""
        *complete, self._rest = (self._rest + fresh).split("\n")
        for line in complete:
            if found := re.search(r"Master: Registering worker (\S+:\d+) with", line):
                self._registered.add(found[1])
            elif found := re.search(r"Master: Removing worker \S+ on (\S+:\d+)", line):
                self._registered.discard(found[1])
        return frozenset(self._registered)


def worker_address(log: str) -> str:
    """Return "host:port" of a worker from its own log; empty until it is there."""
    found = re.search(r"Starting Spark worker (\S+:\d+) with", log)
    return found[1] if found else ""
