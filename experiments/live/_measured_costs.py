"""Costs of the parts of a recovery on this machine, each measured alone, for the simulator.

No cost comes from a recovery. In a pass without failures a plan changes to and fro (``alternate_s``
of the task engine): replicas are retired, and others started from checkpoints, by the processes
that would do it in a recovery, so the time to wake them is included. A batch costs a node the CPU
time of its main thread in that pass, divided by the batches: the operator, the protocol, messages
to bytes and back, notes, heartbeats.

==============  ===============================================================================
cost            source
==============  ===============================================================================
`order_us`      a change of plan: from the request to the coordinator until a replica is retired
`host_us`       the same change: from then until another replica is hosted
`load_us`       the same change: from then until that one has its checkpoint
`hop_us`        the same pass: from when the last task above has processed a batch until a task has
`batch_us`      the same pass: what the nodes' main threads used, per copy and batch
`reader_us`     a client that is connected already opens a partition of the same broker
==============  ==============================================================================="""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    import pandas as pd

    from harness.cluster.base import Cluster
    from workloads.base import Workload
    from workloads.toolkit.operators import TableProgram

TIMES = 15
"""Measurements of each cost; the median counts."""
FEWEST = 3
"""Fewest changes of the plan for a cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """Costs in microseconds; the table above has their sources."""

    order_us: int
    """From a decision of the coordinator until a node has followed it; the registry is stored
    in between."""
    host_us: int
    """Opening the inputs of a new copy."""
    load_us: int
    """A checkpoint of this workload from the store, there and back."""
    hop_us: int
    """From one task to the next, the next one's work included."""
    batch_us: int
    """CPU time of the node's main thread, which does one thing after the other, for a batch of a
    copy: the mean over copies and batches."""
    reader_us: int
    """Time of a reader, connected before as nodes keep them, from the assignment of a partition to
    its first message."""

    def values(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure_costs(
    cluster: Cluster, topic: str, *, changes: pd.DataFrame, busy_s: float, processed: float
) -> MeasuredCosts:
    """Return the costs, from a pass in which the plan changed.

    ``topic`` holds messages; ``changes``: incidents of the pass; ``busy_s``: CPU time of the nodes'
    main threads in a part of it (`experiments.live._cpu.loops_s`); ``processed``: batches of all
    copies together in that part. Raises `EnvironmentFailure` if too few changes were followed."""
    order_us, host_us, load_us = changes_us(changes)
    return MeasuredCosts(
        order_us=order_us,
        host_us=host_us,
        load_us=load_us,
        hop_us=round(float(changes["hop_s"].median()) * 1e6),
        batch_us=round(busy_s / processed * 1e6),
        reader_us=_reader_us(cluster, topic),
    )


def changes_us(changes: pd.DataFrame) -> tuple[int, int, int]:
    """Return the median times of the three steps of a change: retired, then hosted, then ready."""
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
    """Return the tasks with a state, whose replicas take turns."""
    tasks = program_at(workload, interval_s).topology.tasks("count")
    return tuple(range(tasks.start, tasks.stop))


def program_at(workload: Workload, interval_s: float) -> TableProgram:
    """Return the workload's tasks for batches of that length from the epoch on."""
    from workloads.toolkit.operators import program_of, timeline_of

    return program_of(workload, timeline=timeline_of(workload, start_us=0, batch_s=interval_s))


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
