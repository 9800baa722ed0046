"""The cost of an edge between tasks on two nodes, as ratios taken in turns in one process.

``ratio`` is the duration of the way of before as a multiple. The absolute numbers depend on the
machine; they are for reading, not for comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa

from harness.engines.tasks.direct import Peers
from harness.hosting.codec import Encoded, decode, encode
from harness.hosting.frames import (
    HEADER,
    Header,
    pack_frames,
    pack_message,
    run_id,
    unpack_header,
    unpack_messages,
)
from harness.protocol.inputs import BatchArrived

MESSAGES, HOPS, ROUNDS = 2_000, 200, 5
RUN = run_id("pass")
PART = pa.table({"word": [f"word{n}" for n in range(10)], "count": list(range(10))})


def part(number: int) -> BatchArrived:
    return BatchArrived(
        cause=f"batch {number} of lines[0]", task=4, upstream=2, batch=number, stable=True,
        payload=Encoded(PART), term=1,
    )  # fmt: skip


def in_turns(*functions: Callable[[], object]) -> list[float]:
    """Return the least CPU seconds of each, taken in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for place, function in enumerate(functions):
            began = process_time()
            function()
            least[place] = min(least[place], process_time() - began)
    return least


def test_the_bytes_of_a_message(benchmark: Any) -> None:
    """Measure ten messages a frame, there and back, against the general codec for each.

    Their tables are encoded in both cases, and not read."""
    parts = [part(number) for number in range(MESSAGES)]
    for one in parts:
        assert isinstance(one.payload, Encoded)
        one.payload.data  # noqa: B018  # encoded here, as an outbox keeps it

    def direct() -> int:
        count = 0
        for first in range(0, MESSAGES, 10):
            packed = [pack_message(4, None, one) for one in parts[first : first + 10]]
            for frame in pack_frames(RUN, 0, packed):
                body = memoryview(frame)[HEADER.size :]
                count += len(unpack_messages(unpack_header(frame), body))
        return count

    def one_by_one() -> int:
        return sum(decode(encode(one)).batch >= 0 for one in parts)

    assert direct() == one_by_one() == MESSAGES
    fast, plain = in_turns(direct, one_by_one)
    benchmark.pedantic(direct, rounds=1)
    benchmark.extra_info.update(ratio=plain / fast, us_per_message=fast / MESSAGES * 1e6)
    print(benchmark.extra_info)
    assert plain / fast > 2


class End:
    """One of two nodes."""

    def __init__(self, number: int) -> None:
        self.peers = Peers(number, 1, b"known to both")
        self.peers.receiver = self
        self.came = asyncio.Event()

    def received(self, node: int, boot: int, header: Header, body: memoryview) -> None:
        unpack_messages(header, body)
        self.came.set()

    def hold_sources(self, held: bool) -> None:
        """Do nothing: it has none."""


async def hops(messages: int) -> list[float]:
    """Return the seconds of messages from one node to another, one after the other."""
    one, other = End(0), End(1)
    one.peers.located(1, 1, await other.peers.listen("127.0.0.1"))
    found = []
    for number in range(messages + 1):
        other.came.clear()
        began = perf_counter()
        one.peers.send(1, pack_frames(RUN, 0, [pack_message(4, None, part(number))]))
        await other.came.wait()
        found.append(perf_counter() - began)
    one.peers.close()
    other.peers.close()
    return found[1:]


async def bare_hops(messages: int) -> list[float]:
    """Return the seconds of as many bytes through asyncio's own streams, without any meaning."""
    came: asyncio.Queue[bytes] = asyncio.Queue()
    (frame,) = pack_frames(RUN, 0, [pack_message(4, None, part(0))])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(messages):
            came.put_nowait(await reader.readexactly(len(frame)))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    found = []
    for _ in range(messages):
        began = perf_counter()
        writer.write(frame)
        await came.get()
        found.append(perf_counter() - began)
    writer.close()
    server.close()
    return found


def test_a_hop(benchmark: Any) -> None:
    """Measure a message over a direct connection, encoded and decoded, against its bytes alone."""
    direct = benchmark.pedantic(lambda: asyncio.run(hops(HOPS)), rounds=1)
    bare = asyncio.run(bare_hops(HOPS))
    ratio = median(direct) / median(bare)
    benchmark.extra_info.update(ratio=ratio, us_per_hop=median(direct) * 1e6)
    print(benchmark.extra_info)
    assert ratio < 4
