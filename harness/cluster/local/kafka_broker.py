"""One real Kafka broker (KRaft, one node), SASL PLAIN on both listeners, loopback only."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from harness.cluster.endpoints import KafkaEndpoint
from harness.cluster.local.launching import Child, Launcher, Server, failure, free_port
from harness.cluster.run_directory import write_private

USERNAME = "faultline"

_HEAP = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Xss512k")

_LOG4J = """\
status=error
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.c.ref=C
logger.k.name=kafka.server.KafkaRaftServer
logger.k.level=info
"""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=CLIENT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config={jaas}
listener.name.controller.plain.sasl.jaas.config={jaas}
log.dirs={data}
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=1
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
message.max.bytes=16777216
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
"""


def _new_cluster_id() -> str:
    """A random UUID as Kafka writes it. With its first bit cleared it begins with a letter: one
    id in 64 would begin with a dash, which Kafka's own tools take for an option."""
    number = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).decode().rstrip("=")


class KafkaBroker(Server):
    """Formats its storage (one short JVM), then serves."""

    title = "the Kafka broker"

    def __init__(
        self, launcher: Launcher, *, java: Path, jars: Path, password: str, options: tuple[str, ...]
    ) -> None:
        super().__init__(launcher)
        self._java = java
        self._jars = jars
        self._password = password
        self._options = options
        self._formatting = False
        self._cluster_id = _new_cluster_id()
        self._home = launcher.directory / "kafka"
        self._home.mkdir(mode=0o700)
        (self._home / "log4j2.properties").write_text(_LOG4J)
        self._configuration = self._home / "server.properties"
        self.endpoint = KafkaEndpoint(bootstrap="", username=USERNAME, password=password)

    def launch(self) -> Child:
        # A static quorum (controller.quorum.voters): the storage does not know its ports, so a
        # second attempt on others finds it formatted and goes on.
        port, controller_port = free_port(), free_port()
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{USERNAME}" password="{self._password}" '
            f'user_{USERNAME}="{self._password}";'
        )
        text = _PROPERTIES.format(
            port=port,
            controller_port=controller_port,
            jaas=jaas,
            data=self._home / "data",
        )
        write_private(self._configuration, text)
        self.endpoint = KafkaEndpoint(
            bootstrap=f"127.0.0.1:{port}", username=USERNAME, password=self._password
        )
        self._formatting = True
        return self._spawn(
            "kafka-format",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            self._cluster_id,
            "-c",
            str(self._configuration),
            "--ignore-formatted",
        )

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
        if "Kafka Server started" not in self.child.log_text():
            return False
        # log_level 0: librdkafka would write a refused connection to standard error.
        client = AdminClient({**self.endpoint.confluent(), "log_level": 0})
        try:
            client.list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    def _spawn(self, name: str, *arguments: str) -> Child:
        log4j = (self._home / "log4j2.properties").as_uri()
        command = [
            str(self._java),
            *_HEAP,
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={self.launcher.directory / 'tmp'}",
            f"-Dkafka.logs.dir={self._home}",
            f"-Dlog4j2.configurationFile={log4j}",
            *(self._options if name == "kafka" else ()),
            "-cp",
            f"{self._jars}/*",
            *arguments,
        ]
        return self.launcher.spawn(name, command)
