"""Replicated tasks of live runs: the papers' planners on the topology that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from experiments.stock._workloads import SEGMENTS, TRAFFIC_BEFORE_S, USERS
from harness.planning.base import budget_of
from harness.planning.planners import planner
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


def plan_for(scheme: str, workload: Workload, rate_per_s: float) -> tuple[int, ...]:
    """Return the replicated tasks, ascending: none, all, or half of them by SA."""
    topology = topology_of(workload, rate_per_s)
    if scheme == "checkpoint":
        return ()
    if scheme == "active":
        return tuple(range(topology.task_count))
    assert scheme == "ppa", scheme
    return planner("sa").plan(topology, budget_of(topology, SHARE)).tasks


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
