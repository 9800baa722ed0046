"""An edge cluster in three tiers and an application for it (edge).

These are the values that the planners and schedulers of the edge paper (`rppg`, `schedulers`)
work on. Latencies are one way, in seconds; capacity and demand share a unit, CPU cores in the
paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from heapq import heappop, heappush

from harness.errors import UsageError
from harness.text import did_you_mean
from harness.topology.model import Topology

FAILURE_PROBABILITY = 0.01
STATE_BYTES_PER_TUPLE = 100.0
SECONDS_PER_TUPLE = 1e-5
"""What a topology does not say of its nodes and tasks; chosen, as the paper prints none."""


class Tier(StrEnum):
    """The kind of place of a node."""

    GATEWAY = "gateway"
    MICRO_DATACENTER = "micro-datacenter"
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredNode:
    """A machine, which fails alone."""

    name: str
    tier: Tier
    capacity: float
    failure_probability: float = 0.0
    """Probability that it fails within the time slot, p_v(t)."""

    def __post_init__(self) -> None:
        if self.capacity < 0:
            raise UsageError(
                f"node {self.name!r} has capacity {self.capacity}", remedy="give 0 or more"
            )
        _check_probability(f"node {self.name!r}", self.failure_probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A connection between two nodes, the same both ways."""

    ends: tuple[str, str]
    latency_s: float
    bandwidth_bytes_per_s: float = float("inf")

    def __post_init__(self) -> None:
        if self.latency_s < 0 or self.bandwidth_bytes_per_s <= 0:
            raise UsageError(
                f"link {' - '.join(self.ends)} has latency {self.latency_s} s and bandwidth "
                f"{self.bandwidth_bytes_per_s} B/s",
                remedy="give a latency of 0 or more and a bandwidth above 0",
            )


