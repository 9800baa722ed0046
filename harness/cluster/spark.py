"""What every Spark standalone cluster and every application on it is configured with.

Who may talk to them: `spark.authenticate` with a random secret closes the RPC ports. The web
pages of master and workers cannot be switched off in standalone mode (`Master.onStart` always
binds one), and they show executor logs, so they are behind Spark's own `JWSFilter` with a random
key that nobody is told: every request is answered with 403. The REST submission port, on by
default since Spark 4, is off.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import harness
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.connection import driver_configuration
from harness.cluster.processes import RUN_VARIABLE
from harness.errors import UsageError

REPOSITORY = Path(harness.__file__).parent.parent

WORKER_TIMEOUT_S = 15
"""After which the master gives a silent worker up; must be the same on master and workers."""

KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_STATE_HOME",
)  # fmt: skip
"""Of the harness's environment; SPARK_*, HADOOP_* and JAVA options of the user's would change
what is measured."""

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


def application_settings(
    *,
    master_url: str,
    spec: ClusterSpec,
    jars: Iterable[Path],
    driver_host: str,
    java_options: str,
    executor_python: str,
    warehouse: Path,
    racks: Sequence[str] | None,
) -> dict[str, str]:
    """Everything but the secret. Raises `UsageError` for racks that cannot be asked for."""
    return {
        **FIXED,
        "spark.master": master_url,
        "spark.driver.host": driver_host,
        "spark.driver.bindAddress": driver_host,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.executor.cores": str(spec.cores_per_worker),
        "spark.executor.memory": f"{spec.memory_mb_per_worker}m",
        "spark.executor.extraJavaOptions": java_options,
        "spark.driver.extraJavaOptions": java_options,
        "spark.pyspark.python": executor_python,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.warehouse.dir": str(warehouse),
        **_on_rack(one_rack(spec, racks)),
    }


def spread_settings(cluster: Cluster) -> dict[str, str]:
    """Of an application that takes every slot that was asked for. A cluster of somebody else's may
    have more, which are not ours to take."""
    return {**cluster.spark_conf(), "spark.cores.max": str(cluster.spec.task_slots)}


def one_rack(spec: ClusterSpec, racks: Sequence[str] | None) -> str | None:
    """The rack that an application is to be kept on; None for all of them.

    Raises `UsageError` for racks that cannot be asked for.
    """
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


def driver_environment(
    *,
    java_home: Path,
    spark_home: Path,
    run_directory: Path,
    run: str,
    host: str,
    executor_python: str = sys.executable,
) -> dict[str, str]:
    """The whole environment of a driver, by named variables: what else a user has set would
    change what is measured, or reach a log."""
    return {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONF_DIR": str(driver_configuration(run_directory)),
        "SPARK_LOCAL_DIRS": str(run_directory / "spark-local"),
        "SPARK_LOCAL_IP": host,
        # PySpark sends this to the executors, whatever spark.pyspark.python says.
        "PYSPARK_PYTHON": executor_python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
        RUN_VARIABLE: run,
    }


def daemon_properties(secret: str, key: str, extra: Mapping[str, str]) -> str:
    """The text of a properties file of master or worker. It holds secrets."""
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


MASTER_PROPERTIES = {
    "spark.master.rest.enabled": "false",
    "spark.deploy.maxExecutorRetries": "-1",
}


def worker_properties(rack: str, cores: int, resources: str) -> dict[str, str]:
    """``resources``: the path of `rack_resources` as the worker sees it."""
    return {
        f"spark.worker.resource.{rack_resource(rack)}.amount": str(cores),
        "spark.worker.resourcesFile": resources,
    }


def rack_resources(rack: str, cores: int) -> str:
    """The text of a worker's resource file: one of its rack's resource for each task slot."""
    resource = {
        "id": {"componentName": "spark.worker", "resourceName": rack_resource(rack)},
        "addresses": [str(slot) for slot in range(cores)],
    }
    return json.dumps([resource])


def rack_resource(rack: str) -> str:
    """The worker resource that stands for a rack: an application asks for it to stay there."""
    return f"rack_{rack}"


def new_ui_key() -> str:
    """A random key for the web pages' filter."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


class MasterLog:
    """What a master's log tells of its workers. It needs no web page, and costs only the bytes
    that are new."""

    def __init__(self) -> None:
        self._registered: set[str] = set()
        self._rest = ""

    @staticmethod
    def url_in(text: str) -> str | None:
        """The master's URL, once it leads."""
        found = re.search(r"Starting Spark master at (spark://\S+)", text)
        return found[1] if found and "I have been elected leader" in text else None

    def read(self, fresh: str) -> frozenset[str]:
        """Takes what the log grew by; returns "host:port" of every worker registered now."""
        *complete, self._rest = (self._rest + fresh).split("\n")
        for line in complete:
            if found := re.search(r"Master: Registering worker (\S+:\d+) with", line):
                self._registered.add(found[1])
            elif found := re.search(r"Master: Removing worker \S+ on (\S+:\d+)", line):
                self._registered.discard(found[1])
        return frozenset(self._registered)


def worker_address(log: str) -> str:
    """ "host:port" of a worker, as its own log says it; empty until then."""
    found = re.search(r"Starting Spark worker (\S+:\d+) with", log)
    return found[1] if found else ""
