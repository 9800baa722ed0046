"""Redis in virtual time: the same answers as the scripts give, and what can be wrong with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest
from redis.exceptions import RedisError

from harness.engines.tasks.store import StoreFull
from harness.engines.tasks.virtual.loop import Process
from harness.engines.tasks.virtual.server import Server, VirtualStore
from harness.engines.tasks.virtual.streams import VirtualStreams
from tests.engines.tasks.test_store import CONTRACT


def run(work: Callable[[VirtualStore, Server], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualStreams(random.Random(1))
    server = Server(loop)
    process = Process(loop, "node", "10.0.1.1")

    async def main() -> None:
        await work(VirtualStore(server, "run"), server)

    with closing(loop):
        loop.run_until_complete(process.start(main))


ROOM = "test_a_state_without_room_is_an_answer_and_the_others_stay"
"""The virtual server is full or not, whatever is stored."""


@pytest.mark.parametrize("test", [one for one in CONTRACT if one.__name__ != ROOM])
def test_the_contract_of_the_live_store(test: Callable[..., Awaitable[None]]) -> None:
    async def work(store: VirtualStore, server: Server) -> None:
        await test(store)

    run(work)


def test_each_way_of_failing() -> None:
    async def work(store: VirtualStore, server: Server) -> None:
        loop = server.loop
        for name in ("away", "crowded"):
            setattr(server, name, True)
            with pytest.raises(RedisError):
                await store.get_end(0)
            setattr(server, name, False)
        server.full = True
        with pytest.raises(StoreFull):
            await store.put(0, term=1, position=1, checkpoint=b"x")
        assert await store.put_registry(1, 1, b"small") is None, "there is room for this"
        server.full, server.silent, began = False, True, loop.now
        with pytest.raises(RedisError, match="Timeout"):
            await store.put_end(0, 1, b"end")
        assert 4.9 < loop.now - began < 5.2
        server.silent = False
        server.catch_up()
        await asyncio.sleep(1)
        assert await store.get_end(0) == b"end", "carried out, though nobody waited any more"

    run(work)
