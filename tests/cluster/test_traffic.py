"""Bytes of TCP connections by the kernel's counters, and their owners."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.cluster import traffic
from harness.cluster.traffic import between, connections, increase, inodes_of
from tests.there import there

CHILD = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(b"x" * 70_000)
peer.recv(1)
sys.stdin.read()
"""


@contextmanager
def talking() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Let a child send 70,000 bytes here and get one; yield it and the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-S", "-c", CHILD, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
            peer, _ = server.accept()
            with peer:
                received = 0
                while received < 70_000:
                    received += len(peer.recv(1 << 16))
                peer.sendall(b"y")
                yield child, port
                there(child.stdin).close()


def test_bytes_between_two_processes_count_by_sender() -> None:
    with talking() as (child, port):
        ours = inodes_of(os.getpid())
        seen = [one for one in connections() if one.here[1] == port and one.inode in ours]
        assert [one.received_bytes for one in seen] == [70_000]
        counted = there(between([os.getpid(), child.pid]))
        assert sum(counted.values()) in (70_001, 70_002), "the first byte may stand for its SYN"
        with_server = there(between([child.pid], [port]))
        assert 70_000 <= sum(with_server.values()) <= 70_003
        assert between([child.pid]) == {}, "the other end is nobody's"


def test_a_connection_within_a_process_does_not_count() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        counted = there(between([os.getpid()]))
        assert not counted.keys() & {os.fstat(end.fileno()).st_ino for end in (one, other)}


def test_what_cannot_be_seen_is_not_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert between([]) is None

    def denied() -> list[traffic.Connection]:
        raise OSError("not permitted")

    monkeypatch.setattr(traffic, "connections", denied)
    assert between([os.getpid()]) is None


def test_increase_takes_new_connections_whole() -> None:
    assert increase({1: 10, 2: 5}, {1: 25, 3: 7}) == 15 + 7
