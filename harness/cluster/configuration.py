"""Configuration of a run's own Kafka and Redis: no port without a password.

A broker is a KRaft node, alone or in a quorum with others. Its clients log in with SCRAM, which
proves the password without sending it: a process that binds a dead broker's port learns nothing
from the clients that come back. The controller listener uses PLAIN with a password of its own
(SCRAM needs metadata that the controller does not serve yet); only brokers connect there, a lone
one to itself, several with TLS. Redis has bounded memory and evicts nothing."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from secrets import token_urlsafe

from harness.cluster.endpoints import KafkaEndpoint, Tls, login

USERNAME = "faultline"
MECHANISM = "SCRAM-SHA-256"
HEAP = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Xss512k", "-XX:-UsePerfData")
_MOST_COPIES = 3
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
node.id={node}
controller.quorum.voters={voters}
listeners=CLIENT://{client},CONTROLLER://{controller}
advertised.listeners=CLIENT://{client}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CONTROLLER:{protocol},CLIENT:{protocol}
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
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
default.replication.factor={copies}
min.insync.replicas={in_sync}
unclean.leader.election.enable=false
{own}
message.max.bytes=16777216
log.segment.bytes=67108864
log.retention.check.interval.ms=10000
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
initial.broker.registration.timeout.ms=180000
{tls}"""


def _new_cluster_id() -> str:
    """Return a random UUID in Kafka's format, beginning with a letter.

    Its first bit is cleared: one id in 64 would begin with a dash otherwise, which Kafka's own
    tools take for an option."""
    number = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([number[0] & 0x7F]) + number[1:]).decode().rstrip("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """The identity and passwords of a cluster's brokers, independent of their addresses."""

    cluster_id: str = field(default_factory=_new_cluster_id)
    password: str = field(default_factory=lambda: token_urlsafe(24), repr=False)
    controller_password: str = field(default_factory=lambda: token_urlsafe(24), repr=False)
    tls: Tls | None = None
    """A certificate for brokers, which their clients get, too; None to encrypt nothing."""

    def endpoint(self, *addresses: str) -> KafkaEndpoint:
        """Return the endpoint; each address is "host:port" of a broker's client listener."""
        return KafkaEndpoint(
            bootstrap=",".join(addresses),
            replication=copies_of(len(addresses)),
            username=USERNAME,
            password=self.password,
            mechanism=MECHANISM,
            tls=self.tls,
        )

    def properties(
        self, *, client: str, controllers: Sequence[str], data: str, node: int = 1
    ) -> str:
        """Return the text of server.properties of broker ``node``, which holds passwords.

        ``controllers``: "host:port" of the controller listeners of all brokers. The quorum is
        static (controller.quorum.voters): the storage does not contain its ports, so it can be
        served on others."""
        copies = copies_of(len(controllers))
        return _PROPERTIES.format(
            client=client,
            controller=controllers[node - 1],
            node=node,
            voters=",".join(f"{n}@{address}" for n, address in enumerate(controllers, start=1)),
            copies=copies,
            in_sync=max(1, copies - 1),
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


def copies_of(brokers: int) -> int:
    """Return the number of copies of each partition on this number of brokers."""
    return min(brokers, _MOST_COPIES)


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
    return "".join(
        f"listener.name.{listener}.ssl.{name}={value}\n"
        for listener in ("client", "controller")
        for name, value in escaped.items()
    )


REDIS_SOCKET = "socket"
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
{more}"""


def redis_configuration(
    *,
    host: str,
    port: int,
    password: str,
    directory: PurePath,
    append_only: bool = False,
    replica_of: int | None = None,
) -> str:
    """Return the text of redis.conf, which holds the password.

    ``port``: 0 for none, then it listens on the file `REDIS_SOCKET` in its directory.
    ``append_only``: writes go to a file, too, so that a restart loses a second at most.
    ``replica_of``: the port of this machine behind which the primary is."""
    more = "" if port else f"unixsocket {REDIS_SOCKET}\nunixsocketperm 700\n"
    if replica_of:
        more += f"replicaof 127.0.0.1 {replica_of}\nmasterauth {password}\n"
    return _CONFIGURATION.format(
        host=host,
        port=port,
        password=password,
        append_only="yes" if append_only else "no",
        most_mb=MOST_MB,
        directory=directory,
        more=more,
    )
