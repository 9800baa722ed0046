"""What the parts of a recovery cost on this machine, each measured alone, for the simulator.

Nothing here is taken from a recovery. In a pass without failures a plan changes to and fro
(``alternate_s`` of the task engine): replicas are retired, and others started from checkpoints, by
the processes that would do it in a recovery, so the time it takes to wake them is in it.

==============  ===============================================================================
cost            where it is from
==============  ===============================================================================
`order_us`      a change of plan: from when the coordinator is told until a replica is retired
`host_us`       the same change: from then until another replica is hosted
`load_us`       the same change: from then until that one has its checkpoint
`hop_us`        the same pass: from when the last task above has processed a batch until a task has
`batch_us`      operators, and what they send, timed in one process
`reader_us`     a client that is connected already opens a partition of the same broker
==============  ===============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    import pandas as pd

    from harness.cluster.base import Cluster
    from workloads.base import Workload
    from workloads.toolkit.operators import TableProgram

TIMES = 15
"""How often each thing is done; the median counts."""
BATCHES = 60
FEWEST = 3
"""Changes of the plan that a cost is taken from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """Microseconds; the table above says where each is from."""

    order_us: int
    """From a decision of the coordinator until a node has followed it; the registry is stored
    in between."""
    host_us: int
    """Opening what a new copy reads."""
    load_us: int
    """A checkpoint of this workload from the store, there and back."""
    hop_us: int
    """From one task to the next, the next one's work included."""
    batch_us: int
    """A task's work for one batch, the mean over tasks and batches: its operator, and its
    messages and its note to bytes and back."""
    reader_us: int
    """A reader, connected before as nodes keep them, from when it is given a partition until it
    has its first message."""

    def values(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure_costs(
    cluster: Cluster, topic: str, workload: Workload, *, rate_per_s: float, interval_s: float,
    changes: pd.DataFrame,
) -> MeasuredCosts:  # fmt: skip
    """``topic`` is one that holds messages; ``changes`` are the incidents of the pass in which a
    plan changed.

    Raises `EnvironmentFailure` where too few changes were followed.
    """
    order_us, host_us, load_us = changes_us(changes)
    table = _input(workload, rate_per_s, interval_s)
    batch_us = _operators_us(workload, table, interval_s)
    return MeasuredCosts(
        order_us=order_us,
        host_us=host_us,
        load_us=load_us,
        hop_us=round(float(changes["hop_s"].median()) * 1e6),
        batch_us=batch_us + _messages_us(workload, table, interval_s),
        reader_us=_reader_us(cluster, topic),
    )


def changes_us(changes: pd.DataFrame) -> tuple[int, int, int]:
    """Median times of the three steps of a change: retired, then hosted, then ready."""
    steps = ["retired_after_s", "hosted_after_s", "ready_after_s"]
    known = changes.reindex(columns=steps).dropna()
    if len(known) < FEWEST:
        raise EnvironmentFailure(
            f"{len(known)} of {len(changes)} changes of the plan were followed to their end, and "
            f"{FEWEST} are needed to say what one takes",
            remedy="repeat the run on a machine with less other load",
        )
    retired, hosted, ready = (known[step] for step in steps)
    found = (retired.median(), (hosted - retired).median(), (ready - hosted).median())
    order_us, host_us, load_us = (max(0, round(float(part) * 1e6)) for part in found)
    return order_us, host_us, load_us


def counters(workload: Workload, interval_s: float) -> tuple[int, ...]:
    """The tasks with a state, whose replicas take turns."""
    tasks = program_at(workload, interval_s).topology.tasks("count")
    return tuple(range(tasks.start, tasks.stop))


def program_at(workload: Workload, interval_s: float) -> TableProgram:
    """Its tasks, for batches of that length from the epoch on."""
    from workloads.toolkit.operators import program_of, timeline_of

    return program_of(workload, timeline=timeline_of(workload, start_us=0, batch_s=interval_s))


def _input(workload: Workload, rate_per_s: float, interval_s: float) -> pa.Table:
    """`BATCHES` batches of the source's records, evenly spread over its partitions."""
    from workloads.toolkit.operators import SOURCE_SCHEMA

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
    return pa.concat_tables(parts)


def _operators_us(workload: Workload, table: pa.Table, interval_s: float) -> int:
    from workloads.toolkit.local import run_locally

    program, [source] = program_at(workload, interval_s), workload.sources
    tasks = sum(operator.parallelism for operator in program.topology.operators)
    done = BATCHES + program.timeline.batches_per_window

    def once() -> None:
        run_locally(program, {source.name: table})

    return round(_median_us(once, times=3) / (tasks * done))


def _messages_us(workload: Workload, table: pa.Table, interval_s: float) -> int:
    """What a task's messages of one batch cost, the mean over tasks: the output of the first
    operator, which is the largest, to as many neighbours as there are."""
    from harness.engines.codec import Encoded, decode, encode, to_parts
    from harness.protocol.effects import CopyEvent, NoteCopy
    from harness.protocol.inputs import BatchArrived

    program = program_at(workload, interval_s)
    topology = program.topology
    first = program.task(topology.operators[0].name, 0)
    _, outputs = first.process(first.initial(), 0, [table.slice(0, len(table) // BATCHES)])
    note = NoteCopy(
        cause="batch 1 of lines[0]", event=CopyEvent.PROGRESSED, task=0, incarnation=1, term=1,
        position=1, at=1,
    )  # fmt: skip

    def once() -> None:
        for output in outputs:
            message = BatchArrived(
                cause="batch 1 of lines[0]", task=1, upstream=0, batch=1, stable=True,
                payload=Encoded(output), term=1,
            )  # fmt: skip
            decode(encode(message)).payload.value  # noqa: B018  # as who receives it asks for it
        to_parts(note)

    width = mean(_widths(program))
    return round(_median_us(once) * width / len(outputs))


def _widths(program: TableProgram) -> Sequence[int]:
    """By task, how many others it sends to; a sink publishes, which counts as one."""
    from harness.protocol.planned import wiring_of

    wiring = wiring_of(program.topology, {})
    return [max(1, len(below)) for below in wiring.downstream]


def _reader_us(cluster: Cluster, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        **cluster.kafka.confluent(),
        "group.id": "faultline",
        "enable.auto.commit": False,
        "log_level": 2,
    }

    took = []
    for _ in range(TIMES):
        consumer = Consumer(settings)
        try:
            place = TopicPartition(topic, 0)
            consumer.get_watermark_offsets(place, timeout=10)  # it is connected now
            began = time.perf_counter_ns()
            place.offset, _ = consumer.get_watermark_offsets(place, timeout=10)
            consumer.assign([place])
            assert consumer.poll(10) is not None, f"{topic} holds no message"
            took.append((time.perf_counter_ns() - began) / 1000)
        finally:
            consumer.close()
    return round(median(took))


def _median_us(function: Callable[[], None], *, times: int = TIMES) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter_ns()
        function()
        found.append((time.perf_counter_ns() - began) / 1000)
    return median(found)
