"""A connection of one thread alone, and the coordinator's reaction to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.processes import HostProcess
from harness.engines.tasks.clocks import Clock
from harness.engines.tasks.control import Connection, connect
from harness.engines.tasks.coordinator import CoordinatorProcess
from harness.engines.tasks.lifeline import hold_alone
from tests.engines.tasks.loops import in_a_loop

SECRET = b"known to both"


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


def test_what_is_opened_later_is_not_there_either() -> None:
    with held():
        reader, writer = os.pipe()
        os.close(writer)
        assert os.read(reader, 1) == b""
        os.close(reader)


def test_other_threads_have_what_they_had() -> None:
    mine, peer = socket.socketpair()
    with held():
        mine.sendall(b"as before")
        assert peer.recv(9) == b"as before"
    mine.close()
    peer.close()


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


class Coordinator:
    """Start one in this process, and collect its messages."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._commands: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        redis = RedisEndpoint(host="127.0.0.1", port=1, password="x")
        process = CoordinatorProcess(
            {
                "redis": redis.to_json(),
                "listen": ["127.0.0.1", 0],
                "secret": SECRET.hex(),
                "tls": None,
            },
            self.said.put_nowait,
        )
        self._running = asyncio.ensure_future(process.run(self._commands))

    async def listening(self) -> int:
        return int((await self.said.get())["port"])

    async def stop(self) -> None:
        self._commands.put_nowait(None)
        await self._running


def hello(boot: int, token: str) -> dict[str, Any]:
    return {
        "hello": 0, "boot": boot, "connection": token, "address": ["127.0.0.1", 1],
        "process": HostProcess.here().to_json(), "clock": Clock.here().to_json(), "running": None,
    }  # fmt: skip


@in_a_loop
async def test_a_node_whose_lifeline_ends_is_gone_and_its_next_life_is_not() -> None:
    coordinator = Coordinator()
    port = await coordinator.listening()

    async def speak(words: dict[str, Any]) -> Connection:
        connection = await connect("127.0.0.1", port, SECRET, within_s=60)
        connection.send(words)
        return connection

    first = await speak(hello(1, "a"))
    assert (await coordinator.said.get())["event"] == "joined"
    lines = [await speak({"lifeline": 0, "connection": token}) for token in "aba"]
    await lines[0].leave()
    assert {**await coordinator.said.get(), "at_us": 0} == {
        "event": "left", "node": 0, "boot": 1, "at_us": 0,
    }  # fmt: skip
    assert await first.receive() is None
    second = await speak(hello(2, "b"))
    assert (await coordinator.said.get())["boot"] == 2
    await lines[2].leave()  # of the life before
    await lines[1].leave()
    left = await coordinator.said.get()
    assert (left["event"], left["boot"]) == ("left", 2)
    assert await second.receive() is None
    await first.leave()
    await second.leave()
    await coordinator.stop()


@in_a_loop
async def test_only_the_current_connection_of_a_life_reports_its_loss() -> None:
    """A node that has connected again, under the same boot, is not lost with what it had before."""
    coordinator = Coordinator()
    port = await coordinator.listening()

    async def speak(words: dict[str, Any]) -> Connection:
        connection = await connect("127.0.0.1", port, SECRET, within_s=60)
        connection.send(words)
        return connection

    first = await speak(hello(1, "a"))
    assert (await coordinator.said.get())["event"] == "joined"
    line = await speak({"lifeline": 0, "connection": "a"})
    second = await speak(hello(1, "b"))
    assert (await coordinator.said.get())["event"] == "joined"
    assert await ended(first)
    await line.leave()
    second.send({"problem": {"what": "still here"}})
    said = await coordinator.said.get()
    assert (said["event"], said["what"]) == ("problem", "still here"), "and no loss before"
    await second.leave()
    assert (await coordinator.said.get())["event"] == "left"
    await first.leave()
    await coordinator.stop()


async def ended(connection: Connection) -> bool:
    """Return True once a connection is over, whatever was sent before."""
    while await connection.receive() is not None:
        pass
    return True


BAD: list[Any] = [
    {}, {"heartbeat": "none"}, {"heartbeat": 3}, {"hosts": {"run": "x"}}, {"hosts": [1]},
    {"unreachable": {"to": "me"}}, {"problem": 5}, {"unheard": 1}, {"note": 1, "problem": 2},
]  # fmt: skip


@pytest.mark.parametrize("frame", BAD)
@in_a_loop
async def test_a_frame_that_makes_no_sense_ends_its_connection_and_nothing_else(frame: Any) -> None:
    coordinator = Coordinator()
    port = await coordinator.listening()

    async def speak(words: dict[str, Any]) -> Connection:
        connection = await connect("127.0.0.1", port, SECRET, within_s=60)
        connection.send(words)
        return connection

    bad = await speak(hello(1, "a"))
    assert (await coordinator.said.get())["event"] == "joined"
    bad.send(frame)
    assert await ended(bad)
    assert (await coordinator.said.get())["event"] == "left"
    assert (await coordinator.said.get())["event"] == "trouble"
    strange = await speak({**hello(2, "b"), "clock": "noon"})
    assert await ended(strange)
    assert (await coordinator.said.get())["event"] == "trouble"
    good = await speak(hello(2, "b"))
    assert (await coordinator.said.get())["event"] == "joined"
    for connection in (bad, strange, good):
        await connection.leave()
    await coordinator.stop()


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
