"""Recovery after a rack's loss on up to ten thousand nodes, more than the papers could run.

A merge tree like the papers' recovery topology, only larger: pairs of tasks merge down to one
sink, four sources share a node, every other task has its own, and replicas are on standby nodes.
One rack of 40 nodes is lost at once. In virtual time, with counts instead of tuples."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pandas as pd

from experiments.ppa import _latency, _random, _recovery
from harness.claims import applied, hypothesis, rows
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, simulated
from harness.figures.chart import Chart, Line, Panel
from harness.figures.style import SCHEMES
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.wiring import Wiring
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network, Options
from harness.simulator.topologies import layered

RACK = 40
"""Nodes; the studies' racks have 40 to 80."""
LEAVES = (64, 256, 1024, 8192)
PLANS = ("checkpoint", "ppa", "active")
RACK_EVENTS_PER_HOUR_AND_NODE = 0.00228 / 1800
"""Dean's cluster: twenty racks a year among 1,800 machines."""


def tree(leaves: int) -> Wiring:
    """Return a topology whose sources merge pairwise, level by level, into one sink."""
    sizes = [leaves]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    return layered(
        sizes,
        [(level, level + 1, "merge") for level in range(len(sizes) - 1)],
        memory=10,
        names=["source", *(f"O{level}" for level in range(1, len(sizes)))],
    )


def half_of_the_trees(wiring: Wiring) -> tuple[int, ...]:
    """Return the sink and all above its first upstream task: half of the MC-trees, complete."""
    (sink,) = wiring.sinks
    return tuple(sorted({sink, *wiring.ancestors([wiring.upstream[sink][0]])}))


def options_of(leaves: int, plan: str, seed: int) -> Options:
    """Return a run: checkpoints every 5 s, a failure at 22 s, detection by heartbeat within 5 s."""
    wiring = tree(leaves)
    tasks = len(wiring.names)
    everything = tuple(wiring.tasks)
    replicated = {"checkpoint": (), "ppa": half_of_the_trees(wiring), "active": everything}[plan]
    sources = len(wiring.sources)
    place = [t // 4 if t < sources else sources // 4 + t - sources for t in wiring.tasks]
    working = max(place) + 1
    hosted = Counter(place)
    standby = RACK + len(replicated)
    nodes = [NodeInfo(name=f"w{n}", rack=f"r{n // RACK}", slots=hosted[n]) for n in range(working)]
    nodes += [NodeInfo(name=f"s{n}", rack=f"q{n // RACK}", slots=4) for n in range(standby)]
    first = -(-sources // 4 // RACK)  # the first rack without sources, if there is one
    rack = Random(seed).randrange(min(first, working // RACK - 1), working // RACK)
    failed = range(rack * RACK, min(working, (rack + 1) * RACK))
    faults = tuple(
        Fault(kind=FaultKind.KILL, at_us=22_300_000, until_us=3_600_000_000, target=node)
        for node in failed
    )
    return Options(
        seed=seed,
        topology=f"tree of {tasks} tasks",
        wiring=wiring,
        scheme=Scheme(
            name=plan,
            recovery=Recovery.LOCAL,
            checkpoint_every=5,
            replicated=replicated,
            heartbeat_us=2_000_000,
            suspect_after_us=5_000_000,
        ),
        nodes=tuple(nodes),
        placement=tuple(place),
        batches=80,
        interval_us=1_000_000,
        tuples=1000,
        percent=50,
        costs=Costs(batch_us=1_000, tuple_us=100, store_us=1, load_us=10),
        network=Network(delay_us=1_000, jitter_us=1_000, store_us=5_000, log_us=5_000),
        faults=faults,
    )


def run(point: Point, context: Context) -> Outcome:
    """Measure one rack's loss under one plan."""
    leaves, plan = int(str(point["leaves"])), str(point["plan"])
    context.progress(f"{leaves} sources, {plan}")
    options = options_of(leaves, plan, context.seed("rack"))
    recovered = _recovery.measure(options)
    primaries = len(set(options.placement))
    return Outcome(
        values={
            "nodes": primaries,
            "tasks_lost": len(recovered.by_task),
            "recovery_s": recovered.latency_s(),
            "rack_losses_per_day": RACK_EVENTS_PER_HOUR_AND_NODE * primaries * 24,
        }
    )


def grid(leaves: tuple[int, ...]) -> list[Point]:
    return [{"leaves": count, "plan": plan} for count in leaves for plan in PLANS]


MEASUREMENT = simulated(
    "ppa/scale",
    grid={
        Profile.SMOKE: grid((64,)),
        Profile.QUICK: grid(LEAVES[:2]),
        Profile.PAPER: grid(LEAVES),
    },
    repeats=(1, 1, 3),
    seconds=(0.4, 1.7, 100.0),
    run=run,
)

# Shown: no record depends on what follows.

LOOKS = {**SCHEMES, "ppa": replace(SCHEMES["ppa"], label="PPA-0.5")}


def table(results: Results) -> pd.DataFrame:
    """Return mean and extremes of the recovery latency per plan and number of nodes."""
    found = _latency.spread(results.frame, ["plan", "nodes"], "recovery_s")
    return found.sort_values(["plan", "nodes"], ignore_index=True)


draw = Chart(
    [
        Panel(
            [Line(x="nodes", y="mean", by="plan", looks=LOOKS, ends=("min", "max"))],
            "nodes with primaries (logarithmic); bars: range of the repeats",
            "recovery latency after a rack's loss (s)",
            log="x",
            y_range=(0, None),
            legend={},
        )
    ],
    stamp="simulated, virtual time; costs chosen",
)
means = rows.pivot_table(index="nodes", columns="plan", values="mean")
growth_s = applied(_random.named, means[list(PLANS)].iloc[-1] - means[list(PLANS)].iloc[0])

CLAIMS = [
    hypothesis(
        "active-faster", "Active replicas recover a rack faster than checkpoints at every size"
    )(_random.ahead(means["checkpoint"] - means["active"])),
    hypothesis(
        "size", "Recovering one rack takes no longer in a larger cluster (within 2 s)"
    ).holds(
        applied(pd.Series, growth_s).max() <= 2, largest_minus_smallest_s=growth_s, tolerance_s=2.0
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="Scale",
    title="Recovery of a rack on up to ten thousand nodes",
    statement="Beyond the papers: the schemes on trees of up to 16,383 tasks, one rack lost.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen: 1,000 tuples/s per source, selectivity 0.5, 100 µs per tuple, checkpoints every "
        "5 s, heartbeats every 2 s with suspicion after 5 s, racks of 40 nodes. PPA-0.5 replicates "
        "the complete subtree above one of the sink's two inputs.",
    ),
)
