"""Connections between nodes, in one event loop, without servers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from harness.cluster.endpoints import Tls
from harness.cluster.machines.certificates import run_certificate
from harness.engines.tasks import direct, wire
from harness.engines.tasks.direct import Peers
from harness.engines.tasks.handshake import STRANGER_BYTES
from harness.engines.tasks.reports import Unreachable
from harness.hosting.codec import CorruptData
from harness.hosting.frames import Header, Hosts, pack_frames, pack_hosts, run_id
from tests.engines.tasks.kit import in_a_loop, until
from tests.there import there

SECRET, RUN = b"known to both", run_id("pass")


class Node:
    """A node whose frames carry numbers."""

    def __init__(self, number: int, tls: Tls | None = None) -> None:
        self.troubles: list[Unreachable] = []
        self.got: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.held: list[bool] = []
        self.peers = Peers(number, 1, SECRET, tls=tls, trouble=self.troubles.append)
        self.peers.receiver = self

    async def start(self) -> Node:
        await self.peers.listen("127.0.0.1")
        return self

    def knows(self, *others: Node) -> None:
        for other in others:
            self.peers.located(other.peers.node, other.peers.boot, there(other.peers.address))

    def say(self, to: Node | int, number: int, ballast: int = 0) -> bool:
        packed = [pack_hosts(Hosts(number, ((0, 0),) * ballast))]
        frames = pack_frames(RUN, 0, packed)
        return self.peers.send(to if isinstance(to, int) else to.peers.node, frames)

    def received(self, node: int, boot: int, header: Header, body: memoryview) -> None:
        if header.run != RUN:
            raise CorruptData("of another pass")
        self.got.put_nowait((node, int.from_bytes(body[24:32], "little")))

    def hold_sources(self, held: bool) -> None:
        self.held.append(held)

    def wires(self, other: Node) -> list[wire.Wire]:
        peer = self.peers._peers.get(other.peers.node)
        return [] if peer is None else [one for one in peer.wires if one.live]


def nodes(count: int) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], None]]:
    """Run a test with nodes that know one another."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[[], None]:
        @in_a_loop
        async def run() -> None:
            made = [await Node(number).start() for number in range(count)]
            for node in made:
                node.knows(*(other for other in made if other is not node))
            try:
                await test(*made)
            finally:
                for node in made:
                    node.peers.close()

        return run

    return decorate


@nodes(2)
async def test_a_pair_shares_one_connection(one: Node, other: Node) -> None:
    assert not one.wires(other), "nobody has said anything yet"
    for number in range(100):
        one.say(other, number)
    assert [await other.got.get() for _ in range(100)] == [(0, n) for n in range(100)]
    other.say(one, 7)
    assert await one.got.get() == (1, 7)
    assert len(one.wires(other)) == len(other.wires(one)) == 1


@nodes(2)
async def test_what_a_peer_does_not_read_is_bounded(one: Node, other: Node) -> None:
    """A peer that is proved and reads nothing, as a frozen process does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "SILENT_MS", 60_000)  # by default, the kernel would hang up meanwhile
        patch.setattr(direct, "MOST_WAITING_BYTES", 1 << 20)
        patch.setattr(wire, "HOLD_BYTES", 1 << 18)
        patch.setattr(wire, "GO_ON_BYTES", 1 << 16)
        one.say(other, 0)
        await other.got.get()
        reader = there(other.wires(one)[0]._transport)
        reader.pause_reading()
        sent = sum(one.say(other, n, 20_000) for n in range(1, 100))
        assert 0 < sent < 99
        assert one.peers.dropped == 99 - sent
        assert one.wires(other)[0].waiting <= 1 << 20
        assert one.held == [True], "sources wait for a peer that is behind"
        reader.resume_reading()
        assert [await other.got.get() for _ in range(sent)] == [(0, n) for n in range(1, sent + 1)]
        await until(lambda: one.held == [True, False])


async def stranger(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a node without a proof, and read its greeting."""
    reader, writer = await asyncio.open_connection(*there(node.peers.address))
    await reader.readexactly(36)
    return reader, writer


