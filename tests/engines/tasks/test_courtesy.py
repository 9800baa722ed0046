"""Messages that processes of the engine leave out or delay (`hosted`, `coordinator`).

These are requests for parts that are not due, repeated operations, and orders of replicas while
others take over. No servers: messages are caught before they leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError
from redis.exceptions import RedisError

from harness.cluster.endpoints import RedisEndpoint
from harness.engines.base import Setup
from harness.engines.tasks import coordinator, copies, hosted
from harness.engines.tasks.choices import scheme_of
from harness.engines.tasks.coordinator import ConnectedNode, Deciding
from harness.engines.tasks.exchange import ReadError
from harness.engines.tasks.heard import Hello
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.job import Job, spread, wiring_for
from harness.engines.tasks.store import Found, Store
from harness.errors import EnvironmentFailure, UsageError
from harness.hosting.codec import decode, encode, from_parts
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.node import BEAT
from harness.protocol.output import OutputReader
from tests.engines.tasks.loops import in_a_loop
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)
BATCH_US = 1_000_000
WIRING = wiring_for(WORDS, BATCH_US, {})
NODES = tuple(NodeInfo(name=f"n{n}", rack=f"r{n}", slots=20) for n in range(2))
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
REDIS = RedisEndpoint(host="127.0.0.1", port=1, password="nobody-listens")
COUNTER, ABOVE = 4, 2
HELLO = Hello(node=0, boot=1, token="", address=("", 0), process={}, running=None, shift_us=0)


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

    def stop(self) -> None:
        """Do nothing: it reads nothing."""

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
    node = ConnectedNode(HELLO, cast(Any, said))
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
    """Its lifeline says that it is busy; after a minute that is no excuse any more."""
    heartbeat = told.HeartbeatReceived(
        cause="beat 3", node=0, boot=1, copies=(), gone=((COUNTER, 1),)
    )  # fmt: skip
    node = ConnectedNode(HELLO, cast(Any, Said()))
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


def checkpoint_of(position: int, *, local: bool = True) -> do.StoreCheckpoint:
    checkpoint = told.Checkpoint(
        task=COUNTER, position=position, state=position, outputs=(), acknowledged=(0,), term=1
    )
    return do.StoreCheckpoint(
        cause="beat", incarnation=1, checkpoint=checkpoint, forget_below=position if local else 0
    )


class SlowStore:
    """A store that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answers: asyncio.Queue[bool | Exception] = asyncio.Queue()

    async def put(self, task: int, *, checkpoint: bytes, **more: Any) -> bool:
        return await self._answer(checkpoint)

    async def get(self, task: int, **more: Any) -> Found:
        await self._answer(b"")
        return Found()

    async def _answer(self, data: bytes) -> bool:
        self.asked.append(data)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def hosting(store: Any, said: Said) -> Hosted:
    """Return a node whose machine only takes notes."""
    here = Hosted(0, 1, job(), NOBODY, cast(Any, said), store, cast(Any, said))

    class Machine:
        def handle(self, item: told.NodeInput, *, now: int) -> list[do.Effect]:
            said.all.append(item)
            said.enough.set()
            return []

    here.machine = cast(Any, Machine())
    return here


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the test's own limit is the deadline."""
    while not true():
        await asyncio.sleep(0.001)


@in_a_loop
async def test_a_stall_of_the_store_repeats_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """In ten seconds the protocol asks forty times for the same checkpoint and the same load."""
    now, encoded = 50_000_000, 0
    monkeypatch.setattr(hosted, "now_us", lambda: now)
    real = encode

    def counted(value: Any) -> bytes:
        nonlocal encoded
        encoded += 1
        return real(value)

    monkeypatch.setattr(hosted, "encode", counted)
    store, said = SlowStore(), Said()
    here = hosting(store, said)
    load = do.LoadCheckpoint(cause="beat", task=1, incarnation=2, term=1, position=None)
    for _ in range(40):
        here._perform([checkpoint_of(5), load])
        now += 250_000
    await until(lambda: len(store.asked) == 2)
    store.answers.put_nowait(RedisError("away"))
    store.answers.put_nowait(RedisError("away"))
    await until(lambda: sum("trouble" in one for one in said.all if isinstance(one, dict)) == 2)
    here._perform([checkpoint_of(5), load])
    assert len(store.asked) == 2, "not again at once"
    now += 10_000_000
    here._perform([checkpoint_of(5), load])
    await until(lambda: len(store.asked) == 4)
    for _ in range(2):
        store.answers.put_nowait(True)
    await until(lambda: sum(isinstance(one, told.CheckpointStored) for one in said.all) == 1)
    assert encoded == 1
    here.stop()


