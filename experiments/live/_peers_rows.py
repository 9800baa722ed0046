"""The rows of `experiments.live.peers`: systems, their settings, and the kill of a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live._outage import FOR_RECOVERY
from harness.cluster.base import ClusterSpec
from harness.engines.flink.parameters import TUNED as FLINK_TUNED
from harness.engines.flink.parameters import FlinkParameters
from harness.engines.kafka_streams.parameters import STREAMS as GROUP
from harness.engines.kafka_streams.parameters import TUNED as STREAMS_TUNED
from harness.engines.kafka_streams.parameters import KafkaStreamsParameters
from harness.engines.structured.parameters import Mode
from harness.engines.tasks.parameters import TaskParameters
from harness.failures.schedule import BUSIEST

if TYPE_CHECKING:
    from harness.cluster.base import Node
    from harness.failures.schedule import Schedule

STOCK, TASKS, STREAMS, FLINK, OWN = "structured", "tasks", "kafka-streams", "flink", "own"
AS_IT_COMES, TUNED, WAITS = "as it comes", "tuned", "waits"
TWO_QUERIES, CHECKPOINTS, NEW_GROUP, DISK = (
    "two queries, tuned", "checkpoints, tuned", "streams group, tuned", "RocksDB, tuned",
)  # fmt: skip
LIVE_AS_IT_COMES, LIVE_TUNED = "real-time", "real-time, tuned"
WORKER, RACK = "worker", "rack"
WORDS, TOP = "word count", "top 100"
RACKS, HEAP_MB = 2, 640
"""Racks, and the memory of a worker."""
RATES_PER_S = (200.0, 100.0, 50.0)
"""The rungs of the one ladder (`experiments.live.layout`): records per second, with one worker a
rack and two partitions. Spark's real-time mode sends every change of a result, some 20 a record."""
RATE_PER_S = RATES_PER_S[0]
RESTART_AFTER_S = 2.0
LATEST_S = RESTART_AFTER_S / 4
"""Largest lateness of a kill. An outage counts from its first late result, so a late one only
shortens the absence of what died."""
TWIN_S = 20.0
"""Load of a twin after `System.first_s`: two of the spans in which a quarter of the cores is idle
(`harness.judging.headroom`), or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system with one choice of settings."""

    scheme: str
    stock: bool = False
    """True if Spark runs the query itself."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `harness.engines.structured.parameters.StockParameters`, for `STOCK` alone."""
    parameters: Any = None
    """The engine's own parameters, for the others."""
    slots: int = 1
    """Of a worker, for Spark alone. Real-time mode needs one for each of its tasks at once, and as
    many spare ones as a worker has."""
    gap_s: float
    """Load after the kill: the outage that is expected, or what a worker takes until its executor
    is back (12 to 15 s on two cores), and more than the calm that ends an outage."""
    first_s: float = 14.0
    """The instant of the kill. What comes in the first half until then counts for nothing."""
    exactly_once: bool = False
    """True if its documentation promises that; else it promises at least once."""
    interval_s: float = 0.5
    """Trigger of the stock engine, batches of the task engine; the others have none."""
    warmup_s: float = 0.0
    """A pass without kills that comes first, for both compilers of Java; 0 for those that begin
    anew with each pass, and compile in the first seconds of it, as their twin does."""

    @property
    def real_time(self) -> bool:
        """True for Spark's real-time mode."""
        return self.more.get("mode") == Mode.REAL_TIME

    @property
    def spec(self) -> ClusterSpec:
        """The layout, alike for all but the slots: one worker a rack."""
        return ClusterSpec(
            racks=RACKS, workers_per_rack=1, cores_per_worker=self.slots,
            memory_mb_per_worker=HEAP_MB,
        )  # fmt: skip


