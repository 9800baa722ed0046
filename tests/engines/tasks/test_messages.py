"""Messages between the copies of several nodes: in one event loop, without servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from harness.engines.tasks import messages as module
from harness.engines.tasks.messages import Messages
from harness.engines.tasks.routes import Address
from harness.errors import UsageError
from harness.hosting.codec import Encoded
from harness.hosting.frames import HEADER, Header, Hosts, unpack_header
from harness.protocol import inputs as told
from tests.protocol.machines import arrived, requested

PART = pa.table({"word": ["a"], "n": [1]})


def batch(up: int, down: int) -> told.BatchArrived:
    return arrived(task=down, upstream=up, payload=Encoded(PART))


def request(down: int, up: int, from_batch: int = 3) -> told.ReplayRequested:
    return requested(task=up, downstream=down, from_batch=from_batch, from_tentative=from_batch)


def entry(number: int, address: Any, hosts: Hosts) -> list[Any]:
    """Return a node as the coordinator tells of it."""
    return [number, 1, list(address), [hosts.version, [list(copy) for copy in hosts.copies]]]


def parts(frame: bytes) -> tuple[Header, memoryview]:
    return unpack_header(frame), memoryview(frame)[HEADER.size :]


class Network:
    """Streams that deliver at once, and count the frames."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.frames: list[tuple[int, int, bytes]] = []

    def deliver(self, sender: int, to: int, frames: Sequence[bytes]) -> bool:
        for frame in frames:
            self.frames.append((sender, to, frame))
            self.nodes[to].messages.received(sender, 1, *parts(frame))
        return True


class Node:
    """One node of a network."""

    def __init__(self, network: Network, number: int, *, run: str = "pass") -> None:
        self.network, self.number = network, number
        self.got: list[told.TaskMessage] = []
        self.refused: list[UsageError] = []
        self.messages = Messages(
            number, 1, run, self, deliver=lambda message, due: self.got.append(message),
            soon=self.got.append, too_large=self.refused.append,
        )  # fmt: skip
        network.nodes[number] = self

    def send(self, node: int, frames: list[bytes]) -> bool:
        return self.network.deliver(self.number, node, frames)

    def located(self, node: int, boot: int, address: Address) -> None:
        """Nothing is dialed here."""

    def gone(self, node: int, boot: int) -> None:
        """Nothing is hung up on."""

    def hears_of(self, *others: Node, run: str = "pass") -> None:
        entries = [entry(o.number, ["h", 1], o.messages.hosts) for o in others]
        self.messages.routed({"run": run, "nodes": entries, "gone": []})

    def says(self, to: int, message: Any) -> None:
        self.messages.send(to, None, message)
        self.messages.flush()


def hosting(network: Network, *tasks: Sequence[int]) -> list[Node]:
    """Return nodes with the first copies of these tasks, which know one another."""
    nodes = [Node(network, number) for number in range(len(tasks))]
    for node, here in zip(nodes, tasks, strict=True):
        for task in here:
            node.messages.hosted(task, 1, here=True)
    for node in nodes:
        node.hears_of(*(other for other in nodes if other is not node))
    return nodes


def test_several_tasks_of_a_node_share_a_frame() -> None:
    network = Network()
    one, other = hosting(network, [0], [1, 2, 3])
    for task in (1, 2, 3):
        one.messages.send(task, None, batch(0, task))
    assert network.frames == []
    one.messages.flush()
    assert len(network.frames) == 1
    assert [message.task for message in other.got] == [1, 2, 3]


def test_frames_and_news_of_another_pass_are_dropped() -> None:
    network = Network()
    one, other = hosting(network, [0], [1])
    before = Node(network, 5, run="the pass before")
    before.hears_of(other, run="the pass before")
    before.says(1, batch(0, 1))
    assert network.frames
    assert other.got == []
    one.hears_of(before, run="the pass before")
    assert one.messages.routes.boot(5) == 0


def test_equal_requests_that_waited_together_are_answered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a stall of ten seconds forty of them come at one time."""
    network = Network()
    one, other = hosting(network, [0], [1])
    now = 10_000_000
    monkeypatch.setattr(module, "now_us", lambda: now)
    monkeypatch.setattr(network, "deliver", lambda *sent: kept.append(sent[2]))
    kept: list[list[bytes]] = []
    for _ in range(40):
        other.says(0, request(1, 0))
        now += 250_000
    other.says(0, request(1, 0, from_batch=4))

    def arrive(frames: list[bytes]) -> None:
        for frame in frames:
            one.messages.received(1, 1, *parts(frame))

    for frames in kept:
        arrive(frames)
        now += 10
    assert one.got == [request(1, 0), request(1, 0, from_batch=4)]
    one.got.clear()
    for frames in kept[:3]:
        arrive(frames)
        now += 250_000
    assert len(one.got) == 3, "one that did not wait is answered again: the answer was lost"


def test_a_message_over_the_limit_ends_the_run_with_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_MESSAGE_BYTES", 100)
    network = Network()
    one, other = hosting(network, [0], [1])
    one.says(1, batch(0, 1))
    assert "shorter batches" in one.refused[0].remedy
    assert other.got == []
