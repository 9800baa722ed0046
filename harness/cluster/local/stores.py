"""The servers that keep data: Kafka's brokers and Redis, with what makes them survive a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import redis

from harness.cluster.agent.launching import Server, failure
from harness.cluster.agent.place import LaunchedProcess, Launcher
from harness.cluster.configuration import (
    HEAP,
    KAFKA_LOG4J,
    STARTED,
    BrokerIdentity,
    redis_configuration,
)
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint, Tls
from harness.cluster.tunnel import LISTENING


class KafkaBroker(Server):
    """A broker that formats its storage (one short JVM) before it serves."""

    def __init__(
        self, launcher: Launcher, *, java: Path, jars: Path, identity: BrokerIdentity, number: int
    ) -> None:
        """Start nothing yet; ``number``: its place among the brokers, from 1 (`quorum_of`)."""
        super().__init__(launcher)
        self._java = java
        self._jars = jars
        self._formatting = False
        self._identity = identity
        self._number = number
        self._name = "kafka" if number == 1 else f"kafka{number}"
        self.title = "the Kafka broker" if number == 1 else f"the Kafka broker {number}"
        self._home = launcher.directory / self._name
        launcher.make(self._home)
        launcher.write(self._home / "log4j2.properties", KAFKA_LOG4J)
        self._configuration = self._home / "server.properties"
        self.quorum: Sequence[KafkaBroker] = [self]
        self.choose_ports()

    def choose_ports(self) -> None:
        """Choose the ports of its two listeners."""
        host = self.launcher.host
        self.client, self.controller = (f"{host}:{self.launcher.free_port()}" for _ in range(2))

    @property
    def endpoint(self) -> KafkaEndpoint:
        """The way to all brokers of its cluster."""
        return self._identity.endpoint(*(broker.client for broker in self.quorum))

    def launch(self) -> LaunchedProcess:
        text = self._identity.properties(
            client=self.client,
            controllers=[broker.controller for broker in self.quorum],
            data=str(self._home / "data"),
            node=self._number,
        )
        self.launcher.write(self._configuration, text)
        arguments = self.launcher.write(
            self._home / "format.arguments",
            self._identity.format_arguments(str(self._configuration)),
        )
        self._formatting = True
        return self._spawn(f"{self._name}-format", "kafka.tools.StorageTool", f"@{arguments}")

    def try_other_ports(self) -> None:
        if len(self.quorum) == 1:  # else the others know them
            self.choose_ports()
        super().try_other_ports()

    def launch_again(self) -> LaunchedProcess:
        return self._spawn(self._name, "kafka.Kafka", str(self._configuration))

    def ready(self) -> bool:
        if not self._formatting:
            return super().ready()
        code = self.process.poll()
        if code is None:
            self.check_deadline()
            return False
        if code != 0:
            raise failure("the Kafka broker's storage could not be formatted", self.process)
        self._formatting = False
        self.child = self.launch_again()
        return False

    def answers(self) -> bool:
        from confluent_kafka import KafkaException

        if STARTED not in self.process.log_text():
            return False
        try:
            replace(self.endpoint, bootstrap=self.client).admin().list_topics(timeout=5)
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


def quorum_of(brokers: Sequence[KafkaBroker]) -> Sequence[KafkaBroker]:
    """Return brokers that store everything together, each with the addresses of all."""
    for broker in brokers:
        broker.quorum = brokers
        broker.port_attempts = 1 if len(brokers) > 1 else broker.port_attempts
    return brokers


def log_name_of(name: str, life: int) -> str:
    """Return the name of a server's log; that of a life after a kill has its number."""
    return name if life == 1 else f"{name}.{life}"


