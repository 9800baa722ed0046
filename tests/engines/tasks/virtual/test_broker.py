"""Kafka's clients in virtual time, through the engine's own readers and senders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest

from harness.engines.tasks import exchange
from harness.engines.tasks.exchange import Begin, ReadError, Sender, Tail, consumer_settings
from harness.engines.tasks.virtual import broker
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


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_damaged_records_are_read_again(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(broker, "DAMAGED", share)
    reading = Reading()

    async def work(sender: Sender) -> None:
        reading.broker.damages = True
        for number in range(20):
            reading.broker.append(PLACE, b"%d" % number)
            await asyncio.sleep(0.1)
        await asyncio.sleep(15)

    reading.run(work)
    assert any("damaged" in error.why for error in reading.errors)
    if share < 1:
        assert reading.values == [b"%d" % number for number in range(20)]
        assert not any(error.final for error in reading.errors)
    else:
        assert reading.values == []
        assert [error.final for error in reading.errors].index(True) == exchange._READ_AGAIN


def test_a_slow_disk_keeps_what_its_client_has_given_up() -> None:
    reading = Reading()

    async def work(sender: Sender) -> None:
        reading.broker.disk_s = 6.0
        sender.append(*PLACE, 0, b"one")
        sender.append(*PLACE, 0, b"two")
        await asyncio.sleep(11)
        reading.broker.disk_s = 0.0
        sender.append(*PLACE, 0, b"three")
        sender.tend()
        await asyncio.sleep(5)

    reading.run(work)
    assert len(reading.given_up) == 1
    assert reading.values == [b"one", b"two", b"three"]


@pytest.mark.parametrize("deaf", [False, True])
def test_one_way_to_the_broker(deaf: bool) -> None:
    """What a deaf client appends is there once more when its answer has not come."""
    reading = Reading()

    async def work(sender: Sender) -> None:
        ends = ("10.0.0.2", "10.0.1.1") if deaf else ("10.0.1.1", "10.0.0.2")
        reading.loop.network.cut(*ends, True, both_ways=False)
        sender.append(*PLACE, 0, b"one")
        await asyncio.sleep(1)
        reading.values.append(b"until here")
        reading.loop.network.cut(*ends, False, both_ways=False)
        await asyncio.sleep(2)

    reading.run(work)
    assert reading.values == [b"until here", *[b"one"] * (1 + deaf)]
