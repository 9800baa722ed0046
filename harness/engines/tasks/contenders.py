"""The papers' contenders on this engine: each scheme with a plan made by its own planner.

====================  =====================================================================
contender             scheme, plan and places
====================  =====================================================================
``source-replay``     `replay`
``checkpoint-local``  `checkpoint`
``checkpoint-global`` `global`
``active``            `active`
``ppa``               `ppa`, half of the tasks by the structure-aware planner
``rppg-dra``          `rppg`, half of the tasks by recovery risk; all places by Storm's scheduler
``rppg-ras``          the same tasks; places by the resilience-aware scheduler
``dpc``               `dpc` with the plan of ``ppa``
====================  =====================================================================

The planners need numbers that a cluster without declared links does not have. Chosen: nodes of
one rack stand 1 ms apart, racks 5 ms; all nodes fail alike; the state of a task that is no source
is 100 bytes for each tuple of a second's input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.base import Node
from harness.engines.base import Setup
from harness.errors import UsageError
from harness.planning.planners import planner, scheduler
from harness.planning.rppg import FaultToleranceCosts, rppg
from harness.planning.schedulers import replica_of
from harness.planning.tiers import Link, PlacedTask, Tier, TieredNetwork, TieredNode
from harness.results.record import Scalar
from harness.text import did_you_mean
from harness.topology.model import Topology
from workloads.base import Workload
from workloads.toolkit.operators import program_of, timeline_of

SHARE = 0.5
"""Of all tasks: what a plan may replicate."""
RACK_S, FAR_S = 0.001, 0.005
STATE_BYTES_PER_TUPLE = 100.0
SECONDS_PER_TUPLE = 1e-5
FAILURE_PROBABILITY = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a plan decides, as the engine's parameters say it."""

    plan: tuple[int, ...] = ()
    placement: tuple[int, ...] = ()
    """Task to node; empty: the engine's own."""
    replicas_at: Mapping[int, int] | None = None

    def parameters(self) -> dict[str, Scalar]:
        """As `Setup.parameters` of a pass."""
        found: dict[str, Scalar] = {}
        if self.plan:
            found["plan"] = _text(self.plan)
        if self.placement:
            found["placement"] = _text(self.placement)
        if self.replicas_at:
            pairs = sorted(self.replicas_at.items())
            found["replicas_at"] = ",".join(f"{task}:{node}" for task, node in pairs)
        return found


def _text(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _none(topology: Topology, nodes: Sequence[Node]) -> Chosen:
    return Chosen()


def _structure_aware(topology: Topology, nodes: Sequence[Node]) -> Chosen:
    """What keeps the most output when every task outside the plan has failed."""
    budget = math.ceil(SHARE * topology.total_cost)
    return Chosen(plan=planner("sa").plan(topology, budget).tasks)


def _resilient(scheduled_by: str) -> Callable[[Topology, Sequence[Node]], Chosen]:
    def choose(topology: Topology, nodes: Sequence[Node]) -> Chosen:
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
        # DRA may put a replica on its primary's node, where it dies with it: so it is done.
        replicas = {int(name): number[placed[replica_of(name)]] for name in risky}
        return Chosen(
            plan=tuple(sorted(replicas)),
            placement=tuple(number[placed[task.name]] for task in tasks),
            replicas_at=replicas,
        )

    return choose


def network_of(nodes: Sequence[Node], tasks: int) -> TieredNetwork:
    """The cluster as the schedulers see it, with room for all primaries and planned replicas:
    they fill a node before they take the next. (The engine gives a node more slots, so that what
    was lost finds a place.)"""
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


def placed_tasks(topology: Topology) -> list[PlacedTask]:
    """The tasks as RPPG and the schedulers see them, named by their numbers."""
    above: dict[int, list[str]] = {task: [] for task in range(topology.task_count)}
    for edge in topology.edges:
        ups, downs = topology.shares(edge).nonzero()
        start, end = topology.tasks(edge.upstream).start, topology.tasks(edge.downstream).start
        for up, down in zip(ups, downs, strict=True):
            above[int(end + down)].append(str(start + up))
    found = []
    for task in range(topology.task_count):
        operator, index = topology.place(task)
        rate = float(topology.input_rates(operator)[index])
        found.append(
            PlacedTask(
                name=str(task),
                demand=1.0,
                input_rate=rate,
                upstream=tuple(above[task]),
                stateful=topology.operator(operator).rate is None,
                state_bytes=rate * STATE_BYTES_PER_TUPLE,
                seconds_per_tuple=SECONDS_PER_TUPLE,
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheme and who plans for it."""

    scheme: str
    choose: Callable[[Topology, Sequence[Node]], Chosen] = _none


CONTENDERS: Mapping[str, Contender] = {
    "source-replay": Contender(scheme="replay"),
    "checkpoint-local": Contender(scheme="checkpoint"),
    "checkpoint-global": Contender(scheme="global"),
    "active": Contender(scheme="active"),
    "ppa": Contender(scheme="ppa", choose=_structure_aware),
    "rppg-dra": Contender(scheme="rppg", choose=_resilient("dra")),
    "rppg-ras": Contender(scheme="rppg", choose=_resilient("ras")),
    "dpc": Contender(scheme="dpc", choose=_structure_aware),
}


def setup_of(
    name: str,
    workload: Workload,
    nodes: Sequence[Node],
    *,
    rate_per_s: float,
    parameters: Mapping[str, Scalar],
) -> Setup:
    """The engine's setup for a contender, with its plan for this workload on these nodes.

    Raises `UsageError` if there is no such contender.
    """
    if name not in CONTENDERS:
        raise UsageError(f"no contender {name!r}", remedy=did_you_mean(name, CONTENDERS))
    contender = CONTENDERS[name]
    timeline = timeline_of(workload, start_us=0, batch_s=1)
    topology = program_of(workload, timeline=timeline, rate=rate_per_s).topology
    chosen = contender.choose(topology, nodes).parameters()
    return Setup(scheme=contender.scheme, parameters={**parameters, **chosen})
