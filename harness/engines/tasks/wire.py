"""One end of a connection between two nodes: its proof, and frames in and out.

Both ends prove that they know the run's secret (`handshake`). Until then no more than
`STRANGER_BYTES` of a peer are kept. Bytes that are no frame end the connection, and
nothing else.

The kernel gives a connection up when its peer's machine does not answer for `SILENT_MS`, so that a
machine without power is noticed.

Tests: ``tests/engines/tasks/test_direct.py``."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
from contextlib import suppress
from typing import Protocol, cast

from harness.cluster.endpoints import Tls
from harness.engines.tasks.handshake import STRANGER_BYTES, Handshake, Refused
from harness.errors import UsageError
from harness.hosting.codec import CorruptData
from harness.hosting.frames import HEADER, Header, unpack_header

HOLD_BYTES, GO_ON_BYTES = 4 << 20, 1 << 20
"""Bytes that wait for a peer from which on sources are held back, and below which they go on."""
BACKLOG = 4_096
"""Connections that may wait to be accepted: all nodes come at once when a coordinator is back. The
kernel's own limit is ``net.core.somaxconn``."""
SILENT_MS = 1_000
"""Time without an answer after which the kernel closes a connection."""

_ROOM = 1 << 18


class Hub(Protocol):
    """The owner of a wire."""

    node: int
    boot: int
    secret: bytes

    def proved(self, wire: Wire) -> None:
        """Note that the peer has proved who it is."""

    def arrived(self, wire: Wire, header: Header, body: memoryview) -> None:
        """Handle a frame. ``body`` is valid during the call; raise `CorruptData` if it is bad."""

    def stranger(self, wire: Wire) -> None:
        """Note that the connection has ended because of the bytes that came."""

    def crowded(self, wire: Wire, held: bool) -> None:
        """Note that the peer reads more slowly than it is sent to, or has caught up."""

    def lost(self, wire: Wire) -> None:
        """Note that the connection has ended."""


