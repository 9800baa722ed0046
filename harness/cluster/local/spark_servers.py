"""Spark's master and workers of a cluster, started from the installed PySpark.

They listen on their own addresses only (SPARK_LOCAL_IP; without it Spark binds the web pages to
every interface)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.agent.launching import Server
from harness.cluster.agent.place import LaunchedProcess, Launcher
from harness.cluster.processes import WORKER_VARIABLE
from harness.cluster.spark import (
    DAEMON_JAVA,
    LOG4J,
    MASTER_PROPERTIES,
    MasterLog,
    daemon_properties,
    new_ui_key,
    rack_resources,
    worker_address,
    worker_properties,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDaemons:
    """The common part of master and workers."""

    launcher: Launcher
    java: Path
    spark_home: Path
    secret: str
    ui_key: str = field(default_factory=new_ui_key)
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

    def properties(self, name: str, extra: Mapping[str, str]) -> Path:
        """Write a daemon's properties file, readable by its owner only: it holds the secret."""
        text = daemon_properties(self.secret, self.ui_key, {**self.extra, **extra})
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
            *DAEMON_JAVA,
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
        self._log = MasterLog()
        self.url = ""

    def launch(self) -> LaunchedProcess:
        properties = self._daemons.properties("master", MASTER_PROPERTIES)
        host = self.launcher.host
        return self._daemons.spawn(
            "master", "master.Master", "--host", host, "--port", "0", "--webui-port", "0",
            "--properties-file", str(properties), host=host,
        )  # fmt: skip

    def answers(self) -> bool:
        assert self.child is not None
        url = MasterLog.url_in(self.child.log_text())
        self.url = url or ""
        return url is not None

    def registered(self) -> frozenset[str]:
        """Return "host:port" of every registered worker, from the master's log."""
        assert self.child is not None
        return self._log.read(self.child.log)


class Worker(Server):
    """One incarnation of a worker. A restarted worker is a new object with a new log."""

    def __init__(
        self,
        daemons: SparkDaemons,
        master: Master,
        *,
        name: str,
        rack: str,
        host: str,
        cores: int,
        memory_mb: int,
        incarnation: int,
        within: Callable[[str, Sequence[str]], list[str]] = lambda worker, command: list(command),
    ) -> None:
        """Start nothing yet; ``within`` turns a command into one for the worker's network."""
        super().__init__(daemons.launcher)
        self.title = f"Spark worker {name}"
        self._within = within
        self.name = name
        self.host = host
        self.incarnation = incarnation
        self._daemons = daemons
        self._master = master
        self._rack = rack
        self._cores = cores
        self._memory_mb = memory_mb
        self._address = ""

    def launch(self) -> LaunchedProcess:
        directory = self.launcher.directory / "work" / f"{self.name}.{self.incarnation}"
        self.launcher.make(directory)
        resources = directory / "resources.json"
        self.launcher.write(resources, rack_resources(self._rack, self._cores))
        properties = self._daemons.properties(
            self.name, worker_properties(self._rack, self._cores, str(resources))
        )
        return self._daemons.spawn(
            self.name, "worker.Worker", "--host", self.host, "--webui-port", "0",
            "-c", str(self._cores), "-m", f"{self._memory_mb}M", "-d", str(directory),
            "--properties-file", str(properties), self._master.url,
            host=self.host, log_name=f"{self.name}.{self.incarnation}",
            within=lambda command: self._within(self.name, command),
        )  # fmt: skip

    def answers(self) -> bool:
        """Return True if the master has registered this incarnation."""
        assert self.child is not None
        if not self._address:
            self._address = worker_address(self.child.log_text())
        return self._address in self._master.registered()
