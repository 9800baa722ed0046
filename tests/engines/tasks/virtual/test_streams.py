"""Connections in virtual time."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

from harness.engines.tasks.virtual.loop import Process
from harness.engines.tasks.virtual.streams import VirtualStreams

SERVER, CLIENT = "10.0.0.1", "10.0.1.1"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Pair:
    """A process that listens, and one that has connected to it."""

    def __init__(self, serve: Talk, talk: Talk) -> None:
        self.loop = VirtualStreams(random.Random(1))
        self.server = Process(self.loop, "server", SERVER)
        self.client = Process(self.loop, "client", CLIENT)
        self._serve, self._talk = serve, talk

    def run(self, meanwhile: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def all_of_it() -> None:
            async def listen() -> None:
                await asyncio.start_server(self._serve, SERVER, 7000)

            async def connect() -> None:
                await self._talk(*await asyncio.open_connection(SERVER, 7000))

            self.server.start(listen)
            await asyncio.sleep(0.1)
            self.client.start(connect)
            await meanwhile()

        with closing(self.loop):
            self.loop.run_until_complete(all_of_it())


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept, and say nothing."""
    await asyncio.sleep(1_000)


class Reads:
    """Reads lines, and notes when each came and how it ended."""

    def __init__(self, *, patient_ms: int = 0) -> None:
        self.seen: list[tuple[str, float]] = []
        self._patient_ms = patient_ms
        self._kept: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop: Any = asyncio.get_running_loop()
        self._kept.append(writer)  # one that nobody holds is closed
        if self._patient_ms:
            option = socket.TCP_USER_TIMEOUT
            connected = writer.get_extra_info("socket")
            connected.setsockopt(socket.IPPROTO_TCP, option, self._patient_ms)
        try:
            while line := await reader.readline():
                self.seen.append((line.decode().strip(), round(loop.now, 1)))
            self.seen.append(("end", round(loop.now, 1)))
        except OSError as error:
            self.seen.append((type(error).__name__, round(loop.now, 1)))


def says(*words: str) -> Talk:
    """Return the talk of a process that writes words."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for word in words:
            writer.write(f"{word}\n".encode())
            await asyncio.sleep(1.0)
        await asyncio.sleep(1_000)

    return talk


def test_a_cut_delays_and_loses_nothing() -> None:
    reads = Reads()
    pair = Pair(reads, says("one", "two", "three"))

    async def cut() -> None:
        await asyncio.sleep(0.5)
        pair.loop.network.cut(CLIENT, "*", True)
        await asyncio.sleep(60)
        pair.loop.network.cut(CLIENT, "*", False)
        await asyncio.sleep(1)

    pair.run(cut)
    assert [word for word, _ in reads.seen] == ["one", "two", "three"]
    assert [at > 60 for _, at in reads.seen] == [False, True, True]


def test_a_socket_gives_a_silent_peer_up_after_its_own_time() -> None:
    reads, stubborn = Reads(patient_ms=1000), Reads()
    for reader in (reads, stubborn):
        pair = Pair(silence, reader)

        async def cut(pair: Pair = pair) -> None:
            await asyncio.sleep(1)
            pair.loop.network.cut(SERVER, "*", True)
            await asyncio.sleep(60)

        pair.run(cut)
    assert reads.seen == [("TimeoutError", 3.1)]
    assert stubborn.seen == []
