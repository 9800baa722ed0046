"""The servers of a local cluster as child processes: Kafka, Redis, and Spark's master and workers.

Spark's own are started from the installed PySpark. They listen on their own addresses only
(SPARK_LOCAL_IP; without it Spark binds the web pages to every interface)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import redis

from harness.cluster.configuration import (
    HEAP,
    KAFKA_LOG4J,
    STARTED,
    BrokerIdentity,
    redis_configuration,
)
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.launching import LaunchedProcess, Launcher, Server, failure
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

_READY = "Ready to accept connections"


class KafkaBroker(Server):
    """A broker that formats its storage (one short JVM) before it serves."""

    title = "the Kafka broker"

    def __init__(
        self, launcher: Launcher, *, java: Path, jars: Path, identity: BrokerIdentity | None = None
    ) -> None:
        super().__init__(launcher)
        self._java = java
        self._jars = jars
        self._formatting = False
        self._identity = identity or BrokerIdentity()
        self._home = launcher.directory / "kafka"
        launcher.make(self._home)
        launcher.write(self._home / "log4j2.properties", KAFKA_LOG4J)
        self._configuration = self._home / "server.properties"
        self.endpoint: KafkaEndpoint = self._identity.endpoint("")

    def launch(self) -> LaunchedProcess:
        host = self.launcher.host
        client, controller = (f"{host}:{self.launcher.free_port()}" for _ in range(2))
        text = self._identity.properties(
            client=client, controller=controller, data=str(self._home / "data")
        )
        self.launcher.write(self._configuration, text)
        arguments = self.launcher.write(
            self._home / "format.arguments",
            self._identity.format_arguments(str(self._configuration)),
        )
        self.endpoint = self._identity.endpoint(client)
        self._formatting = True
        return self._spawn("kafka-format", "kafka.tools.StorageTool", f"@{arguments}")

    def launch_again(self) -> LaunchedProcess:
        return self._spawn("kafka", "kafka.Kafka", str(self._configuration))

    def ready(self) -> bool:
        if not self._formatting:
            return super().ready()
        assert self.child is not None
        code = self.child.process.poll()
        if code is None:
            self.check_deadline()
            return False
        if code != 0:
            raise failure("the Kafka broker's storage could not be formatted", self.child)
        self._formatting = False
        self.child = self._spawn("kafka", "kafka.Kafka", str(self._configuration))
        return False

    def answers(self) -> bool:
        from confluent_kafka import KafkaException

        assert self.child is not None
        if STARTED not in self.child.log_text():
            return False
        try:
            self.endpoint.admin().list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    def _spawn(self, name: str, *arguments: str) -> LaunchedProcess:
        log4j = (self._home / "log4j2.properties").as_uri()
        command = [
            str(self._java),
            *HEAP,
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={self.launcher.directory / 'tmp'}",
            f"-Dkafka.logs.dir={self._home}",
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            f"{self._jars}/*",
            *arguments,
        ]
        return self.launcher.spawn(name, command, log_name=log_name_of(name, self.lives))


def log_name_of(name: str, life: int) -> str:
    """Return the name of a server's log; that of a life after a kill has its number."""
    return name if life == 1 else f"{name}.{life}"


class RedisDaemon(Server):
    """A Redis server: what it holds ends with the cluster, at the latest."""

    title = "Redis"

    def __init__(
        self, launcher: Launcher, *, program: Path, password: str, append_only: bool = False
    ) -> None:
        """``append_only``: writes go to a file, too, so that a restart loses a second at most."""
        super().__init__(launcher)
        self._program, self._append_only = program, append_only
        self._home = launcher.directory / "redis"
        launcher.make(self._home)
        self.endpoint = RedisEndpoint(host=launcher.host, port=0, password=password)

    def launch(self) -> LaunchedProcess:
        host = self.launcher.host
        self.endpoint = replace(self.endpoint, port=self.launcher.free_port())
        self.launcher.write(
            self._home / "redis.conf",
            redis_configuration(
                host=host,
                port=self.endpoint.port,
                password=str(self.endpoint.password),
                directory=self._home,
                append_only=self._append_only,
            ),
        )
        return self._spawn()

    def launch_again(self) -> LaunchedProcess:
        return self._spawn()

    def _spawn(self) -> LaunchedProcess:
        command = [str(self._program), str(self._home / "redis.conf")]
        return self.launcher.spawn("redis", command, log_name=log_name_of("redis", self.lives))

    def answers(self) -> bool:
        # The password goes to the port only after our own process has reported that it listens:
        # another process that bound the port first would receive it otherwise.
        assert self.child is not None
        if _READY not in self.child.log_text():
            return False
        with self.endpoint.client(socket_timeout=5) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


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
        return self._log.read(self.child.renewed_log())


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
