"""Where the servers of a cluster are reached, and with which credentials."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaEndpoint:
    """How to reach the broker, in the words of each client library. Holds a password: never
    put it into results or logs."""

    bootstrap: str
    username: str
    password: str

    def confluent(self) -> dict[str, str | int]:
        """Configuration for confluent-kafka clients."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.username,
            "sasl.password": self.password,
        }

    def kafka_python(self) -> dict[str, str]:
        """Keyword arguments for kafka-python clients."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source and sink."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="{self.username}" password="{self.password}";'
            ),
        }

    def __repr__(self) -> str:
        return f"KafkaEndpoint({self.bootstrap!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisEndpoint:
    """How to reach the Redis server. Holds a password."""

    host: str
    port: int
    password: str

    def __repr__(self) -> str:
        return f"RedisEndpoint({self.host!r}, {self.port})"
