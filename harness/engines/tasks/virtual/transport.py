"""The transport of a connection in virtual time, and its socket, on top of a kernel's queues."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from harness.engines.tasks.virtual.streams import End


class Transport(asyncio.Transport):
    """What a protocol writes to."""

    max_size = 256 * 1024

    def __init__(self, end: End, protocol: Any) -> None:
        super().__init__()
        self.end, self.protocol = end, protocol
        self.paused = self.lost = self.closing = self.saw_end = False
        self._buffer = bytearray()
        self._high, self._low, self._full = 64 * 1024, 16 * 1024, False
        self._eof = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As asyncio's."""
        known = {
            "socket": Socket(self.end),
            "sockname": self.end.name,
            "peername": self.end.peer.name,
        }
        return known.get(name, default)

    def is_closing(self) -> bool:
        """As asyncio's."""
        return self.closing

    def get_write_buffer_size(self) -> int:
        """As asyncio's."""
        return len(self._buffer)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As asyncio's."""
        self._high = high if high is not None else 64 * 1024
        self._low = low if low is not None else self._high // 4

    def write(self, data: Any) -> None:
        """As asyncio's."""
        if self.closing or self.lost or self._eof or self.end.process.dead:
            return
        self._buffer += data
        self._flush()
        if len(self._buffer) > self._high and not self._full:
            self._full = True
            self.protocol.pause_writing()

    def _flush(self) -> None:
        room = self.end.room
        if self._buffer and room > 0:
            data = bytes(self._buffer[:room])
            del self._buffer[:room]
            self.end.take(data)

    def drained(self) -> None:
        """Write on: the kernel has room again."""
        if self._buffer and not self.lost:
            self.end.soon(self._go_on)

    def _go_on(self) -> None:
        if self.lost:
            return
        self._flush()
        if self._full and len(self._buffer) <= self._low:
            self._full = False
            self.protocol.resume_writing()
        if not self._buffer:
            if self.closing:
                self.break_off(None)
            elif self._eof:
                self.end.finish()

    def receive(self) -> None:
        """Hand over what one look at the socket finds."""
        inbox = self.end.inbox
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            room = cast(Any, self.protocol.get_buffer(-1))
            count = min(len(room), len(inbox))
            room[:count] = inbox[:count]
            del inbox[:count]
            self.protocol.buffer_updated(count)
            return
        data = bytes(inbox[: self.max_size])
        del inbox[: len(data)]
        self.protocol.data_received(data)

    def pause_reading(self) -> None:
        """As asyncio's."""
        self.paused = True

    def resume_reading(self) -> None:
        """As asyncio's."""
        self.paused = False
        self.end.readable()

    def can_write_eof(self) -> bool:
        """As asyncio's."""
        return True

    def write_eof(self) -> None:
        """As asyncio's."""
        if not self._eof and not self.closing:
            self._eof = True
            if not self._buffer:
                self.end.finish()

    def close(self) -> None:
        if self.closing or self.end.process.dead:
            return
        self.closing = True
        if not self._buffer:
            self.end.soon(self.break_off, None)

    def abort(self) -> None:
        """As asyncio's."""
        if self.lost or self.end.process.dead:
            return
        self.closing = True
        self._buffer.clear()
        self.end.soon(self.break_off, None)

    def break_off(self, error: Exception | None) -> None:
        """Close the socket and tell the protocol."""
        if self.lost:
            return
        self.closing = self.lost = True
        self._buffer.clear()
        self.protocol.connection_lost(error)
        if not self.end.held:
            self.end.released()


class Socket:
    """What code does with a connection's socket beside the transport."""

    def __init__(self, end: End) -> None:
        self._end = end

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """As asyncio's."""
        if option == socket.TCP_USER_TIMEOUT:
            self._end.patience_s = value / 1000

    def dup(self) -> Socket:
        """As asyncio's."""
        return self

    def recv(self, size: int) -> bytes:
        """As asyncio's."""
        data = bytes(self._end.inbox[:size])
        del self._end.inbox[:size]
        return data

    def close(self) -> None:
        """Do nothing: the transport has it."""

    def hold(self) -> Any:
        """Keep the connection open when its transport is closed."""
        self._end.held = True
        return self._end
