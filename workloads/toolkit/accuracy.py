"""The accuracy of results, as the papers count it.

Both PPA papers score a query by the set of its answers: Q1 by |S_T ∩ S_A| / |S_A| (the objects of
the top 100), Q2 by |I_T ∩ I_A| / |I_A| (the incidents), with S_A and I_A from the run without
failures. So a workload names the members of a result (`Workload.members`), and accuracy is the
share of the accurate run's members that were delivered, over all windows. Accident detection counts
cars seen standing at a location; word count, whole results.

Scored are the first delivered version of each result (a later correction does not repair an action
that a user already took) and the last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from workloads.base import Workload


def members_by_window(
    workload: Workload, accurate: pd.DataFrame, versions: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return a row per window of the ``accurate`` results with its members.

    Columns: ``window_start_s``, ``members``, and for each of ``versions`` (name to results) the
    number of members in it. All frames have ``window_start_s`` and the workload's other columns, a
    row per result; one with a null value has none. Raises `ValueError` for a workload that names
    no members."""
    if workload.members is None:
        raise ValueError(f"workload {workload.name} names no members")
    found: list[dict[Any, set[Hashable]]] = []
    for frame in (accurate, *versions.values()):
        members: dict[Any, set[Hashable]] = defaultdict(set)
        for row in frame[frame[workload.values[0]].notna()].to_dict("records"):
            members[row["window_start_s"]].update(workload.members(row))
        found.append(members)
    expected, *held = found
    rows = [
        (window, len(members), *(len(members & each.get(window, set())) for each in held))
        for window, members in sorted(expected.items())
    ]
    return pd.DataFrame(rows, columns=["window_start_s", "members", *versions])


def local_accuracy(workload: Workload, delivered: pa.Table, accurate: pa.Table) -> float | None:
    """Return the share of the members of ``accurate`` that ``delivered`` has, window by window.

    Both are tables of results in this process with the workload's columns, a row per result; None
    if there are none. Raises `ValueError` for a workload that names no members."""
    right, found = (
        table.to_pandas().rename(columns={workload.window_start: "window_start_s"})
        for table in (accurate, delivered)
    )
    windows = members_by_window(workload, right, {"found": found})
    total = int(windows["members"].sum())
    return float(windows["found"].sum() / total) if total else None
