"""Where copies go: a strategy that is handed in, and the free slots it chooses from.

A strategy decides every place: of first primaries, of replicas, and of tasks that were lost.

==============================  ================================================================
strategy                        what it does
==============================  ================================================================
`Spread`                        the least loaded node; a replica on another rack if there is one
`Preferring`                    the node that a list of preferences ranks first
`Planned`                       replicas where a plan (a scheduler of the edge paper, say) puts
                                them; what the plan does not place, or cannot any more, as
                                another strategy has it
==============================  ================================================================"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Protocol

from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.wiring import Wiring


class Role(StrEnum):
    """The purpose of a place."""

    FIRST = "first"
    """A task's first primary."""
    RESTORED = "restored"
    """The primary of a task that was lost, or found no place at the start."""
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One copy that needs a place."""

    role: Role
    task: int
    apart_from: int | None = None
    """The node of a replica's primary; the former node of a lost task."""


class Room:
    """The free slots of live nodes during one decision, and the places in use."""

    def __init__(self, assigned: Assignments, wiring: Wiring) -> None:
        self._assigned = assigned
        self._wiring = wiring
        alive = [(node, member) for node, member in assigned.members if member.alive]
        self._infos = {node: member.info for node, member in alive}
        self._loads = {node: len(member.copies) for node, member in alive}
        self.barred: Set[int] = frozenset()
        """Nodes that must not be chosen at the moment."""
        self._heap = [(load, node) for node, load in self._loads.items() if self.free(node)]
        heapify(self._heap)

    def free(self, node: int) -> bool:
        """Return True if ``node`` is alive, has a slot, and may be chosen."""
        return node in self._loads and self._has_slot(node) and node not in self.barred

    def _has_slot(self, node: int) -> bool:
        assert node in self._loads, f"node {node} is not alive"
        return self._loads[node] < self._infos[node].slots

    def take(self, node: int) -> None:
        """Use a slot."""
        assert self.free(node), f"node {node} has no slot to take"
        self._loads[node] += 1
        if self._has_slot(node):
            heappush(self._heap, (self._loads[node], node))

    def least_loaded(self, fits: Callable[[int], bool] | None = None) -> int | None:
        """Return the free node with the fewest copies for which ``fits`` holds, or None.

        Takes logarithmic time where nearly all fit, so thousands of copies can be placed."""
        passed: list[tuple[int, int]] = []
        found: int | None = None
        while self._heap and found is None:
            load, node = self._heap[0]
            if load != self._loads[node] or not self._has_slot(node):
                heappop(self._heap)  # a slot was taken since
            elif node not in self.barred and (fits is None or fits(node)):
                found = node
            else:
                passed.append(heappop(self._heap))
        for entry in passed:
            heappush(self._heap, entry)
        return found

    def nodes(self) -> list[int]:
        """Return the free nodes, the least loaded first."""
        free = [node for node in self._loads if self.free(node)]
        return sorted(free, key=lambda node: (self._loads[node], node))

    def info(self, node: int) -> NodeInfo:
        """Return the description of ``node``, alive or not."""
        return self._assigned.members[node].info

    def neighbours(self, task: int) -> list[int]:
        """Return the nodes of the primaries that ``task`` receives from and sends to."""
        assert task in self._wiring.tasks, f"task {task} is not wired"
        near = (*self._wiring.upstream[task], *self._wiring.downstream[task])
        primaries = (self._assigned.tasks[other].primary for other in near)
        return [primary.node for primary in primaries if primary is not None]


class Placement(Protocol):
    """A strategy."""

    @property
    def primaries(self) -> tuple[int, ...]:
        """The node of each task's first primary."""

    def choose(self, need: Need, room: Room) -> int | None:
        """Return a node with a free slot, or None.

        A restored primary gets None only if no slot is free. A first primary may get None if its
        node is away (it is restored later), and a replica may wait. A strategy that is free to
        choose puts a replica on another node than its primary, because they would die together."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least loaded node; for a replica one on another rack than its primary's, if any."""

    primaries: tuple[int, ...]

    def choose(self, need: Need, room: Room) -> int | None:
        assert need.task >= 0, f"task {need.task}"
        if need.role is Role.FIRST:
            return _first(self.primaries, need, room)
        beside = need.apart_from
        if need.role is Role.RESTORED or beside is None:
            return room.least_loaded()
        rack = room.info(beside).rack
        node = room.least_loaded(lambda node: room.info(node).rack != rack)
        return node if node is not None else room.least_loaded(lambda node: node != beside)


