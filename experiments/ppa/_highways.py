"""Accident detection on two highways, live, as the figures of plans use it.

Every report counts, so a result has as many reports as its highway sent. The rack of all primaries
dies and stays away; what comes out meanwhile is computed by the plan's replicas alone."""

from __future__ import annotations

import pandas as pd

from experiments.ppa._live import LATE_S
from workloads.accident import FAR, HIGHWAYS

EVERY_REPORT_KMH = 999
"""With so high an ε every report counts as one of a standing car."""
RATE_PER_S = 400.0
CHECKPOINT_S = 1.0
BATCH_S = 0.25
WINDOW_S = 1.0


def reports(results: pd.DataFrame, *, until_s: float) -> pd.DataFrame:
    """Return ``window_start_s``, ``query``, and the reports of each pass: ``twin``, ``failed``.

    Of first deliveries, and of windows that end by ``until_s``, `LATE_S` before the rack is back.
    What came in the pass with the failure after that is missing."""
    inside = results["window_start_s"].between(0, until_s - WINDOW_S)
    there = (results["pass"] == "twin") | (results["arrival_s"] <= until_s + LATE_S)
    mine = results[inside & there]
    counted = pd.DataFrame(
        {
            "window_start_s": mine["window_start_s"],
            "query": mine["location"].ge(FAR).map({False: HIGHWAYS[0], True: HIGHWAYS[1]}),
            "pass": mine["pass"],
            "reports": mine["car_ids"].str.split().str.len(),
        }
    )
    by = ["window_start_s", "query"]
    wide = counted.pivot_table(index=by, columns="pass", values="reports", aggfunc="sum")
    return wide.reindex(columns=["twin", "failed"]).fillna(0.0).reset_index()


def share(counted: pd.DataFrame, from_s: float, query: str | None = None) -> float | None:
    """Return the part of the twin's reports in windows that begin from ``from_s`` on."""
    mine = counted[counted["window_start_s"] >= from_s]
    mine = mine if query is None else mine[mine["query"] == query]
    whole = float(mine["twin"].sum())
    return float(mine["failed"].sum()) / whole if whole else None
