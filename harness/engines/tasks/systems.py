"""The systems that are compared: every scheme of the protocol with a plan by its own planner.

A scheme with planned replicas gets half of the tasks by the structure-aware planner. RPPG takes
half of the tasks by recovery risk, and all places by Storm's scheduler (``rppg-dra``) or by the
resilience-aware one (``rppg-ras``).

The planners need numbers that a cluster without declared links does not have. Chosen: nodes of
one rack are 1 ms apart, racks 5 ms; all nodes fail alike; the state of a task that is not a source
is 100 bytes for each tuple of a second's input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.cluster.base import Node
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.errors import UsageError
from harness.planning.planners import planner, scheduler
from harness.planning.rppg import FaultToleranceCosts, rppg
from harness.planning.schedulers import replica_of
from harness.planning.tiers import (
    FAILURE_PROBABILITY,
    Link,
    Tier,
    TieredNetwork,
    TieredNode,
    placed_tasks,
)
from harness.protocol.schemes import SCHEMES, Family, Replicas
from harness.text import did_you_mean
from harness.topology.model import Topology
from workloads.base import Workload
from workloads.toolkit.operators import program_of, timeline_of

SHARE = 0.5
"""Share of all tasks that a plan may replicate."""
RACK_S, FAR_S = 0.001, 0.005


Choose = Callable[[TaskParameters, Topology, Sequence[Node]], TaskParameters]
"""``choose(given, topology, nodes)`` returns the parameters with a plan and places added."""


def _structure_aware(
    given: TaskParameters, topology: Topology, nodes: Sequence[Node]
) -> TaskParameters:
    """Plan for the most output when every task outside the plan has failed."""
    budget = math.ceil(SHARE * topology.total_cost)
    return replace(given, plan=planner("sa").plan(topology, budget).tasks)


def _resilient(scheduled_by: str) -> Choose:
    """Return RPPG's choice with all places by one of Storm's schedulers or the paper's."""

    def choose(given: TaskParameters, topology: Topology, nodes: Sequence[Node]) -> TaskParameters:
        network, tasks = network_of(nodes, topology.task_count), placed_tasks(topology)
        names = [node.name for node in nodes]
        schedule = scheduler(scheduled_by)
        first = schedule(tasks, network, store_demand=0.0)
        risky = rppg(
            tasks,
            budget=SHARE * topology.task_count,
            placement=first,
            network=network,
            store=names[0],
            monitor=names[0],
            costs=FaultToleranceCosts(store=0.0, acker=0.0),
        ).replicated
        placed = schedule(tasks, network, replicated=risky, store_demand=0.0)
        number = {name: place for place, name in enumerate(names)}
        # DRA may put a replica on its primary's node, where it dies with it.
        replicas = {int(name): number[placed[replica_of(name)]] for name in risky}
        return replace(
            given,
            plan=tuple(sorted(replicas)),
            placement=tuple(number[placed[task.name]] for task in tasks),
            replicas_at=replicas,
        )

    return choose


def network_of(nodes: Sequence[Node], tasks: int) -> TieredNetwork:
    """Return the cluster for the schedulers, with room for all primaries and planned replicas.

    Schedulers fill a node before they take the next. The engine gives a node more slots, so that
    lost tasks find a place."""
    racks: dict[str, list[str]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node.name)
    slots = math.ceil(tasks * (1 + SHARE) / len(nodes))
    first = [names[0] for names in racks.values()]
    links = [
        *(Link(ends=(first[0], other), latency_s=FAR_S) for other in first[1:]),
        *(
            Link(ends=(names[0], other), latency_s=RACK_S)
            for names in racks.values()
            for other in names[1:]
        ),
    ]
    return TieredNetwork(
        nodes=tuple(
            TieredNode(
                name=node.name,
                tier=Tier.CLOUD,
                capacity=float(slots),
                failure_probability=FAILURE_PROBABILITY,
            )
            for node in nodes
        ),
        links=tuple(links),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A scheme and its planner."""

    scheme: str
    choose: Choose


_NAMES = {
    "replay": "source-replay",
    "checkpoint": "checkpoint-local",
    "global": "checkpoint-global",
}
"""The system of a scheme, where it is not called as its scheme."""
_PLANNERS: Mapping[str, Mapping[str, Choose]] = {
    "rppg": {"rppg-dra": _resilient("dra"), "rppg-ras": _resilient("ras")}
}
"""The systems of a scheme that does not get its plan from the structure-aware planner."""


def _systems(scheme: str, family: Family) -> Mapping[str, Choose]:
    planned = family.replicas is Replicas.PLANNED
    choose = _structure_aware if planned else lambda given, topology, nodes: given
    default = {_NAMES.get(scheme, scheme): choose}
    return _PLANNERS.get(scheme, default)


SYSTEMS: Mapping[str, System] = {
    name: System(scheme=scheme, choose=choose)
    for scheme, family in SCHEMES.items()
    for name, choose in _systems(scheme, family).items()
}


def setup_of(
    name: str,
    workload: Workload,
    nodes: Sequence[Node],
    *,
    rate_per_s: float,
    parameters: TaskParameters,
) -> Setup:
    """Return a system's setup, with its plan for this workload on these nodes.

    Raises `UsageError` if there is no such system."""
    if name not in SYSTEMS:
        raise UsageError(f"no system {name!r}", remedy=did_you_mean(name, SYSTEMS))
    system = SYSTEMS[name]
    timeline = timeline_of(workload, start_us=0, batch_s=1)
    topology = program_of(workload, timeline=timeline, rate=rate_per_s).topology
    return Setup(scheme=system.scheme, parameters=system.choose(parameters, topology, nodes))
