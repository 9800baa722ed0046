"""Processes and threads in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest

from harness.engines.tasks.virtual.loop import Process, VirtualLoop, virtual_time
from harness.simulator.checkers import InvariantBroken


def run(work: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine that is in no process."""
    loop = VirtualLoop(random.Random(1))
    with closing(loop), virtual_time(loop, 1):
        loop.run_until_complete(work(loop))


def ticking(process: Process, seen: list[float]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(process.loop.now)

    return tick


def test_a_dead_process_does_nothing_more_and_a_frozen_one_goes_on() -> None:
    dies: list[float] = []
    stops: list[float] = []

    async def work(loop: VirtualLoop) -> None:
        one, other = (Process(loop, name, "10.0.0.9") for name in ("one", "other"))
        one.start(ticking(one, dies))
        other.start(ticking(other, stops))
        await asyncio.sleep(2.5)
        one.kill()
        other.freeze(True)
        await asyncio.sleep(5)
        other.freeze(False)
        await asyncio.sleep(1.2)

    run(work)
    assert dies == [1, 2]
    assert stops == [1, 2, 7.5, 8.5]


def test_a_loop_without_a_future_is_an_error() -> None:
    async def work(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(InvariantBroken, match="nothing is left"):
        run(work)
