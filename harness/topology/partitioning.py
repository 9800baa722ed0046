"""The four ways an edge joins the tasks of two operators (ppa TKDE, section 2.1).

Merge and split join contiguous blocks of task indexes. Where the degrees do not divide, the
blocks differ by one task; every block has at least two, as the paper's definition asks.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Partitioning(StrEnum):
    """Which upstream tasks send to which downstream tasks."""

    ONE_TO_ONE = "one-to-one"
    """Task i sends to task i alone."""
    SPLIT = "split"
    """Each upstream task sends to its own block of downstream tasks."""
    MERGE = "merge"
    """Each downstream task receives from its own block of upstream tasks."""
    FULL = "full"
    """Every upstream task sends to every downstream task."""


def why_unfit(partitioning: Partitioning, upstream: int, downstream: int) -> tuple[str, str] | None:
    """What is wrong and the remedy if ``upstream`` tasks cannot send to ``downstream`` tasks
    this way, else None."""
    degrees = f"{upstream} upstream and {downstream} downstream tasks"
    if partitioning is Partitioning.ONE_TO_ONE and upstream != downstream:
        return (
            f"one-to-one does not fit {degrees}",
            "give both operators the same parallelism, or use split, merge or full",
        )
    if partitioning is Partitioning.SPLIT and downstream < 2 * upstream:
        return (
            f"split does not fit {degrees}",
            "give the downstream operator at least two tasks for each upstream task, "
            "or use one-to-one, merge or full",
        )
    if partitioning is Partitioning.MERGE and upstream < 2 * downstream:
        return (
            f"merge does not fit {degrees}",
            "give the upstream operator at least two tasks for each downstream task, "
            "or use one-to-one, split or full",
        )
    return None


def routes(
    partitioning: Partitioning, upstream: int, downstream: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The substreams of an edge: the upstream and the downstream task index of each.

    Ordered by upstream, then by downstream task. Assumes that `why_unfit` found nothing.
    """
    ups, downs = np.arange(upstream, dtype=np.int64), np.arange(downstream, dtype=np.int64)
    match partitioning:
        case Partitioning.ONE_TO_ONE:
            return ups, downs
        case Partitioning.SPLIT:
            return downs * upstream // downstream, downs
        case Partitioning.MERGE:
            return ups, ups * downstream // upstream
        case Partitioning.FULL:
            return np.repeat(ups, downstream), np.tile(downs, upstream)
