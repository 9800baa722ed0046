"""Durations as Spark's SQL and the operators write them.

Tests: ``tests/workloads/test_agreement.py``."""

from __future__ import annotations


def interval(seconds: float) -> str:
    """Return a window's length or slide, or a watermark's delay, for Spark."""
    return f"{round(seconds * 1000)} milliseconds"


def microseconds(seconds: float) -> int:
    """Return the microseconds, the unit of Spark's and Arrow's timestamps."""
    return round(seconds * 1_000_000)
