"""Connections in virtual time: a model of TCP between hosts, as an event loop opens them.

Each direction has a queue of what the sender's kernel holds, what is on its way, and what the
receiver's kernel holds. A cut link carries nothing and resets nothing; a kernel gives a connection
up after the time that its socket was given (``TCP_USER_TIMEOUT``), or after a quarter of an hour.
When a process dies its kernel ends its connections; when its machine dies nobody does.

Tests: ``tests/engines/tasks/virtual/test_streams.py``."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from harness.engines.tasks.virtual.loop import Process, VirtualLoop, running
from harness.engines.tasks.virtual.transport import Transport

KERNEL_BYTES = 1 << 17
"""What the kernel of each end holds in each direction."""
STUBBORN_S = 924.0
"""Seconds for which a kernel repeats what is not acknowledged, by default."""
SYN_S = 127.0
LATENCY_S, JITTER_S = 0.000_05, 0.000_3
RELEASE_S = (0.005, 0.03)
"""Time until the kernel has closed what a killed process had open."""
HELD_S = 0.000_5
"""Time until it has closed a lifeline."""
DAMAGED = 0.05
"""Share of the segments that have a wrong bit, where any have."""


class Network:
    """Which hosts reach which, how fast, and how well."""

    def __init__(self, loop: VirtualStreams) -> None:
        self.loop = loop
        self.damages: Counter[str] = Counter()
        """Hosts whose bytes are wrong at times."""
        self.slow: Counter[str] = Counter()
        """Hosts that send and get a byte a second."""
        self._cut: Counter[tuple[str, str]] = Counter()
        self.ends: dict[End, None] = {}
        self.listeners: dict[tuple[str, int], Listening] = {}
        self._ports = 40_000

    def port(self) -> int:
        """Return a port that nobody had."""
        self._ports += 1
        return self._ports

    def carries(self, sender: str, receiver: str) -> bool:
        """Return True unless what one host sends to another is lost."""
        return sender == receiver or not (
            self._cut[sender, receiver] or self._cut[sender, "*"] or self._cut["*", receiver]
        )

    def reaches(self, one: str, other: str) -> bool:
        """Return True unless the link is cut, in either direction: then nothing is acknowledged."""
        return self.carries(one, other) and self.carries(other, one)

    def is_slow(self, one: str, other: str) -> bool:
        """Return True if it carries a byte a second."""
        return bool(self.slow[one] or self.slow[other])

    def cut(self, one: str, other: str, cut: bool, *, both_ways: bool = True) -> None:
        """Cut a link, or mend it; ``"*"`` is every other host.

        One way is what ``one`` sends to ``other``. Kernels give such a connection up like one that
        carries nothing."""
        for link in ((one, other), (other, one))[: 1 + both_ways]:
            self._cut[link] += 1 if cut else -1
        for end in list(self.ends):
            if cut:
                end.doubt()
            else:
                end.pump()

    def carried(self, sender: str, receiver: str, data: bytes) -> bytes:
        """Return some bytes as they arrive."""
        if self.damages[sender] or self.damages[receiver]:
            return damaged(data, self.loop.dice) if self.loop.dice.random() < DAMAGED else data
        return data

    def reset(self, end: End) -> None:
        """Reset a connection at one end; the other learns it when it sends."""
        end.fail(ConnectionResetError(errno.ECONNRESET, "reset by a firewall"))
        end.gone = True

    def died(self, process: Process) -> None:
        """Close what a killed process had open, as its kernel does."""
        for listening in [one for one in self.listeners.values() if one.process is process]:
            listening.close()
        for end in [end for end in self.ends if end.process is process]:
            wait = HELD_S if end.held else self.loop.dice.uniform(*RELEASE_S)
            self.loop.outside(self.loop.now + wait, end.released)

    def delay(self) -> float:
        """Draw the time of one segment."""
        return LATENCY_S + self.loop.dice.random() * JITTER_S


def damaged(data: bytes, dice: Random) -> bytes:
    """Return bytes with one wrong bit."""
    wrong = bytearray(data)
    wrong[dice.randrange(len(wrong))] ^= 1 << dice.randrange(8)
    return bytes(wrong)


class Listening:
    """A listening socket."""

    def __init__(
        self, network: Network, process: Process, port: int, factory: Callable[[], Any]
    ) -> None:
        self.network, self.process, self.port, self.factory = network, process, port, factory
        self.sockets = [self]
        network.listeners[process.host, port] = self

    def getsockname(self) -> tuple[str, int]:
        """As asyncio's."""
        return self.process.host, self.port

    def close(self) -> None:
        if self.network.listeners.get((self.process.host, self.port)) is self:
            del self.network.listeners[self.process.host, self.port]

    def accept(self, end: End) -> None:
        """Take a connection; without descriptors it waits."""
        process, loop = self.process, self.network.loop
        if process.no_descriptors:
            error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            loop.call_exception_handler({"message": "socket.accept()", "exception": error})
            loop.call_later(1.0, self.accept, end)
            return
        end.open(self.factory())


