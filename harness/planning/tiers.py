"""An edge cluster in three tiers, and an application that is to run on it (edge).

The placement side of the edge paper: its planners and schedulers (`rppg`, `schedulers`) read
these values and return others. Latencies are one way, in seconds; capacity and demand share a
unit, CPU cores in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from harness.errors import UsageError
from harness.text import did_you_mean


class Tier(StrEnum):
    """Where a node stands."""

    GATEWAY = "gateway"
    MICRO_DATACENTER = "micro-datacenter"
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredNode:
    """A machine: what fails alone."""

    name: str
    tier: Tier
    capacity: float
    failure_probability: float = 0.0
    """That it fails within the time slot, p_v(t)."""

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
        """For every node the nodes that a link leads to."""
        found: dict[str, list[tuple[str, Link]]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            one, other = link.ends
            found[one].append((other, link))
            found[other].append((one, link))
        return found

    @cached_property
    def _ways(self) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """Between every two nodes the least latency, and the bandwidth of that way."""
        return {name: _shortest(self._linked, name) for name in self._linked}

    def latency_s(self, one: str, other: str) -> float:
        """Least latency between two nodes over any number of links; 0 within a node."""
        return self._ways[one][other][0]

    def bandwidth(self, one: str, other: str) -> float:
        """Bytes per second of the narrowest link on the way of least latency; infinite within a
        node."""
        return self._ways[one][other][1]

    def neighbours(self, name: str) -> Sequence[str]:
        """The nodes that a link leads to from ``name``, in the order of the links."""
        return [other for other, _ in self._linked[name]]

    def node(self, name: str) -> TieredNode:
        """The node of that name."""
        return next(node for node in self.nodes if node.name == name)


def _shortest(
    linked: Mapping[str, Sequence[tuple[str, Link]]], start: str
) -> dict[str, tuple[float, float]]:
    """Dijkstra: latency and bandwidth of the way of least latency, by node."""
    import heapq

    found: dict[str, tuple[float, float]] = {}
    queue = [(0.0, start, float("inf"))]
    while queue:
        distance, name, narrowest = heapq.heappop(queue)
        if name not in found:
            found[name] = distance, narrowest
            for other, link in linked[name]:
                width = min(narrowest, link.bandwidth_bytes_per_s)
                heapq.heappush(queue, (distance + link.latency_s, other, width))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """One instance of an operator: what is placed, and may be replicated."""

    name: str
    demand: float
    """Capacity that it takes, c_i(λ_i); a replica takes the same."""
    input_rate: float = 0.0
    """Tuples per second, λ_i."""
    upstream: tuple[str, ...] = ()
    """The tasks that it reads."""
    stateful: bool = False
    state_bytes: float = 0.0
    seconds_per_tuple: float = 0.0
    """d_i."""
    unacknowledged_s: float = 5.0
    """How many seconds of input are replayed: q_i(λ_i) = λ_i times this (5 s is the paper's
    tuple timeout)."""
    failure_probability: float = 0.0
    """That it fails within the time slot, p_i(t)."""
    pinned: str | None = None
    """The node that it must run on, a sensor's gateway for a source."""

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
    """How fast a checkpoint is fetched; 100 Mbit/s is the paper's link."""
    stateless_tasks_ask_the_store: bool = True
    """Whether a task without a state pays the way to the store as well, as equation 1 has it
    literally: l(v, v') stands there for every task."""
    by_bandwidth: bool = False
    """Whether a checkpoint comes as fast as the narrowest link on its way lets it, if that is
    slower. The equation knows only the size of the state."""


def recovery_time_s(
    task: PlacedTask,
    *,
    placement: Placement,
    network: TieredNetwork,
    store: str,
    monitor: str,
    model: RecoveryModel,
) -> float:
    """Equation 1: from the failure of ``task`` without a replica until it has caught up.

    The heartbeat timeout, the way to the node ``monitor``, the restart, the checkpoint from the
    node ``store``, and the replay of unacknowledged tuples.
    """
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
    """ρ_i: that the task or its node fails, the two being independent."""
    own, node_s = task.failure_probability, node.failure_probability
    return own + node_s - own * node_s


def _check_probability(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(
            f"{what} has failure probability {value}", remedy="give a number from 0 to 1"
        )


def paper_network(*, gateways: int = 14, micro_datacenters: int = 5) -> TieredNetwork:
    """The testbed of section V: 14 gateways (2 cores), 5 micro datacenters (8), one cloud (16);
    20 ms between a gateway and its datacenter, 50 ms to the cloud, 100 Mbit/s everywhere.

    Which gateway belongs to which datacenter is not printed; they are dealt out in turn.
    """
    cloud = TieredNode(name="cloud", tier=Tier.CLOUD, capacity=16)
    centers = [
        TieredNode(name=f"mdc{number}", tier=Tier.MICRO_DATACENTER, capacity=8)
        for number in range(micro_datacenters)
    ]
    edge = [
        TieredNode(name=f"gateway{number}", tier=Tier.GATEWAY, capacity=2)
        for number in range(gateways)
    ]
    links = [
        Link(ends=(center.name, "cloud"), latency_s=0.05, bandwidth_bytes_per_s=12.5e6)
        for center in centers
    ] + [
        Link(
            ends=(node.name, centers[number % micro_datacenters].name),
            latency_s=0.02,
            bandwidth_bytes_per_s=12.5e6,
        )
        for number, node in enumerate(edge)
    ]
    return TieredNetwork(nodes=(cloud, *centers, *edge), links=tuple(links))
