"""A connection of one thread alone, which ends when its process is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.engines.tasks.lifeline import hold_alone


@contextmanager
def held() -> Iterator[socket.socket]:
    """Return the peer of a connection that a thread holds alone."""
    mine, peer = socket.socketpair()
    assert hold_alone(mine.fileno())
    mine.close()
    with peer:
        yield peer
    for thread in threading.enumerate():
        if thread.name == "hold the lifeline":
            thread.join(60)
            assert not thread.is_alive()


def test_a_lifeline_outlasts_this_end_of_it_and_ends_with_its_peer() -> None:
    with held() as peer:
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)


def test_who_holds_it_has_nothing_else_open() -> None:
    """A pipe that this process closes is closed, also for its reader."""
    reader, writer = os.pipe()
    with held():
        os.close(writer)
        assert os.read(reader, 1) == b""
    os.close(reader)


HOLDER = """
import socket, sys, threading
from harness.engines.tasks.lifeline import hold_alone
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
assert hold_alone(line.fileno())
line.sendall(b"held")
line.close()
threading.Event().wait()
"""


def test_it_ends_when_its_process_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = subprocess.Popen([sys.executable, "-c", HOLDER, str(server.getsockname()[1])])
        peer, _ = server.accept()
        with peer:
            assert peer.recv(4) == b"held"
            process.send_signal(signal.SIGKILL)
            assert peer.recv(1) == b""
        process.wait()


def test_the_thread_of_the_lifeline_speaks_while_the_loop_does_not() -> None:
    """It says what it is given, until its peer hangs up."""
    ours, theirs = socket.socketpair()
    said: list[bytes | None] = [None, b"busy", None, b"busy"]
    descriptor = os.dup(ours.fileno())
    os.set_blocking(descriptor, True)
    if not hold_alone(descriptor, lambda: said.pop(0) if said else None, look_s=0.001):
        pytest.skip("this kernel gives no thread files of its own")
    os.close(descriptor)
    ours.close()
    with theirs:
        assert theirs.recv(4) + theirs.recv(4) == b"busybusy"
