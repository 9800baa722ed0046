"""The edge paper's 14 gateways, 5 micro datacenters and cloud, and what each scheme puts there.

A micro datacenter and its gateways are a rack: they fail together. Sources stand at gateways and
the last task in the cloud, beside the database, as chosen in `experiments.edge`; the tasks between
stand near what they read (the placement of DRA, and the first step of RAS). No node has more room
than its scheme uses: a lost task without a living replica waits until its node is back.

Full replication and PPA put a replica on the next rack, as PPA's paper separates them. RPPG's
replicas are placed by RAS, near their primaries, or by DRA, often on the primary's own node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.live._plans import SHARE, plan_for, topology_of
from harness.cluster.base import ClusterSpec
from harness.engines.tasks.parameters import Links, TaskParameters
from harness.planning.planners import scheduler
from harness.planning.rppg import FaultToleranceCosts, rppg
from harness.planning.schedulers import STORE, replica_of
from harness.planning.tiers import (
    FAILURE_PROBABILITY,
    PlacedTask,
    Tier,
    TieredNetwork,
    paper_network,
    placed_tasks,
)
from workloads.base import Workload

RACKS, IN_RACK, GATEWAYS = 5, 4, 14
SPEC = ClusterSpec(
    racks=RACKS,
    workers_per_rack=1,
    nodes_per_worker=IN_RACK,
    cores_per_worker=IN_RACK,
    memory_mb_per_worker=512,
)
KEPT = "tasks on twenty nodes"
"""Name of the processes that runs on `SPEC` keep warm."""
CLOUD = "cloud"


def _places() -> tuple[str, ...]:
    """Deal the gateways to the racks in turn; the last rack has the cloud in place of a third."""
    names = []
    for rack in range(RACKS):
        gateways = [f"gateway{n}" for n in range(rack, GATEWAYS, RACKS)]
        names += [f"mdc{rack}", *gateways, *([CLOUD] * (IN_RACK - 1 - len(gateways)))]
    return tuple(names)


PLACES = _places()
"""The machine of the paper's testbed for each node of `SPEC`, by the node's number."""
ROOM: Mapping[Tier, float] = {Tier.GATEWAY: 3.0, Tier.MICRO_DATACENTER: 8.0, Tier.CLOUD: 0.3}
"""Room for the planners, in tasks; chosen. The master and the database take the cloud's but for
what the last task needs."""
LAST_DEMAND = 0.2
SECONDS_PER_TUPLE = 0.0002
"""Time of a tuple in RPPG's risk: that of an aggregator in `experiments.edge`."""
BYTES_PER_S = 12_500_000.0
"""The paper's 100 Mbit/s."""

CHECKPOINT, FULL, PPA = "checkpoint", "full replication", "PPA"
RAS, DRA = "RPPG+RAS", "RPPG+DRA"
SCHEMES: Mapping[str, str] = {
    CHECKPOINT: "checkpoint",
    FULL: "active",
    PPA: "ppa",
    RAS: "rppg",
    DRA: "rppg",
}
"""Scheme of the engine, by its name in the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A scheme's decisions for one workload. Tasks and nodes are named by their numbers."""

    scheme: str
    plan: tuple[int, ...]
    placement: tuple[int, ...]
    """Task to the node of its primary."""
    replicas_at: Mapping[int, int]
    store: str
    """The machine of the checkpoints' store, for the delay to it."""

    @property
    def shared(self) -> int:
        """Number of replicas on their primary's own node."""
        return sum(self.placement[task] == node for task, node in self.replicas_at.items())

    @property
    def slots(self) -> tuple[int, ...]:
        """Room of each node: what stands there from the start, and nothing else."""
        used = [*self.placement, *self.replicas_at.values()]
        return tuple(used.count(node) for node in range(len(PLACES)))

    @property
    def hosts(self) -> tuple[int, ...]:
        """Nodes with a primary, ascending: the same under every scheme of a workload."""
        return tuple(sorted(set(self.placement)))

    def parameters(self, *, checkpoint_s: float, away_s: Sequence[float]) -> TaskParameters:
        """Return the engine's parameters; ``away_s`` is each node's shortest absence."""
        return TaskParameters(
            plan=self.plan if SCHEMES[self.scheme] in ("ppa", "rppg") else (),
            placement=self.placement,
            replicas_at=self.replicas_at,
            slots=self.slots,
            keeps_replicas=True,
            checkpoint_s=checkpoint_s,
            restart_s=away_s,
            links=Links.between(
                PLACES,
                paper_network().latency_s,
                coordinator=CLOUD,
                store=self.store,
                bytes_per_s=BYTES_PER_S,
            ),
        )


def deploy(scheme: str, workload: Workload, rate_per_s: float) -> Deployment:
    """Return the decisions of a scheme (one of `SCHEMES`)."""
    network, tasks = testbed(), edge_tasks(workload, rate_per_s)
    place = scheduler("ras" if scheme == RAS else "dra")
    first = place(tasks, network, store_demand=0.0)
    at = tuple(PLACES.index(first[task.name]) for task in tasks)
    if SCHEMES[scheme] == "rppg":
        chosen = rppg(
            tasks,
            budget=SHARE * sum(task.demand for task in tasks),
            placement=first,
            network=network,
            store=first[STORE],
            monitor=CLOUD,
            costs=FaultToleranceCosts(store=0.0, acker=0.0),
        ).replicated
        placed = place(tasks, network, replicated=chosen, store_demand=0.0)
        replicas = {int(name): PLACES.index(placed[replica_of(name)]) for name in chosen}
    else:
        plan = plan_for(SCHEMES[scheme], workload, rate_per_s)
        replicas = {task: next_rack(at[task]) for task in plan}
    return Deployment(
        scheme=scheme,
        plan=tuple(sorted(replicas)),
        placement=at,
        replicas_at=replicas,
        store=first[STORE],
    )


def next_rack(node: int) -> int:
    """Return the node in the same place of the next rack."""
    return (node + IN_RACK) % len(PLACES)


def testbed() -> TieredNetwork:
    """Return the paper's network with the room that is left for the application."""
    network = paper_network()
    nodes = tuple(
        replace(node, capacity=ROOM[node.tier], failure_probability=FAILURE_PROBABILITY)
        for node in network.nodes
    )
    return replace(network, nodes=nodes)


def edge_tasks(workload: Workload, rate_per_s: float) -> list[PlacedTask]:
    """Return a workload's tasks, its sources pinned to gateways and the last task to the cloud.

    Tasks of one index of several sources stand at different gateways of one datacenter."""
    topology = topology_of(workload, rate_per_s)
    found = []
    for number, task in enumerate(placed_tasks(topology)):
        operator, index = topology.place(number)
        pinned, demand = None, task.demand
        if operator in topology.sources:
            pinned = f"gateway{index + RACKS * topology.sources.index(operator)}"
        elif not topology.outputs(operator):
            pinned, demand = CLOUD, LAST_DEMAND
        found.append(
            replace(task, pinned=pinned, demand=demand, seconds_per_tuple=SECONDS_PER_TUPLE)
        )
    return found
