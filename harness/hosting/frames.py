"""Messages between tasks as binary frames: what one node sends to another at one time.

A frame is a header of 36 bytes and messages (all numbers little-endian)::

    frame:    magic 4 | length of the rest 4 | pass 8 | sent at 8 | messages 4 |
              crc32 of the rest 4 | crc32 of the header so far 4
    message:  kind 1 | stable 1 | 0 2 | to 4 | incarnation 8 | upstream 4 | cause 4 | batch 8 |
              term 8 | payload 8, then the cause and the payload

``sent at`` is in microseconds of the sender's clock.

=====  ========================================================================================
kind   content
=====  ========================================================================================
BATCH  a `BatchArrived`: its payload is the encoded table itself, the same bytes for every receiver
OTHER  any other message of the protocol: its payload is the codec's
HOSTS  the copies on the sender; ``batch`` is the version; the payload is (task, incarnation) pairs
=====  ========================================================================================

A batch's header is packed and its payload encoded once, so an edge's message costs a third of what
the general codec needs. Nothing is unpickled. `CorruptData` is raised for bytes of another origin
and for wrong ones. The header has a checksum of its own: a wrong length would wait for bytes that
never come.

Tests: ``tests/hosting/test_frames.py``."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from harness.hosting.codec import CorruptData, Encoded, decode, encode
from harness.protocol.inputs import BatchArrived, TaskMessage

MAGIC = b"FLN2"
HEADER = struct.Struct("<4sI8sQIII")
MOST_MESSAGE_BYTES = 64 << 20
"""Largest message. A batch beyond it cannot be sent at all."""
MOST_FRAME_BYTES = MOST_MESSAGE_BYTES + (1 << 20)
"""Largest frame; a longer one is not of this protocol."""
ENOUGH_BYTES = 1 << 20
"""A frame gets no further message beyond this length."""

_MESSAGE = struct.Struct("<BBHiqiIqqQ")
_PAIR = struct.Struct("<qq")
_BATCH, _OTHER, _HOSTS = 1, 2, 3
_NOBODY = -1
_CHECKED = HEADER.size - 4

Copies = tuple[tuple[int, int], ...]
"""(Task, incarnation) of the copies on a node, ascending."""


class Delivery(NamedTuple):
    """A message for the copies of a task, or for one of them."""

    to: int
    incarnation: int | None
    message: TaskMessage
    size: int
    """Its bytes on the way."""


class Hosts(NamedTuple):
    """The copies on the sender of a frame."""

    version: int
    """Counts the changes; a lower version is older."""
    copies: Copies


class Header(NamedTuple):
    """The beginning of a frame."""

    length: int
    """Bytes that follow."""
    run: bytes
    sent_us: int
    messages: int
    crc: int
    """Of the bytes that follow."""


def run_id(run: str) -> bytes:
    """Return the eight bytes by which frames name a pass."""
    return hashlib.blake2b(run.encode(), digest_size=8).digest()


def pack_message(to: int, incarnation: int | None, message: TaskMessage) -> bytes:
    """Return a message as it stands in a frame."""
    meant = _NOBODY if incarnation is None else incarnation
    if type(message) is BatchArrived and type(message.payload) is Encoded:
        data, cause = message.payload.data, message.cause.encode()
        head = _MESSAGE.pack(
            _BATCH, message.stable, 0, to, meant, message.upstream, len(cause), message.batch,
            message.term, len(data),
        )  # fmt: skip
        return b"".join((head, cause, data))
    data = encode(message)
    return _MESSAGE.pack(_OTHER, 0, 0, to, meant, 0, 0, 0, 0, len(data)) + data


def pack_hosts(hosts: Hosts) -> bytes:
    """Return the copies on a node as a message of a frame."""
    data = b"".join(_PAIR.pack(*pair) for pair in hosts.copies)
    return _MESSAGE.pack(_HOSTS, 0, 0, _NOBODY, _NOBODY, 0, 0, hosts.version, 0, len(data)) + data


def pack_frames(run: bytes, sent_us: int, messages: Sequence[bytes]) -> list[bytes]:
    """Return messages as frames: one, unless they are longer than `ENOUGH_BYTES` together."""
    frames, begun, size = [], 0, 0
    for place, message in enumerate(messages):
        size += len(message)
        if size >= ENOUGH_BYTES or place == len(messages) - 1:
            body = b"".join(messages[begun : place + 1])
            frames.append(pack_header(run, sent_us, place + 1 - begun, body) + body)
            begun, size = place + 1, 0
    return frames


def pack_header(run: bytes, sent_us: int, messages: int, body: bytes) -> bytes:
    """Return the header of a frame."""
    fields = MAGIC, len(body), run, sent_us, messages, zlib.crc32(body)
    return HEADER.pack(*fields, zlib.crc32(HEADER.pack(*fields, 0)[:_CHECKED]))


def unpack_header(data: bytes | bytearray | memoryview) -> Header:
    """Return the header in the first 36 bytes; raise `CorruptData` if they are none."""
    magic, length, run, sent_us, count, crc, check = HEADER.unpack_from(data)
    right = check == zlib.crc32(memoryview(data)[:_CHECKED])
    if magic != MAGIC or not right or length > MOST_FRAME_BYTES:
        raise CorruptData(f"a frame does not begin with {bytes(data[:8])!r}")
    return Header(length, run, sent_us, count, crc)


def unpack_messages(header: Header, body: memoryview) -> list[Delivery | Hosts]:
    """Return the messages of a frame, which share no memory with ``body``."""
    if zlib.crc32(body) != header.crc:
        raise CorruptData(f"the checksum of a frame of {len(body)} bytes is wrong")
    found: list[Delivery | Hosts] = []
    at, end = 0, len(body)
    for _ in range(header.messages):
        try:
            (kind, stable, _, to, meant, upstream, causes, batch, term, size) = (
                _MESSAGE.unpack_from(body, at)
            )  # fmt: skip
        except struct.error as error:
            raise CorruptData(f"{end - at} bytes where a message is due") from error
        begin = at + _MESSAGE.size
        middle = begin + causes
        at, length = middle + size, _MESSAGE.size + causes + size
        if at > end:
            raise CorruptData(f"a message of {length} bytes in a frame of {end}")
        incarnation = None if meant == _NOBODY else meant
        data = bytes(body[middle:at])
        if kind == _BATCH:
            try:
                cause = bytes(body[begin:middle]).decode()
            except UnicodeDecodeError as error:
                raise CorruptData("a cause that is no text") from error
            message: TaskMessage = BatchArrived(
                cause=cause,
                task=to,
                upstream=upstream,
                batch=batch,
                stable=bool(stable),
                payload=Encoded(data=data),
                term=term,
            )
            found.append(Delivery(to, incarnation, message, length))
        elif kind == _OTHER:
            message = decode(data)
            if getattr(message, "task", None) != to or not isinstance(message, TaskMessage):
                raise CorruptData(f"a {type(message).__name__} that is none for task {to}")
            found.append(Delivery(to, incarnation, message, length))
        elif kind == _HOSTS:
            found.append(Hosts(batch, _pairs(data)))
        else:
            raise CorruptData(f"a message of kind {kind}")
    if at != end:
        raise CorruptData(f"{end - at} bytes behind the last message of a frame")
    return found


def _pairs(data: bytes) -> Copies:
    if len(data) % _PAIR.size:
        raise CorruptData(f"{len(data)} bytes are no pairs")
    return tuple(_PAIR.iter_unpack(data))