_LIVE_SLOTS = 3
"""Two tasks that read, one with state; and the other rack's slots, without which it starts."""
_STATE_STORE = "spark.sql.streaming.stateStore"
_ON_DISK = {
    **FOR_RECOVERY,
    f"{_STATE_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
_SPARK = System(scheme="checkpoint", stock=True, gap_s=30.0, interval_s=1.0, warmup_s=30.0)
_LIVE = replace(
    _SPARK, more={"mode": Mode.REAL_TIME.value}, interval_s=0.5, slots=_LIVE_SLOTS
)  # fmt: skip
_TASKS = System(scheme="checkpoint", gap_s=20.0, exactly_once=True, interval_s=0.1, warmup_s=8.0)
# At its defaults it gives results at its commits, every 30 s.
_STREAMS = System(
    scheme="changelog", parameters=KafkaStreamsParameters(), gap_s=90.0, first_s=75.0
)  # fmt: skip
_STREAMS_TUNED = System(
    scheme="standby", parameters=STREAMS_TUNED, gap_s=26.0, first_s=18.0, exactly_once=True
)
_FLINK = System(scheme="checkpoint", parameters=FlinkParameters(), gap_s=50.0, first_s=24.0)
_FLINK_TUNED = System(
    scheme="standby", parameters=FLINK_TUNED, gap_s=20.0, first_s=20.0, exactly_once=True
)
SYSTEMS: Mapping[tuple[str, str], System] = {
    (STOCK, AS_IT_COMES): _SPARK,
    (STOCK, TUNED): replace(_SPARK, more={"conf": _ON_DISK}),
    (STOCK, TWO_QUERIES): replace(_SPARK, scheme="active", more={"conf": _ON_DISK}),
    (STOCK, LIVE_AS_IT_COMES): _LIVE,
    (STOCK, LIVE_TUNED): replace(
        _LIVE, more={**_LIVE.more, "conf": FOR_RECOVERY, "spare_slots": _LIVE_SLOTS}
    ),
    (TASKS, AS_IT_COMES): _TASKS,
    (TASKS, CHECKPOINTS): replace(_TASKS, parameters=TaskParameters(checkpoint_s=1.0)),
    (TASKS, TUNED): replace(_TASKS, scheme="active"),
    (STREAMS, AS_IT_COMES): _STREAMS,
    (STREAMS, WAITS): replace(_STREAMS, parameters=KafkaStreamsParameters(idle_s=120.0)),
    (STREAMS, TUNED): _STREAMS_TUNED,
    # Its session timeout is the broker's, 45 s.
    (STREAMS, NEW_GROUP): replace(
        _STREAMS_TUNED, gap_s=70.0,
        parameters=replace(
            STREAMS_TUNED, protocol=GROUP, session_timeout_s=None, rack_aware=False
        ),
    ),
    (FLINK, AS_IT_COMES): _FLINK,
    (FLINK, TUNED): _FLINK_TUNED,
    (FLINK, DISK): replace(
        _FLINK_TUNED,
        parameters=replace(
            FLINK_TUNED, unaligned=True,
            settings={
                "state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true",
            },
        ),
    ),
    (OWN, AS_IT_COMES): System(scheme="", gap_s=30.0),
}  # fmt: skip
"""By engine and settings. Of an engine of your own nothing is known."""
EXACTLY_ONCE = {name for name, system in SYSTEMS.items() if system.exactly_once}
LABELS: Mapping[tuple[str, str], str] = {
    (STOCK, AS_IT_COMES): "Spark, micro-batches, as it comes",
    (STOCK, TUNED): "Spark, micro-batches, tuned",
    (STOCK, TWO_QUERIES): "Spark, two queries, tuned",
    (STOCK, LIVE_AS_IT_COMES): "Spark, real-time, as it comes",
    (STOCK, LIVE_TUNED): "Spark, real-time, tuned",
    (TASKS, AS_IT_COMES): "task engine, checkpoints",
    (TASKS, CHECKPOINTS): "task engine, checkpoints every second",
    (TASKS, TUNED): "task engine, replicas",
    (STREAMS, AS_IT_COMES): "Kafka Streams, as it comes",
    (STREAMS, WAITS): "Kafka Streams, waiting for input",
    (STREAMS, TUNED): "Kafka Streams, tuned",
    (STREAMS, NEW_GROUP): "Kafka Streams, streams group, tuned",
    (FLINK, AS_IT_COMES): "Flink, as it comes",
    (FLINK, TUNED): "Flink, tuned, heap",
    (FLINK, DISK): "Flink, tuned, RocksDB",
    (OWN, AS_IT_COMES): "an engine of one's own",
}
"""Names in the figure."""


def schedule_of(
    system: System, nodes: Sequence[Node], *, kind: str, repeat: int, seed: int
) -> tuple[Schedule, float]:
    """Return the one kill of a pass, and the length of its load.

    A pass is a sample: kills of one pass share everything else. Nodes die in turn over the passes,
    each in a phase of its own within a second, in an order that the seed decides: a system that
    does not use all of them loses nothing with some. Of the kind `BUSIEST` it is the node that does
    most of the work."""
    from harness.failures.generators import one_target
    from harness.seeds import generator

    at_s = system.first_s + float(generator(seed, "peers", repeat).random())
    order = generator(seed, "peers").permutation(sorted(node.name for node in nodes))
    target = BUSIEST if kind == BUSIEST else str(order[repeat % len(order)])
    schedule = one_target(target, at_s=at_s, restart_after_s=RESTART_AFTER_S)
    return schedule, system.first_s + 1.0 + system.gap_s


def outages(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the failures as seen from outside, for the report's first table.

    Failures of a schedule that are not the kill of a worker are schemes of their own."""
    kills = tables["outages"]
    kills = kills[kills["outage_s"].notna()]
    scheme = kills["tuning"].mask(kills["tuning"] == LIVE_TUNED, TUNED)
    live = kills["tuning"].isin([LIVE_AS_IT_COMES, LIVE_TUNED])
    return pd.DataFrame(
        {
            "engine": kills["engine"].mask(live, Mode.REAL_TIME.value),
            "scheme": scheme.where(kills["kill"] == WORKER, scheme + ", " + kills["kill"]),
            "pass": kills["run"],
            "outage_s": kills["outage_s"],
            "not_over": ~kills["caught_up"].astype(bool),
            "kill": kills["kill"],
        }
    )
