"""``faultline endure``: kill a live engine until so many were killed, and compare its output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import click

from harness.cli.options import cluster_option
from harness.cli.output import emit_json, json_option
from harness.errors import UsageError
from harness.text import did_you_mean, format_duration

_EPILOG = """\b
Examples:
  ./faultline endure --kills 20
  ./faultline endure --kills 1000 --seed 7 --scheme active
  ./faultline endure --kills 100 --network namespaces        cut racks off, too
"""


@click.command(epilog=_EPILOG)
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the schedules.")
@click.option("--scheme", metavar="NAME", help="Only this one; default: all of them in turn.")
@click.option("--workload", "workload_name", default="word-count", show_default=True)
@click.option("--rate", type=click.FloatRange(1), default=400.0, show_default=True,
              help="Records per second, of all sources together.")  # fmt: skip
@cluster_option
@json_option
def command(
    kills: int,
    seed: int,
    scheme: str | None,
    workload_name: str,
    rate: float,
    backend: str,
    as_json: bool,
) -> None:
    """Kill nodes, racks and the coordinator of the task engine, live, until so many were killed.

    Kills come at random instants, during recoveries too, and nodes are frozen for a while; where
    the cluster can do it (--network namespaces, --cluster docker), racks are cut off the network.
    After each pass its output is compared with every batch computed once and in order over the
    same input. The exit code is 1 if a result was lost, delivered twice, wrong, taken back, or
    left tentative, or if a process was left behind.
    """
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.cluster.processes import marked
    from harness.engines.base import Setup
    from harness.engines.tasks.endure import endure
    from harness.engines.tasks.engine import running_engine
    from harness.protocol.schemes import SCHEMES
    from workloads.catalogue import workload_entry

    if scheme is not None and scheme not in SCHEMES:
        raise UsageError(f"there is no scheme {scheme!r}", remedy=did_you_mean(scheme, SCHEMES))
    workload = workload_entry(workload_name).make(seed=seed)
    spec = ClusterSpec(
        racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3,
        memory_mb_per_worker=768,
    )  # fmt: skip
    say = _speaker()
    began = time.monotonic()
    place = find_backend(backend)
    place.enter(sys.argv[1:])
    cluster = place.make(spec)
    with cluster:
        cluster.start(say)
        setup = Setup(scheme=scheme or "checkpoint", parameters={"checkpoint_s": 2.0})
        say("starting the engine")
        with running_engine(setup, cluster) as engine:
            tally = endure(
                engine,
                workload,
                cluster.scratch("endure"),
                kills=kills,
                seed=seed,
                scheme=scheme,
                rate_per_s=rate,
                report=say,
            )
        run = getattr(cluster, "run", None)
    tally.leftover_processes = len(marked(run)) if run is not None else 0
    document = {**asdict(tally), "seed": seed, "seconds": round(time.monotonic() - began, 1)}
    if as_json:
        emit_json(document)
    else:
        wrong = f"{tally.failures} wrong" if tally.failures else "nothing wrong"
        click.echo(
            f"{tally.kills} killed in {tally.runs} passes and "
            f"{format_duration(document['seconds'])}: {tally.results} results, {wrong}"
        )
        for name, count in document.items():
            click.echo(f"  {name}: {count}")
    if tally.failures:
        sys.exit(1)


def _speaker() -> Callable[[str], None]:
    began = time.monotonic()

    def say(line: str) -> None:
        click.echo(f"{time.monotonic() - began:8.1f}  {line}", err=True)

    return say
