"""What simulated processes compute: digests, as in the protocol's simulator, from Kafka records.

A digest shows every batch that was lost, repeated or taken out of order. The job carries a
reference to `workload` with the shape of its topology, as any workload's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.engines.tasks.virtual.loop import pay
from harness.hosting.program import Twin, host
from harness.protocol.planned import wiring_of
from harness.protocol.wiring import Wiring
from harness.simulator.synthetic import DigestOperator, mix
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.base import TASKS, Reference, Source, Workload
from workloads.toolkit.operators import SOURCE_SCHEMA, TableProgram, Timeline

PLACE = "harness.engines.tasks.virtual.program"
NOWHERE = Reference(target=f"{PLACE}:no_records")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Operators by their degrees, the first ones sources, and the edges between them."""

    name: str
    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int, str], ...]
    """Upstream, downstream, partitioning."""

    @property
    def sources(self) -> list[int]:
        """The operators that read a topic."""
        below = {down for _, down, _ in self.edges}
        return [number for number in range(len(self.sizes)) if number not in below]

    def topology(self) -> Topology:
        """Return it as the planners have it."""
        operators = tuple(
            Operator(
                name=f"O{number}",
                parallelism=size,
                rate=(1.0,) * size if number in self.sources else None,
            )
            for number, size in enumerate(self.sizes)
        )
        edges = tuple(
            Edge(upstream=f"O{up}", downstream=f"O{down}", partitioning=Partitioning(kind))
            for up, down, kind in self.edges
        )
        return Topology(operators=operators, edges=edges)

    def wiring(self, memory: int) -> Wiring:
        """Return the wiring that the job's processes make of it."""
        inner = {f"O{n}": memory for n in range(len(self.sizes)) if n not in self.sources}
        return wiring_of(self.topology(), inner)


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="chain", sizes=(1, 1, 1), edges=((0, 1, "one-to-one"), (1, 2, "one-to-one"))),
        Shape(name="diamond", sizes=(1, 2, 1), edges=((0, 1, "split"), (1, 2, "merge"))),
        Shape(name="full", sizes=(2, 2, 2), edges=((0, 1, "full"), (1, 2, "full"))),
        Shape(
            name="join",
            sizes=(1, 1, 2, 1),
            edges=((0, 2, "split"), (1, 2, "split"), (2, 3, "merge")),
        ),
    )
}


class Task(DigestOperator):
    """Digests its inputs; a batch costs the process that runs it what `Process.slow_us` says."""

    def process(self, state: Any, batch: int, inputs: Sequence[Any]) -> Any:
        pay()
        return super().process(state, batch, inputs)


class SourceTask(Task):
    """Digests the records of its partition, with their offsets and times."""

    reads_times = True

    def process(self, state: Any, batch: int, inputs: Sequence[pa.Table | None]) -> Any:
        (table,) = inputs
        return super().process(state, batch, (None if table is None else _digest(table),))

    def tuples(self, inputs: Sequence[Any]) -> int:
        return sum(len(part) if isinstance(part, pa.Table) else part[0] for part in inputs if part)


def _digest(table: pa.Table) -> tuple[int, int]:
    numbers = [int.from_bytes(value, "big") for value in table.column("value").to_pylist()]
    return len(table), mix(*numbers, *table.column("offset").to_pylist())


def workload(*, shape: str, memory: int, batch_us: int) -> Workload:
    """Return the workload of a shape."""
    here = SHAPES[shape]
    parameters = {"shape": shape, "memory": memory}
    return Workload(
        name=f"digests-{shape}",
        sources=[
            Source(name=f"o{number}", records=NOWHERE, partitions=here.sizes[number])
            for number in here.sources
        ],
        forms={TASKS: Reference(target=f"{PLACE}:tasks", parameters=parameters)},
        identity=["window_start"],
        values=["digest"],
        window_start="window_start",
        window_s=batch_us / 1e6,
        watermark_delay_s=1.0,
    )


def tasks(*, shape: str, memory: int, timeline: Timeline, rate: float | None) -> TableProgram:
    """Return the tasks of a shape."""
    here = SHAPES[shape]
    topology, wiring = here.topology(), here.wiring(memory)
    sources = {f"O{number}": f"o{number}" for number in here.sources}

    def task(operator: str, index: int) -> Any:
        number = topology.task(operator, index)
        kind: Any = SourceTask if operator in sources else Task
        fan_out = len(wiring.downstream[number])
        return kind(task=number, memory=wiring.memory[number], fan_out=fan_out)

    return TableProgram(topology=topology, task=task, sources=sources, timeline=timeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The records of all partitions: some in each batch, at drawn times."""

    start_us: int
    batch_us: int
    times_us: Mapping[tuple[int, int], tuple[int, ...]]
    """Source task and batch to the times of its records after the start of the batch."""

    def records(self, source: int, below: int) -> list[tuple[int, bytes]]:
        """Return the instants in ms since the epoch, and the values, before a batch."""
        found = []
        for (task, batch), times in sorted(self.times_us.items()):
            if task == source and batch < below:
                begin = self.start_us + batch * self.batch_us
                found += [((begin + at) // 1000, _value(batch, n)) for n, at in enumerate(times)]
        return found

    def table(self, source: int, partition: int, batch: int) -> pa.Table:
        """Return a batch as a source task gets it."""
        before = sum(
            len(times) for (task, other), times in self.times_us.items()
            if task == source and other < batch
        )  # fmt: skip
        times = self.times_us[source, batch]
        begin = self.start_us + batch * self.batch_us
        stamps = np.array([(begin + at) // 1000 * 1000 for at in times], np.int64)
        columns = [
            pa.array([_value(batch, number) for number in range(len(times))], pa.binary()),
            pa.array([partition] * len(times), pa.int32()),
            pa.array(range(before, before + len(times)), pa.int64()),
            pa.array(stamps).cast(pa.timestamp("us")),
        ]
        return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)


def _value(batch: int, number: int) -> bytes:
    return mix(batch, number).to_bytes(8, "big")


def twin_of(shape: str, memory: int, load: Load, batches: int) -> Twin:
    """Return the no-failure twin."""
    here = SHAPES[shape]
    topology = here.topology()
    timeline = Timeline(start_us=0, batch_us=1, slide_us=1, window_us=1)
    code = tasks(shape=shape, memory=memory, timeline=timeline, rate=None)

    def read(operator: str, index: int, batch: int) -> pa.Table:
        return load.table(topology.task(operator, index), index, batch)

    return host(topology, task=code.task, read=read).twin(batches)
