"""The parameters of the stock engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError

SPARK_SETTING = "spark."
"""The beginning of the names of Spark's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StockParameters:
    """Settings of Spark, and the input of the second query. Plain values only."""

    conf: Mapping[str, str] = field(default_factory=dict)
    """Any settings of Spark; Spark judges them."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's Kafka source, such as ``minPartitions``."""
    partitions: Mapping[str, Sequence[int]] | None = None
    """Source to the partitions that the second query of ``ppa`` reads; None under other schemes."""

    def __post_init__(self) -> None:
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
