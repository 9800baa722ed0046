"""The control connection: authentication, messages, and detection of a death."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.machines.certificates import run_certificate
from harness.engines.tasks import control
from harness.engines.tasks.control import Connection, Listener, connect, frame_of
from harness.engines.tasks.handshake import STRANGER_BYTES
from harness.engines.tasks.wire import SILENT_MS, contexts
from harness.errors import EnvironmentFailure
from tests.engines.tasks.kit import in_a_loop, until
from tests.there import there

SECRET = b"known to both"
NODES = 200
Ends = tuple[ssl.SSLContext | None, ssl.SSLContext | None]


@pytest.fixture(scope="module", params=["plain", "encrypted"])
def ends(request: pytest.FixtureRequest) -> Ends:
    """Give the settings of the listening and of the dialing end, without and with encryption."""
    if request.param == "plain":
        return None, None
    return contexts(run_certificate(["127.0.0.1"]))


@asynccontextmanager
async def listening(
    serve: Callable[[Connection], Awaitable[None]] | None = None, **more: Any
) -> AsyncIterator[tuple[Listener, int, list[Connection]]]:
    """Listen; yield the listener, its port, and the connections that were served."""
    served: list[Connection] = []

    async def keep(connection: Connection) -> None:
        served.append(connection)
        if serve is not None:
            await serve(connection)

    listener = Listener(SECRET, keep, host="127.0.0.1", **more)
    yield listener, await listener.start(), served
    listener.stop()


@asynccontextmanager
async def meeting(ends: Ends) -> AsyncIterator[tuple[Connection, Connection]]:
    """Yield the server's and the client's end of one connection."""
    done = asyncio.Event()

    async def serve(connection: Connection) -> None:
        await done.wait()

    async with listening(serve, tls=ends[0]) as (_, port, served):
        client = await connect("127.0.0.1", port, SECRET, within_s=10, tls=ends[1])
        await until(lambda: bool(served))
        yield served[0], client
        done.set()
        await asyncio.gather(served[0].leave(), client.leave())


@in_a_loop
async def test_a_peer_that_does_not_read_costs_frames(ends: Ends) -> None:
    async with meeting(ends) as (server, client):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(control, "MOST_WAITING_BYTES", 1 << 16)
            sent = sum(server.send({"number": n, "ballast": "x" * 100_000}) for n in range(300))
        assert 0 < sent < 300
        assert server.dropped == 300 - sent
        for number in range(sent):
            assert there(await client.receive())["number"] == number


@in_a_loop
async def test_a_machine_that_is_silent_is_noticed_by_the_kernel(ends: Ends) -> None:
    async with meeting(ends) as both:
        for end in both:
            connected = end._writer.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SILENT_MS


@pytest.mark.parametrize(
    "words",
    [
        b"", b"\0\0\0\2{}", b"\xff\xff\xff\xffhello", b"\0\0\0\3[1]", b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\x07\xd0" + b"[" * 2_000, b"\0\0\0\2\xff\xfe",
    ],
)  # fmt: skip
@in_a_loop
async def test_a_stranger_is_refused(words: bytes) -> None:
    async with listening() as (listener, port, served):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await read_step(reader)
        writer.write(words)
        writer.write_eof()
        assert await reader.read() == b""
        assert not served
        assert listener.refused == 1
        writer.close()


def test_nobody_there_is_said_so() -> None:
    with pytest.raises(EnvironmentFailure, match=r"127.0.0.1:1 .*, from .*: .*refused"):
        asyncio.run(connect("127.0.0.1", 1, SECRET, within_s=0.05))


@in_a_loop
async def test_who_proves_nothing_fills_no_memory_of_a_node() -> None:
    hung_up = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame_of({"challenge": "x" * STRANGER_BYTES})[:100])
        await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        hung_up.set()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connecting = asyncio.ensure_future(connect("127.0.0.1", port, SECRET, within_s=30))
    await hung_up.wait()
    server.close()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


@in_a_loop
async def test_of_many_strangers_the_first_have_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_STRANGERS", 3)

    async def serve(connection: Connection) -> None:
        await connection.receive()

    async with listening(serve) as (listener, port, _):
        strangers = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await read_step(reader)
            strangers.append((reader, writer))
        for reader, _ in strangers[:2]:
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert listener.refused == 2
        client = await connect("127.0.0.1", port, SECRET, within_s=10)
        assert client.send({"still": "served"})
        client.close()
        for _, writer in strangers:
            writer.close()


@in_a_loop
async def test_a_peer_without_the_runs_certificate_gets_no_challenge() -> None:
    ours, _ = contexts(run_certificate(["127.0.0.1"]))
    _, stranger = contexts(run_certificate(["127.0.0.1"]))
    refused = ((stranger, "certificate is not one of this run's"), (None, "hung up|answer"))
    async with listening(tls=ours) as (_, port, served):
        for tls, why in refused:
            with pytest.raises(EnvironmentFailure, match=why):
                await connect("127.0.0.1", port, SECRET, within_s=0.5, tls=tls)
        assert not served


@in_a_loop
async def test_every_node_of_many_is_in_the_queue_of_a_coordinator_that_does_not_accept_yet() -> (
    None
):
    """All connect at once to a process that is busy: the kernel answers each of them."""
    limit = Path("/proc/sys/net/core/somaxconn")
    if not limit.exists() or int(limit.read_text()) < NODES:
        pytest.skip(f"this kernel queues no {NODES} connections")
    async with listening() as (_, port, _):
        with ExitStack() as stack:
            for _ in range(NODES):  # the loop does not turn here, so nobody is accepted
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))


async def read_step(reader: asyncio.StreamReader) -> bytes:
    size, *_ = struct.unpack(">III", await reader.readexactly(12))
    return await reader.readexactly(size)


@pytest.mark.parametrize("place", [0, 5, 9, 12, 20])
@in_a_loop
async def test_a_frame_with_a_wrong_bit_is_an_end(place: int) -> None:
    """A wrong length must not wait for bytes that never come."""
    reader, frame = asyncio.StreamReader(), bytearray(frame_of({"number": 7}))
    frame[place] ^= 1
    reader.feed_data(bytes(frame))
    writer = SimpleNamespace(get_extra_info=lambda name: None)
    async with asyncio.timeout(10):
        assert await Connection(reader, writer).receive() is None  # type: ignore[arg-type]
