"""The messages of one pass between this node's copies and those of other nodes.

What one input of the machine makes it send leaves as one frame for each node, whatever the number
of tasks there. A message to a copy on this node is not encoded at all.

Tests: ``tests/engines/tasks/test_messages.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from harness.engines.tasks.pacing import Arrivals, Links, now_us
from harness.engines.tasks.routes import Address, Routes, news_of
from harness.errors import UsageError
from harness.hosting.frames import (
    MOST_MESSAGE_BYTES,
    Delivery,
    Header,
    Hosts,
    pack_frames,
    pack_hosts,
    pack_message,
    run_id,
    unpack_messages,
)
from harness.protocol.inputs import BatchArrived, ReplayRequested, TaskMessage, UpstreamResumed

RESUMED_US = 5_000_000
"""Time for which the copies of a task that are new here hear of a new primary.

When many tasks are restored at one time, none knows yet where its neighbours will be."""


class Streams(Protocol):
    """The connections to other nodes, as `harness.engines.tasks.direct.Peers` has them."""

    def send(self, node: int, frames: list[bytes]) -> bool:
        """Send frames; return False if they are dropped at once. They may get lost."""

    def located(self, node: int, boot: int, address: Address) -> None:
        """Note where a node listens."""

    def gone(self, node: int, boot: int) -> None:
        """Drop the connections to a life of a node."""


class Messages:
    """What copies on this node send and receive."""

    def __init__(
        self,
        node: int,
        boot: int,
        run: str,
        streams: Streams,
        *,
        deliver: Callable[[TaskMessage, int], None],
        soon: Callable[[TaskMessage], None],
        too_large: Callable[[UsageError], None],
        links: Links | None = None,
    ) -> None:
        """``deliver(message, due)`` hands a message over, at an instant in µs if it is not 0.

        ``soon`` hands over a message of this node's own, in a later turn of the loop."""
        self._node, self._boot, self._run = node, boot, run
        self._run_id = run_id(run)
        self._streams, self._deliver, self._soon = streams, deliver, soon
        self._too_large = too_large
        self._arrivals = Arrivals(links, node) if links else None
        """None where no link is declared: most runs."""
        self.routes = Routes()
        self.hosts = Hosts(0, ())
        """The copies here."""
        self._told: dict[int, tuple[int, int]] = {}
        """Node to its life, and to the version of `hosts` that it was sent."""
        self._out: dict[int, list[bytes]] = {}
        self._answered: dict[tuple[int, int, int], tuple[ReplayRequested, int, int]] = {}
        """The last request by task, downstream task and copy, and when it was sent and came."""
        self._resumed: dict[int, dict[int, tuple[UpstreamResumed, int]]] = {}
        """Task to its upstream tasks with a new primary here, and when each told it."""

    # -- where copies are ----------------------------------------------------------------------

    def hosted(self, task: int, incarnation: int, *, here: bool) -> None:
        """Note that a copy has come or gone."""
        copies = set(self.hosts.copies)
        (copies.add if here else copies.discard)((task, incarnation))
        self.hosts = Hosts(self.hosts.version + 1, tuple(sorted(copies)))
        self._release(self.routes.hosts(self._node, self._boot, self.hosts))

    def routed(self, document: Mapping[str, Any]) -> None:
        """Take the coordinator's news about other nodes. Raises `CorruptData`."""
        news = news_of(document)
        if news.run != self._run:
            return
        for node, boot in news.gone:
            self.routes.gone(node, boot)
            self._streams.gone(node, boot)
        for node, boot, address, hosts in news.nodes:
            if node != self._node and self.routes.begun(node, boot):
                self._streams.located(node, boot, address)
                known = Hosts(hosts[0], tuple(hosts[1]))
                self._release(self.routes.hosts(node, boot, known))
        self.flush()

    def _release(self, tasks: list[int]) -> None:
        """Send to the new copies of these tasks what waited for them, and who is there again."""
        for task in tasks:
            for incarnation, message in self.routes.take_held(task):
                self.send(task, incarnation, message)
            for upstream, (message, at_us) in list(self._resumed.get(task, {}).items()):
                if now_us() - at_us > RESUMED_US:
                    del self._resumed[task][upstream]
                else:
                    self._send(task, None, message)

    # -- out -----------------------------------------------------------------------------------

    def send(self, to: int, incarnation: int | None, message: TaskMessage) -> None:
        """Send a message to the copies of a task, or to one of them, with the next `flush`."""
        if type(message) is UpstreamResumed:
            self._resumed.setdefault(to, {})[message.upstream] = message, now_us()
        self._send(to, incarnation, message)

    def _send(self, to: int, incarnation: int | None, message: TaskMessage) -> None:
        nodes = self.routes.nodes(to, incarnation)
        if not nodes:
            self.routes.hold(to, incarnation, message)
            return
        packed = b""
        for node in nodes:
            if node == self._node:
                self._soon(message)
                continue
            packed = packed or pack_message(to, incarnation, message)
            if len(packed) > MOST_MESSAGE_BYTES:
                self._too_large(_too_large(message, len(packed)))
                return
            self._out.setdefault(node, []).append(packed)

    def flush(self) -> None:
        """Send what has gathered."""
        if not self._out:
            return
        out, self._out = self._out, {}
        sent_us = now_us()
        for node, messages in out.items():
            news = self.routes.boot(node), self.hosts.version
            if self._told.get(node) != news:
                messages.insert(0, pack_hosts(self.hosts))
            if self._streams.send(node, pack_frames(self._run_id, sent_us, messages)):
                self._told[node] = news

    # -- in ------------------------------------------------------------------------------------

    def received(self, node: int, boot: int, header: Header, body: memoryview) -> None:
        """Deliver a frame's messages. Raises `CorruptData`; those of another pass are dropped."""
        if header.run != self._run_id:
            return
        for found in unpack_messages(header, body):
            if isinstance(found, Hosts):
                self._release(self.routes.hosts(node, boot, found))
            elif found.incarnation is None or (found.to, found.incarnation) in self.hosts.copies:
                self._take(node, header.sent_us, found)

    def _take(self, node: int, sent_us: int, found: Delivery) -> None:
        message = found.message
        if type(message) is ReplayRequested and self._is_answered(message, sent_us):
            return
        if self._arrivals is None:
            self._deliver(message, 0)
        else:
            self._deliver(message, self._arrivals.due_us(sent_us, node, found.size))

    def _is_answered(self, request: ReplayRequested, sent_us: int) -> bool:
        """Return True if this request has waited behind an equal one, which is answered by now.

        Such requests were sent one after the other and come together."""
        key, now = (request.task, request.downstream, request.asking), now_us()
        last = self._answered.get(key)
        if last is not None and _same(last[0], request) and 2 * (now - last[2]) < sent_us - last[1]:
            return True
        self._answered[key] = request, sent_us, now
        return False


def _same(one: ReplayRequested, other: ReplayRequested) -> bool:
    """Return True if two requests of a copy want the same, whatever their causes."""
    return (one.from_batch, one.from_tentative, one.acknowledged, one.reloads) == (
        other.from_batch, other.from_tentative, other.acknowledged, other.reloads
    )  # fmt: skip


def _too_large(message: TaskMessage, size: int) -> UsageError:
    batch = f" of batch {message.batch}" if type(message) is BatchArrived else ""
    return UsageError(
        f"a message{batch} to task {message.task} has {size / 1e6:,.1f} MB, and one may have "
        f"{MOST_MESSAGE_BYTES / 1e6:,.1f}",
        remedy="use shorter batches, or more tasks, so that a batch has fewer rows",
    )
