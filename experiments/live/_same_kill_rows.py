"""The rows of `experiments.live.same_kill`: engines, their settings, and the passes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from experiments.live._outage import FOR_RECOVERY
from experiments.live._six_nodes import SPEC
from harness.engines.structured.parameters import Mode
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.results.record import Profile

TASKS, STRUCTURED = "tasks", "structured"
RATE_PER_S = 200.0
"""A rate that each row holds: real-time mode sends every change of a result, 20 for each line."""
INTERVAL_S = 0.1
"""Batch interval, and trigger of the stock engine, which is as fast as it can."""
CHECKPOINT_S = 2.0
SLIDE_S, WINDOW_S = 0.5, 2.0
CALM_S = 2.0
"""Time on time that ends a recovery: four windows."""
VICTIM = "r2"
RESTART_AFTER_S = 1.0
REAL_TIME = "stock real-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to run the query."""

    engine: str
    before_s: float
    """Load before the earliest kill. The process that was started again after the kill of the pass
    before is cold: its first task takes 4 to 7 s on two cores, and only the windows of the second
    half tell how late results usually are."""
    after_s: float
    """Load after the latest one, in which output comes back and is calm."""
    scheme: str = "checkpoint"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the stock engine."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the stock engine (`StockParameters`)."""

    @property
    def stock(self) -> bool:
        """True if Spark runs the query itself."""
        return self.engine == STRUCTURED

    @property
    def real_time(self) -> bool:
        """True if the stock engine runs in real-time mode."""
        return self.more.get("mode") == Mode.REAL_TIME


ROWS: Mapping[str, Row] = {
    "stock": Row(
        engine=STRUCTURED, conf={"spark.sql.shuffle.partitions": "2"}, before_s=14, after_s=16
    ),
    "stock tuned": Row(engine=STRUCTURED, conf=FOR_RECOVERY, before_s=12, after_s=6),
    REAL_TIME: Row(
        engine=STRUCTURED,
        conf=FOR_RECOVERY,
        more={"mode": Mode.REAL_TIME.value, "spare_slots": SPEC.cores_per_worker},
        before_s=8,
        after_s=6,
    ),
    "checkpoint": Row(engine=TASKS, before_s=3, after_s=3),
    "active": Row(engine=TASKS, scheme="active", before_s=3, after_s=3),
}
"""The rows of the figure by name; another way to run it is another entry, with its look.

A query in real-time mode leaves the slots of a worker free, so that it can start without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The passes of a profile, one for each kill, and their seconds."""

    passes: int
    warmup_s: float
    """Load before the first pass."""
    longer: int = 1
    """Factor of a row's seconds."""

    def load_s(self, row: Row) -> float:
        """Return the length of a pass's load."""
        return CHECKPOINT_S + self.longer * (row.before_s + row.after_s)

    def settled_s(self, row: Row) -> float:
        """Return the begin of the time in which windows come out as they usually do."""
        return self.longer * row.before_s / 2

    def schedule(self, row: Row, number: int, part: float) -> Schedule:
        """Return the kill of a pass, in the part of that number of a checkpoint interval.

        The interval has as many equal parts as there are passes; ``part``, from 0 to 1, is the
        place in its own."""
        at_s = self.longer * row.before_s + (number + part) / self.passes * CHECKPOINT_S
        return one_target(VICTIM, at_s=at_s, restart_after_s=RESTART_AFTER_S)


TIMES = {
    Profile.SMOKE: Times(passes=1, warmup_s=2),
    Profile.QUICK: Times(passes=6, warmup_s=5),
    Profile.PAPER: Times(passes=6, warmup_s=30, longer=3),
}


def outages(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the kills as seen from outside, for the report's first table."""
    kills = tables["kills"]
    rows = kills["row"].map(ROWS.__getitem__)
    stock = {"stock": "as it comes", "stock tuned": "tuned", REAL_TIME: "tuned"}
    return pd.DataFrame(
        {
            "engine": [Mode.REAL_TIME.value if row.real_time else row.engine for row in rows],
            "scheme": [stock.get(name, ROWS[name].scheme) for name in kills["row"]],
            "outage_s": kills["outside_s"],
            "not_over": kills["outside_at_least_s"].notna(),
        }
    )
