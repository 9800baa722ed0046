"""``faultline cluster``: a cluster to try things on, which stays until it is taken down."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import click

from harness.cli.options import cluster_option
from harness.cli.output import elapsed_reporter, json_option, show
from harness.cluster.backends import find_backend, recorded_backend, remove_made
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.ownership import ClusterRecord, ClusterRecords
from harness.cluster.processes import Machine
from harness.cluster.run_directory import addresses_file, kafka_file, redis_file, spark_file
from harness.errors import UsageError
from harness.text import format_duration

_LOOK_S = 2.0
"""Interval of looks at a cluster that ends with its command."""


@click.group(
    "cluster",
    short_help="Start, list and stop clusters by hand.",
    epilog="""\b
Examples:
  ./faultline cluster up --racks 2 --workers-per-rack 2
  ./faultline cluster status
  ./faultline cluster down""",
)
def command() -> None:
    """Kafka, Redis and Spark, for trying things by hand.

    Experiments start and stop clusters of their own; this is for everything else. Only programs
    of your user that read the credential files can use a cluster."""


@command.command(
    short_help="Start a cluster and leave it running.",
    epilog="""\b
Examples:
  ./faultline cluster up
  ./faultline cluster up --racks 3 --cores-per-worker 2 --json
  ./faultline cluster up --keep        leave logs and data there after `cluster down`""",
)
@cluster_option
@click.option("--racks", default=2, help="Racks: nodes that fail together.")
@click.option("--workers-per-rack", default=1, help="Spark workers in each.")
@click.option("--nodes-per-worker", default=1, help="Nodes on each worker.")
@click.option("--cores-per-worker", default=1, help="Task slots of a worker.")
@click.option("--memory-mb-per-worker", default=1024, help="Memory of its executors, MB.")
@click.option("--append-only", is_flag=True, help="Let Redis write an append-only file.")
@click.option("--keep", is_flag=True, help="Leave logs and data there when it is taken down.")
@json_option
def up(*, backend: str, append_only: bool, keep: bool, as_json: bool, **shape: int) -> None:
    """Start a cluster and leave it running until `./faultline cluster down`.

    One on machines or in containers ends with its connections: this command waits for Ctrl-C."""
    place = find_backend(backend)
    place.enter(sys.argv[1:])
    cluster = place.make(ClusterSpec(append_only=append_only, **shape), keep=keep)
    begun_s = time.monotonic()
    cluster.start(elapsed_reporter())
    if place.outlives:
        cluster.release()
    record = next(record for record in ClusterRecords().records() if record.run == cluster.run)
    description = _describe(record)
    with nullcontext() if place.outlives else cluster:
        lines = _new_lines(cluster, description, time.monotonic() - begun_s, place.outlives)
        show(description, lines, as_json=as_json)
        while not place.outlives:  # until Ctrl-C, or until a server or a machine is lost
            cluster.health()
            time.sleep(_LOOK_S)


def _new_lines(
    cluster: Cluster, description: dict[str, Any], took_s: float, outlives: bool
) -> Iterator[str]:
    yield f"The cluster is up after {format_duration(took_s)}.\n"
    yield from _lines(description)
    environment = cluster.driver_environment()
    settings = " ".join(
        f"{name}='{environment[name]}'"
        for name in ("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP")
    )
    yield f"\nA Spark shell on it:\n  {settings} '{environment['SPARK_HOME']}/bin/pyspark'"
    end = f"./faultline cluster down {cluster.run}" if outlives else "Ctrl-C"
    yield f"\nWhen you are done:\n  {end}"


@command.command(
    short_help="Take clusters down.",
    epilog="""\b
Examples:
  ./faultline cluster down                     every cluster that `up` started
  ./faultline cluster down 3f2a91c04be7d605    one of them""",
)
@click.argument("run", required=False)
@json_option
def down(run: str | None, *, as_json: bool) -> None:
    """Take clusters down, and remove what dead runs left behind.

    Clusters of experiments that are running now are left alone."""
    note = partial(click.echo, err=True)
    records = ClusterRecords()
    ended = []
    for record in _chosen(run, records.records()):
        note(f"taking down {record.directory}")
        records.clean_up(record, remove_made)
        ended.append(record.run)
    ended.extend(record.run for record in records.sweep(note, remove_made))
    line = f"{len(ended)} taken down" if ended else "there was no cluster to take down"
    show({"ended": ended}, [line], as_json=as_json)


@command.command(
    short_help="Show every cluster, and how to connect.",
    epilog="""\b
Examples:
  ./faultline cluster status
  ./faultline cluster status --json""",
)
@json_option
def status(*, as_json: bool) -> None:
    """Show every cluster on record: who uses it, what lives, how to connect."""
    descriptions = [_describe(record) for record in ClusterRecords().records()]
    lines = [line for each in descriptions for line in _lines(each)]
    nothing = "no cluster; `./faultline cluster up` starts one"
    show(descriptions, lines or [nothing], as_json=as_json)


def _chosen(run: str | None, records: list[ClusterRecord]) -> list[ClusterRecord]:
    """Return the released clusters, or the one that was named. Raises `UsageError`."""
    here = Machine.here()
    if run is None:
        return [record for record in records if record.owner is None and record.machine == here]
    found = next((record for record in records if record.run == run), None)
    if found is None:
        known = ", ".join(record.run for record in records) or "there is none"
        raise UsageError(f"there is no cluster {run!r}", remedy=f"clusters on record: {known}")
    if found.machine != here:
        raise UsageError(
            f"cluster {run} runs on {found.machine.hostname} or in another container",
            remedy="take it down there",
        )
    if found.owner is not None and not found.abandoned(here):
        raise UsageError(
            f"cluster {run} is in use by process {found.owner.pid}",
            remedy="end that process with Ctrl-C or `kill`: its cluster ends with it",
        )
    return [found]


def _describe(record: ClusterRecord) -> dict[str, Any]:
    """Return a description of a cluster that holds no secret."""
    here = Machine.here()
    path = addresses_file(record.directory)
    return {
        "run": record.run,
        "backend": record.backend,
        "state": _state(record, here),
        "up_for_s": round(time.time() - record.started_unix_s, 1),
        "directory": str(record.directory),
        "servers": dict(recorded_backend(record.backend).servers(record)),
        "addresses": json.loads(path.read_text()) if path.exists() else {},
        "credentials": {
            "kafka": str(kafka_file(record.directory)),
            "redis": str(redis_file(record.directory)),
            "spark": str(spark_file(record.directory)),
        },
    }


def _state(record: ClusterRecord, here: Machine) -> str:
    if record.abandoned(here):
        return "left behind by a dead process"
    if record.machine != here:
        return f"on {record.machine.hostname} or in another container"
    if record.owner is None:
        return "up"
    return f"in use by process {record.owner.pid}"


def _lines(description: dict[str, Any]) -> Iterator[str]:
    age = format_duration(description["up_for_s"])
    yield f"{description['run']}  {description['backend']}, {description['state']}, since {age}"
    servers = description["servers"].items()
    yield f"  alive      {', '.join(name for name, alive in servers if alive) or 'nothing'}"
    if dead := [name for name, alive in servers if not alive]:
        yield f"  dead       {', '.join(dead)}"
    for name, address in description["addresses"].items():
        yield f"  {name:<10} {address}  (credentials: {description['credentials'][name]})"
    yield f"  logs       {description['directory']}/logs"
