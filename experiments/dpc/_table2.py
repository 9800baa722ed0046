"""Table 2 of the paper: time and memory of checkpoint/redo and undo/redo."""

from __future__ import annotations

from experiments.dpc import _shared

FAILURE_S = 5.0
SNAPSHOT_EVERY = 2
"""Buckets: a checkpoint every 200 ms, as in the paper."""


def analytic(method: str, state: float, tuples: float, rate_per_s: float) -> float:
    """Return Table 2's delay in seconds, without P.

    The checkpoint is of the state before the failure (l = 0). A marker is set before every second
    bucket, so half a bucket is processed again on average. With two boxes every tuple is processed
    twice, and each box has half of the state."""
    process, copy, compare = (
        us / 1e6 for us in (_shared.PROCESS_US, _shared.COPY_US, _shared.COMPARE_US)
    )
    kind, _, variant = method.partition(", ")
    boxes = 2 if variant == "2 boxes" else 1
    if kind == "checkpoint":
        return state * copy + boxes * tuples * process
    half = 0.5 * (SNAPSHOT_EVERY - 1) * _shared.BUCKET_US / 1e6
    again = boxes * (tuples + half * rate_per_s)
    rebuilt = boxes * state * (compare + process)  # boxes are rebuilt from the input of the first
    read_back = compare if variant != "limited history" else 0.0
    return rebuilt + again * process + boxes * tuples * read_back


def memory(method: str, state: float, rate_per_s: float) -> float:
    """Return Table 2's last column for one box, in tuples: the state and the input.

    The input is that since the failure began or, for undo/redo, since the marker before that: half
    of l in the mean, where the table has the whole l as a bound."""
    marked = 0.5 * rate_per_s * (SNAPSHOT_EVERY - 1) * _shared.BUCKET_US / 1e6
    return state + rate_per_s * FAILURE_S + (marked if method == "undo" else 0.0)
