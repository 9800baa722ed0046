"""The coordinator's process: its nodes' frames and lives, its news for them, its delays.

Without servers; the first part is without connections, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

import pytest
from redis.exceptions import RedisError

from harness.cluster.processes import HostProcess
from harness.engines.tasks import coordinator, directory
from harness.engines.tasks.control import Connection, connect
from harness.engines.tasks.coordinator import CoordinatorProcess, Deciding
from harness.engines.tasks.directory import LASTING_US, ConnectedNode, Directory
from harness.engines.tasks.job import Job
from harness.engines.tasks.ports import Clock
from harness.engines.tasks.reports import ACCEPTING, Hello, Hosting, Report, read_report
from harness.engines.tasks.routes import news_of
from harness.hosting.codec import CorruptData, from_parts, to_parts
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.machine import SWEEP
from harness.protocol.effects import SetTimer
from harness.protocol.inputs import HeartbeatReceived
from tests.engines.tasks.kit import REDIS, Sent, in_a_loop, job, until

SECRET = b"known to both"
COUNTER = 4


def configured(secret: bytes) -> dict[str, Any]:
    return {
        "redis": asdict(REDIS), "listen": ["127.0.0.1", 0], "secret": secret.hex(), "tls": None
    }  # fmt: skip


class Bodies(Sent):
    """A connection that keeps the news that it gets."""

    def send_body(self, body: bytes) -> bool:

        self.all.append(news_of(json.loads(body)["routes"]))
        return True


def member(number: int, boot: int = 1, connection: Any = None) -> ConnectedNode:
    hello = Hello(
        node=number, boot=boot, token="", address=(f"10.0.0.{number}", 4000 + number), process={},
        running=None, clock=Clock(machine="here", ahead_us=0),
    )  # fmt: skip
    return ConnectedNode(hello, cast(Any, Bodies() if connection is None else connection))


def news(of: ConnectedNode) -> Any:
    """Return the news that came since the last look."""
    found = list(cast(Any, of.connection).all)
    cast(Any, of.connection).all.clear()
    return found


@in_a_loop
async def test_all_nodes_hear_where_each_is_and_what_it_hosts() -> None:

    members = {number: member(number) for number in range(2)}
    members[1].hosting = Hosting(run="pass", hosts=(3, [(7, 1)]))
    directory = Directory("pass", members)
    late = members[2] = member(2)
    late.hosting = Hosting(run="the pass before", hosts=(9, [(8, 1)]))
    directory.welcome(late)
    (welcome,) = news(late)
    assert [(node, address) for node, _, address, _ in welcome.nodes] == [
        (0, ("10.0.0.0", 4000)), (1, ("10.0.0.1", 4001)),
    ]  # fmt: skip
    assert [hosts for *_, hosts in welcome.nodes] == [(0, []), (3, [(7, 1)])]
    directory.changed(members[1])
    assert news(members[0]) == [], "news of one turn go out together"
    await asyncio.sleep(0)
    (both,) = news(members[0])
    assert [(node, hosts[1]) for node, *_, hosts in both.nodes] == [(2, []), (1, [(7, 1)])]
    del members[1]
    directory.left(member(1))
    (gone,) = news(members[0])
    assert (gone.nodes, gone.gone) == ([], [(1, 1)])


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

    def beat(self, of: ConnectedNode) -> None:
        beat = HeartbeatReceived(cause="beat", node=of.number, boot=1, copies=())
        self.process._take(of, Report(heartbeat=to_parts(beat)[0].decode()))

    def unreachable(self, said_us: int | None = None, since_us: int = 0) -> None:
        """Let node 0 say that it cannot reach node 1."""
        document = {
            "to": 1, "boot": 1, "at": ["10.0.0.1", 4001],
            "at_us": self.now if said_us is None else said_us, "since_us": since_us,
            "why": "no answer, as if a firewall drops the packets",
        }  # fmt: skip
        self.process._take(self.one, read_report({"unreachable": document}))

    def go_on(self, seconds: float, beats: bool = True) -> None:
        """Let time pass with heartbeats of both."""
        for _ in range(round(seconds / 0.5)):
            self.now += 500_000
            for of in (self.one, self.other) if beats else ():
                self.beat(of)

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


@in_a_loop
async def test_attempts_that_fail_now_and_then_are_no_lasting_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Reports(monkeypatch)
    here.begin()
    for number in range(5):
        here.unreachable(since_us=number)
        here.go_on(50)
    assert here.problems == [], "there was a connection between any two of them"
    here.unreachable(since_us=4)
    assert len(here.problems) == 1
    await here.deciding.stop(clear=False)


@in_a_loop
async def test_what_an_attempt_met_while_a_node_was_cut_off_is_no_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Reports(monkeypatch)
    here.begin()
    here.unreachable()
    here.go_on(50, beats=False)
    here.unreachable()
    assert here.problems == [], "both are cut off from here, too"
    here.go_on(0.5)
    here.unreachable(said_us=here.now - 50_000_000)
    here.unreachable()
    here.go_on(LASTING_US / 1e6 - 1.0)
    here.unreachable()
    assert here.problems == [], "the attempt began while they were"
    here.go_on(1.5)
    here.unreachable()
    assert len(here.problems) == 1, "it was there without a gap, and still cannot"
    await here.deciding.stop(clear=False)


@in_a_loop
async def test_a_node_without_a_file_descriptor_is_not_taken_for_one_behind_a_firewall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Reports(monkeypatch)
    here.begin()
    for _ in range(20):
        trouble = {"where": ACCEPTING, "what": "Too many open files"}
        here.process._take(here.other, read_report({"trouble": trouble}))
        here.unreachable()
        here.go_on(1)
    assert here.problems == [], "it says itself why"
    assert here.events[-1]["what"] == "Too many open files"
    here.unreachable()
    here.go_on(LASTING_US / 1e6)
    here.unreachable()
    assert len(here.problems) == 1, "it says no more"
    await here.deciding.stop(clear=False)


@in_a_loop
async def test_a_coordinator_that_was_stopped_hears_first_and_counts_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Reports(monkeypatch)
    here.begin()
    handed: list[Any] = []
    monkeypatch.setattr(here.deciding, "tell", handed.append)
    later: list[tuple[Any, ...]] = []
    monkeypatch.setattr(here.deciding, "_loop", Later(later))
    beat_us = here.deciding.job.scheme.heartbeat_us
    sweep = SetTimer(cause="test", at=here.now, key=SWEEP)
    here.now += beat_us
    here.deciding._set_timer(sweep)
    assert [item.key for item in handed] == [SWEEP], "a little late is usual"
    here.unreachable()
    here.now += 30_000_000
    here.beat(here.one)  # said long ago, and read now
    here.beat(here.other)
    handed.clear()
    here.deciding._set_timer(sweep)
    assert handed == [], "nobody counts as silent yet"
    here.unreachable()
    here.now += 1_000
    here.unreachable()
    assert here.problems == [], "nor is anybody out of another's reach"
    ((delay_s, fire, effect),) = later
    assert delay_s == beat_us / 1e6
    fire(effect)
    assert [item.key for item in handed] == [SWEEP]


class Later:
    """An event loop that notes what is to be called."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls

    def call_later(self, *call: Any) -> None:
        self._calls.append(call)


