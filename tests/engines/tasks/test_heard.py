"""What nodes and the coordinator tell each other about nodes, without connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from harness.engines.tasks import coordinator
from harness.engines.tasks.coordinator import ConnectedNode, CoordinatorProcess, Deciding
from harness.engines.tasks.directory import Directory
from harness.engines.tasks.heard import ACCEPTING, Hello, Unreachable, Where, read_frame
from harness.engines.tasks.job import Job
from harness.engines.tasks.routes import news_of
from harness.engines.tasks.unreached import LASTING_US
from harness.hosting.codec import CorruptData
from harness.protocol.coordinator.machine import SWEEP
from harness.protocol.effects import SetTimer
from harness.protocol.inputs import HeartbeatReceived
from tests.engines.tasks.loops import in_a_loop
from tests.engines.tasks.test_courtesy import REDIS, Said, job


class Bodies(Said):
    """A connection that keeps the news that it gets."""

    def send_body(self, body: bytes) -> bool:

        self.all.append(news_of(json.loads(body)["routes"]))
        return True


def member(number: int, boot: int = 1) -> ConnectedNode:
    hello = Hello(
        node=number, boot=boot, token="", address=(f"10.0.0.{number}", 4000 + number), process={},
        running=None, shift_us=0,
    )  # fmt: skip
    return ConnectedNode(hello, cast(Any, Bodies()))


def news(of: ConnectedNode) -> Any:
    """Return the news that came since the last look."""
    found = list(cast(Any, of.connection).all)
    cast(Any, of.connection).all.clear()
    return found


@in_a_loop
async def test_all_nodes_hear_where_each_is_and_what_it_hosts() -> None:

    members = {number: member(number) for number in range(2)}
    members[1].where = Where(run="pass", hosts=[3, [[7, 1]]])
    directory = Directory("pass", members)
    late = members[2] = member(2)
    late.where = Where(run="the pass before", hosts=[9, [[8, 1]]])
    directory.welcome(late)
    (welcome,) = news(late)
    assert [(node, address) for node, _, address, _ in welcome.nodes] == [
        (0, ("10.0.0.0", 4000)), (1, ("10.0.0.1", 4001)),
    ]  # fmt: skip
    assert [hosts.copies for *_, hosts in welcome.nodes] == [(), ((7, 1),)]
    directory.changed(members[1])
    assert news(members[0]) == [], "news of one turn go out together"
    await asyncio.sleep(0)
    (both,) = news(members[0])
    assert [(node, hosts.copies) for node, *_, hosts in both.nodes] == [(2, ()), (1, ((7, 1),))]
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
        self.events: list[Any] = []
        self.process = CoordinatorProcess(
            {"redis": REDIS.to_json(), "listen": ["127.0.0.1", 0], "secret": "00", "tls": None},
            self.events.append,
        )
        self.one, self.other = member(0), member(1)
        self.process._members.update({0: self.one, 1: self.other})
        self.deciding = Deciding(job(), REDIS, self.process._members, self.events.append)

    def begin(self) -> None:
        self.process._deciding = self.deciding

    def beat(self, of: ConnectedNode) -> None:
        beat = HeartbeatReceived(cause="beat", node=of.number, boot=1, copies=())
        self.process._hear(of, beat)

    def unreachable(self, said_us: int | None = None, since_us: int = 0) -> None:
        """Let node 0 say that it cannot reach node 1."""
        document = {
            "to": 1, "boot": 1, "at": ["10.0.0.1", 4001],
            "at_us": self.now if said_us is None else said_us, "since_us": since_us,
            "why": "no answer, as if a firewall drops the packets",
        }  # fmt: skip
        found = read_frame({"unreachable": document}, 0)
        assert isinstance(found, Unreachable)
        self.process._hear(self.one, found)

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
        here.process._hear(here.other, read_frame({"trouble": trouble}, 1))
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