@in_a_loop
async def test_a_stalled_broker_gets_a_publication_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50_000_000
    monkeypatch.setattr(copies, "now_us", lambda: now)
    said, appended = Said(), list[Any]()
    here = hosting(SlowStore(), said)
    here._sender = cast(Any, Appending(appended))
    reader = follow(here)
    record = do.OutputRecord(kind=do.Kind.STABLE, batch=0)
    fence = do.FenceOutput(cause="x", task=6, incarnation=1, term=1)
    publish = do.PublishOutput(
        cause="x", task=6, incarnation=1, term=1, sequence=1, records=(record,)
    )  # fmt: skip
    for effect in (fence, publish):
        appended.clear()
        for _ in range(16):
            here._perform([effect])
            now += 250_000
        assert len(appended) == 1, "it may still be on its way"
        here._not_appended(6, KafkaError(KafkaError._MSG_TIMED_OUT))
        now += 2_000_000
        here._perform([effect])
        assert len(appended) == 2
        assert appended[0] is appended[1], "encoded once"
        reader.accept(decode(appended[0]))
        here._output_moved(6, reader)
    answers = [type(one) for one in said.all if not isinstance(one, dict)]
    assert answers == [told.OutputFenced, told.OutputPublished], "each is answered once"
    here.stop()


def follow(here: Hosted) -> OutputReader:
    """Let a node follow sink 6 without a broker; return what it reads with."""
    reader = OutputReader()
    here._outputs[6] = cast(Any, SimpleNamespace(reader=reader, stop=lambda: None))
    return reader


@in_a_loop
async def test_a_term_that_was_given_twice_has_one_writer() -> None:
    """The registry was rolled back: another node has the term, too, and was quicker."""
    said = Said()
    here = hosting(SlowStore(), said)
    here._sender = cast(Any, Appending([]))
    reader = follow(here)
    fence = do.FenceOutput(cause="x", task=6, incarnation=1, term=1)
    record = do.OutputRecord(kind=do.Kind.STABLE, batch=0)
    here._perform([fence])
    for nonce in (here._nonce + 1, here._nonce):
        reader.accept(copies.entry_for(fence, nonce))
    publish = do.PublishOutput(
        cause="x", task=6, incarnation=1, term=1, sequence=1, records=(record,)
    )
    reader.accept(copies.entry_for(publish, here._nonce + 1))
    here._output_moved(6, reader)
    here._perform([publish])
    answers = [type(one) for one in said.all if not isinstance(one, dict)]
    assert answers == [told.OutputRefused, told.OutputRefused]
    here.stop()


class Appending:
    """A sender that keeps what it is given."""

    def __init__(self, appended: list[Any]) -> None:
        self._appended = appended

    def append(self, topic: str, partition: int, sink: int, data: bytes) -> None:
        self._appended.append(data)


@in_a_loop
async def test_a_record_that_no_broker_takes_ends_the_run_with_a_word() -> None:
    said = Said()
    here = hosting(SlowStore(), said)
    with pytest.raises(UsageError, match=r"larger than a record may be"):
        here.append_failed(6, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(EnvironmentFailure, match=r"lines\[0\] cannot be read"):
        here.read_failed(ReadError(place="lines[0]", why="out of range", final=True))
    here.stop()


@in_a_loop
async def test_an_operator_that_was_slow_leaves_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are handled while it computes, and batches stay in order."""
    said, go_on = Said(), threading.Event()
    here = hosting(SlowStore(), said)
    computed: list[tuple[int, str]] = []

    def work(effect: Any, operator: Any) -> Any:
        name = threading.current_thread().name.split("_")[0]
        if name == "compute":
            assert go_on.wait(60)
        computed.append((effect, name))
        return effect

    here._took_us[COUNTER] = hosted.LONG_US + 1
    done: list[Any] = []
    here._compute(COUNTER, work, 0, done.append)
    here._compute(ABOVE, work, 1, done.append)
    here.tell(told.UpstreamResumed(cause="x", task=COUNTER, upstream=ABOVE, term=2))
    assert len(said.all) == 1, "the loop is free"
    go_on.set()
    await until(lambda: done == [0, 1])
    assert computed == [(0, "compute"), (1, "compute")]
    await until(lambda: not here._computing)
    here._compute(ABOVE, work, 2, done.append)
    assert computed[-1] == (2, "MainThread")
    here.stop()


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


@in_a_loop
async def test_coordinated_checkpoints_do_not_wait_for_one_another() -> None:
    """An epoch needs that of every task; of a task's own one is under way, as it covers all."""
    together, newest = SlowStore(), SlowStore()
    for store, local in ((together, False), (newest, True)):
        here = hosting(store, Said())
        for _ in range(2):
            here._perform([checkpoint_of(position, local=local) for position in (10, 20, 30)])
        await until(lambda: len(together.asked) == 3)
        await until(lambda keeps=local: not keeps or len(newest.asked) == 1)  # type: ignore[misc]
        here.stop()
    assert (len(together.asked), len(newest.asked)) == (3, 1)
