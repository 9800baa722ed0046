"""The connections of a node to others: one for each pair that talks, opened when first needed.

A lost connection is a lost message: the protocol asks again. So nothing here waits for an answer,
and nothing is kept for a peer that is not there beyond `MOST_WAITING_BYTES`, also while it is
dialed. When two nodes dial each other at one time, the connection of the lower number stays.

A peer that reads too slowly makes this node hold its sources back once `wire.HOLD_BYTES` wait for
it, until it has caught up. One that has taken less than `SLOWEST_BYTES` in `PATIENCE_S` is as good
as frozen, and must not stop the others.

Tests: ``tests/engines/tasks/test_direct.py``."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from harness.cluster.endpoints import Tls
from harness.engines.tasks.handshake import MOST_STRANGERS, PROOF_S, Refused
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.reports import Unreachable
from harness.engines.tasks.routes import Address
from harness.engines.tasks.wire import BACKLOG, Wire, contexts, reason
from harness.hosting.frames import Header

MOST_WAITING_BYTES = 16 << 20
"""Bytes that a peer has not taken yet; beyond it further frames to it are dropped."""
CONNECT_S = 1.0
"""Seconds for the peer's kernel to answer."""
PATIENCE_S = 1.0
"""Time between two looks at a slow peer."""
SLOWEST_BYTES = 1 << 18
"""Bytes that a slow peer takes in that time; it holds no sources back while it takes fewer."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.02, 1.0
"""Shortest and longest wait before a peer that could not be reached is dialed again."""
UNREACHABLE_S = 5.0
"""Seconds without success after which a peer is reported as unreachable."""
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors that say nothing about a peer: this process, or its machine, has nothing left."""


class Receiver(Protocol):
    """The part of a node that frames are for."""

    def received(self, node: int, boot: int, header: Header, body: memoryview) -> None:
        """Handle a frame; raise `CorruptData` if it is bad."""

    def hold_sources(self, held: bool) -> None:
        """Read sources no further, or go on."""


@dataclass(slots=True)
class _Peer:
    node: int
    boot: int = 0
    address: Address | None = None
    wire: Wire | None = None
    """The connection on which frames are sent."""
    wires: list[Wire] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    pending_bytes: int = 0
    dialing: asyncio.Task[None] | None = None
    failures: int = 0
    failing_since: float = 0.0
    again_at: float = 0.0


