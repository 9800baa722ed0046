"""The edge paper's application on its testbed, under its four mechanisms (edge, section V).

Accident detection: a source and a filter for each of 14 gateways, two aggregators, a sink. The
testbed is 14 gateways, 5 micro datacenters and a cloud, 20 and 50 ms apart, 100 Mbit/s. What a
mechanism replicates and where everything stands is decided by the planners themselves
(`harness.planning`: RPPG, DRA, RAS), from demands that are chosen so that the application takes
the 10 to 13.5 cores of the paper's Fig. 9a from some 120 to 210 tuples/s per gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.figures.style import BLUE, GREEN, ORANGE, VERMILION, Look
from harness.planning.planners import scheduler
from harness.planning.rppg import FaultToleranceCosts, acker_count, rppg
from harness.planning.schedulers import STORE, acker, replica_of
from harness.planning.tiers import PlacedTask, TieredNetwork, paper_network
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning

PAPER = "Xu, Palanisamy, Wang, CCGrid 2021"
GATEWAYS, AGGREGATORS = 14, 2
MECHANISMS = ("ck-only+DRA", "RPPG+DRA", "full-rep+DRA", "RPPG+RAS")
"""In the order of the paper's text."""
LOOKS: Mapping[str, Look] = {
    "ck-only+DRA": Look("ck-only+DRA", VERMILION, "o"),
    "RPPG+DRA": Look("RPPG+DRA", ORANGE, "v"),
    "full-rep+DRA": Look("full-rep+DRA", BLUE, "s"),
    "RPPG+RAS": Look("RPPG+RAS", GREEN, "^"),
}
LINES: Mapping[str, Mapping[str, Any]] = {
    name: {**LOOKS[name].kwargs(), "linewidth": width, "markersize": 3.5 + width}
    for name, width in zip(MECHANISMS, (4.6, 3.4, 2.2, 1.1), strict=True)
}
"""Later mechanisms are drawn over earlier ones, which would be hidden where two are
equal, as they often are."""
RATES = (60, 100, 140, 180, 220)
"""Tuples per second of each gateway; 100 is the paper's default, the others are lost: chosen."""
BUDGET = 0.1
"""Of what the application itself takes."""
MASTER = "cloud"
CLOUD_FREE = 0.2
"""Cores of the cloud that are left to this application; the rest is the master's and the
database's."""
TASKS_PER_DATACENTER = 3.5
"""What is left of a micro datacenter, in aggregator tasks: both aggregators and a replica of one
fit, which is the case that the paper describes for RPPG+DRA."""
NOTES = (
    "The rates on the x axes are lost except the default of 100 tuples/s per gateway. Demands "
    "are chosen: source 0.3 + 0.0018 r cores, filter 0.04 + 0.0008 r, sink 0.1, for r "
    "tuples/s per gateway; aggregator 0.16 and 0.0002 for each tuple/s that it receives.",
    "Chosen: the cloud hosts the master and the database and has 0.2 cores left; a gateway has "
    "room for its own source and filter, as its other services take the rest; a micro "
    "datacenter has room for both aggregators and a replica of one of them (the paper's case for "
    "RPPG+DRA: a primary and its replica on one node). Gateways belong to datacenters in turn.",
    "A replica on its primary's node dies with it, so it costs and does not help. Full replication "
    "leaves out sources and the sink, which can run at one place alone.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A mechanism's decisions at one rate."""

    tasks: tuple[PlacedTask, ...]
    """In the order of the topology's task numbers."""
    network: TieredNetwork
    replicated: tuple[str, ...]
    placement: Mapping[str, str]
    """Tasks, replicas, ackers and the store to nodes."""
    ackers: int

    @property
    def cores(self) -> float:
        """What all of it takes."""
        costs = FaultToleranceCosts()
        demand = {task.name: task.demand for task in self.tasks}
        copies = sum(demand.values()) + sum(demand[name] for name in self.replicated)
        return copies + costs.store + self.ackers * costs.acker

    @property
    def copies(self) -> int:
        """Primaries, replicas, ackers and the store."""
        return len(self.tasks) + len(self.replicated) + self.ackers + 1

    def useful(self) -> tuple[str, ...]:
        """Return the replicated tasks whose replica is not on their primary's node."""
        return tuple(
            name
            for name in self.replicated
            if self.placement[name] != self.placement[replica_of(name)]
        )

    def node(self, name: str) -> int:
        """Return the number of the node that hosts a task, replica, acker or the store."""
        names = [node.name for node in self.network.nodes]
        return names.index(self.placement[name])


def application(rate: float) -> tuple[PlacedTask, ...]:
    """Return the tasks at ``rate`` tuples per second and gateway."""
    sources = [
        PlacedTask(
            name=f"source{n}",
            demand=0.3 + 0.0018 * rate,
            input_rate=rate,
            pinned=f"gateway{n}",
        )
        for n in range(GATEWAYS)
    ]
    filters = [
        PlacedTask(
            name=f"filter{n}",
            demand=0.04 + 0.0008 * rate,
            input_rate=rate,
            seconds_per_tuple=0.0008,
            upstream=(f"source{n}",),
        )
        for n in range(GATEWAYS)
    ]
    share = rate * GATEWAYS / AGGREGATORS
    aggregators = [
        PlacedTask(
            name=f"aggregate{n}",
            demand=0.16 + 0.0002 * share,
            input_rate=share,
            seconds_per_tuple=0.0002,
            stateful=True,
            state_bytes=share * 100,
            upstream=tuple(each.name for each in filters),
        )
        for n in range(AGGREGATORS)
    ]
    # It writes into the database, and stands where that is.
    sink = PlacedTask(
        name="sink", demand=0.1, input_rate=10, upstream=tuple(a.name for a in aggregators),
        pinned=MASTER,
    )  # fmt: skip
    return (*sources, *filters, *aggregators, sink)


def topology(rate: float) -> Topology:
    """Return the application as a topology; tasks have the numbers of `application`.

    Tuples are grouped by location, so every filter sends to both aggregators."""
    return Topology(
        operators=(
            Operator(name="source", parallelism=GATEWAYS, rate=(rate,) * GATEWAYS),
            Operator(name="filter", parallelism=GATEWAYS),
            Operator(name="aggregate", parallelism=AGGREGATORS),
            Operator(name="sink", parallelism=1),
        ),
        edges=(
            Edge(upstream="source", downstream="filter", partitioning=Partitioning.ONE_TO_ONE),
            Edge(upstream="filter", downstream="aggregate", partitioning=Partitioning.FULL),
            Edge(upstream="aggregate", downstream="sink", partitioning=Partitioning.FULL),
        ),
    )


def testbed(tasks: Sequence[PlacedTask]) -> TieredNetwork:
    """Return the paper's network with the free capacity of its nodes.

    A gateway's own source and filter fill it, so that full replication presses into the
    datacenters, and replicas there to others."""
    network = paper_network()
    aggregator = max(task.demand for task in tasks if task.stateful)
    gateway = max(task.demand for task in tasks if task.name.startswith("source")) + max(
        task.demand for task in tasks if task.name.startswith("filter")
    )
    free = {MASTER: CLOUD_FREE} | {f"gateway{number}": gateway for number in range(GATEWAYS)}
    nodes = tuple(
        replace(node, capacity=TASKS_PER_DATACENTER * aggregator)
        if node.name.startswith("mdc")
        else replace(node, capacity=free.get(node.name, node.capacity))
        for node in network.nodes
    )
    return replace(network, nodes=nodes)


def with_probabilities(network: TieredNetwork, known: Mapping[str, float]) -> TieredNetwork:
    """Return ``network`` with the failure probability of each node in the time slot.

    Nodes that are left out are all alike."""
    nodes = tuple(
        replace(node, failure_probability=known.get(node.name, 0.01)) for node in network.nodes
    )
    return replace(network, nodes=nodes)


def deploy(
    mechanism: str, rate: float, *, node_probabilities: Mapping[str, float] | None = None
) -> Deployment:
    """Return the decisions of ``mechanism`` (one of `MECHANISMS`) at ``rate``.

    ``node_probabilities``: failure probability of each node in the time slot; without it all are
    alike."""
    replicates, places = mechanism.split("+")
    tasks = application(rate)
    network = testbed(tasks)
    network = with_probabilities(network, node_probabilities or {})
    place = scheduler(places.lower())
    costs = FaultToleranceCosts()
    ackers = acker_count(tasks, costs)
    # A source reads its gateway's sensors, the sink writes into the database beside it: neither
    # can run elsewhere.
    replicable = [task for task in tasks if task.pinned is None]
    replicated: tuple[str, ...] = ()
    if replicates == "full-rep":
        replicated = tuple(task.name for task in replicable)
    elif replicates == "RPPG":
        first = place(tasks, network, ackers=ackers)
        plan = rppg(
            replicable,
            budget=BUDGET * sum(task.demand for task in tasks),
            placement=first,
            network=network,
            store=first[STORE],
            monitor=MASTER,
            costs=costs,
        )
        replicated = plan.replicated
    placement = place(tasks, network, replicated=replicated, ackers=ackers)
    assert acker(0) in placement
    return Deployment(
        tasks=tasks, network=network, replicated=replicated, placement=placement, ackers=ackers
    )
