"""The nodes that host the copies of each task, as one node knows them.

A node tells the coordinator which copies it has, with a version that counts the changes; the
coordinator tells all nodes. It also says so itself, in front of its next message to each peer, so
that the answer to a new copy's first request finds its way. Whichever comes first counts, and what
is older is dropped."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from harness.hosting.codec import CorruptData
from harness.hosting.frames import Copies, Hosts
from harness.protocol.inputs import BatchArrived, TaskMessage

MOST_HELD = 256
"""The messages to one task that wait until a copy of it is somewhere."""

Address = tuple[str, int]
HostedCopies = tuple[int, list[tuple[int, int]]]
"""The copies on a node as frames have them: their version, and (task, incarnation) of each."""


@dataclass(slots=True)
class _Node:
    boot: int
    version: int = -1
    copies: Copies = ()


@dataclass(slots=True)
class Routes:
    """The copies on the nodes in one pass."""

    _nodes: dict[int, _Node] = field(default_factory=dict)
    _hosting: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """Task to its nodes, each with the incarnations there."""
    _held: dict[int, deque[tuple[int | None, TaskMessage]]] = field(default_factory=dict)

    def boot(self, node: int) -> int:
        """Return the number of a node's newest life; 0 if none is known."""
        known = self._nodes.get(node)
        return known.boot if known is not None else 0

    def nodes(self, task: int, incarnation: int | None) -> tuple[int, ...]:
        """Return the nodes with a copy of ``task``, or with that one."""
        hosting = self._hosting.get(task)
        if hosting is None:
            return ()
        if incarnation is None:
            return tuple(hosting)
        return tuple(node for node, copies in hosting.items() if incarnation in copies)

    def begun(self, node: int, boot: int) -> bool:
        """Note a life of a node; return False for an earlier one."""
        return self._newest(node, boot) is not None

    def hosts(self, node: int, boot: int, hosts: Hosts) -> list[int]:
        """Note the copies on a node; return the tasks of which it has a new copy."""
        known = self._newest(node, boot)
        if known is None or hosts.version <= known.version:
            return []
        new = {task for task, _ in set(hosts.copies) - set(known.copies)}
        known.version = hosts.version
        self._set(node, known, hosts.copies)
        return sorted(new)

    def gone(self, node: int, boot: int) -> None:
        """Forget a life of a node; a later one may be known already."""
        known = self._nodes.get(node)
        if known is not None and known.boot <= boot:
            self._set(node, known, ())
            known.version = -1

    def hold(self, task: int, incarnation: int | None, message: TaskMessage) -> None:
        """Keep a message to a task that is nowhere yet.

        Requests and news that two new copies have for each other must not wait for a heartbeat.
        Batches are not kept: a new copy asks for those that it lacks."""
        if type(message) is not BatchArrived:
            held = self._held.setdefault(task, deque(maxlen=MOST_HELD))
            held.append((incarnation, message))

    def take_held(self, task: int) -> list[tuple[int | None, TaskMessage]]:
        """Return the messages that waited for a copy of ``task``, in order."""
        return list(self._held.pop(task, ()))

    def _newest(self, node: int, boot: int) -> _Node | None:
        known = self._nodes.get(node)
        if known is None or known.boot < boot:
            if known is not None:
                self._set(node, known, ())
            known = self._nodes[node] = _Node(boot)
        return known if known.boot == boot else None

    def _set(self, node: int, known: _Node, copies: Copies) -> None:
        for task, _ in known.copies:
            hosting = self._hosting.get(task, {})
            hosting.pop(node, None)
            if not hosting:
                self._hosting.pop(task, None)
        known.copies = copies
        for task, incarnation in copies:
            hosting = self._hosting.setdefault(task, {})
            hosting[node] = (*hosting.get(node, ()), incarnation)


class News(msgspec.Struct):
    """The coordinator's news of other nodes."""

    run: str
    nodes: list[tuple[int, int, Address, HostedCopies]]
    """Node, life, address and copies."""
    gone: list[tuple[int, int]]
    """Node and the life that is over."""


def news_of(document: object) -> News:
    """Return the news in a frame; raise `CorruptData` if there are none."""
    try:
        return msgspec.convert(document, News)
    except msgspec.ValidationError as error:
        raise CorruptData(f"no news about nodes: {error}") from error