class Tunnel(Server):
    """One end of an encrypted way to Redis (`harness.cluster.tunnel`)."""

    port_attempts = 1

    def __init__(self, launcher: Launcher, name: str, *, to: str, tls: Tls, encrypted: str) -> None:
        """``encrypted``: "in" for the connections that it takes, "out" for those that it makes."""
        super().__init__(launcher)
        self.title, self._name = f"the tunnel {name}", name
        self.tls, self.port = Tls(ca=tls.ca), launcher.free_port()
        pem = launcher.directory / "secrets" / f"{name}.pem"
        own = f"{tls.certificate}{tls.key}" if encrypted == "in" else f"{tls.ca}"
        launcher.write(pem, own)
        self._arguments = [to, "--certificate" if encrypted == "in" else "--authority", str(pem)]

    def launch(self) -> LaunchedProcess:
        python = self.launcher.environment["PYSPARK_PYTHON"]
        listen = [self.launcher.host, str(self.port)]
        command = [python, "-m", "harness.cluster.tunnel", *listen, *self._arguments]
        home = self.launcher.directory / "redis"
        self.launcher.make(home)
        return self.launcher.spawn(self._name, command, directory=home)

    def answers(self) -> bool:
        return LISTENING in self.process.log_text()


_READY = re.compile("[Rr]eady to accept connections")


class RedisDaemon(Server):
    """A Redis server: what it holds ends with the cluster, at the latest."""

    title = "Redis"
    _name = "redis"
    _replica_of: int | None = None

    def __init__(
        self,
        launcher: Launcher,
        *,
        program: Path,
        password: str,
        append_only: bool = False,
        front: Tunnel | None = None,
    ) -> None:
        """``append_only``: writes go to a file, too, so that a restart loses a second at most.

        ``front``: the way in for its clients; by default they connect to it as it is."""
        super().__init__(launcher)
        self._program, self._append_only, self._front = program, append_only, front
        self._home = launcher.directory / "redis"
        launcher.make(self._home)
        self.endpoint = RedisEndpoint(
            host=launcher.host,
            port=0 if front is None else front.port,
            password=password,
            tls=None if front is None else front.tls,
        )

    def launch(self) -> LaunchedProcess:
        if self._front is None:
            self.endpoint = replace(self.endpoint, port=self.launcher.free_port())
        self.launcher.write(
            self._home / "redis.conf",
            redis_configuration(
                host=self.launcher.host,
                port=self.endpoint.port if self._front is None else 0,
                password=str(self.endpoint.password),
                directory=self._home,
                append_only=self._append_only,
                replica_of=self._replica_of,
            ),
        )
        return self.launch_again()

    def launch_again(self) -> LaunchedProcess:
        command = [str(self._program), str(self._home / "redis.conf")]
        log_name = log_name_of(self._name, self.lives)
        return self.launcher.spawn(self._name, command, log_name=log_name)

    def answers(self) -> bool:
        # The password goes to the port only after our own process has reported that it listens:
        # another process that bound the port first would receive it otherwise.
        if not _READY.search(self.process.log_text()):
            return False
        with self.endpoint.client(socket_timeout=5) as client:
            try:
                return bool(client.ping()) and self._is_whole(client)
            except redis.RedisError:
                return False

    def _is_whole(self, client: redis.Redis) -> bool:
        return True


class RedisReplica(RedisDaemon):
    """A copy of Redis on another machine, which checkpoints wait for."""

    _name = "redis-replica"

    def __init__(
        self, launcher: Launcher, primary: RedisDaemon, way: Tunnel, *, program: Path, number: int
    ) -> None:
        """``way``: its end of the way to the primary; ``number``: among the replicas, from 1."""
        self.title = f"the replica of Redis number {number}"
        self._number, self._replica_of = number, way.port
        super().__init__(
            launcher,
            program=program,
            password=str(primary.endpoint.password),
            append_only=True,
            front=way,
        )
        self.endpoint = primary.endpoint

    def _is_whole(self, client: redis.Redis) -> bool:
        """Return True if the primary has as many replicas as are started before and with it."""
        said = client.info("replication")
        states = [state for name, state in said.items() if name.startswith("slave")]
        online = [
            state for state in states if isinstance(state, dict) and state["state"] == "online"
        ]
        return len(online) >= self._number
