"""How accurate results are, as the papers count it, scored by Spark.

Both PPA papers score a query by the set it answers with: Q1 by |S_T ∩ S_A| / |S_A| (the objects
of the top 100), Q2 by |I_T ∩ I_A| / |I_A| (the incidents), with S_A and I_A what the run without
failures gives. So a workload says what the members of a result are (`Workload.members`), and
accuracy is the share of the accurate run's members that were delivered, over all windows. Where a
workload names no members a result is one member, right or wrong as a whole.

It is scored on the first version of each result that was delivered (a later correction does not
repair what a user already acted on) and, beside it, on the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from workloads.base import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ARRIVAL = "arrival"
"""The column of deliveries that says in which order they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Shares of the accurate members, 0 to 1; None if there are none."""

    first: float | None
    last: float | None
    windows: pd.DataFrame
    """By window, in order: its start, ``members`` of the accurate run, and how many of them the
    ``first`` and the ``last`` version delivered."""


def score(workload: Workload, deliveries: DataFrame, accurate: DataFrame) -> Accuracy:
    """Score what was delivered against a run without failures.

    ``deliveries`` has the workload's columns and `ARRIVAL`, a row per delivery; one with a null
    value takes its result back. ``accurate`` has the workload's columns, a row per result.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own documentation says F

    window = workload.window_start
    expected = _members(workload, accurate)
    joined = expected.select(window, "member")
    for name in ("first", "last"):
        delivered = _members(workload, version(workload, deliveries, name))
        mark = delivered.select(window, "member", F.lit(1).alias(name))
        joined = joined.join(mark, [window, "member"], "left")
    windows = (
        joined.groupBy(window)
        .agg(
            F.count("*").alias("members"),
            F.count("first").alias("first"),
            F.count("last").alias("last"),
        )
        .orderBy(window)
        .toPandas()
    )
    members = int(windows["members"].sum())
    return Accuracy(
        first=float(windows["first"].sum() / members) if members else None,
        last=float(windows["last"].sum() / members) if members else None,
        windows=windows,
    )


def version(workload: Workload, deliveries: DataFrame, which: str) -> DataFrame:
    """The ``"first"`` or the ``"last"`` delivery of every identity."""
    from pyspark.sql import functions as F  # noqa: N812

    pick = F.min_by if which == "first" else F.max_by
    values = F.struct(*workload.values)
    return (
        deliveries.groupBy(*workload.identity)
        .agg(pick(values, ARRIVAL).alias("picked"))
        .select(*workload.identity, *(f"picked.{name}" for name in workload.values))
    )


def _members(workload: Workload, results: DataFrame) -> DataFrame:
    """Window and member, a row per distinct member of the results."""
    from pyspark.sql import functions as F  # noqa: N812

    members = workload.members() if workload.members is not None else _whole(workload)
    return (
        results.where(F.col(workload.values[0]).isNotNull())
        .select(workload.window_start, F.explode(members).alias("member"))
        .distinct()
    )


def _whole(workload: Workload) -> Column:
    """A result as its one member: key and values."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.array(F.to_json(F.struct(*workload.columns)))
