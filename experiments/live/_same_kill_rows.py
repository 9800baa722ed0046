"""The rows of `experiments.live.same_kill`: engines, their settings, and the kills of a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.live._six_nodes import SPEC
from harness.engines.structured.parameters import Mode
from harness.failures.generators import in_turn, one_target
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
VICTIMS = ("r2", "r1")
RESTART_AFTER_S = 2.0
LOCALITY = "spark.locality.wait"
REAL_TIME = "stock real-time"
BEFORE_S = 3.0
"""Time before a kill whose windows are shown with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to run the query."""

    engine: str
    gap_s: float
    """Time from a kill to the next one, a multiple of `CHECKPOINT_S`: the killed worker is back,
    and on two cores output has been calm."""
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


_CONF = {"spark.sql.shuffle.partitions": "2"}
_TUNED = {**_CONF, LOCALITY: "0s"}
ROWS: Mapping[str, Row] = {
    "stock": Row(engine=STRUCTURED, conf=_CONF, gap_s=16),
    # As its best users run it: docs/stock-settings.md.
    "stock tuned": Row(engine=STRUCTURED, conf=_TUNED, gap_s=10),
    REAL_TIME: Row(
        engine=STRUCTURED,
        conf=_TUNED,
        more={"mode": Mode.REAL_TIME.value, "spare_slots": SPEC.cores_per_worker},
        gap_s=10,
    ),
    "checkpoint": Row(engine=TASKS, gap_s=10),
    "active": Row(engine=TASKS, scheme="active", gap_s=10),
}
"""The rows of the figure by name; another way to run it is another entry, with its look.

A query in real-time mode leaves the slots of a worker free, so that it can start without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The kills of a profile, and their times."""

    kills: int
    warmup_s: float
    """Load before the measured pass."""
    first_s: float
    """Earliest instant of the first kill."""
    longer: int = 1
    """Factor of `Row.gap_s`."""

    def load_s(self, row: Row) -> float:
        """Return the length of the load."""
        return self.first_s + CHECKPOINT_S + self.kills * self.longer * row.gap_s

    def schedule(self, row: Row, parts: Sequence[float]) -> Schedule:
        """Return the kills of a pass, the number i in the i-th equal part of a checkpoint interval.

        ``parts``, each from 0 to 1, are their places there."""
        return in_turn(
            *(
                one_target(
                    VICTIMS[number % len(VICTIMS)],
                    at_s=self.first_s
                    + number * self.longer * row.gap_s
                    + (number + part) / self.kills * CHECKPOINT_S,
                    restart_after_s=RESTART_AFTER_S,
                )
                for number, part in enumerate(parts)
            )
        )


TIMES = {
    Profile.SMOKE: Times(kills=1, warmup_s=2, first_s=4),
    Profile.QUICK: Times(kills=5, warmup_s=8, first_s=5),
    Profile.PAPER: Times(kills=8, warmup_s=30, first_s=20, longer=2),
}
