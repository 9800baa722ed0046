"""``faultline endure``: kills of a live engine at random, and a check of its output."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import cluster_option
from harness.cli.output import elapsed_reporter, emit_json, json_option
from harness.errors import UsageError
from harness.text import did_you_mean, format_duration

if TYPE_CHECKING:
    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline endure --kills 20
  ./faultline endure --kills 1000 --seed 7
  ./faultline endure --seed 7 --pass 3                       one pass of that, again
  ./faultline endure --kills 50 --scheme ppa --scheme dpc --workload world-cup
  ./faultline endure --kills 100 --network namespaces        cut racks off, too
"""


@click.command(epilog=_EPILOG)
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True,
              help="End after the pass in which this many were killed.")  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Root of the random schedules."
)
@click.option("--scheme", "contenders", metavar="NAME", multiple=True,
              help="Only this scheme; repeatable.  [default: all in turn]")  # fmt: skip
@click.option("--workload", "chosen", metavar="NAME or FILE", multiple=True,
              help="Only this workload; repeatable.  [default: the papers' in turn]")  # fmt: skip
@click.option("--pass", "only", type=click.IntRange(1), metavar="N",
              help="Only the N-th pass of this seed.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("results"),
              show_default=True, help="Directory for what a failed pass leaves.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(1), default=400.0, show_default=True,
              help="Records per second, of all sources together.")  # fmt: skip
@cluster_option
@json_option
def command(
    kills: int,
    seed: int,
    contenders: tuple[str, ...],
    chosen: tuple[str, ...],
    only: int | None,
    out: Path,
    rate: float,
    backend: str,
    as_json: bool,
) -> None:
    """Kill nodes, racks and the coordinator of the running task engine, again and again.

    Kills come at random instants, also during recoveries, and nodes are frozen for a while. Where
    the cluster can do it (--network namespaces, --cluster docker), racks are cut off the network.

    After each pass the output is compared with the ground truth: every batch of the same input,
    computed once and in order. The exit code is 1 if a result was lost, delivered twice, wrong,
    taken back, or left tentative, or if a process was left behind."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.cluster.processes import marked
    from harness.endurance.endure import Endurance, Tally
    from harness.engines.base import Setup
    from harness.engines.tasks.contenders import CONTENDERS
    from harness.engines.tasks.engine import running_engine

    workloads = _workloads(contenders, chosen, seed)
    spec = ClusterSpec(
        racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3,
        memory_mb_per_worker=768,
    )  # fmt: skip
    say = elapsed_reporter()
    began = time.monotonic()
    place = find_backend(backend)
    place.enter(sys.argv[1:])
    with place.make(spec) as cluster:
        cluster.start(say)
        say("starting the engine")
        with running_engine(Setup(scheme="checkpoint"), cluster) as engine:
            endurance = Endurance(
                engine=engine,
                workloads=workloads,
                seed=seed,
                directory=cluster.scratch("endure"),
                keep=out / "endure",
                contenders=contenders or tuple(CONTENDERS),
                rate_per_s=rate,
                report=say,
            )
            if only is None:
                tally = endurance.until(kills)
            else:
                endurance.run(only - 1, tally := Tally())
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


def _workloads(contenders: Sequence[str], chosen: Sequence[str], seed: int) -> list[Workload]:
    """Return the chosen workloads. Raises `UsageError` for a scheme or a workload that is unfit."""
    from harness.endurance.draw import workloads_for
    from harness.engines.tasks.contenders import CONTENDERS
    from workloads.base import TASKS, load_workload_file

    for name in contenders:
        if name not in CONTENDERS:
            raise UsageError(
                f"there is no scheme {name!r} to endure", remedy=did_you_mean(name, CONTENDERS)
            )
    files = [Path(name) for name in chosen if name.endswith(".py")]
    named = [name for name in chosen if not name.endswith(".py")]
    workloads = [load_workload_file(path) for path in files]
    if named or not files:
        workloads += workloads_for(named, seed)
    for workload in workloads:
        workload.form(TASKS)
    return workloads
