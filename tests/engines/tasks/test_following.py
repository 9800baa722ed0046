"""Following a sink's partition from a stored end on, over a log that loses its head."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from redis.exceptions import ConnectionError as StoreAway

from harness.engines.tasks import copies, exchange
from harness.engines.tasks.copies import Following
from harness.engines.tasks.exchange import OF_SINK, ReadError
from harness.engines.tasks.records import key_of
from harness.engines.tasks.store import READ_AGAIN
from harness.hosting.codec import encode
from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputFence, OutputReader
from tests.engines.tasks.kit import in_a_loop

SINK = 3


class Record:
    """A record of the log, or an error in place of one."""

    def __init__(
        self, offset: int, value: bytes = b"", key: bytes | None = None, gone: bool = False
    ) -> None:
        self._offset, self._value, self._key, self._gone = offset, value, key, gone

    def error(self) -> Any:
        return KafkaError(KafkaError.OFFSET_OUT_OF_RANGE) if self._gone else None

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return [(OF_SINK, b"%d" % SINK)]


class Log:
    """A partition whose oldest records the broker deletes."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.low = 0
        self.frozen = False
        """True while no client gets an answer."""

    def append(self, entry: Any) -> None:
        self.records.append(Record(len(self.records), encode(entry)))

    def add_row(self) -> None:
        key = key_of(SINK, "attempt")
        self.records.append(Record(len(self.records), b"{}", key))

    def publish(self, batch: int, *, term: int = 1, sequence: int | None = None) -> None:
        record = OutputRecord(kind=Kind.STABLE, batch=batch, payload=None)
        number = batch + 1 if sequence is None else sequence
        self.append(OutputBatch(term=term, sequence=number, records=(record,)))

    def client(self, settings: Any) -> Any:
        return Client(self)


class Client:
    """A consumer of the log."""

    def __init__(self, log: Log) -> None:
        self._log, self._at = log, 0

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self._log.low, len(self._log.records)

    def assign(self, places: list[Any]) -> None:
        self._at = places[0].offset

    def poll(self, timeout: float) -> Record | None:
        if self._at < self._log.low and not self._log.frozen:
            return Record(0, gone=True)
        if self._log.frozen or self._at == len(self._log.records):
            asyncio.run(asyncio.sleep(0.002))
            return None
        self._at += 1
        return self._log.records[self._at - 1]

    def consume(self, count: int, timeout: float) -> list[Record]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class Ends:
    """A store of ends, which may be away, or answer with wrong bits, for some requests."""

    def __init__(self) -> None:
        self.kept: tuple[int, bytes] | None = None
        self.away = self.damaged = 0

    async def put_end(self, sink: int, offset: int, end: bytes) -> None:
        if self.kept is None or offset > self.kept[0]:
            self.kept = offset, end

    async def get_end(self, sink: int) -> bytes | None:
        if self.away:
            self.away -= 1
            raise StoreAway("gone for lunch")
        if self.kept is None:
            return None
        wrong = self.damaged > 0
        self.damaged -= wrong
        return self.kept[1][:-1] + bytes([self.kept[1][-1] ^ wrong])


class Node:
    """A node that follows the sink's partition."""

    def __init__(self, ends: Ends) -> None:
        self.errors: list[ReadError] = []
        self.moved = asyncio.Event()
        self.changes = 0
        self.output = Following(
            SINK, {}, ("out", 0), ends, changed=self._changed, failed=self._failed
        )

    def _changed(self, reader: OutputReader) -> None:
        self.changes += 1  # at the beginning, and with each record
        self.moved.set()

    def _failed(self, error: ReadError) -> None:
        self.errors.append(error)
        self.moved.set()

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():
            await self.moved.wait()
            self.moved.clear()

    async def reads(self, next_stable: int) -> None:
        await self.until(lambda: self.output.reader.next_stable >= next_stable)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(exchange, "Consumer", log.client)
    monkeypatch.setattr(copies, "STORE_EVERY_S", 0.0)
    monkeypatch.setattr(copies, "ASK_AGAIN_S", 0.0)
    log.append(OutputFence(term=1))
    for batch in range(5):
        log.publish(batch)
    return log


async def stored(node: Node, ends: Ends, offset: int) -> None:
    node.output.tend()
    while ends.kept is None or ends.kept[0] < offset:
        await asyncio.sleep(0)


@in_a_loop
async def test_a_partition_is_followed_though_its_beginning_is_gone(log: Log) -> None:
    ends = Ends()
    first = Node(ends)
    await first.reads(5)
    await stored(first, ends, 6)
    first.output.stop()
    log.low = 6
    log.publish(5)
    log.append(OutputFence(term=2, nonce=9))
    second = Node(ends)
    await second.until(lambda: second.output.reader.owned_by(2, 9))
    assert second.output.reader.next_stable == 6
    assert not second.errors
    second.output.stop()


@pytest.mark.parametrize(
    ("damaged", "low", "why"),
    [
        (READ_AGAIN - 1, 6, ""),
        (2 * READ_AGAIN - 1, 6, ""),
        (2 * READ_AGAIN, 0, ""),
        (2 * READ_AGAIN, 6, "0 is due; where to go on is damaged in Redis: "),
    ],
    ids=["right when loaded again", "right when the beginning is gone",
         "read from the beginning", "named where the beginning is gone"],
)  # fmt: skip
@in_a_loop
async def test_a_damaged_end_is_loaded_again(log: Log, damaged: int, low: int, why: str) -> None:
    ends = Ends()
    first = Node(ends)
    await first.reads(5)
    await stored(first, ends, 6)
    first.output.stop()
    log.low, ends.damaged = low, damaged
    second = Node(ends)
    await second.until(lambda: second.output.reader.next_stable == 5 or bool(second.errors))
    second.output.stop()
    assert [error.final for error in second.errors] == [True] * bool(why)
    assert all(why in error.why for error in second.errors)


@pytest.mark.parametrize("other_reads", [True, False])
@in_a_loop
async def test_a_node_that_fell_behind_goes_on_where_another_one_is(
    log: Log, other_reads: bool
) -> None:
    ends = Ends()
    slow = Node(ends)
    await slow.reads(5)
    log.frozen = True
    for batch in range(5, 9):
        log.publish(batch)
    if other_reads:
        whole = OutputReader()
        whole.accept(OutputFence(term=1))
        for batch in range(9):
            record = OutputRecord(kind=Kind.STABLE, batch=batch)
            whole.accept(OutputBatch(term=1, sequence=batch + 1, records=(record,)))
        ends.kept = 10, encode(whole.end(10))
    log.low, log.frozen = 10, False
    if other_reads:
        await slow.reads(9)
        log.publish(9)
        await slow.reads(10)
        assert not slow.errors
    else:
        await slow.until(lambda: bool(slow.errors))
        assert [(error.final, error.gone) for error in slow.errors] == [(True, True)]
    slow.output.stop()


@in_a_loop
async def test_an_end_is_before_results_whose_entry_has_not_come(log: Log) -> None:
    ends = Ends()
    node = Node(ends)
    await node.reads(5)
    log.add_row()
    log.publish(7, term=0)  # of an earlier primary, so nothing moves
    await node.until(lambda: node.changes == 1 + len(log.records))
    await stored(node, ends, 6)
    assert ends.kept is not None
    assert ends.kept[0] == 6
    log.append(OutputFence(term=4))
    await node.until(lambda: node.output.reader.term == 4)
    await stored(node, ends, 9)
    node.output.stop()
