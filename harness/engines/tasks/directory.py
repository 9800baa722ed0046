"""The coordinator's news for nodes about one another, and pairs of them without a way between.

The `Directory` decides nothing: the copies are those that each node has reported, and a node is
gone when its connection has ended. The news of one turn of the event loop go out together.

Tests: ``tests/engines/tasks/test_coordinator.py``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from harness.engines.tasks.control import Connection
from harness.engines.tasks.job import Job
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.reports import Hello, Hosting, Unreachable, problem_of
from harness.protocol import inputs as told

FRESH_US = 1_000_000
"""Age of a node's last word, or four heartbeats, until which it counts as being in touch."""
LASTING_US = 10_000_000
"""Time for which every attempt of a pair fails, and both stay in touch, until the run ends: an
attempt that began while a node was cut off may fail when it is not any more. Wrong bits on the wire
look like another secret: where they spoil every fourth attempt, some twelve in a row are needed."""
_REMEDY = (
    "let every node connect to every other, on any port above 1023: look at the firewall and the "
    "routes between these two, and at the run's certificate"
)


class ConnectedNode:
    """A node that is connected."""

    def __init__(self, hello: Hello, connection: Connection, shift_us: int = 0) -> None:
        """``shift_us``: the difference to add to its instants for this process's clock."""
        self.number, self.boot, self.connection = hello.node, hello.boot, connection
        self.shift_us, self.address, self.token = shift_us, hello.address, hello.token
        self.hosting = Hosting(run="", hosts=(0, []))
        """Its copies, as it last reported them."""
        self.last: told.HeartbeatReceived | None = None
        self.heard_us = now_us()
        """When its last heartbeat came."""
        self.steady_us = self.heard_us
        """Since when no heartbeat of it came late, and it took every connection."""
        self.place = 0
        """Its place in the order in which nodes have come."""
        self.tasks: frozenset[int] = frozenset()
        """The tasks of the copies it last reported."""


class Directory:
    """The members' addresses and copies in one pass."""

    def __init__(self, run: str, members: Mapping[int, ConnectedNode]) -> None:
        self._run, self._members = run, members
        self._news: dict[int, ConnectedNode] = {}
        self._gone: list[tuple[int, int]] = []
        self._waiting = False
        self._loop = asyncio.get_running_loop()
        self._calm_s = 0.0
        """Until then, by the event loop's clock, others have their turn."""
        self._hosts: dict[int, set[int]] = {}
        """Task to the nodes that have reported a copy of it, some of them long ago."""
        for member in members.values():
            self.reported(member, member.tasks)

    def reported(self, member: ConnectedNode, tasks: frozenset[int]) -> None:
        """Note the tasks of the copies that a heartbeat reports."""
        member.tasks = tasks
        for task in tasks:
            self._hosts.setdefault(task, set()).add(member.number)

    def hosts_of(self, task: int) -> list[ConnectedNode]:
        """Return the nodes that last reported a copy of a task."""
        there = [self._members.get(number) for number in self._hosts.get(task, ())]
        found = [member for member in there if member is not None and task in member.tasks]
        return sorted(found, key=lambda member: member.place)

    def welcome(self, member: ConnectedNode) -> None:
        """Tell a node of all others, and all others of it."""
        others = [self._entry(other) for other in self._members.values() if other is not member]
        member.connection.send_body(self._frame(others, []))
        self.changed(member)

    def changed(self, member: ConnectedNode) -> None:
        """Tell all nodes of a member, soon."""
        self._news[member.number] = member
        self._tell_soon()

    def left(self, member: ConnectedNode) -> None:
        """Tell all nodes that a life of a node is over, at once: orders follow."""
        self._news.pop(member.number, None)
        self._gone.append((member.number, member.boot))
        self.tell()

    def tell(self) -> None:
        """Send what has gathered."""
        self._waiting, began_s = False, self._loop.time()
        news, gone = [self._entry(member) for member in self._news.values()], self._gone
        self._news, self._gone = {}, []
        if news or gone:
            body = self._frame(news, gone)
            for member in self._members.values():
                member.connection.send_body(body)
            spent_s = self._loop.time() - began_s
            self._calm_s = self._loop.time() + spent_s if spent_s > 0 else 0.0

    def _tell_soon(self) -> None:
        """Send soon, but spend no more than half of the time on this, however many nodes join.

        What gathers meanwhile is one message to each node, so a join costs as little as a node."""
        if not self._waiting:
            self._waiting = True
            if self._calm_s > self._loop.time():
                self._loop.call_at(self._calm_s, self.tell)
            else:
                self._loop.call_soon(self.tell)

    def _entry(self, member: ConnectedNode) -> list[Any]:
        hosts = member.hosting.hosts if member.hosting.run == self._run else (0, [])
        return [member.number, member.boot, list(member.address), hosts]

    def _frame(self, nodes: list[Any], gone: list[tuple[int, int]]) -> bytes:
        routes = {"run": self._run, "nodes": nodes, "gone": gone}
        return json.dumps({"routes": routes}, separators=(",", ":")).encode()


class UnreachablePairs:
    """The pairs that were reported, and since when."""

    def __init__(self) -> None:
        self._since_us: dict[tuple[int, int], tuple[int, int]] = {}
        """The first attempt that failed, by the node's clock, and when that was heard."""
        self._reported: set[tuple[int, int]] = set()

    def problem(
        self,
        job: Job,
        report: Unreachable,
        member: ConnectedNode,
        members: Mapping[int, ConnectedNode],
        *,
        now_us: int,
        awake_us: int,
    ) -> dict[str, Any] | None:
        """Return the event of a pair that cannot talk for long, while both are in touch.

        What was sent before a node was cut off or killed, and arrives afterwards, is no news. Nor
        is anything just after this process was itself stopped (until ``awake_us``): it reads then
        what nodes said long ago."""
        other, pair = members.get(report.to), (member.number, report.to)
        if other is None or other.boot != report.boot or pair in self._reported:
            return None
        fresh_us = fresh_us_of(job)
        newest = min(report.at_us + member.shift_us, other.heard_us, member.heard_us)
        if now_us - newest > fresh_us or now_us - awake_us <= fresh_us:
            return None
        steady_us = max(member.steady_us, other.steady_us, awake_us)
        first_us, since_us = self._since_us.get(pair, (-1, -1))
        if first_us != report.since_us or since_us < steady_us:  # they may have talked since then
            self._since_us[pair] = report.since_us, now_us
            return None
        if now_us - since_us < LASTING_US:
            return None
        self._reported.add(pair)
        one, peer = job.nodes[member.number].name, job.nodes[report.to].name
        what = (
            f"{one} at {':'.join(map(str, member.address))} cannot reach {peer} at "
            f"{':'.join(map(str, report.at))}: {report.why}"
        )
        return problem_of(what, _REMEDY, member.number)


def fresh_us_of(job: Job) -> int:
    """Return the age of a node's last word until which it counts as being in touch."""
    return max(FRESH_US, 4 * job.scheme.heartbeat_us)
