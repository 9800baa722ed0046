"""Messages that processes of the engine leave out or delay (`hosted`, `coordinator`).

These are requests for parts that are not due, repeated operations, and orders of replicas while
others take over. No servers: messages are caught before they leave."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from harness.cluster.endpoints import RedisEndpoint
from harness.engines.base import Setup
from harness.engines.tasks import coordinator, hosted
from harness.engines.tasks.choices import scheme_of
from harness.engines.tasks.coordinator import ConnectedNode, Deciding
from harness.engines.tasks.heard import Hello
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.job import Job, spread, wiring_for
from harness.engines.tasks.store import Store
from harness.hosting.codec import from_parts
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.node import BEAT
from tests.engines.tasks.loops import in_a_loop
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)
BATCH_US = 1_000_000
WIRING = wiring_for(WORDS, BATCH_US, {})
NODES = tuple(NodeInfo(name=f"n{n}", rack=f"r{n}", slots=20) for n in range(2))
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
REDIS = RedisEndpoint(host="127.0.0.1", port=1, password="nobody-listens")
COUNTER, ABOVE = 4, 2


def job() -> Job:
    assert WORDS.reference is not None
    return Job(
        run="pass",
        workload=WORDS.reference,
        start_us=1_800_000_000_000_000,
        batch_us=BATCH_US,
        scheme=scheme_of(Setup(scheme="active"), WIRING, BATCH_US / 1e6),
        nodes=NODES,
        placement=spread(WIRING, NODES),
        topic_of={"lines": "in"},
        out_topic="out",
        out_partitions=1,
    )


class Said:
    """Takes what a process would send: a sender, a way to the coordinator, a connection."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.enough = asyncio.Event()

    def send(self, *what: Any) -> bool:
        self.all.append(what[-1])
        self.enough.set()
        return True

    def flush(self) -> None:
        """Nothing has gathered."""

    def problem(self, error: BaseException) -> None:
        raise error


@in_a_loop
async def test_a_heartbeat_asks_for_no_batch_that_is_not_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 50_000_000
    monkeypatch.setattr(hosted, "now_us", lambda: now)
    request = told.ReplayRequested(
        cause="beat 7 of node 0", task=ABOVE, downstream=COUNTER, asking=1, from_batch=3,
        from_tentative=3, acknowledged=0, reloads=False,
    )  # fmt: skip
    send = do.Send(cause=request.cause, to=ABOVE, incarnation=None, message=request)
    said, store = Said(), Store(REDIS, "pass")
    here = Hosted(0, 1, job(), NOBODY, cast(Any, said), store, cast(Any, said))
    here.messages = cast(Any, said)

    class Machine:
        """Asks whenever it is told anything."""

        def handle(self, item: told.NodeInput, *, now: int) -> list[do.Effect]:
            return [send]

    here.machine = cast(Any, Machine())
    beat = told.TimerFired(cause="beat", key=BEAT)
    resumed = told.UpstreamResumed(cause="x", task=COUNTER, upstream=ABOVE, term=2)
    here._began_us[COUNTER] = now - BATCH_US
    here.tell(beat)
    assert said.all == [], "its last batch began one batch ago: the next one is on its way"
    here.tell(resumed)
    assert said.all == [request], "another one is there now, and must hear it"
    now += BATCH_US
    here.tell(beat)
    assert said.all == [request, request], "it should have come"
    await store.close()


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
    said = Said()
    hello = Hello(
        node=0, boot=1, token="", address=("", 0), process={}, running=None, shift_us=0
    )  # fmt: skip
    node = ConnectedNode(hello, cast(Any, said))
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
