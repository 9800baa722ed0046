"""Durations as Spark's SQL and the operators write them.

Tests: ``tests/workloads/test_agreement.py``."""

from __future__ import annotations


def interval(seconds: float) -> str:
    """Return a window's length or slide, or a watermark's delay, for Spark."""
    return f"{round(seconds * 1000)} milliseconds"


def microseconds(seconds: float) -> int:
    """Return the microseconds, the unit of Spark's and Arrow's timestamps."""
    return round(seconds * 1_000_000)


def sql_seconds(seconds: float) -> str:
    """Return a duration as an interval of standard SQL, as Flink takes it, to the ms."""
    days, left_ms = divmod(round(seconds * 1000), 86_400_000)
    minutes, ms = divmod(left_ms, 60_000)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{ms / 1000:06.3f}"
    return f"INTERVAL '{days} {clock}' DAY TO SECOND(3)"
