"""The Kafka broker and the Redis server of a local cluster, as child processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import redis

from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.kafka import HEAP, LOG4J, STARTED, BrokerIdentity
from harness.cluster.local.launching import LaunchedProcess, Launcher, Server, failure, free_port
from harness.cluster.redis_settings import redis_configuration
from harness.cluster.run_directory import write_private

_READY = "Ready to accept connections"


class KafkaBroker(Server):
    """A broker that formats its storage (one short JVM) before it serves."""

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
        return self.launcher.spawn(name, command)


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
        self._home.mkdir(mode=0o700)
        self.endpoint = RedisEndpoint(host=launcher.host, port=0, password=password)

    def launch(self) -> LaunchedProcess:
        host = self.launcher.host
        self.endpoint = replace(self.endpoint, port=free_port(host))
        configuration = write_private(
            self._home / "redis.conf",
            redis_configuration(
                host=host,
                port=self.endpoint.port,
                password=str(self.endpoint.password),
                directory=self._home,
                append_only=self._append_only,
            ),
        )
        return self.launcher.spawn("redis", [str(self._program), str(configuration)])

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
