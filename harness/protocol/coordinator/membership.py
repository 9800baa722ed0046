"""Which nodes there are, and what each of them last said of itself.

A node has not joined until it reports: before that it hosts nothing, nobody waits for its
heartbeats, and it cannot be lost. So nodes may start in any order, take as long as they like, or
come when the run has long begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.protocol.coordinator.registry import Copy, NodeInfo
from harness.protocol.inputs import CopyReport, HeartbeatReceived, NodeDisconnected

RETURN_US = 10_000
"""Time that one node takes of a coordinator that is back: all connect to it at once, each twice."""


class Member:
    """One node, as the coordinator knows it."""

    __slots__ = (
        "_said", "agrees_with", "alive", "boot", "copies", "grace_us", "heard_at", "info",
        "reports",
    )  # fmt: skip

    def __init__(self, info: NodeInfo) -> None:
        self.info = info
        self.alive = False
        self.boot = 0
        """The highest boot number known; 0 before it has joined."""
        self.heard_at = 0
        self.grace_us = 0
        """Further time until its first heartbeat to this coordinator."""
        self.reports: dict[tuple[int, int], CopyReport] = {}
        """The reported copies, by task and incarnation."""
        self.copies: dict[tuple[int, int], Copy] = {}
        """The wanted copies, by task and incarnation."""
        self._said: tuple[CopyReport, ...] = ()
        self.agrees_with: int | None = None
        """A version of the registry that needs no order, given these reports; None if not known."""

    def heard(self, item: HeartbeatReceived, now: int) -> None:
        """Note a heartbeat: the node is alive and hosts the reported copies."""
        assert all(report.position >= 0 for report in item.copies), "a report of a negative batch"
        assert item.boot >= self.boot, f"boot {item.boot} is over"
        assert now >= self.heard_at, "time goes forward"
        self.alive, self.boot, self.heard_at, self.grace_us = True, item.boot, now, 0
        if item.copies != self._said:
            self._said, self.agrees_with = item.copies, None
            self.reports = {(report.task, report.incarnation): report for report in item.copies}

    def gone(self) -> None:
        """Treat the node as lost, with all its copies."""
        assert self.boot > 0, "a node that has not joined cannot be lost"
        self.alive = False
        self.copies.clear()
        self.reports = {}
        self._said, self.agrees_with = (), None


class Membership:
    """All nodes by number: those known at the start, and those that joined later."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        assert all(info.slots >= 0 for info in nodes), "a node has a number of slots"
        self._members = {number: Member(info) for number, info in enumerate(nodes)}
        self._given = len(nodes)

    def __getitem__(self, node: int) -> Member:
        member = self._members.get(node)
        assert member is not None, f"node {node} is named, and nobody knows it"
        return member

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[tuple[int, Member]]:
        return iter(self._members.items())

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of all nodes, ascending but for those that joined later."""
        return self._members

    def lacks(self, nodes: Iterable[int]) -> bool:
        """Return True if any of ``nodes`` is not alive."""
        members = self._members
        for node in nodes:  # no generator: asked at every heartbeat before the first placement
            assert node in members, f"node {node} is named, and nobody knows it"
            if not members[node].alive:
                return True
        return False

    def sender(self, item: HeartbeatReceived) -> Member | None:
        """Return the sender of ``item``; a new node becomes a member.

        None for a heartbeat of an earlier boot, or of an unknown node that does not describe
        itself."""
        assert item.node >= 0, f"node {item.node}"
        member = self._members.get(item.node)
        if member is None and item.info is not None:
            member = self._members[item.node] = Member(item.info)
        return member if member is not None and item.boot >= member.boot else None

    def closed(self, item: NodeDisconnected) -> bool:
        """Note that a connection was closed; return True if a live node is lost by it."""
        assert item.boot > 0, "boots count from 1"
        member = self._members.get(item.node)
        if member is None or item.boot < member.boot:
            return False
        member.boot = item.boot
        return member.alive

    def silent(self, since: int) -> list[int]:
        """Return the live nodes without a heartbeat since ``since``."""
        return [
            n for n, member in self if member.alive and member.heard_at + member.grace_us < since
        ]

    def report(self, copy: Copy) -> CopyReport | None:
        """Return the last report of this copy, if any."""
        return self._members[copy.node].reports.get((copy.task, copy.incarnation))

    def assume(self, copies: Sequence[Copy], now: int) -> list[int]:
        """Take the hosts of ``copies`` for alive after a crash of the coordinator.

        They are lost only after the usual time without a heartbeat, and `RETURN_US` for each node.

        Returns the nodes that have ended or booted again since their copies were placed. The
        coordinator learned that before it had read the registry, so those copies are lost."""
        assert all(copy.node in self._members for copy in copies), "a copy is on an unknown node"
        ended: dict[int, None] = {}
        for copy in copies:
            member = self._members[copy.node]
            if copy.boot > member.boot:
                member.boot, member.alive = copy.boot, True
            elif copy.boot < member.boot or not member.alive:
                ended[copy.node] = None
        for _, member in self:
            member.heard_at, member.grace_us = now, RETURN_US * len(self)
        return list(ended)

    @property
    def came_later(self) -> tuple[tuple[int, NodeInfo], ...]:
        """The members that were not known at the start of the coordinator."""
        return tuple((n, member.info) for n, member in self if n >= self._given)

    def know(self, nodes: Sequence[tuple[int, NodeInfo]]) -> None:
        """Add nodes that an earlier coordinator knew, and this one does not."""
        assert all(number >= 0 for number, _ in nodes), "nodes are numbered from 0"
        for number, info in nodes:
            self._members.setdefault(number, Member(info))
