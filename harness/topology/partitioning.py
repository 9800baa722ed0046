"""The four ways an edge joins the tasks of two operators (ppa TKDE, section 2.1).

Merge and split join contiguous blocks of task indexes. Where the degrees do not divide, the
blocks differ by one task; every block has at least two, as the paper's definition requires.

Tests: ``tests/topology/test_model.py``."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Routes = tuple[NDArray[np.int64], NDArray[np.int64]]
"""One array for each end of the substreams of an edge, upstream first."""


class Partitioning(StrEnum):
    """The rule that gives each upstream task its downstream tasks."""

    ONE_TO_ONE = "one-to-one"
    """Task i sends to task i alone."""
    SPLIT = "split"
    """Each upstream task sends to its own block of downstream tasks."""
    MERGE = "merge"
    """Each downstream task receives from its own block of upstream tasks."""
    FULL = "full"
    """Every upstream task sends to every downstream task."""


def why_unfit(partitioning: Partitioning, upstream: int, downstream: int) -> tuple[str, str] | None:
    """Return the error and its remedy if ``upstream`` tasks cannot send to ``downstream`` tasks.

    None means that the partitioning fits."""
    if partitioning is Partitioning.ONE_TO_ONE and upstream != downstream:
        fits = "give both operators the same parallelism, or use split, merge or full"
    elif partitioning is Partitioning.SPLIT and downstream < 2 * upstream:
        fits = (
            "give the downstream operator at least two tasks for each upstream task, "
            "or use one-to-one, merge or full"
        )
    elif partitioning is Partitioning.MERGE and upstream < 2 * downstream:
        fits = (
            "give the upstream operator at least two tasks for each downstream task, "
            "or use one-to-one, split or full"
        )
    else:
        return None
    return (
        f"{partitioning} does not fit {upstream} upstream and {downstream} downstream tasks",
        fits,
    )


def routes(partitioning: Partitioning, upstream: int, downstream: int) -> Routes:
    """Return the upstream and the downstream task index of every substream of an edge.

    Ordered by upstream, then by downstream task. Assumes that `why_unfit` found nothing."""
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
