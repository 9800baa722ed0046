"""The rows of `experiments.live.peers`: systems, their settings, and the kills of a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live._outage import FOR_RECOVERY, locality_wait_s
from harness.cluster.base import ClusterSpec
from harness.engines.base import BUSIEST
from harness.engines.flink.parameters import TUNED as FLINK_TUNED
from harness.engines.flink.parameters import FlinkParameters
from harness.engines.kafka_streams.parameters import TUNED as STREAMS_TUNED
from harness.engines.kafka_streams.parameters import KafkaStreamsParameters
from harness.engines.structured.parameters import Mode
from harness.results.record import Profile

if TYPE_CHECKING:
    from harness.cluster.base import Node
    from harness.failures.schedule import Schedule

STOCK, TASKS, STREAMS, FLINK, OWN = "structured", "tasks", "kafka-streams", "flink", "own"
AS_IT_COMES, TUNED, WAITS = "as it comes", "tuned", "waits"
LIVE_AS_IT_COMES, LIVE_TUNED = "real-time", "real-time, tuned"
WORKER, RACK = "worker", "rack"
WORDS, TOP = "word count", "top 100"
SPEC = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=3, memory_mb_per_worker=640)
"""Slots are Spark's alone: with three a worker its real-time mode has a task of each query on every
one, so that each kill ends one, while the slots of a rack stay free."""
RATE_PER_S = 200.0
"""A rate that each system holds: Spark's real-time mode sends every change of a result, some 20 for
each line."""
KILLS = {Profile.SMOKE: 1, Profile.QUICK: 5, Profile.PAPER: 5}
"""Of each kind."""
KINDS = {Profile.SMOKE: (WORKER,), Profile.QUICK: (WORKER,), Profile.PAPER: (WORKER, RACK)}
RESTART_AFTER_S = 2.0
LATEST_S = RESTART_AFTER_S / 4
"""Largest lateness of a kill. An outage counts from the signal itself, so a late one only shortens
the absence of what died."""
RARE_S = 3.0
"""Ten kills in one pass stand for ten that are far apart: Flink waits longer before each restart,
until it has worked for an hour without one; here for this long."""


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
    gap_s: float
    """From one kill to the next: the outage that is expected, or what a worker takes until its
    executor is back (12 to 15 s on two cores), and some seconds of calm."""
    first_s: float = 14.0
    """The first kill. Windows of the second half until then say what is on time."""
    exactly_once: bool = False
    """True if its documentation promises that; else it promises at least once."""
    interval_s: float = 0.5
    """Trigger of the stock engine, batches of the task engine; the others have none."""
    warmup_s: float = 0.0
    """A pass without kills that comes first; 0 for those that begin anew with each pass."""

    @property
    def real_time(self) -> bool:
        """True for Spark's real-time mode."""
        return self.more.get("mode") == Mode.REAL_TIME

    @property
    def wait_s(self) -> float:
        """`spark.locality.wait` of the stock engine."""
        return locality_wait_s(self.more.get("conf", {}))


