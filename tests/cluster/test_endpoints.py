"""Endpoints in the words of each client, and the files with credentials."""

from __future__ import annotations

import json
import stat
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest

from harness.cluster import run_directory
from harness.cluster.configuration import BrokerIdentity
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint, Tls
from harness.errors import UsageError

SCRAM = KafkaEndpoint(
    bootstrap="outside:9092",
    executors_bootstrap="inside:9092",
    username="u",
    password='p"\\',
    mechanism="SCRAM-SHA-512",
    tls=Tls(ca="CA\nPEM", certificate="CERT", key="KEY"),
)


def test_a_broker_without_credentials_gets_none() -> None:
    plain = KafkaEndpoint(bootstrap="b:1")
    assert plain.confluent() == {"bootstrap.servers": "b:1", "security.protocol": "PLAINTEXT"}
    assert plain.spark() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_confluent_gets_scram_and_tls() -> None:
    assert SCRAM.confluent() == {
        "bootstrap.servers": "outside:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'p"\\',
        "ssl.ca.pem": "CA\nPEM",
        "ssl.certificate.pem": "CERT",
        "ssl.key.pem": "KEY",
    }
    assert SCRAM.confluent(on_executor=True)["bootstrap.servers"] == "inside:9092"


def test_spark_gets_the_executors_addresses_and_a_quoted_login() -> None:
    options = SCRAM.spark()
    assert options["kafka.bootstrap.servers"] == "inside:9092"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="p\\"\\\\";'
    )
    assert options["kafka.ssl.truststore.certificates"] == "CA\nPEM"
    assert options["kafka.ssl.keystore.key"] == "KEY"


def test_any_other_mechanism_comes_with_its_own_settings() -> None:
    kerberos = KafkaEndpoint(
        bootstrap="b:1",
        mechanism="GSSAPI",
        librdkafka={"sasl.kerberos.service.name": "kafka"},
        java={"sasl.jaas.config": "Krb5;", "sasl.kerberos.service.name": "kafka"},
    )
    assert kerberos.confluent()["sasl.kerberos.service.name"] == "kafka"
    assert kerberos.spark()["kafka.sasl.jaas.config"] == "Krb5;"
    with pytest.raises(UsageError, match="GSSAPI needs settings of its own"):
        KafkaEndpoint(bootstrap="b:1", mechanism="GSSAPI")


def test_what_cannot_log_in_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a user's name and a password"):
        replace(SCRAM, password=None)
    with pytest.raises(UsageError, match="belong together"):
        Tls(certificate="CERT")


def test_no_secret_is_shown() -> None:
    redis = RedisEndpoint(host="h", port=1, password="hidden")
    shown = f"{SCRAM!r} {redis!r} {BrokerIdentity(password='hidden')!r} {SCRAM.tls!r}"
    assert "hidden" not in shown
    assert 'p"' not in shown
    assert "KEY" not in shown


def test_what_a_node_is_told_of_redis_survives_the_way_and_names_its_address() -> None:
    redis = RedisEndpoint(
        host="out", port=1, executors_host="in", username="u", password="p", tls=Tls(ca="PEM"),
        database=3,
    )  # fmt: skip
    document = json.loads(json.dumps(asdict(redis.for_executors())))
    told = msgspec.convert(document, RedisEndpoint)
    assert told.parameters() == {
        "host": "in", "port": 1, "db": 3, "username": "u", "password": "p",
        "ssl": True, "ssl_ca_data": "PEM",
    }  # fmt: skip
    assert msgspec.convert(asdict(redis), RedisEndpoint) == redis


def test_redis_is_reached_by_the_address_of_where_one_stands() -> None:
    redis = RedisEndpoint(
        host="out", port=1, executors_host="in", executors_port=2, username="u", password="a/b"
    )
    outside = redis.client().connection_pool.connection_kwargs
    inside = redis.for_executors().client().connection_pool.connection_kwargs
    assert (outside["host"], outside["port"], outside["username"]) == ("out", 1, "u")
    assert (inside["host"], inside["port"]) == ("in", 2)
    assert redis.url() == "redis://u:a%2Fb@out:1/0"
    assert replace(redis, tls=Tls()).url().startswith("rediss://")


def test_several_brokers_keep_three_copies_of_which_two_must_be_there() -> None:
    broker = BrokerIdentity()
    ports = ["a:2", "b:2", "c:2"]
    lines = broker.properties(client="b:1", controllers=ports, data="/d", node=2).splitlines()
    assert {
        "node.id=2",
        "listeners=CLIENT://b:1,CONTROLLER://b:2",
        "controller.quorum.voters=1@a:2,2@b:2,3@c:2",
        "offsets.topic.replication.factor=3",
        "transaction.state.log.replication.factor=3",
        "transaction.state.log.min.isr=2",
        "min.insync.replicas=2",
        "unclean.leader.election.enable=false",
    } <= set(lines)
    endpoint = broker.endpoint("a:1", "b:1", "c:1")
    assert (endpoint.bootstrap, endpoint.replication) == ("a:1,b:1,c:1", 3)
    assert broker.endpoint("a:1").replication == 1
    assert broker.controller_password != broker.password


def test_a_broker_id_never_begins_with_a_dash() -> None:
    assert all(BrokerIdentity().cluster_id[0].isalpha() for _ in range(500))


def test_credential_files_are_private_and_whole(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    run_directory.write_credentials(
        tmp_path,
        kafka=SCRAM,
        redis=RedisEndpoint(host="h", port=1, password="hidden"),
        settings={"spark.master": "spark://m:7077"},
        secret="hidden too",
    )
    kafka = run_directory.kafka_file(tmp_path)
    assert "ssl.truststore.certificates=CA\\nPEM\n" in kafka.read_text()
    assert (
        "spark.authenticate.secret hidden too\n" in run_directory.spark_file(tmp_path).read_text()
    )
    for path in (kafka, run_directory.redis_file(tmp_path), run_directory.spark_file(tmp_path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hidden" not in run_directory.addresses_file(tmp_path).read_text()
