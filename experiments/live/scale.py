"""34 and 200 nodes of the task engine on one machine: their start, and their cost.

Two racks with one worker each. 17 nodes to a worker are as many as the papers' recovery topology
has with its replicas. *Start*: Kafka, Redis and Spark; then driver, executors and nodes. *Idle*:
the papers' recovery topology under active replication, in batches of 1 s, with a record a second
from each source: every node hosts copies, beats, and has next to nothing to do. *Loaded*: that
topology with 500 tuples a second from each source. With 100 nodes to a worker the topology is four
times as large and its batches are five times as long, and in one more pass the coordinator is
killed, and then a node."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live._cpu import CpuWatch, cpu_s, loops_s
from experiments.live._judged import stacked
from harness.claims import Finding, Rule, applied, at_most, hypothesis, invariant, median_of, rows
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, measured
from harness.failures.schedule import FailureEvent, Schedule
from harness.figures.chart import Figure
from harness.figures.style import BLUE, GREEN, GREY, ORANGE, VERMILION
from harness.seeds import DEFAULT_SEED

if TYPE_CHECKING:
    from harness.cluster.base import Cluster
    from harness.engines.base import Engine
    from harness.judging.runner import Made, Runner

RACKS, NODES, MANY = 2, 34, 200
BRIEFLY = 6
"""Nodes of the smoke profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The work of a number of nodes."""

    levels: int
    """Of the topology: 2^levels sources, then half as many tasks each; all with a replica."""
    interval_s: float
    """Of batches."""
    parameters: TaskParameters

    @property
    def sources(self) -> int:
        """The tasks of the first level."""
        return 1 << self.levels

    @property
    def tasks(self) -> int:
        """The tasks of all levels, without replicas."""
        return 2 * self.sources - 1


FEW = Size(levels=4, interval_s=1.0, parameters=TaskParameters(notes_progress=False))
SIZES = {
    NODES: FEW,
    # With the engine's own heartbeats (0.25 s, and 1 s to a suspicion) two runs took 73 and 106
    # living nodes for dead: all take their batches at one time, and two cores need more than a
    # second for them.
    MANY: Size(
        levels=6, interval_s=5.0, parameters=replace(FEW.parameters, heartbeat_s=1.0, suspect_s=5.0)
    ),
}
IDLE_PER_S, LOADED_PER_S = 1.0, 500.0 * FEW.sources
"""Tuples per second: idle of each source, loaded of all together."""
LOAD_S = {Profile.SMOKE: 6.0, Profile.QUICK: 14.0, Profile.PAPER: 60.0}
SETTLE_S = 4.0
"""Time of a pass until copies are placed and replicas have caught up."""
WAITING_S = 5.0
LOOPS = "loops"
"""Event loops within the nodes' part; the rest is the threads of their Kafka clients."""


def run(point: Point, context: Context) -> Outcome:
    """Start everything, then make one pass at each rate."""
    from harness.cluster.base import ClusterSpec
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine
    from harness.judging.runner import Runner

    wanted, brief = int(str(point["nodes"])), context.profile is Profile.SMOKE
    size, nodes = SIZES[wanted], BRIEFLY if brief else wanted
    spec = ClusterSpec(
        racks=RACKS, workers_per_rack=1, nodes_per_worker=nodes // RACKS,
        cores_per_worker=nodes // RACKS, memory_mb_per_worker=1024,
    )  # fmt: skip
    began = time.monotonic()
    cluster = context.cluster(spec)
    servers_s = time.monotonic() - began
    setup = Setup(scheme="active", brief=brief, parameters=size.parameters)
    began = time.monotonic()
    with find_engine("tasks").open(setup, cluster) as engine:
        nodes_s = time.monotonic() - began
        runner = Runner(engine, setup, cluster, context)
        values: dict[str, float | bool] = {"servers_s": servers_s, "nodes_s": nodes_s}
        values |= _named("waiting", _waiting(engine, cluster))
        for name, per_s in (("idle", IDLE_PER_S * size.sources), ("loaded", LOADED_PER_S)):
            values |= _named(name, _pass(runner, size, per_s))
        if wanted == MANY:
            values |= _named("killed", _killed(runner, size))
        values["resident_mb"] = _resident_mb(cluster)
    return Outcome(values=values)


def _named(load: str, parts: Mapping[str, float]) -> dict[str, float]:
    return {f"{load}_{part}": value for part, value in parts.items()}


def _waiting(engine: Engine, cluster: Cluster) -> dict[str, float]:
    """Return cores by part, and their sum, while nothing runs."""
    begin = time.time()
    with CpuWatch(lambda: cpu_s(cluster, engine)) as watch:
        time.sleep(WAITING_S)
    cores = {name: s / WAITING_S for name, s in watch.between(begin, begin + WAITING_S).items()}
    return {**cores, "cores": sum(cores.values())}


