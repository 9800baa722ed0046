"""The coordinator's process without servers: who cannot reach whom, and frames of no sense."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

import pytest

from harness.cluster.processes import HostProcess
from harness.engines.tasks import coordinator, directory
from harness.engines.tasks.control import Connection, connect
from harness.engines.tasks.coordinator import CoordinatorProcess, Deciding
from harness.engines.tasks.directory import LASTING_US, ConnectedNode
from harness.engines.tasks.job import Job
from harness.engines.tasks.ports import Clock
from harness.engines.tasks.reports import Hello, Report, read_report
from harness.engines.tasks.routes import news_of
from harness.hosting.codec import CorruptData, to_parts
from harness.protocol import inputs as told
from harness.protocol.inputs import HeartbeatReceived
from tests.engines.tasks.kit import REDIS, Sent, in_a_loop, job

SECRET = b"known to both"


def configured(secret: bytes) -> dict[str, Any]:
    return {
        "redis": asdict(REDIS), "listen": ["127.0.0.1", 0], "secret": secret.hex(), "tls": None
    }  # fmt: skip


def member(number: int) -> ConnectedNode:
    hello = Hello(
        node=number, boot=1, token="", address=(f"10.0.0.{number}", 4000 + number), process={},
        running=None, clock=Clock(machine="here", ahead_us=0),
    )  # fmt: skip
    return ConnectedNode(hello, cast(Any, Sent()))


@pytest.mark.parametrize(
    "wrong",
    [{}, {"run": "x", "nodes": [[1]], "gone": []}, {"run": "x", "nodes": [], "gone": [1]}, 3],
)
def test_news_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(CorruptData):
        news_of(wrong)
    with pytest.raises(CorruptData):
        Job.from_json(wrong if isinstance(wrong, dict) else {})


class Reports:
    """A coordinator with two nodes, and a clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 90_000_000
        monkeypatch.setattr(coordinator, "now_us", lambda: self.now)
        monkeypatch.setattr(directory, "now_us", lambda: self.now)
        self.events: list[Any] = []
        self.process = CoordinatorProcess(configured(b"0"), self.events.append)
        self.one, self.other = member(0), member(1)
        self.process._members.update({0: self.one, 1: self.other})
        self.deciding = Deciding(job(), REDIS, self.process._members, self.events.append)

    def begin(self) -> None:
        self.process._deciding = self.deciding

    def unreachable(self) -> None:
        """Let node 0 say that it cannot reach node 1."""
        document = {
            "to": 1, "boot": 1, "at": ["10.0.0.1", 4001],
            "at_us": self.now, "since_us": 0,
            "why": "no answer, as if a firewall drops the packets",
        }  # fmt: skip
        self.process._take(self.one, read_report({"unreachable": document}))

    def go_on(self, seconds: float) -> None:
        """Let time pass with heartbeats of both."""
        for _ in range(round(seconds / 0.5)):
            self.now += 500_000
            for of in (self.one, self.other):
                beat = HeartbeatReceived(cause="beat", node=of.number, boot=1, copies=())
                self.process._take(of, Report(heartbeat=to_parts(beat)[0].decode()))

    @property
    def problems(self) -> list[Any]:
        return [event for event in self.events if event["event"] == "problem"]


@in_a_loop
async def test_two_nodes_without_a_way_between_them_are_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Reports(monkeypatch)
    here.unreachable()
    assert here.problems == [], "no pass is running"
    here.begin()
    here.unreachable()
    here.go_on(LASTING_US / 1e6 - 0.5)
    here.unreachable()
    assert here.problems == [], "it may pass"
    here.go_on(0.5)
    for _ in range(2):
        here.unreachable()
    (event,) = here.problems
    assert event["what"] == (
        "n0 at 10.0.0.0:4000 cannot reach n1 at 10.0.0.1:4001: "
        "no answer, as if a firewall drops the packets"
    )
    assert "firewall" in event["remedy"]
    await here.deciding.stop(clear=False)


class Coordinator:
    """Start one in this process, and collect its messages."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._commands: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        process = CoordinatorProcess(configured(SECRET), self.said.put_nowait)
        self._running = asyncio.ensure_future(process.run(self._commands))

    async def listening(self) -> Callable[[dict[str, Any]], Awaitable[Connection]]:
        """Return a function that connects and sends a first frame."""
        port = int((await self.said.get())["port"])

        async def speak(words: dict[str, Any]) -> Connection:
            connection = await connect("127.0.0.1", port, SECRET, within_s=60)
            connection.send(words)
            return connection

        return speak

    async def stop(self) -> None:
        self._commands.put_nowait(None)
        await self._running


def hello(boot: int, token: str) -> dict[str, Any]:
    return {
        "hello": 0, "boot": boot, "connection": token, "address": ["127.0.0.1", 1],
        "process": asdict(HostProcess.here()), "clock": asdict(Clock.here()), "running": None,
    }  # fmt: skip


@in_a_loop
async def test_only_the_current_connection_of_a_life_reports_its_loss() -> None:
    """A node that has connected again, under the same boot, is not lost with what it had before."""
    coordinator = Coordinator()
    speak = await coordinator.listening()

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
    speak = await coordinator.listening()

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


COUNTER = 4


@in_a_loop
async def test_a_node_that_computes_for_long_is_no_dead_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lifeline reports that it is busy; after a minute that no longer counts."""
    heartbeat = told.HeartbeatReceived(
        cause="beat 3", node=0, boot=1, copies=(), gone=((COUNTER, 1),)
    )  # fmt: skip
    node = member(0)
    deciding = Deciding(job(), REDIS, {0: node}, lambda event: None)
    heard: list[Any] = []
    monkeypatch.setattr(deciding, "tell", heard.append)
    deciding.busy(node, 1_000_000)
    assert heard == [], "it has never said anything"
    deciding.heard(node, heartbeat)
    deciding.busy(node, 1_000_000)
    deciding.busy(node, coordinator.LONGEST_BUSY_US)
    assert [one.copies for one in heard] == [(), ()]
    assert [one.gone for one in heard] == [((COUNTER, 1),), ()]
    await deciding.stop(clear=False)
