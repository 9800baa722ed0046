"""Addresses and credentials of a cluster's servers.

An endpoint is described once and then translated for each client library. All of them hold secrets:
they go to child processes through standard input or a private file, never onto a command line, into
a record or into a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.errors import UsageError

if TYPE_CHECKING:
    import redis
    from confluent_kafka.admin import AdminClient

_ANSWER_WITHIN_S = 5.0
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The encryption of a connection, as texts in PEM.

    They are not paths, because executors on other machines lack the harness's files."""

    ca: str | None = None
    """Certificates of the authorities that may sign a server's certificate; None for those that the
    system trusts."""
    certificate: str | None = None
    """The client's own certificate chain, where the server demands one."""
    key: str | None = field(default=None, repr=False)
    """The client's private key, in PKCS 8, without a passphrase."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "a client's certificate and its key belong together, and only one was given",
                remedy="give both or neither",
            )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaEndpoint:
    """Addresses and credentials of the brokers."""

    bootstrap: str
    """Addresses for the harness and for drivers."""
    executors_bootstrap: str | None = None
    """Addresses for processes on the cluster's nodes, where they differ."""
    username: str | None = None
    password: str | None = None
    mechanism: str | None = None
    """The SASL mechanism: "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512" with a name and a password;
    any other one with its settings in `librdkafka` and `java`. None for no SASL."""
    tls: Tls | None = None
    librdkafka: Mapping[str, str] = field(default_factory=dict)
    """Further settings for confluent-kafka."""
    java: Mapping[str, str] = field(default_factory=dict)
    """Further settings for Java clients, Spark's connector among them."""
    topic_prefix: str = ""
    """Prefix of every topic of the run; empty where the broker is the run's own."""
    replication: int = 1
    """Copies of each new topic."""

    def __post_init__(self) -> None:
        if self.mechanism in _LOGIN_MODULES and not (self.username and self.password):
            raise UsageError(
                f"the SASL mechanism {self.mechanism} needs a user's name and a password",
                remedy="give both, or another mechanism",
            )
        if self.mechanism and self.mechanism not in _LOGIN_MODULES and not self.java:
            raise UsageError(
                f"the SASL mechanism {self.mechanism} needs settings of its own for Java clients",
                remedy="give its sasl.* settings, or use one of " + ", ".join(_LOGIN_MODULES),
            )

    @property
    def security_protocol(self) -> str:
        """Kafka's name of the protocol, such as SASL_PLAINTEXT."""
        secure = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{secure}" if self.mechanism else secure

    def confluent(self, *, on_executor: bool = False) -> dict[str, str | int]:
        """Return the configuration of confluent-kafka clients."""
        tls = self.tls or Tls()
        return {
            "bootstrap.servers": self._addresses(on_executor),
            "security.protocol": self.security_protocol,
            **_given(
                {
                    "sasl.mechanism": self.mechanism,
                    "sasl.username": self.username if self.mechanism else None,
                    "sasl.password": self.password if self.mechanism else None,
                    "ssl.ca.pem": tls.ca,
                    "ssl.certificate.pem": tls.certificate,
                    "ssl.key.pem": tls.key,
                }
            ),
            **self.librdkafka,
        }

    def admin(self) -> AdminClient:
        """Return a client for topics, which writes no refused connection to standard error."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({**self.confluent(), "log_level": 0})

    def spark(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source and sink.

        Driver and executors get the same ones, so the addresses are those for executors."""
        options = {"bootstrap.servers": self._addresses(on_executor=True), **self.java_properties()}
        return {f"kafka.{name}": value for name, value in options.items()}

    def java_properties(self) -> dict[str, str]:
        """Return a Java client's properties, without the addresses."""
        tls = self.tls or Tls()
        return {
            "security.protocol": self.security_protocol,
            **_given(
                {
                    "sasl.mechanism": self.mechanism,
                    "sasl.jaas.config": self._jaas(),
                    "ssl.truststore.type": "PEM" if tls.ca else None,
                    "ssl.truststore.certificates": tls.ca,
                    "ssl.keystore.type": "PEM" if tls.key else None,
                    "ssl.keystore.certificate.chain": tls.certificate,
                    "ssl.keystore.key": tls.key,
                }
            ),
            **self.java,
        }

    def _jaas(self) -> str | None:
        if self.mechanism not in _LOGIN_MODULES:
            return None
        return login(self.mechanism, self.username or "", self.password or "")

    def _addresses(self, on_executor: bool) -> str:
        return (on_executor and self.executors_bootstrap) or self.bootstrap

    def __repr__(self) -> str:
        return f"KafkaEndpoint({self.bootstrap!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RedisEndpoint:
    """Address and credentials of the Redis server."""

    host: str
    port: int
    executors_host: str | None = None
    """The server's name for processes on the cluster's nodes, where it differs."""
    executors_port: int | None = None
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: Tls | None = None
    key_prefix: str = ""
    """Prefix of every key of the run; empty where the server is the run's own."""
    replicas: int = 0
    """Replicas that must have a checkpoint or a registry before it counts as stored."""

    def client(self, **options: Any) -> redis.Redis:
        """Return a `redis.Redis` with ``options``, which connects with its first command."""
        import redis

        return redis.Redis(**self.parameters(), **options)

    def server_version(self) -> str | None:
        """Return the version that the server itself states; None if it does not answer."""
        import redis

        try:
            stated = self.client(socket_timeout=_ANSWER_WITHIN_S).info("server")
        except (OSError, redis.RedisError):
            return None
        return str(stated.get("valkey_version") or stated["redis_version"])

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of `redis.Redis` and of its asynchronous twin."""
        secure: dict[str, Any] = {}
        if self.tls is not None:
            secure = {"ssl": True, **_given({"ssl_ca_data": self.tls.ca})}
            if self.tls.key is not None:
                raise UsageError(
                    "a client certificate cannot be given to Redis in memory",
                    remedy="let the server ask for a user's name and a password instead",
                )
        return {
            "host": self.host,
            "port": self.port,
            "db": self.database,
            "username": self.username,
            "password": self.password,
            **secure,
        }

    def for_executors(self) -> RedisEndpoint:
        """Return the same server under its name for processes on the cluster's nodes."""
        return replace(
            self, host=self.executors_host or self.host, port=self.executors_port or self.port
        )

    def url(self) -> str:
        """Return the URL for ``redis-cli -u``, password included."""
        scheme = "rediss" if self.tls else "redis"
        user, password = quote(self.username or ""), quote(self.password or "", safe="")
        credentials = f"{user}:{password}@" if self.password else ""
        return f"{scheme}://{credentials}{self.host}:{self.port}/{self.database}"

    def __repr__(self) -> str:
        return f"RedisEndpoint({self.host!r}, {self.port})"


def login(mechanism: str, username: str, password: str, *options: str) -> str:
    """Return a line of Java's login configuration."""
    credentials = f"username={_quoted(username)} password={_quoted(password)}"
    return " ".join([_LOGIN_MODULES[mechanism], "required", credentials, *options]) + ";"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _given(settings: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}