def _made(runner: Runner, size: Size, per_s: float, **how: Any) -> Made:
    from workloads.synthetic import synthetic

    seed, load_s = runner.context.seed("input"), LOAD_S[runner.context.profile]
    workload = synthetic(
        seed=seed, levels=size.levels, keys=100, window_s=10, slide_s=size.interval_s
    )
    name = f"at-{per_s:g}"
    return runner.steady(name, workload, per_s, load_s, size.interval_s, truth=True, **how)


def _pass(runner: Runner, size: Size, per_s: float) -> dict[str, float]:
    """Return cores by part under load, their sum, `LOOPS`, and the number of missing results."""
    cluster, engine = runner.cluster, runner.engine
    watch = CpuWatch(lambda: {**cpu_s(cluster, engine), LOOPS: loops_s(cluster)})
    made = _made(runner, size, per_s, watch=watch)
    record = made.record
    start, until = SETTLE_S, record.until_s
    used = watch.between(record.start_unix_s + start, record.start_unix_s + until)
    cores = {name: seconds / (until - start) for name, seconds in used.items()}
    whole = sum(each for name, each in cores.items() if name != LOOPS)
    return {**cores, "cores": whole, "missing": made.wrong()["lost"]}


def _killed(runner: Runner, size: Size) -> dict[str, float]:
    """Kill the coordinator, and then a node, which the next coordinator has to notice.

    Returns the number of ``missing`` results, of other nodes that were taken for dead (``falsely``)
    and whether that node was ``noticed`` and all that ran on it was ``recovered``."""
    from harness.cluster.base import Action
    from harness.engines.base import EventKind, parts_of

    (coordinator,) = parts_of(runner.engine)
    victim = runner.engine.targets()[0].name
    events = [
        FailureEvent(at_s=10, action=Action.KILL, target=coordinator),
        FailureEvent(at_s=25, action=Action.KILL, target=victim),
        FailureEvent(at_s=35, action=Action.RESTART, target=victim),
    ]
    schedule = Schedule(events=events, origin="the coordinator, then a node")
    made = _made(runner, size, IDLE_PER_S * size.sources, schedule=schedule)
    seen = made.record.incidents
    dead, back = (
        set(seen.loc[seen["event"] == kind, "target"])
        for kind in (EventKind.DETECTED, EventKind.RECOVERED)
    )
    return {
        "missing": made.wrong()["lost"],
        "falsely": len(dead - {victim}),
        "noticed": victim in dead,
        "recovered": victim in back,
    }


def _resident_mb(cluster: Cluster) -> float:
    from harness.cluster.processes import members

    everyone = (stat for worker, stats in members(cluster.run).items() if worker for stat in stats)
    return sum(stat.resident_bytes for stat in everyone) / 1e6


_FEW: Point = {"nodes": NODES}
MEASUREMENT = measured(
    "live/scale",
    run=run,
    grid={Profile.SMOKE: [_FEW], Profile.QUICK: [_FEW], Profile.PAPER: [_FEW, {"nodes": MANY}]},
    seconds=(45, 95, 400),
)

# Shown: no record depends on what follows.

BEATS_PER_S = 4
LIMITS = {"idle_cores": 0.2, "start_s": 60.0, "start_share": 0.2}
"""Fixed before measuring."""
TYPICAL_EXPERIMENT_S = 300.0
"""Duration of a live experiment of this project in the quick profile, without its start."""
PARTS = {"python": ("nodes", GREEN), "java": ("JVMs on workers", BLUE),
         "driver": ("driver", ORANGE), "coordinator": ("coordinator", VERMILION)}  # fmt: skip
"""Users of processor time, with their colours as in live/engines."""
STARTS = {"servers_s": ("Kafka, Redis, Spark", GREY),
          "nodes_s": (f"driver, executors, {NODES} nodes", BLUE)}  # fmt: skip
