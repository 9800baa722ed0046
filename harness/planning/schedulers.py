"""Where tasks and what protects them run: DRA, Storm's default, and RAS (edge, section IV).

DRA places everything as Storm's resource-aware scheduler does: task by task in topological
order, on a node with room that is near what the task reads, replicas and ackers like any other
task; so a replica may well share its primary's node. RAS keeps that placement of the primaries
and puts the checkpoint store where the stateful tasks reach it soonest (equation 2), the ackers
where tuples reach them soonest (equation 3), and each replica on the nearest neighbour of its
primary's node that has room (Algorithm 1, lines 7-14). What finds no place there is placed by the
network (line 15): where the tuples that it reads and sends travel least, as Pietzuch et al. (ICDE
2006) do, on any node but its primary's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from harness.errors import UsageError
from harness.planning.tiers import PlacedTask, Placement, TieredNetwork

STORE = "checkpoint-store"


class Scheduler(Protocol):
    """One way to place tasks and what protects them."""

    def __call__(
        self,
        tasks: Sequence[PlacedTask],
        network: TieredNetwork,
        *,
        replicated: Sequence[str] = (),
        ackers: int = 0,
        acker_demand: float = 0.1,
        store_demand: float = 0.1,
    ) -> dict[str, str]:
        """Where everything runs: task, `replica_of`, `acker` and `STORE` to a node's name.

        Raises `UsageError` if something fits nowhere.
        """


def replica_of(task: str) -> str:
    """The name under which a replica is placed."""
    return f"{task}'"


def acker(number: int) -> str:
    """The name under which an acker is placed."""
    return f"acker-{number}"


class Room:
    """What capacity is left on each node."""

    def __init__(self, network: TieredNetwork) -> None:
        self._network = network
        self._left = {node.name: node.capacity for node in network.nodes}

    def fits(self, node: str, demand: float) -> bool:
        """Whether ``demand`` fits on ``node``, rounding aside."""
        return demand <= self._left[node] + 1e-9

    def take(self, node: str, demand: float) -> None:
        """Use ``demand`` of ``node``."""
        assert self.fits(node, demand), f"{node} is full"
        self._left[node] -= demand

    def nodes(self, demand: float, *, without: Iterable[str] = ()) -> list[str]:
        """The nodes with room for ``demand``, in the network's order."""
        barred = set(without)
        return [
            node.name
            for node in self._network.nodes
            if node.name not in barred and self.fits(node.name, demand)
        ]


def dra(
    tasks: Sequence[PlacedTask],
    network: TieredNetwork,
    *,
    replicated: Sequence[str] = (),
    ackers: int = 0,
    acker_demand: float = 0.1,
    store_demand: float = 0.1,
) -> dict[str, str]:
    """Storm's default: tasks in topological order, each on the node with room that is nearest
    to what it reads, ties in the network's order.

    A replica is to Storm a task like any other: it goes where its primary would, which is its
    primary's own node if there is room for both. Such a replica protects from a process's death
    alone, the paper's reason for RAS. The store and the ackers go to the first node with room.
    Storm also weighs memory and keeps racks together; of that only the distance is modelled.
    Raises `UsageError` if something fits nowhere.
    """
    room = Room(network)
    placement: dict[str, str] = {}
    for task in tasks:
        _place_primary(task, network, room, placement)
    by_name = {task.name: task for task in tasks}
    for name in replicated:
        task = by_name[name]
        _put(replica_of(name), task.demand, _near(task, network, room, placement), room, placement)
    _put(STORE, store_demand, room.nodes(store_demand), room, placement)
    for number in range(ackers):
        _put(acker(number), acker_demand, room.nodes(acker_demand), room, placement)
    return placement


