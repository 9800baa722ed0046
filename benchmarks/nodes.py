"""The cost of a node and of a decision, by the number of nodes of the task engine.

``python -m benchmarks.nodes 50 100 200`` starts that many processes on this machine, each time on a
cluster of its own: one pass in which nothing fails, and one with kills of single nodes and, at the
end, of the coordinator. ``--virtual 250 500 1000`` runs the processes' code in virtual time
instead, with nodes that join, beat, and lose one of them. A topology grows with the nodes: some
1.3 copies to each. Prints a row a number of nodes, and the exponent with which each cost grows: 1
is linear. The exit code is 1 if a result is lost, repeated or wrong, or a living node was counted
as dead."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from experiments.live._cpu import CpuWatch, cpu_s
from harness.cli.output import elapsed_reporter
from harness.cluster.backends import remove_made
from harness.cluster.base import Action, ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.endurance.any_engine import Alone
from harness.engines.base import EventKind, Setup
from harness.engines.tasks.engine import COORDINATOR, TaskEngine, running_engine
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.virtual.draw import BEGIN_S, HostOptions, draw_host
from harness.engines.tasks.virtual.program import SHAPES, Shape
from harness.engines.tasks.virtual.run import simulate_host
from harness.failures.schedule import NO_FAILURES, FailureEvent, Schedule
from harness.judging.passes import PassRecord
from harness.judging.runner import Made, Runner
from harness.protocol.inputs import NodeInfo
from harness.protocol.schemes import make_scheme
from harness.simulator.faults import Fault, FaultKind
from workloads.synthetic import synthetic

if TYPE_CHECKING:
    from harness.measurement import Context

SETTLE_S, QUIET_S, KILLS, GAP_S, AFTER_S = 8.0, 20.0, 6, 4.0, 20.0
"""Time until copies are placed, a pass without failures, kills and the time between two of them,
and what comes after the kill of the coordinator."""
INTERVAL_S = 1.0
PARAMETERS = TaskParameters(notes_progress=False, heartbeat_s=1.0, suspect_s=5.0)
"""Heartbeats of all sizes. Nodes of one machine share its cores: with 200 on two cores a node may
have to wait longer for one than the usual second."""


def live(nodes: int) -> dict[str, float]:
    """Start this number of nodes, make both passes, and return what they cost."""
    say = elapsed_reporter()
    spec = ClusterSpec(
        racks=2, nodes_per_worker=nodes // 2, cores_per_worker=nodes // 2,
        memory_mb_per_worker=1024,
    )  # fmt: skip
    setup = Setup(scheme="active", parameters=PARAMETERS)
    with LocalCluster(spec, remove=remove_made) as cluster:
        cluster.start(say)
        began = time.monotonic()
        say(f"starting {nodes} nodes")
        with running_engine(setup, cluster) as engine:
            found = {"start_s": time.monotonic() - began}
            engine.configure(setup)
            context = cast("Context", Alone(cluster.scratch("nodes")))
            runner = Runner(engine, setup, cluster, context)
            quiet = _made(runner, nodes, NO_FAILURES, SETTLE_S + QUIET_S)
            found |= _idle(*quiet)
            say(f"killing {KILLS} nodes and the coordinator")
            killed = _made(runner, nodes, _kills(nodes), SETTLE_S + KILLS * GAP_S + AFTER_S)
            found |= _decisions(engine, *killed, found["coordinator_cores"])
            wrong = [made.wrong() for made, _ in (quiet, killed)]
            found |= {name: float(sum(one[name] for one in wrong)) for name in wrong[0]}
    say(f"{nodes} nodes: {', '.join(f'{name} {value:.4g}' for name, value in found.items())}")
    return found


def _kills(nodes: int) -> Schedule:
    """Return kills of one node at a time, in both racks, and of the coordinator at the end."""
    names = [f"r{1 + number % 2}n{2 + number}" for number in range(KILLS)]
    events = [
        FailureEvent(at_s=SETTLE_S + number * GAP_S, action=Action.KILL, target=name)
        for number, name in enumerate(names)
    ]
    last_s = SETTLE_S + KILLS * GAP_S
    events.append(FailureEvent(at_s=last_s, action=Action.KILL, target=COORDINATOR))
    return Schedule(events=events, origin=f"{KILLS} of {nodes} nodes")


def _made(runner: Runner, nodes: int, schedule: Schedule, load_s: float) -> tuple[Made, CpuWatch]:
    levels = int(math.log2(nodes)) - 1  # 1.3 copies a node, replicas included
    workload = synthetic(seed=1, levels=levels, keys=100, window_s=10)
    name = f"{nodes}-{len(schedule.events)}"
    watch = CpuWatch(partial(cpu_s, runner.cluster, runner.engine))
    made = runner.steady(
        name, workload, 2.0**levels, load_s, INTERVAL_S, schedule=schedule, truth=True, watch=watch
    )
    return made, watch


def _idle(made: Made, watch: CpuWatch) -> dict[str, float]:
    start = made.record.start_unix_s + SETTLE_S
    used = watch.between(start, start + QUIET_S)
    cores = {name: seconds / QUIET_S for name, seconds in used.items()}
    return {"idle_cores": sum(cores.values()), "coordinator_cores": cores[COORDINATOR]}


def _decisions(
    engine: TaskEngine, made: Made, watch: CpuWatch, idle_cores: float
) -> dict[str, float]:
    """Return the coordinator's time for a death and a return, and how long others noticed it."""
    record, start = made.record, made.record.start_unix_s + SETTLE_S
    lasting = KILLS * GAP_S - 1.0  # without the coordinator's own end
    used = watch.between(start, start + lasting)[COORDINATOR]
    revived = [event for event in engine.said() if event["event"] == "begun"]
    killed = {victim.node for done in record.injected for victim in done.victims}
    return {
        "decision_ms": 1e3 * max(0.0, used - idle_cores * lasting) / KILLS,
        "recovery_s": _recovery_s(record),
        "falsely_dead": float(len({*_seen(record, EventKind.DETECTED)["target"]} - killed)),
        "coordinators": float(len(revived)),
    }


