"""The success of a tuple, as the edge paper counts it (section V-B and Fig. 7).

There Storm tracks every tuple: "the timeout parameter for tracking the completion of the tuple is
set to be 5s", and "the tuples which are not processed in the additional thirty seconds are
considered as failed tuples". Seen from the out topic, a tuple is complete when the first of the
results it contributes to arrives there for the first time. A tuple that the query filters out
leaves nothing to see and is not counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.measure.values import identities

TUPLE_TIMEOUT_S = 5.0
"""Longest time from a tuple's intended send time to the arrival of its first result. Edge paper,
section V-B."""

DRAIN_S = 30.0
"""Time after the end of the load in which results count (edge paper, section V-B)."""


def first_arrivals_s(
    contributions: pd.DataFrame, first: pd.DataFrame, identity: Sequence[str]
) -> pd.DataFrame:
    """Return a row per tuple: ``sent_s``, and ``arrival_s`` of its first result, else infinity.

    ``contributions`` has a row per tuple and result it goes into: ``tuple`` (its number),
    ``sent_s`` and the ``identity`` columns. ``first`` has ``arrival_s`` of each result's first
    version."""
    part_of, result_of = identities([contributions, first], identity)
    arrival_s = pd.Series(first["arrival_s"].to_numpy(), index=result_of).reindex(part_of)
    arrived = contributions.assign(arrival_s=arrival_s.fillna(np.inf).to_numpy())
    return arrived.groupby("tuple")[["sent_s", "arrival_s"]].min()


def success_rate(
    sent_s: NDArray[np.float64],
    arrival_s: NDArray[np.float64],
    *,
    until_s: float,
    timeout_s: float = TUPLE_TIMEOUT_S,
    drain_s: float = DRAIN_S,
) -> float | None:
    """Return the share of tuples, 0 to 1, whose first result arrived in time; None without a tuple.

    In time: within ``timeout_s`` of the tuple's intended send time, and before ``drain_s`` after
    ``until_s``, the end of the load. Both arrays have an item per tuple; times are seconds from the
    load's start, infinite for a result that never arrived."""
    if not len(sent_s):
        return None
    in_time = np.asarray(arrival_s) - np.asarray(sent_s) <= timeout_s
    return float(np.mean(in_time & (np.asarray(arrival_s) < until_s + drain_s)))
