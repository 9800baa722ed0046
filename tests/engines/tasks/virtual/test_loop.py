"""Processes and threads in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.virtual.loop import (
    Endless,
    Gate,
    Process,
    Thread,
    VirtualLoop,
    virtual_time,
)


def run(work: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> VirtualLoop:
    """Run a coroutine that is in no process; return the loop."""
    loop = VirtualLoop(random.Random(1))
    with closing(loop), virtual_time(loop, 1):
        loop.run_until_complete(work(loop))
    return loop


def ticking(process: Process, seen: list[float]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(process.loop.now)

    return tick


def test_twenty_minutes_take_no_time() -> None:

    async def work(loop: VirtualLoop) -> None:
        await asyncio.sleep(1200)
        assert now_us() == 1_200_000_000

    loop = run(work)
    assert loop.now == 1200


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


def test_what_a_process_computes_takes_its_time_alone() -> None:
    seen: list[float] = []
    other: list[float] = []

    async def work(loop: VirtualLoop) -> None:
        busy, idle = (Process(loop, name, "10.0.0.9") for name in ("busy", "idle"))

        async def compute() -> None:
            loop.burn(3.0)
            assert now_us() == 3_000_000, "its own clock has gone on"
            await asyncio.sleep(0)
            seen.append(loop.now)

        busy.start(compute)
        idle.start(ticking(idle, other))
        await asyncio.sleep(3.5)

    run(work)
    assert seen == [3.0]
    assert other == [1, 2, 3]


def test_an_executor_runs_one_thing_after_the_other_beside_the_loop() -> None:
    ended: list[tuple[int, float]] = []
    beats: list[float] = []

    async def work(loop: VirtualLoop) -> None:
        process = Process(loop, "node", "10.0.0.9")

        async def ask(number: int) -> None:
            def compute() -> int:
                loop.burn(2.0)
                return number

            ended.append((await loop.run_in_executor(pool, compute), round(loop.now, 1)))

        async def main() -> None:
            await asyncio.gather(ask(1), ask(2))

        pool = ThreadPoolExecutor(1)
        process.start(main)
        process.start(ticking(process, beats))
        await asyncio.sleep(4.5)

    run(work)
    assert ended == [(1, 2.0), (2, 4.0)]
    assert beats == [1, 2, 3, 4], "the event loop goes on meanwhile"


def test_a_thread_waits_in_virtual_time_and_ends_with_its_process() -> None:
    seen: list[float] = []
    threads: list[Thread] = []

    async def work(loop: VirtualLoop) -> None:
        process, gates = Process(loop, "node", "10.0.0.9"), [Gate(), Gate()]

        def wait() -> None:
            for gate in gates:
                gate.wait()
                seen.append(loop.now)

        async def main() -> None:
            threads.append(Thread(loop, wait, "reader"))
            await asyncio.sleep(2)
            gates[0].set()

        process.start(main)
        await asyncio.sleep(5)
        process.kill()
        gates[1].set()
        await asyncio.sleep(5)
        threads[0].end()

    run(work)
    assert seen == [2.0]


def test_a_loop_without_a_future_is_an_error() -> None:
    async def work(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Endless, match="nothing is left"):
        run(work)
