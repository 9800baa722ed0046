"""One authenticated connection per node to the coordinator, in JSON frames.

A frame is its length, the CRC-32 of its JSON, the CRC-32 of these eight bytes, and the JSON
(numbers of four bytes, big-endian). A wrong one ends its connection. Before the first one both
sides prove that they know the run's secret (`handshake`). Nothing is unpickled. Frames
carry the workload's code: where the run has a certificate, all of it is encrypted, as between nodes
(`harness.engines.tasks.wire.contexts`), and who does not show it gets no further.

When a process is killed, the kernel closes its connections: the end of a connection is the
fastest news of a death there is, and the end of a lifeline (`harness.engines.tasks.lifeline`)
comes first. A frame to a peer that does not read (a frozen process) is dropped once
`MOST_WAITING_BYTES` wait for it: messages may be lost, the sender must not be."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from typing import Any

from harness.engines.tasks.handshake import (
    MOST_STRANGERS,
    PROOF_S,
    STRANGER_BYTES,
    Handshake,
    Refused,
)
from harness.engines.tasks.wire import BACKLOG, attentive, reason
from harness.errors import EnvironmentFailure

MOST_BYTES = 64 << 20
"""Largest size of one frame; a larger one is not of this protocol."""
MOST_WAITING_BYTES = 4 << 20
"""Bytes that the peer has not read yet; beyond it further frames are dropped."""

_USUAL = 1 << 16
_FAREWELL_S = 1.0
"""Longest wait for the peer's part in the end of an encrypted connection."""
TRY_S = 5.0
"""Seconds for one attempt to reach the coordinator, whose process may be starting."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.02, 0.25
"""Shortest and longest wait between two attempts; some of it is drawn."""
_HEAD = struct.Struct(">III")


class Connection:
    """Both ends of it are alike once they have proved who they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.dropped = 0
        """Frames that were not sent because the peer does not read."""
        connected: socket.socket | None = writer.get_extra_info("socket")
        if connected is not None:
            attentive(connected)

    def send(self, document: Mapping[str, Any]) -> bool:
        """Send a frame; False when it was dropped, or the connection is closing."""
        return self.send_body(body_of(document))

    def send_body(self, body: bytes) -> bool:
        """Send a frame that is encoded already, for several connections."""
        if self._writer.is_closing():
            return False
        if self._writer.transport.get_write_buffer_size() > MOST_WAITING_BYTES:
            self.dropped += 1
            return False
        self._writer.write(_framed(body))
        return True

    async def receive(self) -> dict[str, Any] | None:
        """Return the next frame; None at the end of the connection, however it came.

        A frame that is too large, or with a wrong bit, is an end."""
        body = await self._receive_body(MOST_BYTES)
        try:
            document = None if body is None else json.loads(body)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    async def _receive_body(self, most: int) -> bytes | None:
        try:
            head = await self._reader.readexactly(_HEAD.size)
            size, crc, check = _HEAD.unpack(head)
            if check != zlib.crc32(head[:8]) or size > most:
                return None
            body = await self._reader.readexactly(size)
        except (OSError, EOFError):
            return None
        return body if crc == zlib.crc32(body) else None

    async def prove(self, secret: bytes, *, dialed: bool) -> bool | None:
        """Return True if the peer knows the secret; None if it hung up before any wrong answer."""
        self._trust(False)
        handshake = None if dialed else Handshake(secret, dialed=False)
        if handshake is not None:
            self.send_body(handshake.greeting)
        while handshake is None or handshake.peer is None:
            step = await self._receive_body(STRANGER_BYTES // 2)
            if step is None:
                return None
            handshake = handshake or Handshake(secret, dialed=True)
            try:
                answer = handshake.take(step)
            except Refused:
                return False
            if answer:
                self.send_body(answer)
        self._trust(True)
        return True

    def close(self) -> None:
        """Let what was sent go out, then close. May be called twice."""
        with suppress(OSError, RuntimeError):
            self._writer.close()

    async def leave(self) -> None:
        """Close, and wait until what was sent has gone out."""
        self.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _trust(self, trusted: bool) -> None:
        """Read as much at once as usual, or so little that no stranger fills the memory.

        asyncio has a limit for its reader's buffer, and another one for each look at the socket."""
        self._reader._limit = _USUAL if trusted else STRANGER_BYTES // 4  # type: ignore[attr-defined]
        self._writer.transport.max_size = 4 * _USUAL if trusted else STRANGER_BYTES // 2  # type: ignore[attr-defined]

    def own_host(self) -> str:
        """Return the address of this machine from which it is connected."""
        host: str = self._writer.get_extra_info("sockname")[0]
        return host

    def duplicate(self) -> Any:
        """Another socket of it, which keeps it open when this end is closed."""
        return self._writer.get_extra_info("socket").dup()

    @property
    def _encryption(self) -> Any:
        """What asyncio encrypts with, None if it does not; it has no public way there."""
        return getattr(self._writer.transport, "_ssl_protocol", None)

    def sealer(self) -> Callable[[bytes], bytes]:
        """Return a function from frames to the bytes that a duplicate must be sent for them.

        It is for any thread, once this end has been dropped."""
        encryption = self._encryption
        if encryption is None:
            return lambda data: data
        session, outgoing = encryption._sslobj, encryption._outgoing

        def seal(data: bytes) -> bytes:
            session.write(data)
            sealed: bytes = outgoing.read()
            return sealed

        return seal

    async def drop(self) -> None:
        """Close this end without a word, and wait until nothing here touches it any more."""
        self.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    def ended(self) -> None:
        """Mark the peer as dead: all that it had sent is received, and then the end."""
        transport: Any = self._writer.transport
        if transport.is_closing():
            return
        encryption = self._encryption
        (transport if encryption is None else encryption._transport).pause_reading()
        self._reader._limit = MOST_BYTES  # type: ignore[attr-defined]  # or it would read no further
        with suppress(OSError), closing(self.duplicate()) as connected:  # nothing is left
            while data := connected.recv(1 << 16):
                if encryption is None:
                    self._reader.feed_data(data)
                else:
                    encryption.get_buffer(len(data))[: len(data)] = data
                    encryption.buffer_updated(len(data))
        self._reader.feed_eof()

    def abort(self) -> None:
        """Close at once, whatever still waits to be sent."""
        self._writer.transport.abort()


def body_of(document: Mapping[str, Any]) -> bytes:
    """Return a frame without its length."""
    return json.dumps(document, separators=(",", ":")).encode()


def frame_of(document: Mapping[str, Any]) -> bytes:
    """Return a whole frame, for who writes to a connection's duplicate."""
    return _framed(body_of(document))


def _framed(body: bytes) -> bytes:
    head = _HEAD.pack(len(body), zlib.crc32(body), 0)[:8]
    return b"".join((head, zlib.crc32(head).to_bytes(4, "big"), body))


async def connect(
    host: str, port: int, secret: bytes, *, within_s: float, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect to the coordinator, proved on both sides, and encrypted with ``tls``.

    Raises `EnvironmentFailure` when nobody answers in time, or the peer does not know the secret.
    """
    why, wait_s = "nobody was asked", FIRST_WAIT_S
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    async with asyncio.timeout(TRY_S):
                        connection = await _open(host, port, secret, tls)
                except OSError as error:
                    why = reason(error)
                else:
                    if connection is not None:
                        return connection
                    why = "it hung up"  # it was just dying, and is about to be started again
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    except TimeoutError as error:
        raise EnvironmentFailure(
            f"no coordinator answered on {host}:{port} within {within_s:g} s, from "
            f"{socket.gethostname()}: {why}",
            remedy="look at the coordinator's log in the run directory, and at the firewall and "
            "the routes between the two",
        ) from error


def _encrypted(tls: ssl.SSLContext | None, within_s: float) -> dict[str, Any]:
    """Return asyncio's arguments for an end of a connection."""
    if tls is None:
        return {}
    return {
        "ssl": tls,
        "ssl_handshake_timeout": within_s,
        "ssl_shutdown_timeout": _FAREWELL_S,
    }


async def _open(
    host: str, port: int, secret: bytes, tls: ssl.SSLContext | None
) -> Connection | None:
    """Return a proved connection; None if the peer hung up before it proved anything."""
    connection = Connection(*await asyncio.open_connection(host, port, **_encrypted(tls, TRY_S)))
    try:
        known = await connection.prove(secret, dialed=True)
        if known is False:
            raise EnvironmentFailure(
                f"who listens on {host}:{port} does not know this run's secret",
                remedy="another program has taken the coordinator's port: run it again",
            )
    except BaseException:
        connection.abort()
        raise
    if not known:
        connection.abort()
        return None
    return connection


class Listener:
    """Accepts connections and hands over those whose peer knows the secret."""

    def __init__(
        self,
        secret: bytes,
        serve: Callable[[Connection], Awaitable[None]],
        *,
        host: str,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``serve`` is awaited for each connection, which is closed when it returns."""
        self._secret, self._serve, self._host, self._tls = secret, serve, host, tls
        self._server: asyncio.Server | None = None
        self.refused = 0
        """Connections whose peer proved nothing."""
        self._strangers: dict[Connection, None] = {}

    async def start(self, port: int = 0) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(
            self._accept,
            self._host,
            port,
            limit=STRANGER_BYTES // 4,
            backlog=BACKLOG,
            **_encrypted(self._tls, PROOF_S),
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        if len(self._strangers) >= MOST_STRANGERS:
            next(iter(self._strangers)).abort()  # its proof ends without an answer
        self._strangers[connection] = None
        try:
            async with asyncio.timeout(PROOF_S):
                known = await connection.prove(self._secret, dialed=False)
        except TimeoutError:
            known = False
        finally:
            self._strangers.pop(connection, None)
        if not known:
            self.refused += 1
            connection.abort()
            return
        try:
            await self._serve(connection)
        finally:
            connection.close()
