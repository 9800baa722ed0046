"""A real Spark standalone master and its workers, started from the installed PySpark.

Who may talk to them: `spark.authenticate` with a random secret closes the RPC ports. The web
pages of master and workers cannot be switched off in standalone mode (`Master.onStart` always
binds one), and they show executor logs, so they listen on the loopback address only
(SPARK_LOCAL_IP; without it Spark binds them to every interface) and behind Spark's own
`JWSFilter` with a random key that nobody is told: every request is answered with 403. The REST
submission port, on by default since Spark 4, is off.

Whether a worker is registered is read from the master's own log, which needs no web page.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.local.launching import Child, Launcher, Server
from harness.cluster.processes import WORKER_VARIABLE
from harness.cluster.run_directory import write_private

WORKER_TIMEOUT_S = 15
"""After which the master gives a silent worker up; must be the same on master and workers."""

_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.util")

_LOG4J = """\
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDaemons:
    """What master and workers have in common."""

    launcher: Launcher
    java: Path
    spark_home: Path
    secret: str
    options: tuple[str, ...]
    """Further JVM options (a class-data archive)."""
    ui_key: str = field(default_factory=lambda: _ui_key())

    @property
    def configuration_directory(self) -> Path:
        """SPARK_CONF_DIR of daemons and executors: logging only, no secret."""
        return self.launcher.directory / "conf"

    def prepare(self) -> None:
        self.configuration_directory.mkdir(mode=0o700)
        (self.configuration_directory / "log4j2.properties").write_text(_LOG4J)

    def properties(self, name: str, extra: dict[str, str]) -> Path:
        """A properties file of one daemon, readable by its owner only: it holds the secret."""
        values = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
            "spark.org.apache.spark.ui.JWSFilter.param.secretKey": self.ui_key,
            "spark.ui.killEnabled": "false",
            "spark.worker.timeout": str(WORKER_TIMEOUT_S),
            **extra,
        }
        text = "".join(f"{key} {value}\n" for key, value in values.items())
        return write_private(self.launcher.directory / "secrets" / f"{name}.properties", text)

    def spawn(
        self, name: str, main: str, *arguments: str, host: str, log_name: str | None = None
    ) -> Child:
        log4j = (self.configuration_directory / "log4j2.properties").as_uri()
        command = [
            str(self.java),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self.launcher.directory / 'tmp'}",
            f"-Dlog4j2.configurationFile={log4j}",
            *self.options,
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
        return self.launcher.spawn(name, command, environment=environment, log_name=log_name)


class Master(Server):
    """Chooses its port itself and says which in its log: no port can be lost to a race."""

    title = "the Spark master"

    def __init__(self, daemons: SparkDaemons) -> None:
        super().__init__(daemons.launcher)
        self._daemons = daemons
        self._read_bytes = 0
        self._registered: set[str] = set()
        self.url = ""

    def launch(self) -> Child:
        properties = self._daemons.properties(
            "master",
            {"spark.master.rest.enabled": "false", "spark.deploy.maxExecutorRetries": "-1"},
        )
        return self._daemons.spawn(
            "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
            "--properties-file", str(properties), host="127.0.0.1",
        )  # fmt: skip

    def answers(self) -> bool:
        assert self.child is not None
        text = self.child.log_text()
        found = re.search(r"Starting Spark master at (spark://\S+)", text)
        if found is None or "I have been elected leader" not in text:
            return False
        self.url = found[1]
        return True

    def registered(self) -> frozenset[str]:
        """ "host:port" of every worker that is registered now, as the master's log tells."""
        assert self.child is not None
        with self.child.log.open("rb") as log:
            log.seek(self._read_bytes)
            fresh = log.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._read_bytes += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            if found := re.search(r"Master: Registering worker (\S+:\d+) with", line):
                self._registered.add(found[1])
            elif found := re.search(r"Master: Removing worker \S+ on (\S+:\d+)", line):
                self._registered.discard(found[1])
        return frozenset(self._registered)


class Worker(Server):
    """One incarnation of one worker. A restarted worker is a new object with a new log."""

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
    ) -> None:
        super().__init__(daemons.launcher)
        self.title = f"Spark worker {name}"
        self.name = name
        self.host = host
        self.incarnation = incarnation
        self._daemons = daemons
        self._master = master
        self._rack = rack
        self._cores = cores
        self._memory_mb = memory_mb
        self._address = ""

    def launch(self) -> Child:
        directory = self.launcher.directory / "work" / f"{self.name}.{self.incarnation}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        resource = rack_resource(self._rack)
        resources = directory / "resources.json"
        resources.write_text(
            json.dumps(
                [
                    {
                        "id": {"componentName": "spark.worker", "resourceName": resource},
                        "addresses": [str(slot) for slot in range(self._cores)],
                    }
                ]
            )
        )
        properties = self._daemons.properties(
            self.name,
            {
                f"spark.worker.resource.{resource}.amount": str(self._cores),
                "spark.worker.resourcesFile": str(resources),
            },
        )
        return self._daemons.spawn(
            self.name, "worker.Worker", "--host", self.host, "--webui-port", "0",
            "-c", str(self._cores), "-m", f"{self._memory_mb}M", "-d", str(directory),
            "--properties-file", str(properties), self._master.url,
            host=self.host, log_name=f"{self.name}.{self.incarnation}",
        )  # fmt: skip

    def answers(self) -> bool:
        """Whether the master has this incarnation on its list."""
        assert self.child is not None
        if not self._address:
            found = re.search(r"Starting Spark worker (\S+:\d+) with", self.child.log_text())
            self._address = found[1] if found else ""
        return self._address in self._master.registered()


def rack_resource(rack: str) -> str:
    """The worker resource that stands for a rack: an application asks for it to stay there."""
    return f"rack_{rack}"


def _ui_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
