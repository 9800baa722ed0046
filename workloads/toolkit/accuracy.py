"""The accuracy of results, as the papers count it, scored by Spark.

Both PPA papers score a query by the set of its answers: Q1 by |S_T ∩ S_A| / |S_A| (the objects of
the top 100), Q2 by |I_T ∩ I_A| / |I_A| (the incidents), with S_A and I_A from the run without
failures. So a workload names the members of a result (`Workload.members`), and accuracy is the
share of the accurate run's members that were delivered, over all windows. Accident detection counts
cars seen standing at a location; word count, whole results.

Scored are the first delivered version of each result (a later correction does not repair an action
that a user already took) and the last one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from workloads.base import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARRIVAL = "arrival"
"""The column of deliveries with the order of their arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Shares of the accurate members, 0 to 1; None if there are none."""

    first: float | None
    last: float | None
    windows: pd.DataFrame
    """By window, in order: its start, ``members`` of the accurate run, and the numbers of them in
    the ``first`` and the ``last`` version."""


def score(workload: Workload, deliveries: DataFrame, accurate: DataFrame) -> Accuracy:
    """Score what was delivered against a run without failures.

    ``deliveries`` has the workload's columns and `ARRIVAL`, a row per delivery; one with a null
    value takes its result back. ``accurate`` has the workload's columns, a row per result.
    Raises `ValueError` for a workload that names no members."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    if workload.members is None:
        raise ValueError(f"workload {workload.name} names no members")
    window, version = workload.window_start, F.col("version")
    members = (
        _versions(workload, deliveries)
        .unionByName(accurate.select(*workload.columns, F.lit(_ACCURATE).alias("version")))
        .where(F.col(workload.values[0]).isNotNull())
        .select(window, "version", F.explode(workload.members()).alias("member"))
        .groupBy(window, "member")
        .agg(*(F.max(version == number).alias(name) for number, name in enumerate(_SETS)))
    )
    return over_windows(
        members.where("accurate")
        .groupBy(window)
        .agg(
            F.count("*").alias("members"),
            F.count_if("first").alias("first"),
            F.count_if("last").alias("last"),
        )
        .orderBy(window)
        .toPandas()
    )


def members_by_window(
    workload: Workload, accurate: pd.DataFrame, versions: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return a row per window of the ``accurate`` results with its members.

    Columns: ``window_start_s``, ``members``, and for each of ``versions`` (name to results) the
    number of members in it. All frames have ``window_start_s`` and the workload's other columns, a
    row per result. Raises `ValueError` for a workload that names no members in Python."""
    expected = _members(workload, accurate.to_dict("records"), "window_start_s")
    held = {
        name: _members(workload, frame.to_dict("records"), "window_start_s")
        for name, frame in versions.items()
    }
    rows = [
        (
            window,
            len(members),
            *(len(members & found.get(window, set())) for found in held.values()),
        )
        for window, members in sorted(expected.items())
    ]
    return pd.DataFrame(rows, columns=["window_start_s", "members", *held])


def local_accuracy(workload: Workload, delivered: pa.Table, accurate: pa.Table) -> float | None:
    """Return the share of the members of ``accurate`` that ``delivered`` has, window by window.

    Both are tables of results in this process with the workload's columns, a row per result; None
    if there are none. Raises `ValueError` for a workload that names no members in Python."""
    column = workload.window_start
    expected = _members(workload, accurate.to_pylist(), column)
    found = _members(workload, delivered.to_pylist(), column)
    total = sum(len(members) for members in expected.values())
    if not total:
        return None
    right = sum(len(members & found.get(window, set())) for window, members in expected.items())
    return right / total


def _members(
    workload: Workload, results: Iterable[Mapping[Any, Any]], window: str
) -> dict[Any, set[Hashable]]:
    """Return the members of the results by window (the column of that name)."""
    if workload.members_of is None:
        raise ValueError(f"workload {workload.name} names no members in Python")
    found: dict[Any, set[Hashable]] = {}
    for row in results:
        found.setdefault(row[window], set()).update(workload.members_of(row))
    return found


def over_windows(windows: pd.DataFrame) -> Accuracy:
    """Return the shares over all of `Accuracy.windows`."""
    total = int(windows["members"].sum())
    return Accuracy(
        first=float(windows["first"].sum() / total) if total else None,
        last=float(windows["last"].sum() / total) if total else None,
        windows=windows,
    )


_SETS = ("first", "last", "accurate")
_ACCURATE = _SETS.index("accurate")


def _versions(workload: Workload, deliveries: DataFrame) -> DataFrame:
    """Return the first and the last delivery of every identity.

    ``version`` tells them apart: the place of its name in `_SETS`."""
    from pyspark.sql import functions as F  # noqa: N812

    values = F.struct(*workload.values)
    return (
        deliveries.groupBy(*workload.identity)
        .agg(F.array(F.min_by(values, ARRIVAL), F.max_by(values, ARRIVAL)).alias("picked"))
        .select(*workload.identity, F.posexplode("picked").alias("version", "picked"))
        .select(*workload.identity, "version", "picked.*")
    )
