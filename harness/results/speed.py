"""The processor's speed in the runs of a comparison: a slower core makes every system slower."""

from __future__ import annotations

from collections.abc import Sequence

from harness.results.record import OK, Record

SPEED_SHARE = 0.10
"""Largest difference of the processor's speed between the runs of one comparison, as a share of the
time that the fastest took for a fixed computation. Fixed on 2026-11-27."""
_TIME = "loop_cpu_ms"
"""`harness.judging.foreign.ForeignLoad.loop_cpu_ms`."""


def slower(records: Sequence[Record]) -> Sequence[Record]:
    """Return the valid records whose processor was slower than the fastest by more than that."""
    known = [one for one in records if one.status == OK and one.values.get(_TIME) is not None]
    limit = (1 + SPEED_SHARE) * min((float(one.values[_TIME]) for one in known), default=0.0)
    return [one for one in known if float(one.values[_TIME]) > limit]


def unlike(records: Sequence[Record]) -> str | None:
    """Return why these records cannot be compared; None if their processor was alike."""
    slow = slower(records)
    if not slow:
        return None
    times = [float(one.values[_TIME]) for one in records if one.values.get(_TIME) is not None]
    return (
        f"the processor was up to {max(times) / min(times) - 1:.0%} slower in {len(slow)} of "
        f"{len(records)} runs than in the others, and {SPEED_SHARE:.0%} is the limit: measure "
        "again, with --again"
    )
