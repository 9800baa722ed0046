"""The Kafka broker of a local cluster, as a child process."""

from __future__ import annotations

from pathlib import Path

from harness.cluster.endpoints import KafkaEndpoint
from harness.cluster.kafka import HEAP, LOG4J, STARTED, BrokerIdentity
from harness.cluster.local.launching import LaunchedProcess, Launcher, Server, failure, free_port
from harness.cluster.run_directory import write_private


class KafkaBroker(Server):
    """Formats its storage (one short JVM), then serves."""

    title = "the Kafka broker"

    def __init__(self, launcher: Launcher, *, java: Path, jars: Path) -> None:
        super().__init__(launcher)
        self._java = java
        self._jars = jars
        self._formatting = False
        self._identity = BrokerIdentity()
        self._home = launcher.directory / "kafka"
        self._home.mkdir(mode=0o700)
        (self._home / "log4j2.properties").write_text(LOG4J)
        self._configuration = self._home / "server.properties"
        self.endpoint: KafkaEndpoint = self._identity.endpoint("")

    def launch(self) -> LaunchedProcess:
        host = self.launcher.host
        client, controller = f"{host}:{free_port(host)}", f"{host}:{free_port(host)}"
        text = self._identity.properties(
            client=client, controller=controller, data=str(self._home / "data")
        )
        write_private(self._configuration, text)
        arguments = write_private(
            self._home / "format.arguments",
            self._identity.format_arguments(str(self._configuration)),
        )
        self.endpoint = self._identity.endpoint(client)
        self._formatting = True
        return self._spawn("kafka-format", "kafka.tools.StorageTool", f"@{arguments}")

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
        from confluent_kafka.admin import AdminClient

        assert self.child is not None
        if STARTED not in self.child.log_text():
            return False
        # log_level 0: librdkafka would write a refused connection to standard error.
        client = AdminClient({**self.endpoint.confluent(), "log_level": 0})
        try:
            client.list_topics(timeout=5)
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
        return self.launcher.spawn(name, command)
