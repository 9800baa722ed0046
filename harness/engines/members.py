"""Accuracy by members, counted in this process: engines without a Spark session use it."""

from __future__ import annotations

import pandas as pd

from harness.engines.base import Scored
from harness.measure.versions import versions
from workloads.base import Workload
from workloads.toolkit.accuracy import members_by_window


def score_members(accurate: pd.DataFrame, delivered: pd.DataFrame, workload: Workload) -> Scored:
    """Score delivered results by the workload's `members_of` (`Engine.score`)."""
    if workload.members_of is None:
        return Scored(
            reason=f"workload {workload.name!r} does not say in Python what the members of a "
            "result are: give it members_of"
        )
    seen = versions(delivered, workload.identity_in_run, workload.values)
    windows = members_by_window(workload, accurate, {"first": seen.first, "last": seen.last})
    total = int(windows["members"].sum())
    if not total:
        return Scored(reason="the twin's results have no members")
    return Scored(
        first=float(windows["first"].sum() / total),
        last=float(windows["last"].sum() / total),
        windows=windows,
    )