def _seen(record: PassRecord, kind: EventKind) -> pd.DataFrame:
    return record.incidents[record.incidents["event"] == kind.value]


def _recovery_s(record: PassRecord) -> float:
    """Return the median time from a node's kill until all that ran on it runs elsewhere."""
    recovered = _seen(record, EventKind.RECOVERED)
    waits: list[float] = []
    for done in record.injected:
        at_s = done.victims[0].earliest_unix_s - record.start_unix_s
        seen_s = recovered[recovered["target"] == done.event.target]["at_s"]
        later_s = seen_s[seen_s >= at_s]
        waits += [float(later_s.min()) - at_s] if len(later_s) else []
    return statistics.median(waits) if waits else math.nan


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the power of the number of nodes with which a cost grows, by least squares."""
    slope, _ = np.polyfit(np.log(sizes), np.log(np.maximum(costs, 1e-9)), 1)
    return float(slope)


def virtual(nodes: int) -> dict[str, float]:
    """Run nodes in virtual time; return the processor time of a calm run, and what a death adds."""
    options = _virtual_options(nodes)
    began_s = time.process_time()
    calm = simulate_host(options)
    calm_s = time.process_time() - began_s
    at_us = round((BEGIN_S + 5.0) * 1e6)
    fault = Fault(kind=FaultKind.KILL, at_us=at_us, until_us=at_us, target=1)
    began_s = time.process_time()
    failed = simulate_host(replace(options, faults=(fault,)))
    return {
        "cpu_s": calm_s,
        "events": float(calm.events),
        "event_us": 1e6 * calm_s / calm.events,
        "with_a_death_s": time.process_time() - began_s,
        "violations": float(sum(one.violation is not None for one in (calm, failed))),
    }


def _virtual_options(nodes: int) -> HostOptions:
    """Return a run of pairs of tasks with replicas, 1.3 copies a node."""
    drawn, pairs = draw_host(1, scheme="active"), nodes // 3
    shape = Shape(name=f"pairs-{pairs}", sizes=(pairs, pairs), edges=((0, 1, "one-to-one"),))
    cast("dict[str, Shape]", SHAPES)[shape.name] = shape
    wiring = shape.wiring(drawn.memory)
    times_us = {
        (source, batch): (0,) for source in wiring.sources for batch in range(drawn.batches)
    }
    scheme = make_scheme(
        "active", wiring, checkpoint_every=4, trim_every_us=1_000_000,
        heartbeat_us=1_000_000, suspect_after_us=3_500_000,
    )  # fmt: skip
    return replace(
        drawn,
        topology=shape.name,
        wiring=wiring,
        scheme=replace(scheme, join_within_us=2_000_000),
        nodes=tuple(NodeInfo(name=f"n{n}", rack=f"r{n % 2 + 1}", slots=2) for n in range(nodes)),
        placement=tuple(task % nodes for task in wiring.tasks),
        load=replace(drawn.load, times_us=times_us),
        faults=(),
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("nodes", type=int, nargs="+")
    arguments.add_argument("--virtual", action="store_true", help="in virtual time")
    given = arguments.parse_args()
    run = virtual if given.virtual else live
    rows = {nodes: run(nodes) for nodes in given.nodes}
    names = list(next(iter(rows.values())))
    print("nodes  " + "  ".join(f"{name:>17}" for name in names))
    for nodes, row in rows.items():
        print(f"{nodes:5}  " + "  ".join(f"{row[name]:17.4g}" for name in names))
    if len(rows) > 1:
        for name in names:
            costs = [row[name] for row in rows.values()]
            if min(costs) > 0:
                print(f"{name} grows with the nodes to the power {exponent(list(rows), costs):.2f}")
    wrong = ("lost", "duplicated", "contradictions", "falsely_dead", "violations")
    return int(any(row.get(name, 0) for row in rows.values() for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