class End:
    """One end of a connection, its kernel's side of it, and the transport on top."""

    def __init__(self, network: Network, process: Process, name: tuple[str, int]) -> None:
        self.network, self.process, self.name = network, process, name
        self.peer: End = self
        self.context = process.main.context()
        self.transport: Transport | None = None
        self.patience_s = STUBBORN_S
        self.held = self.gone = self.finished = self.closed = False
        """`held`: a lifeline's thread has it; `gone`: this kernel knows it no more; `finished`: no
        more is sent; `closed`: the process has let go of it."""
        self.out = bytearray()
        self.inbox = bytearray()
        self.ended = False
        """True once the peer's end has come in."""
        self.sent_end = False
        self._way: deque[tuple[float, bytes]] = deque()
        self._arrives = 0.0
        self._doubting = self._reading = self.torn = False
        """`torn`: it is reset within what is sent next."""
        self.on_end: Callable[[], None] | None = None
        network.ends[self] = None

    def open(self, protocol: Any) -> Transport:
        """Give the process its transport."""
        self.transport = Transport(self, protocol)
        protocol.connection_made(self.transport)
        self.readable()
        return self.transport

    def soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something in the process."""
        self.network.loop.call_soon(callback, *arguments, context=self.context)

    # -- out -----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Bytes that this kernel takes."""
        return KERNEL_BYTES - len(self.out)

    def take(self, data: bytes) -> None:
        """Take what the process writes."""
        self.out += data
        self.pump()

    def finish(self) -> None:
        """Send the end behind everything else."""
        self.finished = True
        self.pump()

    def pump(self) -> None:
        """Send what the peer has room for."""
        if self.gone:
            return
        here, there = self._hosts()
        if not self.network.carries(here, there):
            self.doubt()
            return
        loop, network = self.network.loop, self.network
        slow = network.is_slow(here, there)
        if self._way and slow:
            return
        on_way = sum(len(data) for _, data in self._way)
        room = KERNEL_BYTES - len(self.peer.inbox) - on_way
        if self.out and room > 0:
            most = 1 if slow else room
            if len(self.out) > 1 and loop.dice.random() < 0.05:
                most = min(most, loop.dice.randrange(1, len(self.out)))
            if self.torn and len(self.out) > 1:
                most = min(most, loop.dice.randrange(1, len(self.out)))
            data = bytes(self.out[:most])
            del self.out[:most]
            pause = 1.0 if slow else network.delay()
            self._arrives = max(loop.now + pause, self._arrives)
            self._way.append((self._arrives, data))
            loop.outside(self._arrives, self._arrive)
            if self.torn:
                self.torn = False
                loop.outside(self._arrives, network.reset, self)
                return
            if self.transport is not None:
                self.transport.drained()
            if self.out:
                self.pump()
        elif self.out:
            self.doubt()
        elif self.finished and not self.sent_end:
            self.sent_end = True
            self._arrives = max(loop.now + network.delay(), self._arrives)
            self._way.append((self._arrives, b""))
            loop.outside(self._arrives, self._arrive)

    def _arrive(self) -> None:
        """Hand what has come to the peer's kernel, unless the link is cut by now."""
        network, loop = self.network, self.network.loop
        if not self._way or self.gone:
            return
        if not network.carries(*self._hosts()):
            self.doubt()
            loop.outside(loop.now + 0.2, self._arrive)  # sent again until it gets through
            return
        if self._way[0][0] > loop.now:
            return
        _, data = self._way.popleft()
        peer = self.peer
        if peer.gone or (peer.closed and data):
            loop.outside(loop.now + network.delay(), self._refused)
            return
        if data:
            peer.inbox += network.carried(*self._hosts(), data)
        else:
            peer.ended = True
        peer.readable()
        self.pump()

    def _refused(self) -> None:
        """Learn that the peer's kernel knows the connection no more."""
        if self.network.carries(*reversed(self._hosts())):
            self.fail(ConnectionResetError(errno.ECONNRESET, "reset by peer"))
            self.gone = True

    def doubt(self) -> None:
        """Give the connection up if its peer still does not answer after a while."""
        fine = self.network.reaches(*self._hosts()) and self._taken()
        if self._doubting or self.gone or fine:
            return
        self._doubting = True
        loop = self.network.loop
        loop.outside(loop.now + self.patience_s + (0 if self.out else 1.0), self._give_up)

    def _hosts(self) -> tuple[str, str]:
        return self.process.host, self.peer.process.host

    def _taken(self) -> bool:
        """Return True unless the peer has no room for what is due."""
        return not (self.out and len(self.peer.inbox) >= KERNEL_BYTES)

    def _give_up(self) -> None:
        self._doubting = False
        if self.gone:
            return
        if not self.network.reaches(*self._hosts()) or not self._taken():
            self.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            self.gone = True
        else:
            self.pump()

    # -- in ------------------------------------------------------------------------------------

    def readable(self) -> None:
        """Let the process read, if it does."""
        if self.on_end is not None and self.ended:
            self.on_end()
        if self.transport is None or self._reading or not (self.inbox or self.ended):
            return
        if not self.transport.paused and not self.transport.lost:
            self._reading = True
            self.network.loop.call_soon(self._read, context=self.context)

    def _read(self) -> None:
        self._reading = False
        transport = self.transport
        if transport is None or transport.paused or transport.lost or transport.closing:
            return
        if self.inbox:
            transport.receive()
            self.peer.pump()
        elif self.ended and not transport.saw_end:
            transport.saw_end = True
            if not transport.protocol.eof_received():
                transport.close()
            return
        if self.inbox or (self.ended and not transport.saw_end):
            self.readable()

    # -- the end -------------------------------------------------------------------------------

    def fail(self, error: OSError) -> None:
        """End it with an error, at this end alone."""
        if not self.gone and self.on_end is not None:
            self.on_end()
        if self.transport is not None and not self.transport.lost:
            self.network.loop.call_soon(self.transport.break_off, error, context=self.context)

    def released(self) -> None:
        """Close it, as the kernel does for a process that has ended, or has closed it."""
        self.closed = True
        if self.inbox:
            self.inbox.clear()  # a reset: what had come was never read
            self.gone = True
            loop = self.network.loop
            loop.outside(loop.now + self.network.delay(), self.peer._refused)
        else:
            self.finish()


