"""Replicated tasks of live runs: the papers' planners on the topology that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from experiments.stock._workloads import SEGMENTS, TRAFFIC_BEFORE_S, USERS
from harness.planning.planners import planner
from harness.planning.rppg import FaultToleranceCosts, rppg
from harness.planning.tiers import Link, PlacedTask, Tier, TieredNetwork, TieredNode
from harness.topology.model import Topology
from workloads.accident import accidents
from workloads.base import Workload
from workloads.toolkit.operators import program_of, timeline_of
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

SHARE = 0.5
"""Share of all tasks that a plan may replicate."""
PARTITIONS = 4
"""Partitions of every source: with fewer no plan of half of the tasks has a whole MC-tree."""
WORKLOADS: Mapping[str, Callable[[int], Workload]] = {
    "world-cup": lambda seed: world_cup(
        seed=seed, partitions=PARTITIONS, window_s=4, slide_s=1, mergers=2
    ),
    "traffic-jams": lambda seed: traffic_jams(
        seed=seed,
        users=USERS,
        segments=SEGMENTS,
        partitions=PARTITIONS,
        window_s=6,
        slide_s=2,
    ),
    "accidents": lambda seed: accidents(seed=seed, partitions=PARTITIONS, start_s=TRAFFIC_BEFORE_S),
    "word-count": lambda seed: word_count(seed=seed, partitions=PARTITIONS, depth=4),
}
"""Workloads of `experiments.stock._workloads` by a seed."""


def topology_of(workload: Workload, rate_per_s: float) -> Topology:
    """Return the topology that runs; its tasks have the numbers of the engine."""
    timeline = timeline_of(workload, start_us=0, batch_s=1)
    return program_of(workload, timeline=timeline, rate=rate_per_s).topology


def plan_for(
    scheme: str, workload: Workload, rate_per_s: float, *, nodes: Sequence[str]
) -> tuple[int, ...]:
    """Return the replicated tasks, ascending: none, all, or half of them by SA or RPPG."""
    topology = topology_of(workload, rate_per_s)
    if scheme == "checkpoint":
        return ()
    if scheme == "active":
        return tuple(range(topology.task_count))
    if scheme == "ppa":
        return planner("sa").plan(topology, int(SHARE * topology.total_cost)).tasks
    assert scheme == "rppg", scheme
    return riskiest(topology, nodes)


def second_query(
    workload: Workload, rate_per_s: float, plan: Sequence[int]
) -> dict[str, list[int]]:
    """Return the partitions that a plan's MC-trees need, in the form of the stock engine's ``ppa``.

    Those of the source tasks in it, since SA chooses whole trees."""
    timeline = timeline_of(workload, start_us=0, batch_s=1)
    program = program_of(workload, timeline=timeline, rate=rate_per_s)
    needed: dict[str, list[int]] = {source.name: [] for source in workload.sources}
    for operator, index in map(program.topology.place, sorted(plan)):
        if operator in program.sources:
            needed[program.sources[operator]].append(index)
    return needed


def riskiest(topology: Topology, nodes: Sequence[str]) -> tuple[int, ...]:
    """Return RPPG's choice on equal nodes without distances: the tasks slowest to recover."""
    network = TieredNetwork(
        nodes=tuple(
            TieredNode(name=name, tier=Tier.CLOUD, capacity=1e9, failure_probability=0.01)
            for name in nodes
        ),
        links=tuple(Link(ends=(nodes[0], other), latency_s=0.0) for other in nodes[1:]),
    )
    sources = {operator.name for operator in topology.operators if operator.rate is not None}
    tasks = [
        PlacedTask(
            name=str(number),
            demand=1.0,
            input_rate=float(topology.input_rates(name)[index]),
            stateful=name not in sources,
            state_bytes=float(topology.input_rates(name)[index]) * 100,
            seconds_per_tuple=1e-5,
        )
        for number in range(topology.task_count)
        for name, index in [topology.place(number)]
    ]
    placement = {task.name: nodes[int(task.name) % len(nodes)] for task in tasks}
    costs = FaultToleranceCosts(store=0.0, acker=0.0)
    chosen = rppg(
        tasks,
        budget=int(SHARE * topology.total_cost),
        placement=placement,
        network=network,
        store=nodes[0],
        monitor=nodes[0],
        costs=costs,
    )
    return tuple(sorted(int(name) for name in chosen.replicated))