class Wire(asyncio.BufferedProtocol):
    """A connection to another node."""

    def __init__(self, hub: Hub, *, dialed: bool) -> None:
        """``dialed``: True at the end that has opened the connection."""
        self.dialed, self._hub = dialed, hub
        self.node, self.boot = -1, 0
        """The peer, once it is proved."""
        self.proved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = self._finished = False
        self._handshake = Handshake(hub.secret, (hub.node, hub.boot), dialed=dialed)
        self._written = 0
        self._buffer = bytearray(STRANGER_BYTES)
        self._filled = 0
        self._transport: asyncio.Transport | None = None

    # -- out -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def taken(self) -> int:
        """Bytes that the kernel has taken so far."""
        return self._written - self.waiting

    @property
    def live(self) -> bool:
        """True if frames can be sent."""
        if self._transport is None or self._finished:
            return False
        return self._open and not self._transport.is_closing()

    def write(self, frames: list[bytes]) -> None:
        """Send frames."""
        assert self._transport is not None, "no connection was made"
        for frame in frames:
            self._written += len(frame)
            self._transport.write(frame)

    def finish(self) -> None:
        """Send nothing more; read what is on its way, where the connection allows that."""
        if self._transport is None or self._finished or self._transport.is_closing():
            return
        self._finished = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever still waits to be sent."""
        if self._transport is not None:
            self._transport.abort()

    # -- as a protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: the listening end challenges the other."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HOLD_BYTES, low=GO_ON_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            attentive(connected)
        if not self.dialed:
            self._transport.write(self._handshake.greeting)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the room for the next bytes."""
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle new bytes; those that make no sense end the connection."""
        self._filled += nbytes
        try:
            if not self._open:
                self._prove()
            if self._open:
                self._frames()
        except (CorruptData, Refused) as error:
            self._end(error)

    def eof_received(self) -> bool:
        """Let the connection close."""
        return False

    def pause_writing(self) -> None:
        """Report that the peer is behind."""
        self._hub.crowded(self, True)

    def resume_writing(self) -> None:
        """Report that the peer has caught up."""
        self._hub.crowded(self, False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        self._open = False
        if not self.proved.done():
            self.proved.set_exception(exc or ConnectionResetError("the peer has hung up"))
            self.proved.exception()  # nobody has to wait for it
        self._hub.lost(self)

    def _end(self, error: Exception) -> None:
        if not self.proved.done():
            self.proved.set_exception(error)
            self.proved.exception()
        self._hub.stranger(self)
        self.abort()

    # -- the proof -----------------------------------------------------------------------------

    def _prove(self) -> None:
        """Take the peer's next step; raise `Refused` for a wrong one."""
        size = self._handshake.needs
        if self._filled < size:
            self._handshake.check_begin(bytes(self._buffer[: min(4, self._filled)]))
            return
        step = bytes(self._buffer[:size])
        self._drop(size)
        answer = self._handshake.take(step)
        if answer and self._transport is not None:
            self._transport.write(answer)
        if self._handshake.peer is not None:
            self._welcome(*self._handshake.peer)

    def _welcome(self, node: int, boot: int) -> None:
        self.node, self.boot, self._open = node, boot, True
        self._room(_ROOM)
        if not self.proved.done():
            self.proved.set_result(None)
        self._hub.proved(self)

    # -- in ------------------------------------------------------------------------------------

    def _frames(self) -> None:
        """Hand over every whole frame, and make room for the rest of the last one."""
        at, needed = 0, 0
        with memoryview(self._buffer) as view:
            while self._filled - at >= HEADER.size:
                header = unpack_header(view[at : at + HEADER.size])
                begin, end = at + HEADER.size, at + HEADER.size + header.length
                if end > self._filled:
                    needed = end - at
                    break
                with view[begin:end] as body:
                    self._hub.arrived(self, header, body)
                at = end
                if not self._open:
                    return
        self._drop(at)
        if needed > len(self._buffer):
            self._room(needed)
        elif len(self._buffer) > 4 * _ROOM and not self._filled:
            self._room(_ROOM)

    def _drop(self, count: int) -> None:
        if count:
            left = self._filled - count
            self._buffer[:left] = self._buffer[count : self._filled]
            self._filled = left

    def _room(self, size: int) -> None:
        """Give the buffer another size; what is in it stays."""
        buffer = bytearray(size)
        buffer[: self._filled] = self._buffer[: self._filled]
        self._buffer = buffer


def attentive(connected: socket.socket) -> None:
    """Send at once, and notice a peer that does not answer within `SILENT_MS`."""
    with suppress(OSError):  # what a socket does not have it goes without
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, SILENT_MS // 1000))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS)


def reason(error: Exception) -> str:
    """Return in words why a peer could not be reached."""
    if isinstance(error, TimeoutError):
        return "no answer, as if a firewall drops the packets"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not one of this run's ({error.verify_message})"
    if isinstance(error, ssl.SSLError):  # its numbers are not the system's
        return f"it does not encrypt as this run does ({error.reason or error})"
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error) or type(error).__name__


def contexts(tls: Tls | None) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the settings of the listening and of the dialing end; None without a certificate.

    Both ends show the run's certificate and check the other's by the authority alone: a run has one
    certificate for all nodes, and the secret says who belongs to the run. Raises `UsageError` for a
    certificate that cannot be read."""
    if tls is None or tls.certificate is None:
        return None, None
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    dialing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    dialing.check_hostname = False
    try:
        with tempfile.NamedTemporaryFile() as file:  # the library reads files only
            file.write(f"{tls.certificate}\n{tls.key}\n".encode())
            file.flush()
            for context in (listening, dialing):
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_cert_chain(file.name)
                if tls.ca is None:
                    context.load_default_certs()
                else:
                    context.load_verify_locations(cadata=tls.ca)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise UsageError(
            f"the run's certificate cannot be used between nodes: {error}",
            remedy="give a certificate chain, its key and the authority's certificate in PEM",
        ) from error
    return listening, dialing
