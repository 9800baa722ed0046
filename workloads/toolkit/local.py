"""A program run in order in this process: what a cluster without failures must give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from harness.protocol.planned import wiring_of
from harness.protocol.wiring import Wiring
from harness.topology.model import Topology
from workloads.toolkit.operators import SOURCE_SCHEMA, TableProgram, Timeline, numbers

Task = tuple[str, int]


def run_locally(program: TableProgram, sources: Mapping[str, pa.Table]) -> pa.Table:
    """Every result for these records: all batches in order, up to the last window's end.

    ``sources`` holds per source a table of `SOURCE_SCHEMA` in the order of each partition."""
    inputs = read_by_source(program, sources)
    return pa.concat_tables([result for _, result in results(program, inputs)])


def read_by_source(
    program: TableProgram, sources: Mapping[str, pa.Table]
) -> dict[Task, dict[int, pa.Table]]:
    """Return each source task's input by batch: its partition of its source's table."""
    return {
        (operator, task): cut(
            table.filter(pa.array(numbers(table, "partition") == task)), program.timeline
        )
        for operator, source in program.sources.items()
        for table in [sources[source].select(SOURCE_SCHEMA.names)]
        for task in range(program.topology.operator(operator).parallelism)
    }


def cut(table: pa.Table, timeline: Timeline) -> dict[int, pa.Table]:
    """Cut the records of one partition by batch; batches without any are left out.

    Raises `ValueError` if a record is before batch 0."""
    batch = (numbers(table, "timestamp") - timeline.start_us) // timeline.batch_us
    if len(batch) and batch.min() < 0:
        raise ValueError(f"a record is {-batch.min()} batches before the start of the timeline")
    return {int(number): table.filter(pa.array(batch == number)) for number in np.unique(batch)}


def results(
    program: TableProgram, inputs: Mapping[Task, Mapping[int, pa.Table]]
) -> Iterator[tuple[int, pa.Table]]:
    """(batch, what a sink task published), batch by batch, until nothing can come any more."""
    topology = program.topology
    order = places(topology)
    tasks = {place: program.task(*place) for place in order}
    states = {place: task.initial() for place, task in tasks.items()}
    last = max((max(batches, default=-1) for batches in inputs.values()), default=-1)
    after = program.timeline.batches_per_window * program.windows_in_a_row
    for batch in range(last + 1 + after):
        edges: dict[tuple[Task, Task], pa.Table] = {}
        for place in order:
            given = _inputs(topology, place, edges, inputs, batch)
            states[place], outputs = tasks[place].process(states[place], batch, given)
            receivers = downstream(topology, place)
            if receivers:
                for receiver, output in zip(receivers, outputs, strict=True):
                    edges[place, receiver] = output
            else:
                [published] = outputs
                yield batch, published


def _inputs(
    topology: Topology,
    place: Task,
    edges: Mapping[tuple[Task, Task], pa.Table],
    inputs: Mapping[Task, Mapping[int, pa.Table]],
    batch: int,
) -> Sequence[pa.Table]:
    if place in inputs:
        return [inputs[place].get(batch, SOURCE_SCHEMA.empty_table())]
    return [edges[sender, place] for sender in upstream(topology, place)]


def places(topology: Topology) -> list[Task]:
    """Every task, upstream before downstream."""
    return [
        (name, index)
        for name in topology.order
        for index in range(topology.operator(name).parallelism)
    ]


def downstream(topology: Topology, place: Task) -> list[Task]:
    """Return the tasks that ``place`` sends to, in the order of its outputs."""
    below = _wiring(topology).downstream[topology.task(*place)]
    return [topology.place(task) for task in below]


def upstream(topology: Topology, place: Task) -> list[Task]:
    """Return the tasks that ``place`` receives from, in the order of its inputs."""
    above = _wiring(topology).upstream[topology.task(*place)]
    return [topology.place(task) for task in above]


@lru_cache(maxsize=16)
def _wiring(topology: Topology) -> Wiring:
    """Return the wiring between tasks, the same in every engine."""
    return wiring_of(topology, {})