def _first(primaries: tuple[int, ...], need: Need, room: Room) -> int | None:
    assert need.role is Role.FIRST, f"a {need.role} place is not a first one"
    node = primaries[need.task]
    return node if room.free(node) else None


Preference = Callable[[Need, Room, int], float]
"""The rank of a node for a need; the node with the least is chosen."""


def other_rack(need: Need, room: Room, node: int) -> float:
    """Rank nodes of another rack first: not that of the replica's primary, or of the lost task."""
    if need.apart_from is None:
        return 0.0
    return float(room.info(node).rack == room.info(need.apart_from).rack)


def same_rack(need: Need, room: Room, node: int) -> float:
    """Rank nodes close to the primary first; they are lost with it when the rack is.

    Storm's scheduler, which has no notion of replicas, does no better."""
    return 1.0 - other_rack(need, room, node)


def in_order(_need: Need, _room: Room, node: int) -> float:
    """Rank nodes by number."""
    assert node >= 0, f"node {node}"
    return float(node)


@dataclass(frozen=True, slots=True)
class SameTier:
    """Nodes of the tier that a replica's primary is on, or that a lost task was on."""

    tiers: tuple[str, ...]
    """Node to tier."""

    def __call__(self, need: Need, _room: Room, node: int) -> float:
        assert node >= 0, f"node {node}"
        here = need.apart_from
        if here is None or max(here, node) >= len(self.tiers):
            return 0.0
        return float(self.tiers[node] != self.tiers[here])


@dataclass(frozen=True, slots=True)
class Near:
    """Nodes with the shortest way to the tasks it receives from and sends to.

    For a replica, the way to its primary (the resilience-aware scheduler of edge, Algorithm 1)."""

    delay_us: Callable[[int, int], float]
    """The delay between two nodes."""

    def __call__(self, need: Need, room: Room, node: int) -> float:
        if need.role is Role.REPLICA and need.apart_from is not None:
            return self.delay_us(node, need.apart_from)
        return sum(self.delay_us(node, other) for other in room.neighbours(need.task))


@dataclass(frozen=True, slots=True)
class Standby:
    """Nodes that are reserved for this and preferred to all others."""

    nodes: frozenset[int]

    def __call__(self, _need: Need, _room: Room, node: int) -> float:
        return float(node not in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferring:
    """The node that ranks first: by the first preference, ties by the next one, then by load.

    It ranks every free node, so it is for clusters of hundreds."""

    primaries: tuple[int, ...]
    replica: tuple[Preference, ...] = (other_rack,)
    restored: tuple[Preference, ...] = ()

    def choose(self, need: Need, room: Room) -> int | None:
        assert need.role is not Role.REPLICA or need.apart_from is not None, (
            "a replica has a primary"
        )
        if need.role is Role.FIRST:
            return _first(self.primaries, need, room)
        wishes = self.replica if need.role is Role.REPLICA else self.restored
        barred = need.apart_from if need.role is Role.REPLICA else None
        free = [node for node in room.nodes() if node != barred]
        return min(free, key=lambda n: [wish(need, room, n) for wish in wishes], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Replicas on their planned nodes, even on the node of their primary.

    A scheduler that does not separate replicas plans the latter. Another strategy places everything
    else."""

    replicas: Mapping[int, int] = field(hash=False)
    """Task to the node of its replica."""
    otherwise: Placement

    @property
    def primaries(self) -> tuple[int, ...]:
        return self.otherwise.primaries

    def choose(self, need: Need, room: Room) -> int | None:
        assert need.task >= 0, f"task {need.task}"
        planned = self.replicas.get(need.task) if need.role is Role.REPLICA else None
        if planned is not None and room.free(planned):
            return planned
        return self.otherwise.choose(need, room)