@dataclass(frozen=True, kw_only=True)
class TieredNetwork:
    """Nodes and links; every node reaches every other."""

    nodes: tuple[TieredNode, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        for link in self.links:
            for end in link.ends:
                if end not in names:
                    raise UsageError(
                        f"link {' - '.join(link.ends)} ends at {end!r}, which is no node",
                        remedy=did_you_mean(end, names),
                    )
        for name in names:
            if len(self._ways[name]) < len(names):
                lost = next(other for other in names if other not in self._ways[name])
                raise UsageError(
                    f"no links lead from node {name!r} to {lost!r}", remedy="add a link"
                )

    @cached_property
    def _linked(self) -> Mapping[str, Sequence[tuple[str, Link]]]:
        """The neighbours of every node, with the link to each."""
        found: dict[str, list[tuple[str, Link]]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            one, other = link.ends
            found[one].append((other, link))
            found[other].append((one, link))
        return found

    @cached_property
    def _ways(self) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """Least latency between every two nodes, and the bandwidth of that way."""
        return {name: _shortest(self._linked, name) for name in self._linked}

    def latency_s(self, one: str, other: str) -> float:
        """Return the least latency over any number of links; 0 within a node."""
        return self._ways[one][other][0]

    def bandwidth(self, one: str, other: str) -> float:
        """Return the bytes per second of the narrowest link on the way of least latency.

        Within a node it is infinite."""
        return self._ways[one][other][1]

    def neighbours(self, name: str) -> Sequence[str]:
        """Return the nodes that a link leads to from ``name``, in the order of the links."""
        return [other for other, _ in self._linked[name]]

    def node(self, name: str) -> TieredNode:
        """Return the node of that name."""
        return next(node for node in self.nodes if node.name == name)


def _shortest(
    linked: Mapping[str, Sequence[tuple[str, Link]]], start: str
) -> dict[str, tuple[float, float]]:
    """Return latency and bandwidth of the way of least latency, by node (Dijkstra)."""
    found: dict[str, tuple[float, float]] = {}
    queue = [(0.0, start, float("inf"))]
    while queue:
        distance, name, narrowest = heappop(queue)
        if name not in found:
            assert distance >= 0, "latencies are 0 or more"
            found[name] = distance, narrowest
            for other, link in linked[name]:
                width = min(narrowest, link.bandwidth_bytes_per_s)
                heappush(queue, (distance + link.latency_s, other, width))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """One instance of an operator: the unit of placement and replication."""

    name: str
    demand: float
    """Capacity in use by it, c_i(λ_i); a replica takes the same."""
    input_rate: float = 0.0
    """Tuples per second, λ_i."""
    upstream: tuple[str, ...] = ()
    """Tasks that it reads from."""
    stateful: bool = False
    state_bytes: float = 0.0
    seconds_per_tuple: float = 0.0
    """d_i."""
    unacknowledged_s: float = 5.0
    """Seconds of input that are replayed: q_i(λ_i) = λ_i times this (5 s is the paper's tuple
    timeout)."""
    failure_probability: float = 0.0
    """Probability that it fails within the time slot, p_i(t)."""
    pinned: str | None = None
    """Required node, a sensor's gateway for a source."""

    def __post_init__(self) -> None:
        for what in ("demand", "input_rate", "state_bytes", "seconds_per_tuple"):
            if getattr(self, what) < 0:
                raise UsageError(
                    f"task {self.name!r} has {what} {getattr(self, what)}", remedy="give 0 or more"
                )
        _check_probability(f"task {self.name!r}", self.failure_probability)


Placement = Mapping[str, str]
"""Task (or replica, acker, store) to node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryModel:
    """The constants of equation 1."""

    heartbeat_timeout_s: float = 5.0
    restart_s: float = 1.0
    checkpoint_bytes_per_s: float = 12.5e6
    """Speed of fetching a checkpoint; 100 Mbit/s is the paper's link."""
    stateless_tasks_ask_the_store: bool = True
    """True if a task without a state also pays the way to the store, which is equation 1 taken
    literally: l(v, v') applies to every task."""
    by_bandwidth: bool = False
    """True if the narrowest link on its way limits the speed of a checkpoint. The equation has
    only the size of the state."""


def recovery_time_s(
    task: PlacedTask,
    *,
    placement: Placement,
    network: TieredNetwork,
    store: str,
    monitor: str,
    model: RecoveryModel,
) -> float:
    """Return the time from the failure of an unreplicated task until it caught up (equation 1).

    It is the sum of the heartbeat timeout, the way to the node ``monitor``, the restart, the
    checkpoint from the node ``store``, and the replay of unacknowledged tuples."""
    node = placement[task.name]
    fetch_s = 0.0
    if task.stateful or model.stateless_tasks_ask_the_store:
        fetch_s = network.latency_s(node, store)
    if task.stateful:
        speed = model.checkpoint_bytes_per_s
        if model.by_bandwidth:
            speed = min(speed, network.bandwidth(node, store))
        fetch_s += task.state_bytes / speed
    return (
        model.heartbeat_timeout_s
        + network.latency_s(node, monitor)
        + model.restart_s
        + fetch_s
        + task.seconds_per_tuple * task.unacknowledged_s * task.input_rate
    )


def failure_probability(task: PlacedTask, node: TieredNode) -> float:
    """Return ρ_i, the probability that the task or its node fails, the two being independent."""
    own, node_s = task.failure_probability, node.failure_probability
    either = own + node_s - own * node_s
    assert max(own, node_s) - 1e-12 <= either <= 1 + 1e-12
    return either


def _check_probability(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(
            f"{what} has failure probability {value}", remedy="give a number from 0 to 1"
        )


def paper_network() -> TieredNetwork:
    """Return the testbed of section V.

    It has 14 gateways (2 cores), 5 micro datacenters (8 cores) and one cloud (16 cores); 20 ms
    between a gateway and its datacenter, 50 ms to the cloud, 100 Mbit/s everywhere. The paper does
    not print which gateway belongs to which datacenter; they are dealt out in turn."""
    cloud = TieredNode(name="cloud", tier=Tier.CLOUD, capacity=16)
    centers = [
        TieredNode(name=f"mdc{number}", tier=Tier.MICRO_DATACENTER, capacity=8)
        for number in range(5)
    ]
    edge = [
        TieredNode(name=f"gateway{number}", tier=Tier.GATEWAY, capacity=2) for number in range(14)
    ]
    ends = [(center.name, "cloud", 0.05) for center in centers]
    ends += [(node.name, centers[number % 5].name, 0.02) for number, node in enumerate(edge)]
    links = tuple(
        Link(ends=(one, other), latency_s=latency_s, bandwidth_bytes_per_s=12.5e6)
        for one, other, latency_s in ends
    )
    return TieredNetwork(nodes=(cloud, *centers, *edge), links=links)


def placed_tasks(topology: Topology) -> list[PlacedTask]:
    """Return the tasks for RPPG and the schedulers, named by their numbers."""
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
