"""``faultline endure``: kills of a live engine at random, and a check of its output."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from harness.cli.options import ABOVE_0, FOLDER, cluster_option, option, options_of
from harness.cli.output import elapsed_reporter, json_option, show
from harness.cluster.backends import find_backend
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.processes import marked
from harness.errors import UsageError
from harness.text import Notify, did_you_mean, format_duration

if TYPE_CHECKING:
    from harness.endurance.any_engine import Counts
    from harness.endurance.endure import Tally
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of this command."""

    kills: Annotated[int, option("--kills", type=click.IntRange(1), default=100,
        help="End after the pass in which this many were killed.")]  # fmt: skip
    hours: Annotated[float | None, option("--hours", type=ABOVE_0,
        help="End after this time, with few kills and output that the broker keeps for a minute; "
        "draw all processes' memory.")]  # fmt: skip
    seed: Annotated[int, option("--seed", default=0, help="Root of the random schedules.")]
    engine: Annotated[str, option("--engine", metavar="NAME or FILE", default="tasks",
        help="Another engine, or a file of your own (docs/own-engine.md).")]  # fmt: skip
    schemes: Annotated[Sequence[str], option("--scheme", metavar="NAME", multiple=True,
        help="Only this scheme; repeatable.  [default: all in turn]")]  # fmt: skip
    workloads: Annotated[Sequence[str], option("--workload", metavar="NAME or FILE", multiple=True,
        help="Only this workload; repeatable.  [default: the papers' in turn]")]  # fmt: skip
    only: Annotated[int | None, option("--pass", type=click.IntRange(1), metavar="N",
        help="Only the N-th pass of this seed.")]  # fmt: skip
    out: Annotated[Path, option("--out", type=FOLDER, default=Path("results"),
        help="Directory for what a failed pass leaves.")]  # fmt: skip
    rate: Annotated[float, option("--rate", type=click.FloatRange(1), default=400.0,
        help="Records per second, of all sources together.")]  # fmt: skip
    backend: Annotated[str, cluster_option]

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """Make a cluster of the chosen kind."""
        (place := find_backend(self.backend)).enter(sys.argv[1:])
        return place.make(spec)


@click.command(epilog=_EPILOG)
@options_of(_Options, "chosen")
@json_option
def command(chosen: _Options, as_json: bool) -> None:
    """Kill nodes, racks and the coordinator of a running engine, again and again.

    Kills come at random instants, also during recoveries, and nodes are frozen for a while. Where
    the cluster can do it (--network namespaces, --cluster docker), racks are cut off the network.

    After each pass the output is compared with the ground truth: every batch of the same input,
    computed once and in order. The exit code is 1 if a result was lost, delivered twice, wrong,
    taken back, or left tentative, or if a process was left behind. Under other engines than "tasks"
    only nodes and racks are killed; a result may come twice, unless a file says exactly-once."""
    began = time.monotonic()
    measure = _tasks if chosen.engine == "tasks" else _other
    counts, passes, further = measure(chosen, elapsed_reporter())
    document = {
        **asdict(counts),
        "seed": chosen.seed,
        "seconds": round(time.monotonic() - began, 1),
        **further,
    }
    wrong = f"{counts.failures} wrong" if counts.failures else "nothing wrong"
    lines = [
        f"{counts.kills} killed in {passes} passes and {format_duration(document['seconds'])}: "
        f"{counts.results} results, {wrong}",
        *(f"  {name}: {count}" for name, count in document.items()),
    ]
    show(document, lines, as_json=as_json)
    if counts.failures:
        sys.exit(1)


def _tasks(chosen: _Options, say: Notify) -> tuple[Tally, int, dict[str, Any]]:
    """Endure the task engine; return counts, passes, and what is known of its memory."""
    from harness.endurance.endure import Endurance, Tally, pace
    from harness.endurance.memory import Memory, growth, write
    from harness.engines.base import Setup
    from harness.engines.tasks.engine import running_engine
    from harness.engines.tasks.systems import SYSTEMS
    from workloads.base import TASKS

    schemes = chosen.schemes or tuple(SYSTEMS)
    for name in schemes:
        if name not in SYSTEMS:
            raise UsageError(
                f"there is no scheme {name!r} to endure", remedy=did_you_mean(name, SYSTEMS)
            )
    workloads = _workloads(chosen.workloads, chosen.seed)
    for workload in workloads:
        workload.form(TASKS)
    spec = ClusterSpec(nodes_per_worker=3, cores_per_worker=3, memory_mb_per_worker=768)
    with chosen.cluster(spec) as cluster:
        cluster.start(say)
        say("starting the engine")
        with running_engine(Setup(scheme="checkpoint"), cluster) as engine:
            endurance = Endurance(
                engine=engine,
                workloads=workloads,
                seed=chosen.seed,
                directory=cluster.scratch("endure"),
                keep=chosen.out / "endure",
                contenders=schemes,
                rate_per_s=chosen.rate,
                report=say,
                **pace(chosen.hours, len(schemes)),
            )
            if chosen.hours is not None:
                with Memory(cluster.run) as memory:
                    tally = endurance.for_hours(chosen.hours)
            elif chosen.only is None:
                tally = endurance.until(chosen.kills)
            else:
                endurance.run(chosen.only - 1, tally := Tally())
    tally.leftover_processes = len(marked(cluster.run))
    if chosen.hours is None:
        return tally, tally.runs, {}
    seen, name = memory.table(), f"memory-seed-{chosen.seed}"
    drawn = str(write(seen, chosen.out / "endure", name))
    return tally, tally.runs, {"grown_mb": growth(seen), "memory": drawn}


def _other(chosen: _Options, say: Notify) -> tuple[Counts, int, dict[str, Any]]:
    """Endure another engine by its contract alone; return counts and passes."""
    from harness.endurance.any_engine import AnyEndurance
    from harness.endurance.draw import RUN_S
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine

    if chosen.hours is not None:
        raise UsageError("--hours is for the task engine", remedy="use --kills")
    if len(chosen.schemes) > 1 or len(chosen.workloads) > 1:
        raise UsageError(
            f"endure --engine {chosen.engine} takes one scheme and one workload",
            remedy="name one of each, and the next ones in another command",
        )
    kind = find_engine(chosen.engine)
    setup = Setup(scheme=chosen.schemes[0] if chosen.schemes else next(iter(kind.schemes)))
    (workload,) = _workloads(chosen.workloads or ["word-count"], chosen.seed)
    kind.needs(setup)
    spec = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=2, memory_mb_per_worker=640)
    with chosen.cluster(spec) as cluster:
        endurance = AnyEndurance(
            kind=kind, setup=setup, cluster=cluster, workload=workload, seed=chosen.seed,
            rate_per_s=chosen.rate, seconds=RUN_S, report=say,
        )  # fmt: skip
        endurance.check()
        cluster.start(say)
        only = chosen.only
        counts = endurance.until(chosen.kills) if only is None else endurance.only(only - 1)
    counts.leftover_processes = len(marked(cluster.run))
    return counts, counts.passes, {}


def _workloads(names: Sequence[str], seed: int) -> list[Workload]:
    """Return the workloads of these names and files; those of the papers if there is none."""
    from harness.endurance.draw import SMALL, workload_of
    from workloads.own import load_workload_file

    return [
        load_workload_file(Path(name)) if name.endswith(".py") else workload_of(name, seed)
        for name in names or SMALL
    ]
