"""Configuration of a run's own Kafka and Redis: no port without a password.

The broker is one node, in KRaft. Its clients log in with SCRAM, which proves the password without
sending it: a process that binds a dead broker's port learns nothing from the clients that come
back. The broker's own controller listener uses PLAIN with a password of its own (SCRAM needs
metadata that the controller does not serve yet); only the broker itself connects there, so that
password leaves it only while it lives. Redis has bounded memory and evicts nothing."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, field
from pathlib import PurePath
from secrets import token_urlsafe

from harness.cluster.endpoints import KafkaEndpoint, Tls, login

USERNAME = "faultline"
MECHANISM = "SCRAM-SHA-256"
HEAP = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Xss512k", "-XX:-UsePerfData")
STARTED = "Kafka Server started"
"""Text in the broker's log once it serves."""

OWN_SETTINGS = {
    # A group's first members come together, within the time that nobody measures.
    "group.initial.rebalance.delay.ms": "0",
    # By default only every 10 s, longer than most timeouts of transactions that clients choose.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""Settings of a run's own broker that decide how long its clients wait; engines read them back."""

KAFKA_LOG4J = """\
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
controller.quorum.voters=1@{controller}
listeners=CLIENT://{client},CONTROLLER://{controller}
advertised.listeners=CLIENT://{client}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,CLIENT:{protocol}
sasl.enabled.mechanisms={mechanism}
listener.name.controller.sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol={mechanism}
sasl.mechanism.controller.protocol=PLAIN
listener.name.client.scram-sha-256.sasl.jaas.config={client_login}
listener.name.controller.plain.sasl.jaas.config={controller_login}
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
{own}
message.max.bytes=16777216
log.segment.bytes=67108864
log.retention.check.interval.ms=10000
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
{tls}"""


def _new_cluster_id() -> str:
    """Return a random UUID in Kafka's format, beginning with a letter.

    Its first bit is cleared: one id in 64 would begin with a dash otherwise, which Kafka's own
    tools take for an option."""
    number = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).decode().rstrip("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """The identity and passwords of one broker, independent of its addresses."""

    cluster_id: str = field(default_factory=_new_cluster_id)
    password: str = field(default_factory=lambda: token_urlsafe(24), repr=False)
    controller_password: str = field(default_factory=lambda: token_urlsafe(24), repr=False)
    tls: Tls | None = None
    """A certificate for the broker, which its clients get, too; None to encrypt nothing."""

    def endpoint(self, address: str) -> KafkaEndpoint:
        """Return the endpoint; ``address`` is "host:port" of the client listener."""
        return KafkaEndpoint(
            bootstrap=address,
            username=USERNAME,
            password=self.password,
            mechanism=MECHANISM,
            tls=self.tls,
        )

    def properties(self, *, client: str, controller: str, data: str) -> str:
        """Return the text of server.properties, which holds passwords.

        The quorum is static (controller.quorum.voters): the storage does not contain its ports, so
        it can be served on others."""
        return _PROPERTIES.format(
            client=client,
            controller=controller,
            mechanism=MECHANISM,
            protocol=self.endpoint(client).security_protocol,
            tls=_tls_lines(self.tls),
            client_login=login(MECHANISM, USERNAME, self.password),
            controller_login=login(
                "PLAIN",
                "controller",
                self.controller_password,
                f'user_controller="{self.controller_password}"',
            ),
            data=data,
            own="\n".join(f"{name}={value}" for name, value in OWN_SETTINGS.items()),
        )

    def format_arguments(self, properties: str) -> str:
        """Return the text of an argument file for ``kafka.tools.StorageTool``, one a line.

        Its command line must not hold the password. ``properties``: the path of server.properties.
        """
        arguments = [
            "format",
            "-t",
            self.cluster_id,
            "-c",
            properties,
            "--ignore-formatted",
            "--add-scram",
            f"{MECHANISM}=[name={USERNAME},password={self.password}]",
        ]
        return "".join(f"{argument}\n" for argument in arguments)


def _tls_lines(tls: Tls | None) -> str:
    if tls is None:
        return ""
    values = {
        "keystore.type": "PEM",
        "keystore.certificate.chain": tls.certificate or "",
        "keystore.key": tls.key or "",
        "truststore.type": "PEM",
        "truststore.certificates": tls.ca or "",
    }
    escaped = {name: value.strip().replace("\n", "\\n") for name, value in values.items()}
    return "".join(f"listener.name.client.ssl.{name}={v}\n" for name, v in escaped.items())


MOST_MB = 1024
"""Limit of Redis's memory. Beyond it, checkpoints are refused, so that the machine keeps some;
nothing that is stored is evicted."""

_CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly {append_only}
appendfsync everysec
maxmemory {most_mb}mb
maxmemory-policy noeviction
dir "{directory}"
"""


def redis_configuration(
    *, host: str, port: int, password: str, directory: PurePath, append_only: bool = False
) -> str:
    """Return the text of redis.conf, which holds the password.

    ``append_only``: writes go to a file, too, so that a restart loses a second at most."""
    return _CONFIGURATION.format(
        host=host,
        port=port,
        password=password,
        append_only="yes" if append_only else "no",
        most_mb=MOST_MB,
        directory=directory,
    )
