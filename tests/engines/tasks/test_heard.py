"""What nodes and the coordinator tell each other about nodes, without connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from harness.engines.tasks import coordinator
from harness.engines.tasks.coordinator import ConnectedNode, CoordinatorProcess, Deciding
from harness.engines.tasks.directory import Directory
from harness.engines.tasks.heard import Hello, Unreachable, Where, read_frame
from harness.engines.tasks.job import Job
from harness.engines.tasks.routes import news_of
from harness.hosting.codec import CorruptData
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


@in_a_loop
async def test_two_nodes_without_a_way_between_them_are_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 90_000_000
    monkeypatch.setattr(coordinator, "now_us", lambda: now)
    events: list[Any] = []
    process = CoordinatorProcess(
        {"redis": REDIS.to_json(), "listen": ["127.0.0.1", 0], "secret": "00"}, events.append
    )
    one, other = member(0), member(1)
    process._members.update({0: one, 1: other})
    found = read_frame(
        {
            "unreachable": {
                "to": 1, "boot": 1, "at": ["10.0.0.1", 4001], "at_us": now,
                "why": "no answer, as if a firewall drops the packets",
            }
        },
        0,
    )  # fmt: skip
    assert isinstance(found, Unreachable)
    process._hear(one, found)
    assert events == [], "no pass is running"
    process._deciding = Deciding(job(), REDIS, process._members, events.append)
    other.heard_us = now - 60_000_000
    process._hear(one, found)
    assert events == [], "the other one is cut off from here, too"
    other.heard_us = now
    now += 50_000_000
    process._hear(one, found)
    assert events == [], "said while this node was cut off, and heard now"
    now -= 50_000_000
    for _ in range(2):
        process._hear(one, found)
    (event,) = events
    assert event["event"] == "problem"
    assert event["what"] == (
        "n0 at 10.0.0.0:4000 cannot reach n1 at 10.0.0.1:4001: "
        "no answer, as if a firewall drops the packets"
    )
    assert "firewall" in event["remedy"]
    await process._deciding.stop(clear=False)
