"""The tentative output of a program while some of its tasks are away, without a cluster.

This is the worst case of the planners, played on a workload's own operators: the tasks that are not
alive send nothing, the others take a missing input for an empty one, and the sinks then publish
tentative output. No time passes and nothing is killed; it is the steady state of a failure that
began before the first window.

One `PartialRuns` serves many plans: the output of a task depends on its living ancestors, so it is
computed once for each such set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from harness.topology.model import Topology
from workloads.base import Workload
from workloads.toolkit.local import Task, downstream, places, read_by_source, upstream
from workloads.toolkit.operators import SOURCE_SCHEMA, TableProgram, timestamps

Outputs = Sequence[tuple[pa.Table, ...]]
"""By batch: a table for each downstream task, or one for a sink."""


class PartialRuns:
    """A program and its input, to be run with some of the tasks."""

    def __init__(
        self, program: TableProgram, sources: Mapping[str, pa.Table], *, batches: int
    ) -> None:
        """Prepare ``batches`` batches.

        The last ones hold no input if there are more than the records fill."""
        self.program, self.batches = program, batches
        self._read = read_by_source(program, sources)
        self._tasks = {place: program.task(*place) for place in places(program.topology)}
        self._ancestors = _ancestors(program.topology)
        self._known: dict[tuple[Task, frozenset[Task]], Outputs] = {}

    def results(self, alive: Collection[Task] | None = None) -> pa.Table:
        """Return the results that the sinks publish while only ``alive`` run; None: all of them."""
        topology = self.program.topology
        living = frozenset(places(topology) if alive is None else alive)
        sent: dict[Task, Outputs] = {}
        for place in places(topology):
            if place in living:
                sent[place] = self._outputs(place, living, sent)
        sinks = [place for place in living if not downstream(topology, place)]
        published = [table for place in sorted(sinks) for (table,) in sent[place]]
        return pa.concat_tables(published) if published else pa.table({})

    def _outputs(
        self, place: Task, living: frozenset[Task], sent: Mapping[Task, Outputs]
    ) -> Outputs:
        key = place, living & self._ancestors[place]
        if key not in self._known:
            self._known[key] = self._run(place, sent)
        return self._known[key]

    def _run(self, place: Task, sent: Mapping[Task, Outputs]) -> Outputs:
        topology, task = self.program.topology, self._tasks[place]
        senders = [
            (sent.get(sender), downstream(topology, sender).index(place))
            for sender in upstream(topology, place)
        ]
        state, outputs = task.initial(), []
        for batch in range(self.batches):
            given: Sequence[pa.Table | None]
            if place in self._read:
                given = [self._read[place].get(batch, SOURCE_SCHEMA.empty_table())]
            else:
                given = [each[batch][index] if each else None for each, index in senders]
            state, found = task.process(state, batch, given)
            outputs.append(found)
        return outputs


def _ancestors(topology: Topology) -> dict[Task, frozenset[Task]]:
    """Each task and everything upstream of it."""
    found: dict[Task, frozenset[Task]] = {}
    for place in places(topology):
        above = (found[sender] for sender in upstream(topology, place))
        found[place] = frozenset({place}).union(*above)
    return found


def recorded(
    workload: Workload, program: TableProgram, *, seconds: float
) -> tuple[dict[str, pa.Table], int]:
    """Return the first ``seconds`` of the workload's input by source, and its number of records.

    Each partition is sent evenly at the rate of its source task in the program's topology, which is
    the rate of the plans."""
    tables, total = {}, 0
    start_us = program.timeline.start_us
    for operator, name in program.sources.items():
        built = workload.source(name).records.build()
        rates = program.topology.operator(operator).rate
        assert rates is not None, f"{operator} is a source"
        parts = []
        for partition, rate in enumerate(rates):
            count = int(seconds * rate + 1e-9)  # 0.29 * 100 is a little below 29
            at_us = start_us + (np.arange(count) * (1_000_000 / rate)).astype(np.int64)
            parts.append(
                pa.table(
                    {
                        "value": pa.array(built.payloads(partition, 0, count), pa.binary()),
                        "partition": pa.array(np.full(count, partition), pa.int32()),
                        "offset": np.arange(count),
                        "timestamp": timestamps(at_us),
                    },
                    schema=SOURCE_SCHEMA,
                )
            )
            total += count
        tables[name] = pa.concat_tables(parts)
    return tables, total