class VirtualStreams(VirtualLoop):
    """The loop with connections."""

    def __init__(self, dice: Any) -> None:
        super().__init__(dice)
        self.network = Network(self)
        self._dialed: dict[Any, End] = {}

    def close(self) -> None:
        for end in self.network.ends:
            if end.transport is not None:
                end.transport.closing = True  # who holds one still need not close it
        super().close()

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """As asyncio's."""
        process = running()
        wanted = port or self.network.port()
        if (process.host, wanted) in self.network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return Listening(self.network, process, wanted, factory)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """As asyncio's."""
        self._dialed[sock] = await self._connect(address)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        """As asyncio's."""
        if sock is not None:
            end = self._dialed.pop(sock)
            sock.close()
        else:
            end = await self._connect((host, port))
        protocol = factory()
        return end.open(protocol), protocol

    async def _connect(self, address: tuple[str, int]) -> End:
        network, begun, process = self.network, self.now, running()
        if process.no_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        wait = 0.0
        while True:
            await asyncio.sleep(network.delay() + wait)
            if network.reaches(process.host, address[0]):
                break
            wait = max(1.0, 2 * wait)
            if self.now - begun > SYN_S:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listening = network.listeners.get(address)
        if listening is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        mine = End(network, process, (process.host, network.port()))
        theirs = End(network, listening.process, address)
        mine.peer, theirs.peer = theirs, mine
        self.call_at(self.now + network.delay(), listening.accept, theirs, context=theirs.context)
        await asyncio.sleep(network.delay())
        return mine
