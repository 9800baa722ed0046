"""A node's requests to a store and a broker that stall, without servers: each is sent once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError
from redis.exceptions import RedisError

from harness.engines.tasks import copies, hosted
from harness.engines.tasks.exchange import ReadError
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.store import Found
from harness.errors import EnvironmentFailure, UsageError
from harness.hosting.codec import decode, encode
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputReader
from tests.engines.tasks.kit import Sent, in_a_loop, job, until

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


STORE = do.StoreCheckpoint(
    cause="beat", incarnation=1, forget_below=5,
    checkpoint=told.Checkpoint(
        task=4, position=5, state=5, outputs=(), acknowledged=(0,), term=1
    ),
)  # fmt: skip
FENCE = do.FenceOutput(cause="x", task=6, incarnation=1, term=1)
PUBLISH = do.PublishOutput(
    cause="x", task=6, incarnation=1, term=1, sequence=1,
    records=(do.OutputRecord(kind=do.Kind.STABLE, batch=0),),
)  # fmt: skip


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


def hosting(store: Any, said: Sent) -> Hosted:
    """Return a node whose machine only takes notes."""
    here = Hosted(0, 1, job(), NOBODY, cast(Any, said), store, cast(Any, said))

    class Machine:
        def handle(self, item: told.NodeInput, *, now: int) -> list[do.Effect]:
            said.all.append(item)
            return []

    here.machine = cast(Any, Machine())
    return here


def follow(here: Hosted) -> OutputReader:
    """Let a node follow sink 6 without a broker; return what it reads with."""
    reader = OutputReader()
    here._outputs[6] = cast(Any, SimpleNamespace(reader=reader, stop=lambda: None))
    return reader


def answers(said: Sent) -> list[type]:
    """Return the kinds of inputs that a node's machine got."""
    return [type(one) for one in said.all if not isinstance(one, dict)]


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
    store, said = SlowStore(), Sent()
    here = hosting(store, said)
    load = do.LoadCheckpoint(cause="beat", task=1, incarnation=2, term=1, position=None)
    for _ in range(40):
        here._perform([STORE, load])
        now += 250_000
    await until(lambda: len(store.asked) == 2)
    store.answers.put_nowait(RedisError("away"))
    store.answers.put_nowait(RedisError("away"))
    await until(lambda: sum("trouble" in one for one in said.all if isinstance(one, dict)) == 2)
    here._perform([STORE, load])
    assert len(store.asked) == 2, "not again at once"
    now += 10_000_000
    here._perform([STORE, load])
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
    said, appended = Sent(), list[Any]()
    here = hosting(SlowStore(), said)
    sender = SimpleNamespace(append=lambda *record: appended.append(record[-1]))
    here._sender, reader = cast(Any, sender), follow(here)
    for effect in (FENCE, PUBLISH):
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
    assert answers(said) == [told.OutputFenced, told.OutputPublished], "each is answered once"
    here.stop()


@in_a_loop
async def test_a_record_that_no_broker_takes_ends_the_run_with_a_word() -> None:
    said = Sent()
    here = hosting(SlowStore(), said)
    with pytest.raises(UsageError, match=r"larger than a record may be"):
        here.append_failed(6, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(EnvironmentFailure, match=r"lines\[0\] cannot be read"):
        here.read_failed(ReadError(place="lines[0]", why="out of range", final=True))
    here.stop()


@in_a_loop
async def test_a_term_that_was_given_twice_has_one_writer() -> None:
    """The registry was rolled back: another node has the term, too, and was quicker."""
    said = Sent()
    here = hosting(SlowStore(), said)
    here._sender = cast(Any, SimpleNamespace(append=lambda *record: None))
    reader = follow(here)
    here._perform([FENCE])
    for nonce in (here._nonce + 1, here._nonce):
        reader.accept(copies.entry_for(FENCE, nonce))
    reader.accept(copies.entry_for(PUBLISH, here._nonce + 1))
    here._output_moved(6, reader)
    here._perform([PUBLISH])
    assert answers(said) == [told.OutputRefused, told.OutputRefused]
    here.stop()
