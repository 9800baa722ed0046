"""``faultline record``: a topic of an existing cluster as a file that a workload replays."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cache import to_stderr
from harness.cli.options import FILE
from harness.errors import EnvironmentFailure, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_EPILOG = """\b
Examples:
  ./faultline record orders --bootstrap broker:9092 --to orders.parquet
  ./faultline record orders --bootstrap broker:9093 --client kafka.properties --to orders.parquet
"""


@click.command("record", epilog=_EPILOG)
@click.argument("topic")
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="The cluster's brokers.")
@click.option("--to", "target", type=FILE, required=True, help="The Parquet file to write.")
@click.option("--most", type=click.IntRange(1), default=100_000, help="Most records.")
@click.option(
    "--client",
    type=FILE,
    help="A file with settings of librdkafka, such as security.protocol=SASL_SSL: a line each.",
)
def command(topic: str, bootstrap: str, target: Path, most: int, client: Path | None) -> None:
    """Copy what is in TOPIC now into a file, for `workloads.toolkit.recorded` to replay.

    Nothing is written to the cluster, and no consumer group is kept."""
    import pyarrow.parquet

    from harness.load.record import record_topic, settings_of

    if target.suffix != ".parquet":
        raise UsageError(
            f"--to: {target} does not end in .parquet", remedy=f"write {target.stem}.parquet"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    to_stderr(f"asking {bootstrap} for {topic}")
    settings = {**settings_of(client), "bootstrap.servers": bootstrap}
    with _connected(settings) as consumer:
        table = record_topic(
            consumer, topic, most=most, progress=lambda n: to_stderr(f"{n} records of {topic}")
        )
    if not len(table):
        raise UsageError(f"topic {topic!r} has no record", remedy="record it when it has some")
    pyarrow.parquet.write_table(table, target)
    click.echo(f"{len(table)} records of {topic}: {target}")
    click.echo(f'replay them with recorded("{topic}", "{target}")')


@contextmanager
def _connected(settings: Mapping[str, str]) -> Iterator[Consumer]:
    """Connect a consumer for the duration of the block; turn its errors into one message.

    Else the client logs each of its attempts, some twenty a second."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    seen: list[str] = []
    silent = logging.Logger("kafka")
    silent.addHandler(logging.NullHandler())
    own = {
        "group.id": "faultline-record",
        "enable.auto.commit": False,
        "error_cb": lambda error: seen.append(error.str()),
    }
    try:
        consumer = Consumer({**settings, **own}, logger=silent)
    except KafkaException as error:
        raise UsageError(
            f"the client takes no such settings: {error.args[0].str()}",
            remedy="give --client names of librdkafka's settings, such as sasl.username and "
            "sasl.password instead of Java's sasl.jaas.config",
        ) from error
    try:
        yield consumer
    except KafkaException as error:
        consumer.poll(0)  # calls error_cb
        reason: KafkaError = error.args[0]
        why = next((each for each in seen if "brokers are down" not in each), reason.str())
        raise EnvironmentFailure(
            f"{settings['bootstrap.servers']} does not answer: {why}",
            remedy="look at --bootstrap, and with --client at the settings for encryption and "
            "authentication that the broker asks for",
        ) from error
    finally:
        consumer.close()
