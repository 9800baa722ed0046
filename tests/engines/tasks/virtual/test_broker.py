"""Kafka's clients in virtual time, through the engine's own readers and senders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

from harness.engines.tasks.exchange import Begin, ReadError, Sender, Tail, consumer_settings
from harness.engines.tasks.virtual.broker import Broker, VirtualLog
from harness.engines.tasks.virtual.loop import Process
from harness.engines.tasks.virtual.streams import VirtualStreams

PLACE = ("out", 0)


class Reading:
    """A process with a reader of one partition."""

    def __init__(self) -> None:
        self.loop = VirtualStreams(random.Random(1))
        self.broker = Broker(self.loop)
        self.process = Process(self.loop, "node", "10.0.1.1")
        self.values: list[bytes] = []
        self.errors: list[ReadError] = []
        self.given_up: list[int] = []

    def run(self, work: Callable[[Sender], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            log = VirtualLog(self.broker)
            Tail(
                consumer_settings({}),
                *PLACE,
                Begin(),
                deliver=lambda found: self.values.extend(one.value() for one in found),
                failed=self.errors.append,
                log=log,
            )
            await work(Sender({}, 0, lambda sink, error: self.given_up.append(error.code()), log))

        with closing(self.loop):
            self.loop.run_until_complete(self.process.start(main))
            self.process.kill()
            self.process.dispose()


def test_what_is_appended_is_read() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        for value in (b"one", b"two"):
            sender.append(*PLACE, 0, value)
            await asyncio.sleep(0.5)

    reading.run(work)
    assert reading.values == [b"one", b"two"]
    assert reading.errors == []


def test_an_outage_is_reported_once_and_survived() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        await asyncio.sleep(0.5)
        reading.broker.away = True
        sender.append(*PLACE, 0, b"one")
        await asyncio.sleep(5)
        reading.broker.away = False
        await asyncio.sleep(2)

    reading.run(work)
    assert reading.values == [b"one"]
    assert [error.final for error in reading.errors] == [False]


def test_a_record_that_waits_too_long_is_given_up() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        reading.broker.full = True
        sender.append(*PLACE, 0, b"one")
        await asyncio.sleep(11)
        sender.tend()

    reading.run(work)
    assert len(reading.given_up) == 1


def test_a_lost_acknowledgement_repeats_a_record() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        reading.broker.loses_answers = 1.0
        sender.append(*PLACE, 0, b"one")
        await asyncio.sleep(0.35)
        reading.broker.loses_answers = 0.0
        await asyncio.sleep(1)

    reading.run(work)
    assert len(reading.values) > 1
    assert set(reading.values) == {b"one"}


def test_retention_ends_a_reader_that_is_behind() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        await asyncio.sleep(0.5)
        reading.process.no_descriptors = False
        reading.loop.network.cut("10.0.1.1", "10.0.0.2", True)
        for number in range(5):
            reading.broker.append(PLACE, b"%d" % number)
        reading.broker.forget(PLACE, below=reading.broker.partition(PLACE).high - 1)
        reading.loop.network.cut("10.0.1.1", "10.0.0.2", False)
        await asyncio.sleep(3)

    reading.run(work)
    assert reading.errors[-1].gone
    assert reading.errors[-1].final
