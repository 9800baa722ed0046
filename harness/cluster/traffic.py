"""The bytes of TCP connections between a cluster's processes, by the kernel's own counters.

The kernel lists the connections of this network namespace over a netlink socket
(``NETLINK_SOCK_DIAG``, Linux), with the bytes that each end has sent and got acknowledged. A
connection's inode tells its process, by ``/proc/<pid>/fd``. psutil has the connections and not
their bytes. Connections of other namespaces (containers, ``--network namespaces``) are not seen.

Tests: ``tests/cluster/test_traffic.py``."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_ERROR, _DONE = 2, 3
_INFO = 2
_ESTABLISHED = 1 << 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ATTRIBUTE = struct.Struct("=HH")
_MESSAGE_BYTES, _ID_AT, _INODE_AT = 72, 4, 68
_ACKED_AT = 120
"""Place of the two counters in ``struct tcp_info``: acknowledged and received bytes (Linux 4.1)."""

End = tuple[bytes, int]
"""Address and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One end of an established connection."""

    inode: int
    here: End
    there: End
    sent_bytes: int
    """Bytes that the other end has acknowledged."""
    received_bytes: int


def connections() -> list[Connection]:
    """Return the ends of all established TCP connections of this network namespace.

    Raises `OSError` where the kernel does not tell."""
    return [one for family in (socket.AF_INET, socket.AF_INET6) for one in _of_family(family)]


def _of_family(family: int) -> Iterator[Connection]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ESTABLISHED)
        head = _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0)
        kernel.send(head + request)
        while True:
            answer, at = kernel.recv(1 << 17), 0
            while at < len(answer):
                length, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", answer, at + _HEADER.size)
                    raise OSError(-number, os.strerror(-number))
                found = _connection(family, answer[at + _HEADER.size : at + length])
                if found is not None:
                    yield found
                at += (length + 3) & ~3


def _connection(family: int, message: bytes) -> Connection | None:
    """Parse an ``inet_diag_msg`` and its attributes; None without counters."""
    own, other = struct.unpack_from(">HH", message, _ID_AT)
    size = 4 if family == socket.AF_INET else 16
    source, target = _ID_AT + 4, _ID_AT + 20
    (inode,) = struct.unpack_from("=I", message, _INODE_AT)
    at = _MESSAGE_BYTES
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO and length >= _ATTRIBUTE.size + _ACKED_AT + 16:
            sent, received = struct.unpack_from("=QQ", message, at + _ATTRIBUTE.size + _ACKED_AT)
            return Connection(
                inode=inode,
                here=(message[source : source + size], own),
                there=(message[target : target + size], other),
                sent_bytes=sent,
                received_bytes=received,
            )
        at += (max(length, _ATTRIBUTE.size) + 3) & ~3
    return None


def inodes_of(pid: int) -> set[int]:
    """Return the inodes of a process's sockets; none once it is gone."""
    found = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed meanwhile
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found


def between(pids: Collection[int], servers: Collection[int] = ()) -> Mapping[int, int] | None:
    """Return bytes so far, by inode, among these processes and with the ``servers``' ports.

    A connection of two of the processes counts what each of them has sent; one with a server what
    was sent and received. One within a process does not count. None where nothing can be seen: the
    kernel does not tell, or the processes are in another network namespace."""
    try:
        ends = connections()
    except OSError:
        return None
    owner = {inode: pid for pid in pids for inode in inodes_of(pid)}
    by_end = {one.here: owner[one.inode] for one in ends if one.inode in owner}
    if not by_end:
        return None
    counted = {}
    for one in ends:
        if one.inode not in owner:
            continue
        if one.there[1] in servers:
            counted[one.inode] = one.sent_bytes + one.received_bytes
        elif by_end.get(one.there, owner[one.inode]) != owner[one.inode]:
            counted[one.inode] = one.sent_bytes
    return counted


def increase(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the bytes of connections from one count to a later one.

    What a connection carried that was opened and closed in between is not known."""
    return sum(count - before.get(inode, 0) for inode, count in after.items())
