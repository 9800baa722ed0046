"""What the parts of a recovery cost on this machine, each measured alone, for the simulator.

Nothing here is taken from a recovery: operators are timed in this process, hops by word counts of
two depths without failures, and readers, the store and control connections as a client sees them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from harness.cluster.base import Cluster
    from workloads.base import Workload
    from workloads.toolkit.operators import TableProgram

TIMES = 15
"""How often each thing is done; the median counts."""
BATCHES = 60
CHECKPOINT_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """Microseconds."""

    batch_us: int
    """An operator's work for one batch, the mean over tasks and batches."""
    hop_us: int
    """From one task to the next, the next one's work included."""
    reader_us: int
    """A new reader of a partition, until it has its first message."""
    store_us: int
    """A request to the store that carries a small checkpoint, there and back."""
    control_us: int
    """A frame on an open connection, one way."""

    def values(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure_costs(
    cluster: Cluster, topic: str, workload: Workload, *, rate_per_s: float, interval_s: float,
    hop_s: float,
) -> MeasuredCosts:  # fmt: skip
    """``topic`` is one that holds messages; ``hop_s`` see `MeasuredCosts.hop_us`."""
    return MeasuredCosts(
        batch_us=_operators_us(workload, rate_per_s, interval_s),
        hop_us=round(hop_s * 1e6),
        reader_us=_reader_us(cluster, topic),
        store_us=_store_us(cluster),
        control_us=asyncio.run(_control_us()),
    )


def program_at(workload: Workload, interval_s: float) -> TableProgram:
    """Its tasks, for batches of that length from the epoch on."""
    from workloads.toolkit.operators import program_of, timeline_of

    return program_of(workload, timeline=timeline_of(workload, start_us=0, batch_s=interval_s))


def _operators_us(workload: Workload, rate_per_s: float, interval_s: float) -> int:
    from workloads.toolkit.local import run_locally
    from workloads.toolkit.operators import SOURCE_SCHEMA

    program = program_at(workload, interval_s)
    [source] = workload.sources
    records, count = source.records.build(), round(rate_per_s * interval_s * BATCHES)
    each = count // source.partitions
    stamps = np.arange(each, dtype=np.int64) * round(interval_s * BATCHES * 1e6) // each
    parts = [
        pa.Table.from_arrays(
            [
                pa.array(records.payloads(partition, 0, each), pa.binary()),
                pa.array(np.full(each, partition, dtype=np.int32)),
                pa.array(np.arange(each)),
                pa.array(stamps).cast(pa.timestamp("us")),
            ],
            schema=SOURCE_SCHEMA,
        )
        for partition in range(source.partitions)
    ]
    table = pa.concat_tables(parts)
    tasks = sum(operator.parallelism for operator in program.topology.operators)
    done = BATCHES + program.timeline.batches_per_window

    def once() -> None:
        run_locally(program, {source.name: table})

    return round(_median_us(once, times=3) / (tasks * done))


def _reader_us(cluster: Cluster, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        **cluster.kafka.confluent(),
        "group.id": "faultline",
        "enable.auto.commit": False,
        "log_level": 2,
    }

    def once() -> None:
        consumer = Consumer(settings)
        try:
            place = TopicPartition(topic, 0)
            place.offset, _ = consumer.get_watermark_offsets(place, timeout=10)
            consumer.assign([place])
            assert consumer.poll(10) is not None, f"{topic} holds no message"
        finally:
            consumer.close()

    return round(_median_us(once))


def _store_us(cluster: Cluster) -> int:
    client = cluster.redis.client()
    key, value = f"{cluster.redis.key_prefix}cost", b"x" * CHECKPOINT_BYTES

    def once() -> None:
        client.set(key, value)
        client.get(key)

    try:
        return round(_median_us(once) / 2)
    finally:
        client.delete(key)
        client.close()


async def _control_us() -> int:
    """Half of a round trip over the loopback, JSON read and written at both ends."""

    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(json.loads(line)).encode() + b"\n")
        writer.close()
        over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for number in range(TIMES):
        began = time.perf_counter_ns()
        writer.write(json.dumps({"order": number, "text": "x" * 300}).encode() + b"\n")
        await reader.readline()
        found.append((time.perf_counter_ns() - began) / 1000)
    writer.close()
    await over.wait()
    server.close()
    return round(median(found) / 2)


def _median_us(function: Callable[[], None], *, times: int = TIMES) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter_ns()
        function()
        found.append((time.perf_counter_ns() - began) / 1000)
    return median(found)
