"""Spark's master and workers of a cluster, started from the installed PySpark.

They listen on their own addresses only (SPARK_LOCAL_IP; without it Spark binds the web pages to
every interface), and `spark.authenticate` with a random secret closes the RPC ports. The web pages
cannot be switched off in standalone mode (`Master.onStart` always binds one), and they show
executor logs, so they are behind Spark's own `JWSFilter` with a random key that is given to nobody:
every request is answered with 403. The REST submission port, on by default since Spark 4, is off.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.cluster.agent.launching import Server
from harness.cluster.agent.place import LaunchedProcess, Launcher
from harness.cluster.base import ClusterSpec, Node
from harness.cluster.links import Loopback
from harness.cluster.processes import WORKER_VARIABLE
from harness.cluster.spark import LOG4J, rack_resource

_WORKER_TIMEOUT_S = 15
"""The master gives up a worker that is silent for this time; must be the same on workers."""

_JAVA = (
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


def _new_ui_key() -> str:
    """Return a random key for the web pages' filter."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDaemons:
    """The common part of master and workers."""

    launcher: Launcher
    java: Path
    spark_home: Path
    secret: str
    ui_key: str = field(default_factory=_new_ui_key)
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further properties of master and workers."""

    @property
    def configuration_directory(self) -> Path:
        """SPARK_CONF_DIR of daemons and executors: logging only, no secret."""
        return self.launcher.directory / "conf"

    def prepare(self) -> None:
        """Write the configuration that master and workers read."""
        self.launcher.make(self.configuration_directory)
        self.launcher.write(self.configuration_directory / "log4j2.properties", LOG4J)

    def properties(self, name: str, own: Mapping[str, str]) -> Path:
        """Write a daemon's properties file, readable by its owner only: it holds the secret."""
        values = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
            "spark.org.apache.spark.ui.JWSFilter.param.secretKey": self.ui_key,
            "spark.ui.killEnabled": "false",
            "spark.worker.timeout": str(_WORKER_TIMEOUT_S),
            **self.extra,
            **own,
        }
        text = "".join(f"{key} {value}\n" for key, value in values.items())
        return self.launcher.write(self.launcher.directory / "secrets" / f"{name}.properties", text)

    def spawn(
        self,
        name: str,
        main: str,
        *arguments: str,
        host: str,
        log_name: str | None = None,
        within: Callable[[Sequence[str]], list[str]] = list,
    ) -> LaunchedProcess:
        """Start a daemon's main class."""
        log4j = (self.configuration_directory / "log4j2.properties").as_uri()
        command = [
            str(self.java),
            *_JAVA,
            f"-Djava.io.tmpdir={self.launcher.directory / 'tmp'}",
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            f"{self.spark_home}/jars/*",
            f"org.apache.spark.deploy.{main}",
            *arguments,
        ]
        environment = {
            "SPARK_LOCAL_IP": host,
            "SPARK_CONF_DIR": str(self.configuration_directory),
            "SPARK_LOCAL_DIRS": str(self.launcher.directory / "spark-local"),
        }
        if main.endswith("Worker"):
            environment[WORKER_VARIABLE] = name
        return self.launcher.spawn(
            name, within(command), environment=environment, log_name=log_name
        )


class Master(Server):
    """A master that chooses its port itself and logs it, so that no port is lost to a race."""

    title = "the Spark master"

    def __init__(self, daemons: SparkDaemons) -> None:
        super().__init__(daemons.launcher)
        self._daemons = daemons
        self.url = ""
        self._registered: set[str] = set()
        self._read_bytes, self._rest = 0, ""

    def launch(self) -> LaunchedProcess:
        properties = self._daemons.properties(
            "master",
            {"spark.master.rest.enabled": "false", "spark.deploy.maxExecutorRetries": "-1"},
        )
        host = self.launcher.host
        return self._daemons.spawn(
            "master", "master.Master", "--host", host, "--port", "0", "--webui-port", "0",
            "--properties-file", str(properties), host=host,
        )  # fmt: skip

    def answers(self) -> bool:
        text = self.process.log_text()
        found = re.search(r"Starting Spark master at (spark://\S+)", text)
        leads = "I have been elected leader" in text
        self.url = found[1] if found and leads else ""
        return bool(self.url)

    def registered(self) -> frozenset[str]:
        """Return "host:port" of every registered worker, from what its log has gained.

        This needs no web page and costs only the new bytes."""
        with self.process.log.open("rb") as log:
            log.seek(self._read_bytes)
            fresh = log.read()
        self._read_bytes += len(fresh)
        *complete, self._rest = (self._rest + fresh.decode(errors="replace")).split("\n")
        for line in complete:
            if found := re.search(r"Master: Registering worker (\S+:\d+) with", line):
                self._registered.add(found[1])
            elif found := re.search(r"Master: Removing worker \S+ on (\S+:\d+)", line):
                self._registered.discard(found[1])
        return frozenset(self._registered)


class Worker(Server):
    """One incarnation of a worker. A restarted worker is a new object with a new log."""

    def __init__(
        self,
        daemons: SparkDaemons,
        master: Master,
        node: Node,
        spec: ClusterSpec,
        network: Loopback,
        *,
        incarnation: int,
    ) -> None:
        """Start nothing yet; ``node``: one on it."""
        super().__init__(daemons.launcher)
        self.title = f"Spark worker {node.worker}"
        self._daemons = daemons
        self._master = master
        self._node = node
        self._spec = spec
        self._network = network
        self._incarnation = incarnation
        self._address = ""

    def launch(self) -> LaunchedProcess:
        name, host, cores = self._node.worker, self._node.host, self._spec.cores_per_worker
        rack = rack_resource(self._node.rack)
        directory = self.launcher.directory / "work" / f"{name}.{self._incarnation}"
        self.launcher.make(directory)
        # One of its rack's resource per task slot.
        slots = {
            "id": {"componentName": "spark.worker", "resourceName": rack},
            "addresses": [str(slot) for slot in range(cores)],
        }
        resources = self.launcher.write(directory / "resources.json", json.dumps([slots]))
        properties = self._daemons.properties(
            name,
            {
                f"spark.worker.resource.{rack}.amount": str(cores),
                "spark.worker.resourcesFile": str(resources),
            },
        )
        return self._daemons.spawn(
            name, "worker.Worker", "--host", host, "--webui-port", "0",
            "-c", str(cores), "-m", f"{self._spec.memory_mb_per_worker}M", "-d", str(directory),
            "--properties-file", str(properties), self._master.url,
            host=host, log_name=directory.name, within=partial(self._network.within, name),
        )  # fmt: skip

    def answers(self) -> bool:
        """Return True if the master has registered this incarnation."""
        if not self._address:
            text = self.process.log_text()
            found = re.search(r"Starting Spark worker (\S+:\d+) with", text)
            self._address = found[1] if found else ""
        return self._address in self._master.registered()