def ras(
    tasks: Sequence[PlacedTask],
    network: TieredNetwork,
    *,
    replicated: Sequence[str] = (),
    ackers: int = 0,
    acker_demand: float = 0.1,
    store_demand: float = 0.1,
    linked_only: bool = True,
) -> dict[str, str]:
    """The resilience-aware scheduler: as `dra` for the primaries, then store, ackers and
    replicas near what they protect.

    The neighbours of a node are those that a link leads to ("a predefined cluster architecture");
    without ``linked_only`` every other node is one, and line 15 has nothing left to place. A
    replica never shares its primary's node and no node exceeds its capacity; `UsageError` if
    something fits nowhere. Ackers are placed one after the other, each at the best node with
    room: equation 3 has no term between ackers, so that is its optimum.
    """
    room = Room(network)
    placement: dict[str, str] = {}
    for task in tasks:
        _place_primary(task, network, room, placement)
    stateful = [task for task in tasks if task.stateful]

    def store_distance(node: str) -> float:
        return sum(network.latency_s(placement[task.name], node) for task in stateful)

    def acker_distance(node: str) -> float:
        return sum(
            task.input_rate * network.latency_s(placement[task.name], node) for task in tasks
        )

    _put(STORE, store_demand, sorted(room.nodes(store_demand), key=store_distance), room, placement)
    for number in range(ackers):
        options = sorted(room.nodes(acker_demand), key=acker_distance)
        _put(acker(number), acker_demand, options, room, placement)
    by_name = {task.name: task for task in tasks}
    left = [
        name
        for name in replicated
        if not _place_near(by_name[name], network, room, placement, linked_only=linked_only)
    ]
    for name in left:
        _place_by_network(by_name[name], tasks, network, room, placement)
    return placement


def _place_primary(
    task: PlacedTask, network: TieredNetwork, room: Room, placement: dict[str, str]
) -> None:
    options = [task.pinned] if task.pinned else _near(task, network, room, placement)
    _put(task.name, task.demand, options, room, placement)


def _near(
    task: PlacedTask, network: TieredNetwork, room: Room, placement: dict[str, str]
) -> list[str]:
    """Nodes with room for ``task``, those near what it reads first: its upstream tasks, or for a
    pinned source what is at its node."""
    read = [placement[name] for name in task.upstream if name in placement]
    if task.pinned:
        read.append(task.pinned)
    return sorted(
        room.nodes(task.demand),
        key=lambda node: sum(network.latency_s(node, other) for other in read),
    )


def _place_near(
    task: PlacedTask,
    network: TieredNetwork,
    room: Room,
    placement: dict[str, str],
    *,
    linked_only: bool,
) -> bool:
    """Lines 8 to 14: the nearest neighbour with room hosts the replica; False if none has."""
    primary = placement[task.name]
    options = room.nodes(task.demand, without=[primary])
    if linked_only:
        linked = network.neighbours(primary)
        options = [node for node in options if node in linked]
    if not options:
        return False
    options = sorted(options, key=lambda node: network.latency_s(primary, node))
    _put(replica_of(task.name), task.demand, options, room, placement)
    return True


def _place_by_network(
    task: PlacedTask,
    tasks: Sequence[PlacedTask],
    network: TieredNetwork,
    room: Room,
    placement: dict[str, str],
) -> None:
    """Line 15: the replica goes where tuples times latency, over all that the task reads and all
    that reads it, is least."""
    rate_of = {each.name: each.input_rate for each in tasks}
    partners = [(placement[name], rate_of.get(name, 0.0)) for name in task.upstream]
    partners += [
        (placement[each.name], task.input_rate) for each in tasks if task.name in each.upstream
    ]
    near = sorted(
        room.nodes(task.demand, without=[placement[task.name]]),
        key=lambda node: sum(rate * network.latency_s(node, other) for other, rate in partners),
    )
    _put(replica_of(task.name), task.demand, near, room, placement)


def _put(
    what: str, demand: float, options: Sequence[str], room: Room, placement: dict[str, str]
) -> None:
    if not options or not room.fits(options[0], demand):
        raise UsageError(
            f"{what} takes {demand:g}, and no node that may host it has that much left",
            remedy="add nodes or capacity, or replicate less",
        )
    room.take(options[0], demand)
    placement[what] = options[0]


def mean_distance_s(
    network: TieredNetwork, placement: Placement, replicated: Sequence[str]
) -> float:
    """Mean latency between a primary and its replica: what a takeover adds to the way."""
    if not replicated:
        return 0.0
    distances = [
        network.latency_s(placement[name], placement[replica_of(name)]) for name in replicated
    ]
    return sum(distances) / len(distances)