_LIVE = {"mode": Mode.REAL_TIME.value}
SYSTEMS: Mapping[tuple[str, str], System] = {
    (STOCK, AS_IT_COMES): System(
        scheme="checkpoint", stock=True, gap_s=30.0, interval_s=1.0, warmup_s=8.0
    ),
    (STOCK, TUNED): System(
        scheme="checkpoint", stock=True, more={"conf": FOR_RECOVERY}, gap_s=26.0, interval_s=1.0,
        warmup_s=8.0,
    ),
    (STOCK, LIVE_AS_IT_COMES): System(
        scheme="checkpoint", stock=True, more=_LIVE, gap_s=30.0, warmup_s=30.0
    ),
    (STOCK, LIVE_TUNED): System(
        # The slots of a rack stay free, so that it starts again without one.
        scheme="checkpoint",
        stock=True,
        more={**_LIVE, "conf": FOR_RECOVERY, "spare_slots": SPEC.task_slots // SPEC.racks},
        gap_s=26.0,
        warmup_s=30.0,
    ),
    (TASKS, AS_IT_COMES): System(
        scheme="checkpoint", gap_s=20.0, exactly_once=True, interval_s=0.1, warmup_s=8.0
    ),
    (TASKS, TUNED): System(
        scheme="active", gap_s=20.0, exactly_once=True, interval_s=0.1, warmup_s=8.0
    ),
    # At its defaults it gives results at its commits, every 30 s.
    (STREAMS, AS_IT_COMES): System(
        scheme="changelog", parameters=KafkaStreamsParameters(), gap_s=90.0, first_s=75.0
    ),
    (STREAMS, WAITS): System(
        scheme="changelog", parameters=KafkaStreamsParameters(idle_s=120.0), gap_s=90.0,
        first_s=75.0,
    ),
    (STREAMS, TUNED): System(
        scheme="standby", parameters=STREAMS_TUNED, gap_s=23.0, first_s=18.0, exactly_once=True
    ),
    (FLINK, AS_IT_COMES): System(
        scheme="checkpoint", parameters=FlinkParameters(restart_delay_again_s=RARE_S),
        gap_s=50.0, first_s=24.0,
    ),
    (FLINK, TUNED): System(
        scheme="standby", parameters=replace(FLINK_TUNED, restart_delay_again_s=RARE_S),
        gap_s=18.0, first_s=20.0, exactly_once=True,
    ),
    (OWN, AS_IT_COMES): System(scheme="", gap_s=30.0),
}  # fmt: skip
"""By engine and settings. Of an engine of your own nothing is known."""
EXACTLY_ONCE = {name for name, system in SYSTEMS.items() if system.exactly_once}
LABELS: Mapping[tuple[str, str], str] = {
    (STOCK, AS_IT_COMES): "Spark, micro-batches, as it comes",
    (STOCK, TUNED): "Spark, micro-batches, tuned",
    (STOCK, LIVE_AS_IT_COMES): "Spark, real-time, as it comes",
    (STOCK, LIVE_TUNED): "Spark, real-time, tuned",
    (TASKS, AS_IT_COMES): "task engine, checkpoints",
    (TASKS, TUNED): "task engine, replicas",
    (STREAMS, AS_IT_COMES): "Kafka Streams, as it comes",
    (STREAMS, WAITS): "Kafka Streams, waiting for input",
    (STREAMS, TUNED): "Kafka Streams, tuned",
    (FLINK, AS_IT_COMES): "Flink, as it comes",
    (FLINK, TUNED): "Flink, tuned",
    (OWN, AS_IT_COMES): "an engine of one's own",
}
"""Names in the figure."""


def schedule_of(
    system: System, nodes: Sequence[Node], *, kinds: Sequence[str], number: int, seed: int
) -> tuple[Schedule, float]:
    """Return ``number`` kills of each kind, one after the other, and the length of the load.

    Each is in a phase of its own within a second. Workers die in turn, and racks, in an order that
    the seed decides: a system that does not use all of them loses nothing with some. Of the kind
    `BUSIEST` is the node that does most of the work."""
    from harness.cluster.base import Action
    from harness.failures.schedule import FailureEvent, Schedule
    from harness.seeds import generator

    draws = generator(seed, "peers")
    events = []
    targets = {
        WORKER: sorted(node.name for node in nodes),
        RACK: sorted({node.rack for node in nodes}),
        BUSIEST: [BUSIEST],
    }
    orders = {kind: draws.permutation(targets[kind]) for kind in kinds}
    for each, (kind, turn) in enumerate(product(kinds, range(number))):
        at_s = system.first_s + each * system.gap_s + float(draws.random())
        target = str(orders[kind][turn % len(orders[kind])])
        events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=target))
        events.append(
            FailureEvent(at_s=at_s + RESTART_AFTER_S, action=Action.RESTART, target=target)
        )
    seconds = system.first_s + len(kinds) * number * system.gap_s
    return Schedule(events=events, origin="one after the other", seed=seed), seconds


def outages(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the kills of workers as seen from outside, for the report's first table."""
    kills = tables["outages"]
    kills = kills[(kills["kill"] == WORKER) & kills["outage_s"].notna()]
    live = kills["tuning"].isin([LIVE_AS_IT_COMES, LIVE_TUNED])
    return pd.DataFrame(
        {
            "engine": kills["engine"].mask(live, Mode.REAL_TIME.value),
            "scheme": kills["tuning"].mask(kills["tuning"] == LIVE_TUNED, TUNED),
            "pass": kills["run"],
            "outage_s": kills["outage_s"],
            "not_over": ~kills["caught_up"].astype(bool),
        }
    )