LOADS = {"waiting": "waiting\nno copies", "idle": f"idle\n{IDLE_PER_S * FEW.sources:g} tuples/s",
         "loaded": f"loaded\n{LOADED_PER_S:,.0f} tuples/s"}  # fmt: skip


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw above the seconds until everything runs, below cores by part."""
    start, cost = figure.subplots(2, 1, height_ratios=[1, 3])
    mean = _of(table, NODES).mean(numeric_only=True)
    stacked(start, ["cold start"], mean.to_frame().T, STARTS)
    start.set_xlabel("seconds")
    loads = [name for name in LOADS if f"{name}_cores" in mean]
    cores = [{part: mean.get(f"{name}_{part}", 0.0) for part in PARTS} for name in loads]
    stacked(cost, [LOADS[name] for name in loads], pd.DataFrame(cores), PARTS)
    cost.axvline(LIMITS["idle_cores"], color=VERMILION, linewidth=0.8, linestyle="--")
    cost.set_xlabel("cores; dashed: the limit while idle")
    cost.set_ylabel("load")


def _of(table: pd.DataFrame, nodes: int) -> pd.DataFrame:
    return table[table["nodes"] == nodes]


def _start_s(table: pd.DataFrame) -> float:
    few = _of(table, NODES)
    return float((few["servers_s"] + few["nodes_s"]).max())


SAMPLED = Rule(version=3, since="2026-11-26", seen_seeds=(DEFAULT_SEED, 71701, 71804, 71811))
"""Version 1 judged the largest of the runs that were there: 0.18 of one, 0.21 of another. Version 2
took five for an interval."""


@hypothesis(
    "idle-cores",
    f"{NODES} idle nodes with their replicas use at most 0.2 cores (median).",
    rule=SAMPLED,
)
def idle_cores(table: pd.DataFrame) -> Finding:
    table = _of(table, NODES)
    means = {label: table[f"idle_{part}"].mean() for part, (label, _) in PARTS.items()
             if f"idle_{part}" in table}  # fmt: skip
    by_part = ", ".join(f"{label} {mean:.3f}" for label, mean in means.items())
    why = _where_it_goes(table)
    idle = median_of(table["idle_cores"])
    return at_most(idle, LIMITS["idle_cores"], why, cores_by_part=by_part)


def _where_it_goes(table: pd.DataFrame) -> str | None:
    """Return the share of heartbeats and batches in idling, from the last run that counted it."""
    columns = ["idle_python", f"idle_{LOOPS}", "loop_cpu_ms"]
    known = table.reindex(columns=columns).dropna(subset=columns[:2])
    if not len(known):
        return None
    nodes, loops, fixed_ms = (float(column) for column in known.iloc[-1])
    beats, batches = NODES * BEATS_PER_S, 2 * FEW.tasks / FEW.interval_s
    speed = (
        f" A slower core is used for longer: a fixed computation took {fixed_ms:.2f} ms of it."
        if not math.isnan(fixed_ms)
        else ""
    )
    return (
        f"Of the {nodes:.3f} cores of the nodes {loops:.3f} are used by their event loops, for "
        f"{beats:.0f} heartbeats and {batches:.0f} batches of copies a second; the rest by the "
        "threads of their Kafka clients and readers, which wake for each message and once a second."
        f"{speed}"
    )


missing = rows.reindex(columns=["idle_missing", "loaded_missing", "killed_missing"]).max(axis=1)
large = _of(rows, MANY)
"""Of the paper profile alone."""

CLAIMS = [
    invariant("complete", "Every result that is due was delivered.").every(
        missing <= 0, missing=applied(int, missing.max())
    ),
    hypothesis(
        "many",
        f"With {MANY} nodes and the coordinator killed, the next one takes none of them for dead "
        "that lives, and notices and repairs the loss of one that is killed then "
        f"(heartbeats every {SIZES[MANY].parameters.heartbeat_s:g} s, suspected after "
        f"{SIZES[MANY].parameters.suspect_s:g} s).",
        counted=True,
    ).every(
        large["killed_falsely"].eq(0) & large["killed_noticed"] & large["killed_recovered"],
        asked=applied(len, large) > 0,
        cores={name: large[f"{name}_cores"].median() for name in ("waiting", "idle")},
        start_s=large["nodes_s"].median(),
    ),
    idle_cores,
    hypothesis(
        "start-a-minute", f"From nothing to {NODES} connected nodes it takes at most a minute."
    ).at_most(_start_s, LIMITS["start_s"]),
    hypothesis("start-a-fifth", "The start is at most a fifth of a live experiment.").at_most(
        lambda table: (start_s := _start_s(table)) / (start_s + TYPICAL_EXPERIMENT_S),
        LIMITS["start_share"],
    ),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="scale",
    title=f"{NODES} nodes of the task engine on one machine: start and idling",
    statement=(
        "Nodes are long-lived processes: they cost seconds once, and next to nothing while "
        "nothing happens."
    ),
    table=lambda results: results.frame,
    draw=draw,
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    notes=[
        f"{FEW.levels + 1} levels, {FEW.tasks} tasks and as many replicas, batches of "
        f"{FEW.interval_s:g} s; CPU from {SETTLE_S:g} s of the load to its "
        "end. Kafka, Redis and the load generator are not counted.",
        "The start is cold where this is the first run on its cluster; jars and Java were there.",
        f"A live experiment: {TYPICAL_EXPERIMENT_S:g} s, chosen.",
        f"The smoke profile starts {BRIEFLY} nodes only. In the paper profile {MANY} nodes run "
        f"{SIZES[MANY].tasks} tasks and as many replicas in batches of "
        f"{SIZES[MANY].interval_s:g} s; the figure shows {NODES}.",
    ],
    figure_size_in=(8.0, 3.6),
)
