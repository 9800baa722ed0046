"""What the parts of a recovery cost on this machine, each measured alone, for the simulator.

Nothing here is taken from a recovery. In a pass without failures a plan changes to and fro
(``alternate_s`` of the task engine): replicas are retired, and others started from checkpoints, by
the processes that would do it in a recovery, so the time it takes to wake them is in it. What a
batch costs a node is what its main thread used in that pass, shared out over the batches: the
operator, the protocol, messages to bytes and back, notes, heartbeats.

==============  ===============================================================================
cost            where it is from
==============  ===============================================================================
`order_us`      a change of plan: from when the coordinator is told until a replica is retired
`host_us`       the same change: from then until another replica is hosted
`load_us`       the same change: from then until that one has its checkpoint
`hop_us`        the same pass: from when the last task above has processed a batch until a task has
`batch_us`      the same pass: what the nodes' main threads used, per copy and batch
`reader_us`     a client that is connected already opens a partition of the same broker
==============  ===============================================================================
"""

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
"""How often each thing is done; the median counts."""
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
    """What a batch of a copy takes of its node's main thread, which does one thing after the
    other: the mean over copies and batches."""
    reader_us: int
    """A reader, connected before as nodes keep them, from when it is given a partition until it
    has its first message."""

    def values(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure_costs(
    cluster: Cluster, topic: str, *, changes: pd.DataFrame, busy_s: float, processed: float
) -> MeasuredCosts:
    """``topic`` is one that holds messages; ``changes`` are the incidents of the pass in which a
    plan changed, ``busy_s`` what the nodes' main threads used in some part of it
    (`experiments.live._cpu.loops_s`), and ``processed`` how many batches all copies together
    processed then.

    Raises `EnvironmentFailure` where too few changes were followed.
    """
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