def order_of(term: int | None) -> told.CopyOrdered:
    return told.CopyOrdered(
        cause="x", boot=1, task=COUNTER, incarnation=2, term=term, start=told.Start.CHECKPOINT,
        position=0, send_from=0, coordinator=1,
    )  # fmt: skip


@in_a_loop
async def test_a_replica_is_ordered_after_the_takeovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "REPLICA_AFTER_S", 0.01)
    monkeypatch.setattr(coordinator, "now_us", lambda: 50_000_000)
    promoted = told.CopyPromoted(cause="x", task=COUNTER, incarnation=1, term=2, coordinator=1)
    lost = do.NoteCopy(
        cause="x", event=do.CopyEvent.LOST, task=COUNTER, incarnation=1, term=1, position=0, at=0
    )
    said = Sent()
    node = member(0, connection=said)
    deciding = Deciding(job(), REDIS, {0: node}, lambda event: None)

    def orders() -> list[Any]:
        return [from_parts(frame["order"]) for frame in said.all]

    def perform(*effects: told.Order) -> None:
        deciding._perform([do.SendOrder(cause="x", node=0, order=order) for order in effects])

    perform(order_of(None))
    assert orders() == [order_of(None)], "nothing is lost: a replica is ordered at once"
    said.all.clear()
    deciding._perform([lost])
    perform(order_of(None), order_of(3), promoted)
    assert orders() == [order_of(3), promoted]
    said.enough.clear()
    await said.enough.wait()
    assert orders() == [order_of(3), promoted, order_of(None)]
    await deciding.stop(clear=False)


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


@in_a_loop
async def test_a_coordinator_repeats_no_request_to_a_store_that_stalls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 50_000_000
    monkeypatch.setattr(coordinator, "now_us", lambda: now)
    events: list[Any] = []
    deciding = Deciding(job(), REDIS, {}, events.append)
    await deciding._store.close()
    store = SlowRegistry()
    deciding._store = cast(Any, store)
    told_: list[Any] = []
    monkeypatch.setattr(deciding, "tell", told_.append)
    put = do.StoreRegistry(cause="sweep", term=1, version=3, registry=None)
    for _ in range(40):
        deciding._perform([put])
        now += 250_000
    await until(lambda: store.versions == [3])
    deciding._perform([do.StoreRegistry(cause="loss", term=1, version=4, registry=None)])
    await until(lambda: store.versions == [3, 4])
    store.answers.put_nowait(RedisError("away"))
    store.answers.put_nowait(None)
    await until(lambda: bool(told_))
    assert [one.version for one in told_] == [4], "a later one does not wait for it"
    assert [event["event"] for event in events] == ["trouble"]
    await deciding.stop(clear=False)


class SlowRegistry:
    """A store of the registry that answers when it is told to."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def put_registry(self, term: int, version: int, registry: bytes) -> None:
        self.versions.append(version)
        answer = await self.answers.get()
        if answer is not None:
            raise answer

    async def close(self) -> None:
        """Do nothing: it has no connections."""


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
async def test_a_node_whose_lifeline_ends_is_gone_and_its_next_life_is_not() -> None:
    coordinator = Coordinator()
    speak = await coordinator.listening()

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
