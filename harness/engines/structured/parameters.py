"""The parameters of the stock engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.errors import UsageError
from harness.text import did_you_mean

SPARK_SETTING = "spark."
"""The beginning of the names of Spark's own settings."""


class Mode(StrEnum):
    """The way in which Spark runs a streaming query."""

    MICRO_BATCH = "micro-batch"
    """Batch after batch; each result once, when its window has closed (append mode)."""
    REAL_TIME = "real-time"
    """Record by record, since Spark 4.1; each result again with every change (update mode)."""


LEAST_CHECKPOINT_S = 5.0
"""The shortest checkpoint interval that Spark's real-time mode permits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StockParameters:
    """Settings of Spark, the mode of its queries, and the input of the second one.

    Plain values only."""

    conf: Mapping[str, str] = field(default_factory=dict)
    """Any settings of Spark; Spark judges them."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's Kafka source, such as ``minPartitions``."""
    partitions: Mapping[str, Sequence[int]] | None = None
    """Source to the partitions that the second query of ``ppa`` reads; None under other schemes."""

    mode: str = Mode.MICRO_BATCH.value
    checkpoint_s: float | None = None
    """Time between two checkpoints in real-time mode, by default the shortest that Spark permits;
    None in micro-batches, where it is the trigger interval."""
    spare_slots: int = 0
    """Slots of each application that a query in real-time mode leaves free. Its tasks need all of
    theirs at once: with as many spare ones as a worker has, it starts again without that worker."""

    @property
    def real_time(self) -> bool:
        """True if the query runs in real-time mode."""
        return self.mode == Mode.REAL_TIME

    def __post_init__(self) -> None:
        self._check_mode()
        for name in self.conf:
            if not name.startswith(SPARK_SETTING):
                raise UsageError(
                    f"{name!r} is not a setting of Spark",
                    remedy="give names that begin with spark.",
                )
        for source, numbers in (self.partitions or {}).items():
            if not all(type(number) is int and number >= 0 for number in numbers):
                raise UsageError(
                    f"the partitions of source {source!r} are {numbers!r}",
                    remedy="give a sequence of whole numbers: (0, 2)",
                )

    def _check_mode(self) -> None:
        if self.mode not in set(Mode):
            raise UsageError(
                f"Spark has no mode {self.mode!r}", remedy=did_you_mean(self.mode, [*Mode])
            )
        if not self.real_time and (self.checkpoint_s is not None or self.spare_slots):
            raise UsageError(
                f"checkpoint_s {self.checkpoint_s} and spare_slots {self.spare_slots} belong to "
                "real-time mode",
                remedy=f"give mode={Mode.REAL_TIME.value!r} with them",
            )
        if self.checkpoint_s is not None and self.checkpoint_s < LEAST_CHECKPOINT_S:
            raise UsageError(
                f"a checkpoint every {self.checkpoint_s:g} s in real-time mode",
                remedy=f"Spark permits {LEAST_CHECKPOINT_S:g} s and more",
            )
        if type(self.spare_slots) is not int or self.spare_slots < 0:
            raise UsageError(
                f"spare_slots is {self.spare_slots!r}", remedy="give a whole number, 0 or more"
            )
