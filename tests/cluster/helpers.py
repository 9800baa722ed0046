"""Small process trees in place of servers and workers, for tests without a JVM."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.cluster.ownership import ClusterRecord
from harness.cluster.processes import RUN_VARIABLE, WORKER_VARIABLE, Machine, identify
from harness.cluster.run_directory import end_processes
from harness.cluster.spark import REPOSITORY
from tests.there import there

FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-S", "-c", "import time; print('child', flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
"""A process with a child in a session of its own, as PySpark's daemon has; prints its pid."""


PORT = 4711


def listener(path: str) -> str:
    """Return a program that writes the input of one connection to `PORT` into a file."""
    return f"""
import socket
with socket.create_server(("0.0.0.0", {PORT})) as server:
    connection, _ = server.accept()
    with open({path!r}, "wb", buffering=0) as file:
        while data := connection.recv(100):
            file.write(data)
"""


PEER_PORT = 4712

PEER = f"""
import socket, struct
with socket.create_server(("0.0.0.0", {PEER_PORT})) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            sends, size = struct.unpack("!?I", connection.recv(5, socket.MSG_WAITALL))
            while size and not sends:
                size -= len(connection.recv(min(size, 65536)))
            connection.sendall(b"x" * max(size, 1))
            connection.recv(1)
"""
"""A program that receives or sends the demanded number of bytes, one connection at a time."""


def transfer_s(host: str, size: int, *, up: bool) -> float:
    """Return the time to move ``size`` bytes to a `PEER` (``up``), or from it."""
    with connected(host, PEER_PORT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.monotonic()
        connection.sendall(struct.pack("!?I", not up, size))
        if up:
            connection.sendall(b"x" * size)
        left = 1 if up else size
        while left:
            came = len(connection.recv(min(left, 65536)))
            assert came, "the peer has closed the connection"
            left -= came
        return time.monotonic() - began


def silent(text: str) -> None:
    """Drop a report."""


def eventually(condition: Callable[[], bool], *, limit_s: float = 120.0) -> None:
    """Return when ``condition`` holds; fail when it does not within the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not hold within {limit_s} s"
        time.sleep(0.02)


def marked_environment(run: str, worker: str | None = None) -> dict[str, str]:
    extra = {RUN_VARIABLE: run} | ({WORKER_VARIABLE: worker} if worker else {})
    return {**os.environ, **extra}


@contextmanager
def family(run: str, worker: str | None = None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a marked process; yield it and the pid of its child, both gone afterwards."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", FAMILY],
        env=marked_environment(run, worker),
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield process, int(there(process.stdout).readline())
        finally:
            end_run(run)


def cluster_of(pid: int | None, directory: Path) -> ClusterRecord:
    """Make a record of a cluster that a process of this machine owns, or none."""
    return ClusterRecord(
        run=f"test-{secrets.token_hex(8)}",
        directory=directory,
        machine=Machine.here(),
        owner=None if pid is None else identify(pid),
        keep=False,
        started_unix_s=time.time(),
    )


def end_run(run: str, directory: Path = Path("/no/journal")) -> None:
    """SIGKILL everything of a test's run, also what the journal in ``directory`` lists."""
    end_processes(run, directory)


@contextmanager
def harness_process(
    program: str, *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """Run a program that starts a cluster and prints its run and directory; yield it and both."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        run, directory = there(process.stdout).readline().split()
        try:
            yield process, run, Path(directory)
        finally:
            process.kill()
            end_run(run, Path(directory))


def connected(host: str, port: int) -> socket.socket:
    """Connect as soon as a server listens."""
    found: list[socket.socket] = []

    def listens() -> bool:
        try:
            found.append(socket.create_connection((host, port), timeout=5))
        except ConnectionRefusedError:
            return False
        return True

    eventually(listens)
    return found[0]


def broken(connection: socket.socket) -> bool:
    """Return True if the other side has closed or forgotten the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def unacknowledged(connection: socket.socket) -> int:
    """Return the number of sent bytes that the other side has not acknowledged."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])
