"""``faultline record``: a topic of an existing cluster as a file that a workload replays."""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
Examples:
  ./faultline record orders --bootstrap broker:9092 --to orders.parquet
  ./faultline record orders --bootstrap broker:9093 --client kafka.properties --to orders.parquet
"""


@click.command("record", epilog=_EPILOG)
@click.argument("topic")
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="The cluster's brokers.")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The Parquet file to write.",
)
@click.option(
    "--most", type=click.IntRange(1), default=100_000, show_default=True, help="Most records."
)
@click.option(
    "--client",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with settings of the client, such as security.protocol=SASL_SSL: a line each.",
)
def command(topic: str, bootstrap: str, target: Path, most: int, client: Path | None) -> None:
    """Copy what is in TOPIC now into a file, for `workloads.toolkit.recorded` to replay.

    Nothing is written to the cluster, and no consumer group is kept."""
    import pyarrow.parquet
    from confluent_kafka import Consumer

    from harness.environment.cache import to_stderr
    from harness.errors import UsageError
    from harness.load.record import record_topic, settings_of

    if target.suffix != ".parquet":
        raise UsageError(
            f"--to: {target} does not end in .parquet", remedy=f"write {target.stem}.parquet"
        )
    consumer = Consumer(
        {
            **settings_of(client),
            "bootstrap.servers": bootstrap,
            "group.id": "faultline-record",
            "enable.auto.commit": False,
        }
    )
    try:
        table = record_topic(
            consumer, topic, most=most, progress=lambda n: to_stderr(f"{n} records of {topic}")
        )
    finally:
        consumer.close()
    if not len(table):
        raise UsageError(f"topic {topic!r} has no record", remedy="record it when it has some")
    pyarrow.parquet.write_table(table, target)
    click.echo(f"{len(table)} records of {topic}: {target}")
    click.echo(f'replay them with recorded("{topic}", "{target}")')
