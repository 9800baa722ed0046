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