class Peers:
    """All connections of one node, for all passes."""

    def __init__(
        self,
        node: int,
        boot: int,
        secret: bytes,
        *,
        tls: Tls | None = None,
        trouble: Callable[[Unreachable], None] = lambda trouble: None,
        scarce: Callable[[str], None] = lambda what: None,
    ) -> None:
        """``trouble`` is called when a peer has been out of reach for `UNREACHABLE_S`.

        ``scarce`` is called when this process can open no more, until a peer is reached."""
        self.node, self.boot, self.secret = node, boot, secret
        self.receiver: Receiver | None = None
        """Set while a pass is hosted; frames that come without one are dropped."""
        self.address: Address | None = None
        """Where this node listens."""
        self.dropped = self.refused = 0
        """Messages that found no room; connections whose bytes made no sense."""
        self._trouble, self._scarce = trouble, scarce
        self._listening, self._dialing = contexts(tls)
        self._loop = asyncio.get_running_loop()
        self._peers: dict[int, _Peer] = {}
        self._unproved: dict[Wire, None] = {}
        self._crowded: set[Wire] = set()
        """Those that hold the sources back."""
        self._looks: dict[Wire, asyncio.TimerHandle] = {}
        """The next look at each that has too much to take."""
        self._server: asyncio.Server | None = None

    async def listen(self, host: str) -> Address:
        """Listen on one address of this machine; return it with the port."""
        self._server = await self._loop.create_server(
            self._accept,
            host,
            0,
            backlog=BACKLOG,
            ssl=self._listening,
            ssl_handshake_timeout=None if self._listening is None else PROOF_S,
        )
        self.address = host, self._server.sockets[0].getsockname()[1]
        return self.address

    def close(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for peer in self._peers.values():
            if peer.dialing is not None:
                peer.dialing.cancel()
            for wire in list(peer.wires):
                wire.abort()
        for wire in list(self._unproved):
            wire.abort()

    def located(self, node: int, boot: int, address: Address) -> None:
        """Note where a node listens. A later life has other connections."""
        peer = self._peer(node)
        if boot < peer.boot or (boot == peer.boot and address == peer.address):
            return
        if boot > peer.boot:
            self._begin_life(peer, boot)
        peer.address = address
        peer.failures, peer.again_at = 0, 0.0

    def gone(self, node: int, boot: int) -> None:
        """Drop the connections to a life of a node that has ended, and what waits for it."""
        peer = self._peers.get(node)
        if peer is not None and peer.boot <= boot:
            self._begin_life(peer, peer.boot)
            peer.address = None

    def send(self, node: int, frames: list[bytes]) -> bool:
        """Send frames; return False if they are dropped at once. They may get lost."""
        peer, size = self._peer(node), sum(map(len, frames))
        if peer.wire is not None and peer.wire.live:
            if peer.wire.waiting and peer.wire.waiting + size > MOST_WAITING_BYTES:
                self.dropped += 1
                return False
            peer.wire.write(frames)
            return True
        now = self._loop.time()
        full = peer.pending_bytes and peer.pending_bytes + size > MOST_WAITING_BYTES
        if (peer.dialing is None and (peer.address is None or now < peer.again_at)) or full:
            self.dropped += 1
            return False
        peer.pending += frames
        peer.pending_bytes += size
        if peer.dialing is None and peer.address is not None:
            peer.dialing = self._loop.create_task(self._dial(peer, peer.address))
        return True

    # -- dialing -------------------------------------------------------------------------------

    async def _dial(self, peer: _Peer, address: Address) -> None:
        boot = peer.boot
        try:
            await self._open(peer, address)
        except (OSError, Refused, TimeoutError) as error:
            if peer.boot == boot:
                self._failed(peer, address, error)
        finally:
            if peer.dialing is asyncio.current_task():
                peer.dialing = None

    async def _open(self, peer: _Peer, address: Address) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM)
        connected.setblocking(False)
        wire: Wire | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._loop.sock_connect(connected, address)
            async with asyncio.timeout(PROOF_S):
                _, wire = await self._loop.create_connection(
                    lambda: Wire(self, dialed=True),
                    sock=connected,
                    ssl=self._dialing,
                    server_hostname="" if self._dialing is not None else None,
                )
                await wire.proved
                if wire.node != peer.node:
                    raise Refused(f"node {wire.node} listens there")
        except BaseException:
            if wire is not None:
                wire.abort()
            connected.close()
            raise

    def _failed(self, peer: _Peer, address: Address, error: Exception) -> None:
        now = self._loop.time()
        code = error.errno if isinstance(error, OSError) else None
        scarce = code in SCARCE
        if scarce and not peer.failures:
            self._scarce(os.strerror(code or 0))
        peer.failing_since = now if scarce or not peer.failures else peer.failing_since
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**peer.failures)
        peer.failures = min(peer.failures + 1, 16)
        peer.again_at = now + wait * random.uniform(0.5, 1.0)
        self._clear(peer)
        lasting = isinstance(error, Refused | ssl.SSLCertVerificationError)
        if lasting or now - peer.failing_since >= UNREACHABLE_S:
            self._trouble(
                Unreachable(
                    to=peer.node,
                    boot=peer.boot,
                    at=address,
                    why=reason(error),
                    since_us=round(peer.failing_since * 1e6),
                    at_us=now_us(),
                )
            )

    # -- as the hub of its wires ---------------------------------------------------------------

    def _accept(self) -> Wire:
        wire = Wire(self, dialed=False)
        if len(self._unproved) >= MOST_STRANGERS:
            self._expire(next(iter(self._unproved)))
        self._unproved[wire] = None
        self._loop.call_later(PROOF_S, self._expire, wire)
        return wire

    def _expire(self, wire: Wire) -> None:
        if wire in self._unproved:
            del self._unproved[wire]
            self.refused += 1
            wire.abort()

    def proved(self, wire: Wire) -> None:
        """Use a connection, unless a better one is there."""
        self._unproved.pop(wire, None)
        peer = self._peer(wire.node)
        if wire.node == self.node or wire.boot < peer.boot:
            wire.abort()
            return
        if wire.boot > peer.boot:
            self._begin_life(peer, wire.boot)
        peer.wires.append(wire)
        before = peer.wire
        if before is None or self._stays(wire) or not self._stays(before):
            peer.wire = wire
        for other in peer.wires:
            if other is not peer.wire and other.dialed:
                other.finish()  # each end lets go of those that it has opened
        peer.failures = 0
        frames = peer.pending
        self._clear(peer)
        if frames and peer.wire is not None:
            peer.wire.write(frames)

    def _stays(self, wire: Wire) -> bool:
        """Return True for the connection that the node with the lower number has opened."""
        return wire.dialed == (self.node < wire.node)

    def arrived(self, wire: Wire, header: Header, body: memoryview) -> None:
        if self.receiver is not None:
            self.receiver.received(wire.node, wire.boot, header, body)

    def stranger(self, wire: Wire) -> None:
        self.refused += 1

    def crowded(self, wire: Wire, held: bool) -> None:
        if wire in self._looks:
            self._looks.pop(wire).cancel()
        self._hold(wire, held)
        if held:
            self._looks[wire] = self._loop.call_later(PATIENCE_S, self._look, wire, wire.taken)

    def _look(self, wire: Wire, before: int) -> None:
        """Hold the sources back for a slow peer as long as it reads at all."""
        self._hold(wire, wire.taken - before >= SLOWEST_BYTES)
        self._looks[wire] = self._loop.call_later(PATIENCE_S, self._look, wire, wire.taken)

    def _hold(self, wire: Wire, held: bool) -> None:
        before = bool(self._crowded)
        (self._crowded.add if held else self._crowded.discard)(wire)
        if before != bool(self._crowded) and self.receiver is not None:
            self.receiver.hold_sources(held)

    def lost(self, wire: Wire) -> None:
        self._unproved.pop(wire, None)
        self.crowded(wire, False)
        peer = self._peers.get(wire.node)
        if peer is None or wire not in peer.wires:
            return
        peer.wires.remove(wire)
        if peer.wire is wire:
            peer.wire = next((other for other in peer.wires if other.live), None)

    def _peer(self, node: int) -> _Peer:
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = _Peer(node)
        return peer

    def _begin_life(self, peer: _Peer, boot: int) -> None:
        """Let go of everything that belongs to the node's earlier lives."""
        dialing, peer.dialing = peer.dialing, None
        if dialing is not None and dialing is not asyncio.current_task():
            dialing.cancel()
        wires, peer.wires, peer.wire = peer.wires, [], None
        for wire in wires:
            wire.abort()
        self._clear(peer)
        peer.boot, peer.failures, peer.again_at = boot, 0, 0.0

    def _clear(self, peer: _Peer) -> None:
        peer.pending, peer.pending_bytes = [], 0
