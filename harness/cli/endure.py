"""``faultline endure``: kills of a live engine at random, and a check of its output."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import cluster_option
from harness.cli.output import elapsed_reporter, emit_json, json_option
from harness.errors import UsageError
from harness.text import did_you_mean, format_duration

if TYPE_CHECKING:
    import pandas as pd

    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline endure --kills 20
  ./faultline endure --kills 1000 --seed 7
  ./faultline endure --seed 7 --pass 3                       one pass of that, again
  ./faultline endure --kills 50 --scheme ppa --scheme dpc --workload world-cup
  ./faultline endure --kills 100 --network namespaces        cut racks off, too
  ./faultline endure --hours 2                               few kills, and a plot of all memory
  ./faultline endure --engine kafka-streams --scheme standby --kills 20
"""


@click.command(epilog=_EPILOG)
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True,
              help="End after the pass in which this many were killed.")  # fmt: skip
@click.option("--hours", type=click.FloatRange(0, min_open=True),
              help="End after this time, with few kills and output that the broker keeps for a "
              "minute; draw all processes' memory.")  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Root of the random schedules."
)
@click.option("--engine", "named", metavar="NAME or FILE", default="tasks", show_default=True,
              help="Another engine, or a file of your own (docs/own-engine.md).")  # fmt: skip
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
    hours: float | None,
    seed: int,
    named: str,
    contenders: tuple[str, ...],
    chosen: tuple[str, ...],
    only: int | None,
    out: Path,
    rate: float,
    backend: str,
    as_json: bool,
) -> None:
    """Kill nodes, racks and the coordinator of a running engine, again and again.

    Kills come at random instants, also during recoveries, and nodes are frozen for a while. Where
    the cluster can do it (--network namespaces, --cluster docker), racks are cut off the network.

    After each pass the output is compared with the ground truth: every batch of the same input,
    computed once and in order. The exit code is 1 if a result was lost, delivered twice, wrong,
    taken back, or left tentative, or if a process was left behind. Under other engines than "tasks"
    only nodes and racks are killed; a result may come twice, unless a file says exactly-once."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.cluster.processes import marked
    from harness.endurance.endure import Endurance, Tally, pace
    from harness.endurance.memory import Memory
    from harness.engines.base import Setup
    from harness.engines.tasks.engine import running_engine
    from harness.engines.tasks.systems import SYSTEMS

    if named != "tasks":
        if hours is not None:
            raise UsageError("--hours is for the task engine", remedy="use --kills")
        sys.exit(_other(named, contenders, chosen, kills, seed, only, rate, backend, as_json))
    workloads = _workloads(contenders, chosen, seed)
    spec = ClusterSpec(nodes_per_worker=3, cores_per_worker=3, memory_mb_per_worker=768)
    say, began = elapsed_reporter(), time.monotonic()
    (place := find_backend(backend)).enter(sys.argv[1:])
    with place.make(spec) as cluster:
        cluster.start(say)
        say("starting the engine")
        with running_engine(Setup(scheme="checkpoint"), cluster) as engine:
            schemes = contenders or tuple(SYSTEMS)
            endurance = Endurance(
                engine=engine,
                workloads=workloads,
                seed=seed,
                directory=cluster.scratch("endure"),
                keep=out / "endure",
                contenders=schemes,
                rate_per_s=rate,
                report=say,
                **pace(hours, len(schemes)),
            )
            if hours is not None:
                with Memory(cluster.run) as memory:
                    tally = endurance.for_hours(hours)
            elif only is None:
                tally = endurance.until(kills)
            else:
                endurance.run(only - 1, tally := Tally())
        run = getattr(cluster, "run", None)
    tally.leftover_processes = len(marked(run)) if run is not None else 0
    document = {**asdict(tally), "seed": seed, "seconds": round(time.monotonic() - began, 1)}
    if hours is not None:
        document |= _remembered(memory.table(), out / "endure", f"memory-seed-{seed}")
    _tell(document, tally.runs, tally.failures, as_json)
    if tally.failures:
        sys.exit(1)


def _remembered(seen: pd.DataFrame, directory: Path, name: str) -> dict[str, Any]:
    """Write and draw the memory of all processes; return its growth and the picture's path."""
    from harness.endurance.memory import growth, write

    return {"grown_mb": growth(seen), "memory": str(write(seen, directory, name))}


def _other(
    engine: str, schemes: Sequence[str], chosen: Sequence[str], kills: int, seed: int,
    only: int | None, rate: float, backend: str, as_json: bool,
) -> int:  # fmt: skip
    """Endure an engine by its contract alone; return the exit code."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.cluster.processes import marked
    from harness.endurance.any_engine import AnyEndurance
    from harness.endurance.draw import RUN_S, workloads_for
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine
    from workloads.own import load_workload_file

    if len(schemes) > 1 or len(chosen) > 1:
        raise UsageError(
            f"endure --engine {engine} takes one scheme and one workload",
            remedy="name one of each, and the next ones in another command",
        )
    kind = find_engine(engine)
    setup = Setup(scheme=schemes[0] if schemes else next(iter(kind.schemes)))
    (name,) = chosen or ("word-count",)
    workload = (
        load_workload_file(Path(name)) if name.endswith(".py") else workloads_for([name], seed)[0]
    )
    spec = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=2, memory_mb_per_worker=640)
    kind.needs(setup)
    say, began, place = elapsed_reporter(), time.monotonic(), find_backend(backend)
    place.enter(sys.argv[1:])
    with place.make(spec) as cluster:
        endurance = AnyEndurance(
            kind=kind, setup=setup, cluster=cluster, workload=workload, seed=seed,
            rate_per_s=rate, seconds=RUN_S, report=say,
        )  # fmt: skip
        endurance.check()
        cluster.start(say)
        counts = endurance.until(kills) if only is None else endurance.only(only - 1)
        run = getattr(cluster, "run", None)
    counts.leftover_processes = len(marked(run)) if run is not None else 0
    seconds = round(time.monotonic() - began, 1)
    _tell(
        {**asdict(counts), "seed": seed, "seconds": seconds},
        counts.passes,
        counts.failures,
        as_json,
    )
    return 1 if counts.failures else 0


def _tell(document: Mapping[str, Any], passes: int, failures: int, as_json: bool) -> None:
    """Print what was counted."""
    if as_json:
        emit_json(dict(document))
        return
    wrong = f"{failures} wrong" if failures else "nothing wrong"
    click.echo(
        f"{document['kills']} killed in {passes} passes and "
        f"{format_duration(document['seconds'])}: {document['results']} results, {wrong}"
    )
    for name, count in document.items():
        click.echo(f"  {name}: {count}")


def _workloads(contenders: Sequence[str], chosen: Sequence[str], seed: int) -> list[Workload]:
    """Return the chosen workloads. Raises `UsageError` for a scheme or a workload that is unfit."""
    from harness.endurance.draw import workloads_for
    from harness.engines.tasks.systems import SYSTEMS
    from workloads.base import TASKS
    from workloads.own import load_workload_file

    for name in contenders:
        if name not in SYSTEMS:
            raise UsageError(
                f"there is no scheme {name!r} to endure", remedy=did_you_mean(name, SYSTEMS)
            )
    files = [Path(name) for name in chosen if name.endswith(".py")]
    named = [name for name in chosen if not name.endswith(".py")]
    workloads = [load_workload_file(path) for path in files]
    if named or not files:
        workloads += workloads_for(named, seed)
    for workload in workloads:
        workload.form(TASKS)
    return workloads
