"""Outages of a pass with several kills, each split into its parts.

An outage lasts from the kill until the last late result has come. Its boundaries are seen by three
observers: the kill by the injector, detection, restart and restoration by the engine, results by a
reader of the out topic. So their order is a finding, and a part that is negative counts as it is
missing: the parts then add up to more than the outage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from harness.judging.passes import PassRecord
    from workloads.base import Workload

LATE_S = 0.5
"""A result is late if it comes this much later than every one before the first kill. It was their
median until 2026-11-23, when a first run of one kill showed results at commits every 30 s."""
SETTLE_S = 4.0
"""First part of a pass, until windows are full."""
PARTS = ("detection_s", "restart_s", "restore_s", "transaction_s", "replay_s")
"""Until the engine noticed; until the lost work had a place; until its state was there; until the
first late result could be read, of an engine that writes in transactions; until the last one."""


def windows_of(record: PassRecord, workload: Workload) -> pd.DataFrame:
    """Return a row per window with results: its end, its last result's arrival, its lateness.

    Of a repeated result the first counts."""
    first = record.deliveries.drop_duplicates(workload.identity_in_run)
    arrived_s = first["arrival_s"].groupby(first["window_start_s"]).max()
    frame = pd.DataFrame({"ended_s": arrived_s.index + workload.window_s})
    frame["arrived_s"] = arrived_s.to_numpy()
    frame["late_s"] = frame["arrived_s"] - frame["ended_s"]
    return frame[frame["ended_s"].between(SETTLE_S, record.until_s)].reset_index(drop=True)


def outages(
    record: PassRecord, windows: pd.DataFrame, *, transactional: bool
) -> tuple[float, pd.DataFrame]:
    """Return the median lateness before the first kill, and a row per kill."""
    kills = [
        (
            min(victim.earliest_unix_s for victim in one.victims if victim.felt)
            - record.start_unix_s,
            one.event.target,
            {victim.node for victim in one.victims if victim.felt},
        )
        for one in record.injected
        if one.event.action.value == "kill" and one.felt
    ]
    first_s = kills[0][0] if kills else record.until_s
    calm = windows[windows["arrived_s"] < first_s]["late_s"]
    rows = []
    for number, (at_s, target, nodes) in enumerate(kills):
        next_s = kills[number + 1][0] if number + 1 < len(kills) else record.until_s
        row = outage(
            windows, record.incidents, at_s, next_s, nodes, float(calm.max()), transactional
        )
        rows.append({"number": number, "target": target, "at_s": at_s, **row})
    return float(calm.median()), pd.DataFrame(rows)


def outage(
    windows: pd.DataFrame,
    incidents: pd.DataFrame,
    at_s: float,
    next_s: float,
    nodes: set[str],
    slowest_s: float,
    transactional: bool,
) -> dict[str, float | bool | None]:
    """Return the outage of one kill and its parts, null where they are not known.

    ``slowest_s`` is the latest result before the first kill, null if there was none."""
    due = windows[(windows["arrived_s"] > at_s) & (windows["ended_s"] + slowest_s < next_s)]
    late = due[due["late_s"] > slowest_s + LATE_S]
    end_s = float(late["arrived_s"].max()) if len(late) else at_s
    found: dict[str, float | bool | None] = {
        "outage_s": None if math.isnan(slowest_s) else end_s - at_s,
        "caught_up": bool(len(due)) and end_s < next_s,
        "after_s": float(due[due["ended_s"] > end_s]["late_s"].median()),
        **dict.fromkeys(PARTS),
    }
    if "target" not in incidents:  # the engine reports nothing
        return found
    mine = incidents["at_s"].between(at_s, next_s) & incidents["target"].isin(nodes)
    seen = incidents[mine].sort_values("at_s")
    detected = seen[seen["event"] == "detected"]["at_s"]
    if not len(late) or not len(detected):
        return found
    noticed_s = float(detected.min())
    bounds = [at_s, noticed_s, *_steps(seen, noticed_s)]
    first_late_s = float(late["arrived_s"].min())
    bounds.append(max(first_late_s, bounds[-1]) if transactional else bounds[-1])
    bounds.append(end_s)
    return {**found, **parts(bounds)}


def _steps(seen: pd.DataFrame, noticed_s: float) -> list[float]:
    """Return when the lost work had a place, and when its state was there."""
    back = seen[seen["event"] == "recovered"]
    if len(back) and "ready_after_s" in back and back["ready_after_s"].notna().any():
        there, ready = (float(back[name].max()) for name in ("there_after_s", "ready_after_s"))
        return [noticed_s + there, noticed_s + ready]
    restarted = seen[(seen["event"] == "restarted") & (seen["at_s"] >= noticed_s)]["at_s"]
    placed_s = float(restarted.max()) if len(restarted) else noticed_s
    return [placed_s, float(back["at_s"].max()) if len(back) else placed_s]


def parts(bounds: Sequence[float]) -> dict[str, float]:
    """Return the parts between these instants; one that would be negative is 0."""
    steps = zip(PARTS, bounds, bounds[1:], strict=False)
    return {name: max(0.0, until - since) for name, since, until in steps}
