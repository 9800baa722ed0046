"""Placement of tasks and of what protects them: DRA, Storm's default, and RAS (edge, section IV).

DRA places everything as Storm's resource-aware scheduler does: task by task in topological
order, on a node with room that is near what the task reads, replicas and ackers like any other
task; so a replica may well share its primary's node. RAS keeps that placement of the primaries
and puts the checkpoint store where the stateful tasks reach it soonest (equation 2), the ackers
where tuples reach them soonest (equation 3), and each replica on the nearest neighbour of its
primary's node that has room (Algorithm 1, lines 7-14). A replica without such a place is placed
by the network (line 15): where the tuples that it reads and sends travel least, as Pietzuch et al.
(ICDE 2006) do, on any node but its primary's.

Tests: ``tests/planning/test_tiers.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from harness.errors import UsageError
from harness.planning.tiers import PlacedTask, TieredNetwork

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
        """Return the node's name of every task, `replica_of`, `acker` and `STORE`.

        Raises `UsageError` if something fits nowhere."""


def replica_of(task: str) -> str:
    """Return the name under which a replica is placed."""
    return f"{task}'"


def acker(number: int) -> str:
    """Return the name under which an acker is placed."""
    return f"acker-{number}"


def dra(
    tasks: Sequence[PlacedTask],
    network: TieredNetwork,
    *,
    replicated: Sequence[str] = (),
    ackers: int = 0,
    acker_demand: float = 0.1,
    store_demand: float = 0.1,
) -> dict[str, str]:
    """Place as Storm's default does: in topological order, each near what it reads.

    Each task goes to the node with room that is nearest to what it reads, ties in the network's
    order. A replica is to Storm a task like any other: it goes where its primary would, which is
    its primary's own node if there is room for both. Such a replica protects from a process's
    death alone, the paper's reason for RAS. The store and the ackers go to the first node with
    room. Storm also weighs memory and keeps racks together; of that only the distance is modelled.
    Raises `UsageError` if something fits nowhere."""
    placing = _Placing(tasks, network)
    for name in replicated:
        task = placing.tasks[name]
        placing.put(replica_of(name), task.demand, placing.near(task))
    placing.put(STORE, store_demand, placing.nodes(store_demand))
    for number in range(ackers):
        placing.put(acker(number), acker_demand, placing.nodes(acker_demand))
    return placing.placement


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
    """Place primaries as `dra` does, then store, ackers and replicas near what they protect.

    The neighbours of a node are those that a link leads to ("a predefined cluster architecture");
    without ``linked_only`` every other node is one, and line 15 has nothing left to place. A
    replica never shares its primary's node and no node exceeds its capacity; `UsageError` if
    something fits nowhere. Ackers are placed one after the other, each at the best node with
    room: equation 3 has no term between ackers, so that is its optimum."""
    placing = _Placing(tasks, network)
    placement = placing.placement
    stateful = [task for task in tasks if task.stateful]

    def store_distance(node: str) -> float:
        return sum(network.latency_s(placement[task.name], node) for task in stateful)

    def acker_distance(node: str) -> float:
        return sum(
            task.input_rate * network.latency_s(placement[task.name], node) for task in tasks
        )

    placing.put(STORE, store_demand, placing.nodes(store_demand, store_distance))
    for number in range(ackers):
        placing.put(acker(number), acker_demand, placing.nodes(acker_demand, acker_distance))
    left = [name for name in replicated if not placing.put_near_primary(name, linked_only)]
    for name in left:
        placing.put_by_network(name)
    for name in replicated:
        assert placement[name] != placement[replica_of(name)], "a replica has a node of its own"
    return placement


class _Placing:
    """A placement in progress, with the capacity that is left; starts with the primaries."""

    def __init__(self, tasks: Sequence[PlacedTask], network: TieredNetwork) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.network = network
        self.placement: dict[str, str] = {}
        self._left = {node.name: node.capacity for node in network.nodes}
        for task in tasks:
            self.put(task.name, task.demand, [task.pinned] if task.pinned else self.near(task))

    def _fits(self, node: str, demand: float) -> bool:
        """Return True if ``demand`` fits on ``node``, rounding aside."""
        return demand <= self._left[node] + 1e-9

    def nodes(
        self, demand: float, distance: Callable[[str], float] = lambda node: 0.0
    ) -> list[str]:
        """Return the nodes with room for ``demand``, nearest first, ties in the network's order."""
        names = [node.name for node in self.network.nodes if self._fits(node.name, demand)]
        return sorted(names, key=distance)

    def put(self, name: str, demand: float, options: Sequence[str]) -> None:
        """Place ``name`` on the first of ``options``; `UsageError` if it does not fit there."""
        if not options or not self._fits(options[0], demand):
            raise UsageError(
                f"{name} takes {demand:g}, and no node that may host it has that much left",
                remedy="add nodes or capacity, or replicate less",
            )
        assert name not in self.placement, f"{name} is placed already"
        self._left[options[0]] -= demand
        self.placement[name] = options[0]

    def near(self, task: PlacedTask) -> list[str]:
        """Return the nodes with room for ``task``, those near what it reads first.

        It reads its upstream tasks, or, if it is a pinned source, what is at its node."""
        read = [self.placement[name] for name in task.upstream if name in self.placement]
        if task.pinned:
            read.append(task.pinned)
        latency_s = self.network.latency_s
        return self.nodes(task.demand, lambda node: sum(latency_s(node, other) for other in read))

    def put_near_primary(self, name: str, linked_only: bool) -> bool:
        """Place the replica on the nearest neighbour with room (lines 8 to 14), if there is one."""
        task, primary = self.tasks[name], self.placement[name]
        linked = self.network.neighbours(primary)
        options = [
            node
            for node in self.nodes(task.demand, partial(self.network.latency_s, primary))
            if node != primary and (node in linked or not linked_only)
        ]
        if options:
            self.put(replica_of(name), task.demand, options)
        return bool(options)

    def put_by_network(self, name: str) -> None:
        """Place the replica where tuples times latency is least (line 15).

        The sum is over all that the task reads and all that reads it."""
        task, placement = self.tasks[name], self.placement
        rate_of = {each.name: each.input_rate for each in self.tasks.values()}
        partners = [(placement[up], rate_of.get(up, 0.0)) for up in task.upstream]
        partners += [
            (placement[each.name], task.input_rate)
            for each in self.tasks.values()
            if name in each.upstream
        ]
        latency_s = self.network.latency_s
        options = self.nodes(
            task.demand, lambda node: sum(rate * latency_s(node, other) for other, rate in partners)
        )
        self.put(replica_of(name), task.demand, [n for n in options if n != placement[name]])
