"""Which nodes there are, and what each of them last said of itself.

A node has not joined until it reports: before that it hosts nothing, nobody waits for its
heartbeats, and it cannot be lost. So nodes may start in any order, take as long as they like, or
come when the run has long begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.protocol.coordinator.registry import Copy, NodeInfo
from harness.protocol.inputs import CopyReport, HeartbeatReceived, NodeDisconnected


class Member:
    """One node, as the coordinator sees it."""

    __slots__ = ("_said", "agrees_with", "alive", "boot", "copies", "heard_at", "info", "reports")

    def __init__(self, info: NodeInfo) -> None:
        self.info = info
        self.alive = False
        self.boot = 0
        """The highest boot number known; 0 before it has joined."""
        self.heard_at = 0
        self.reports: dict[tuple[int, int], CopyReport] = {}
        """By task and incarnation, what it hosts."""
        self.copies: dict[tuple[int, int], Copy] = {}
        """By task and incarnation, what it shall host."""
        self._said: tuple[CopyReport, ...] = ()
        self.agrees_with: int | None = None
        """A version of the registry that needs no order, given these reports; None: not known."""

    def heard(self, item: HeartbeatReceived, now: int) -> None:
        """A heartbeat came: it is alive, and hosts what the heartbeat reports."""
        assert item.boot >= self.boot, f"boot {item.boot} is over"
        assert now >= self.heard_at, "time goes forward"
        self.alive, self.boot, self.heard_at = True, item.boot, now
        if item.copies != self._said:
            self._said, self.agrees_with = item.copies, None
            self.reports = {(report.task, report.incarnation): report for report in item.copies}

    def gone(self) -> None:
        """It is treated as lost, and with it all that it hosts."""
        self.alive = False
        self.copies.clear()
        self.reports = {}
        self._said, self.agrees_with = (), None


class Membership:
    """Every node by its number: those the coordinator was told of, and those that came later."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
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
        """Every node's, ascending but for those that came later."""
        return self._members

    def lacks(self, nodes: Iterable[int]) -> bool:
        """Whether any of ``nodes`` is not alive."""
        members = self._members
        for node in nodes:  # no generator: asked at every heartbeat before the first placement
            assert node in members, f"node {node} is named, and nobody knows it"
            if not members[node].alive:
                return True
        return False

    def sender(self, item: HeartbeatReceived) -> Member | None:
        """Who sent ``item``; a node that was not known becomes a member. None for a heartbeat of an
        earlier boot, or of an unknown node that does not describe itself."""
        member = self._members.get(item.node)
        if member is None and item.info is not None:
            member = self._members[item.node] = Member(item.info)
        return member if member is not None and item.boot >= member.boot else None

    def closed(self, item: NodeDisconnected) -> bool:
        """Note that a connection was closed. Whether a node that counted as alive is lost by it."""
        member = self._members.get(item.node)
        if member is None or item.boot < member.boot:
            return False
        member.boot = item.boot
        return member.alive

    def silent(self, since: int) -> list[int]:
        """The living nodes that were not heard of after ``since``."""
        return [n for n, member in self if member.alive and member.heard_at < since]

    def report(self, copy: Copy) -> CopyReport | None:
        """What this very copy last said of itself."""
        return self._members[copy.node].reports.get((copy.task, copy.incarnation))

    def assume(self, copies: Sequence[Copy], now: int) -> list[int]:
        """After a crash of the coordinator: take the hosts of ``copies`` for alive from now on;
        they are lost only after the usual time without a heartbeat.

        Returns the nodes that have ended or booted again since their copies were placed, as the
        coordinator heard before it had read the registry: those copies are lost.
        """
        ended: dict[int, None] = {}
        for copy in copies:
            member = self._members[copy.node]
            if copy.boot > member.boot:
                member.boot, member.alive = copy.boot, True
            elif copy.boot < member.boot or not member.alive:
                ended[copy.node] = None
        for _, member in self:
            member.heard_at = now
        return list(ended)

    @property
    def came_later(self) -> tuple[tuple[int, NodeInfo], ...]:
        """The members that the coordinator was not told of when it started."""
        return tuple((n, member.info) for n, member in self if n >= self._given)

    def know(self, nodes: Sequence[tuple[int, NodeInfo]]) -> None:
        """Add nodes that an earlier coordinator knew, and this one was not told of."""
        for number, info in nodes:
            self._members.setdefault(number, Member(info))
