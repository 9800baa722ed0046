"""The query of Borealis' experiments (dpc, section 5): three streams, an SUnion, a join, a chain.

Three source tasks feed a first node that merges their buckets in one order (its SUnion) and joins
every tuple with a window of the tuples before it, ``state`` of them. More nodes of the same kind
may follow, and a client at the end counts what it gets. Every tuple that comes in leaves the join
with the sum over its matches, so no tuple is lost on the way unless its stream is away.

The join is a nested loop, tuple by tuple: its cost is that of a real operator. The state is the
window's tuples themselves, never more than those of the last ``memory`` buckets.

A result is a row per bucket that has tuples: its start, their number, and a ``checksum``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import TASKS, Reference, Source, Workload
from workloads.synthetic import KEYED, ReadTuples
from workloads.toolkit import operators as ops

STREAMS = 3
CLASSES = 7
"""Two tuples match if their keys have the same remainder."""
PRIME = (1 << 31) - 1
RESULT = pa.schema(
    [("window_start", pa.timestamp("us")), ("tuples", pa.int64()), ("checksum", pa.int64())]
)

Window = tuple[tuple[ops.Ints, ops.Ints], ...]
"""Keys and amounts of the window's tuples, a pair for each bucket, the oldest first."""


def borealis_join(
    *,
    seed: int = 0,
    bucket_s: float = 0.1,
    nodes: int = 1,
    state: int = 100,
    memory: int = 1,
    boxes: int = 1,
) -> Workload:
    """Join three streams on a chain of ``nodes``, with a window of ``state`` tuples on each.

    ``memory`` is the number of buckets that hold as many tuples, even without one of the streams;
    ``boxes`` is the number of joins on the first node, which share its state."""
    program = {"nodes": nodes, "state": state, "memory": memory, "boxes": boxes}
    tuples = Reference(
        target="workloads.synthetic:KeyedTuples",
        parameters={"seed": seed, "partitions": STREAMS, "keys": 100_000},
    )
    return Workload(
        name="borealis-join",
        sources=[Source(name="tuples", records=tuples, partitions=STREAMS)],
        forms={TASKS: Reference(target="workloads.join:program", parameters=program)},
        identity=["window_start"],
        values=["tuples", "checksum"],
        window_start="window_start",
        window_s=bucket_s,
        watermark_delay_s=0.001,
        reference=Reference(
            target="workloads.join:borealis_join",
            parameters={"seed": seed, "bucket_s": bucket_s, **program},
        ),
    )


def program(
    *,
    timeline: ops.Timeline,
    rate: float | None = None,
    nodes: int = 1,
    state: int = 100,
    memory: int = 1,
    boxes: int = 1,
) -> ops.TableProgram:
    """Return the sources, the chain and the client; ``rate`` is tuples a second of all streams."""
    each = (3_000.0 if rate is None else rate) / STREAMS
    names = [f"node {number + 1}" for number in range(nodes)]
    row = [*names, "client"]
    topology = Topology(
        operators=(
            Operator(name="stream", parallelism=STREAMS, rate=(each,) * STREAMS),
            *(Operator(name=name, parallelism=1, join=name == names[0]) for name in row),
        ),
        edges=(
            Edge(upstream="stream", downstream=row[0], partitioning=Partitioning.MERGE),
            *(
                Edge(upstream=a, downstream=b, partitioning=Partitioning.ONE_TO_ONE)
                for a, b in pairwise(row)
            ),
        ),
    )

    def task(operator: str, index: int) -> ops.TableTask:
        if operator == "stream":
            return Stream()
        if operator == "client":
            return Client(timeline)
        return Join(state=state, memory=memory, boxes=boxes if operator == names[0] else 1)

    return ops.TableProgram(
        topology=topology, task=task, sources={"stream": "tuples"}, timeline=timeline
    )


class Stream(ReadTuples):
    """A data source, which costs the nodes under test nothing."""

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        return 0


class Join(ops.TableTask):
    """Joins with a window of tuples, in a row within one node."""

    def __init__(self, *, state: int, memory: int, boxes: int = 1) -> None:
        self.state = state // boxes
        self.boxes = boxes
        self.buckets = memory
        self.memory = boxes * (memory - 1) + 1

    def initial(self) -> tuple[Window, ...]:
        return ((),) * self.boxes

    def work(
        self, state: tuple[Window, ...], batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[tuple[Window, ...], tuple[pa.Table, ...]]:
        table = ops.joined(inputs, KEYED)
        keys, amounts = ops.numbers(table, "key"), ops.numbers(table, "amount")
        order = np.lexsort((amounts, keys))  # the SUnion's order, whichever part came first
        keys, amounts = keys[order], amounts[order]
        after = []
        for window in state:
            window, amounts = self._join(window, keys, amounts)
            after.append(window)
        out = pa.table({"key": keys, "amount": amounts}, schema=KEYED)
        return tuple(after), (out,)

    def _join(self, window: Window, keys: ops.Ints, amounts: ops.Ints) -> tuple[Window, ops.Ints]:
        """Return the window after these tuples, and their amounts with those of their matches."""
        held = sum(len(part) for part, _ in window)
        all_keys = np.concatenate([*(part for part, _ in window), keys]) % CLASSES
        all_amounts = np.concatenate([*(part for _, part in window), amounts])
        joined = amounts.copy()
        for number in range(len(keys)):
            end = held + number
            first = max(0, end - self.state)
            match = all_keys[first:end] == all_keys[end]
            joined[number] = (joined[number] + all_amounts[first:end][match].sum()) % PRIME
        return self._keep((*window, (keys, amounts))), joined

    def _keep(self, window: Window) -> Window:
        """Return the last ``state`` tuples of the last ``buckets`` buckets."""
        left, kept = self.state, []
        for keys, amounts in reversed(window[-self.buckets :]):
            first = max(0, len(keys) - left)
            kept.append((keys[first:], amounts[first:]))
            left -= len(keys) - first
        return tuple(reversed(kept))

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        """On the input and on every stream between boxes."""
        return self.boxes * super().tuples(inputs)

    def state_tuples(self, state: Any) -> int:
        return sum(len(keys) for window in state for keys, _ in window)


class Client(ops.TableTask):
    """Counts and sums what it gets, which costs the nodes under test nothing."""

    def __init__(self, timeline: ops.Timeline) -> None:
        self.timeline = timeline

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        table = ops.joined(inputs, KEYED)
        if not table.num_rows:
            return None, (RESULT.empty_table(),)
        keys, amounts = ops.numbers(table, "key"), ops.numbers(table, "amount")
        checksum = int(((keys * 31 + amounts) % PRIME * (np.arange(len(keys)) + 1) % PRIME).sum())
        start = self.timeline.end_us(batch) - self.timeline.batch_us
        return None, (
            pa.table(
                [ops.timestamps([start]), pa.array([len(keys)]), pa.array([checksum % PRIME])],
                schema=RESULT,
            ),
        )

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        return 0