@pytest.mark.parametrize(
    "words",
    [b"", b"GET / HTTP/1.1\r\n\r\n", b"FLD1" + b"x" * 60, b"FLD1" + b"\0" * 76, b"x" * 9_000],
)
@in_a_loop
async def test_a_stranger_is_refused_and_fills_nothing(words: bytes) -> None:
    node = await Node(0).start()
    reader, writer = await stranger(node)
    (unproved,) = node.peers._unproved
    assert len(unproved.get_buffer(-1)) <= STRANGER_BYTES
    writer.write(words)
    writer.write_eof()
    assert await ended(reader)
    await until(lambda: not node.peers._unproved)
    assert node.peers._peers == {}
    assert len(unproved._buffer) <= STRANGER_BYTES
    writer.close()
    node.peers.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@nodes(1)
async def test_a_silent_stranger_is_hung_up_on(node: Node) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "PROOF_S", 0.01)
        reader, writer = await stranger(node)
        assert await ended(reader)
        assert node.peers.refused == 1
    writer.close()


@nodes(2)
async def test_of_many_strangers_the_first_have_to_go(node: Node, friend: Node) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "MOST_STRANGERS", 2)
        strangers = [await stranger(node) for _ in range(4)]
        for reader, _ in strangers[:2]:
            assert await ended(reader)
        assert len(node.peers._unproved) == 2
        friend.say(node, 7)
        await node.got.get()
    for _, writer in strangers:
        writer.close()


@in_a_loop
async def test_a_peer_out_of_reach_is_reported_with_both_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "UNREACHABLE_S", 0.0)
    one = await Node(0).start()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = nobody.getsockname()[:2]
        one.peers.located(1, 4, address)
        assert one.say(1, 1)
        await until(lambda: bool(one.troubles))
    (trouble,) = one.troubles
    assert (trouble.to, trouble.boot, trouble.at) == (1, 4, address)
    assert "refused" in trouble.why
    assert not one.say(1, 2), "not dialed again at once"
    one.peers.close()


@in_a_loop
async def test_packets_that_are_dropped_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full answers no further connection, as behind a firewall."""
    monkeypatch.setattr(direct, "UNREACHABLE_S", 0.0)
    monkeypatch.setattr(direct, "CONNECT_S", 0.05)
    one = await Node(0).start()
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for caller in (first, second):
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        one.peers.located(1, 4, full.getsockname()[:2])
        assert one.say(1, 1)
        await until(lambda: bool(one.troubles))
    assert "firewall" in one.troubles[0].why
    one.peers.close()


@in_a_loop
async def test_a_certificate_of_the_run_encrypts_and_another_one_is_named() -> None:
    ours, theirs = (run_certificate(["127.0.0.1"]) for _ in range(2))
    one, other = await Node(0, tls=ours).start(), await Node(1, tls=ours).start()
    one.knows(other)
    one.say(other, 1)
    assert await other.got.get() == (0, 1)
    other.say(one, 2, 100_000)
    assert await one.got.get() == (1, 2)
    transport = there(one.wires(other)[0]._transport)
    assert transport.get_extra_info("cipher") is not None
    third = await Node(2, tls=theirs).start()
    one.knows(third)
    one.say(third, 3)
    await until(lambda: bool(one.troubles))
    assert "certificate is not one of this run's" in one.troubles[0].why
    assert third.got.empty()
    for node in (one, other, third):
        node.peers.close()


class SlowWire:
    """A connection whose peer takes something between two looks, or nothing."""

    def __init__(self) -> None:
        self.moving, self.looks, self._taken = True, 0, 0

    @property
    def taken(self) -> int:
        self.looks += 1
        self._taken += direct.SLOWEST_BYTES if self.moving else 0
        return self._taken


@in_a_loop
async def test_a_slow_peer_holds_sources_for_as_long_as_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "PATIENCE_S", 0.001)
    node, slow = Node(0), SlowWire()
    node.peers.crowded(slow, True)  # type: ignore[arg-type]
    await until(lambda: slow.looks > 20)
    assert node.held == [True]
    slow.moving = False
    await until(lambda: node.held == [True, False])
    slow.moving = True
    await until(lambda: node.held == [True, False, True])
    node.peers.crowded(slow, False)  # type: ignore[arg-type]
    assert node.held == [True, False, True, False]
    assert not node.peers._looks


@in_a_loop
async def test_the_timer_of_an_earlier_hold_ends_no_later_one() -> None:
    node, slow = Node(0), SlowWire()
    handles: list[asyncio.TimerHandle] = []
    for held in (True, False, True):
        node.peers.crowded(slow, held)  # type: ignore[arg-type]
        handles += node.peers._looks.values()
    assert [handle.cancelled() for handle in handles] == [True, False]
    node.peers.crowded(slow, False)  # type: ignore[arg-type]
