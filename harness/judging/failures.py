"""The failures of a pass, each from its plan to the recovery of the output.

A `Kill` is one kill, pause or cut that reached a part of the engine. It has two recoveries: the
engine's own, from its detection until the failed task's processing progress is back where it was
before the failure (`su-2016`; detection excluded), and the one seen from outside, from the failure
until the output has caught up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from harness.cluster.base import TOGETHER
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import BUSIEST, ENDS
from harness.judging.passes import PassRecord
from harness.measure.recovery import CALM_S, OutputRecovery, not_within, recoveries, unmeasured
from harness.measure.windows import Normal, longest_silence_s
from harness.results.kills import Kill, Unrecovered

DETECTED, REGAINED = "detected", "recovered"
"""Incidents that an engine may report: it noticed a failure (with ``cause``), and the progress
that the failure cost is made up for. Both may name a ``target``, a node, and ``tasks``, those that
it ran, none if there were none."""
LOSS = "detected_unix_s"
"""The column by which a recovery names its detection."""


class Unknown(StrEnum):
    """Reasons why a failure has no recovery as the papers define it."""

    NOT_DETECTED = "the engine did not notice the failure"
    NOTHING_LOST = "nothing that output hangs on ran there"
    NOT_REGAINED = "the progress was not regained"


def done(record: PassRecord) -> list[Kill]:
    """Return the failures of a pass that reached something, in the order of their times."""
    found = []
    for number, one in enumerate(record.injected):
        if one.event.action not in ENDS or not one.felt:
            continue
        nodes = sorted(victim.node for victim in one.victims if victim.felt)
        found.append(
            Kill(
                action=one.event.action.value,
                target=one.event.target,
                scope=_scope(one.event.target, nodes),
                nodes=nodes,
                planned_at_s=one.event.at_s,
                at_s=one.began_unix_s - record.start_unix_s,
                lateness_s=one.lateness_s,
                spread_s=one.spread_s,
                ended_at_s=_ended_at_s(one, record.injected[number + 1 :], record.start_unix_s),
            )
        )
    return sorted(found, key=lambda one: one.at_s)


def _scope(target: str, nodes: Sequence[str]) -> str:
    if TOGETHER in target:
        return "nodes"
    return "node" if target == BUSIEST or list(nodes) == [target] else "rack"


def _ended_at_s(
    failure: InjectedFailure, later: Sequence[InjectedFailure], start_unix_s: float
) -> float | None:
    """Return when the last of its nodes was restarted, resumed or healed; None if one was not."""
    left = {victim.node for victim in failure.victims if victim.felt}
    for one in later:
        if one.event.action is ENDS[failure.event.action] and one.error is None:
            left -= {victim.node for victim in one.victims if victim.reached}
            if not left:
                return one.at_unix_s - start_unix_s
    return None


def aftermath(
    record: PassRecord,
    windows: pd.DataFrame,
    normal: Normal | None,
    *,
    twin_kept_up: bool,
    arrival_s: pd.Series[float],
    twin_arrival_s: pd.Series[float],
    twin_windows: pd.DataFrame,
    calm_s: float = CALM_S,
) -> list[Kill]:
    """Return the failures of a pass with their consequences.

    ``arrival_s`` are the arrivals of first versions, in this pass and in the twin. ``calm_s``: see
    `recoveries`."""
    failures = done(record)
    found = _recoveries(record, failures, windows, normal, twin_kept_up, calm_s)
    nothing = _recoveries(record, failures, twin_windows, normal, twin_kept_up, calm_s)
    laters = [failures[number:] for number in range(1, len(failures) + 1)]
    return [
        replace(
            failure,
            **recovery.columns,
            twin_recovery_s=calmly.seconds,
            twin_outage_s=calmly.outage_s,
            twin_relapse_s=calmly.columns["relapse_s"],
            **detection(record.incidents, failure, later),
            **_silence(
                arrival_s,
                twin_arrival_s,
                from_s=failure.at_s,
                until_s=min([record.until_s, *(one.at_s for one in later[:1])]),
                comparable=twin_kept_up,
            ),
        )
        for failure, recovery, calmly, later in zip(failures, found, nothing, laters, strict=True)
    ]


def _silence(
    arrival_s: pd.Series[float],
    twin_arrival_s: pd.Series[float],
    *,
    from_s: float,
    until_s: float,
    comparable: bool,
) -> dict[str, Any]:
    silence_s, twin_silence_s = (
        longest_silence_s(arrivals, from_s=from_s, until_s=until_s)
        for arrivals in (arrival_s, twin_arrival_s)
    )
    gap_s = max(0.0, silence_s - twin_silence_s) if comparable else None
    return {"silence_s": silence_s, "twin_silence_s": twin_silence_s, "output_gap_s": gap_s}


def _recoveries(
    record: PassRecord,
    failures: Sequence[Kill],
    windows: pd.DataFrame,
    normal: Normal | None,
    twin_kept_up: bool,
    calm_s: float,
) -> Sequence[OutputRecovery]:
    """Return the recoveries.

    An engine that died or stalled did not recover from the last failure before its output ended,
    nor from a later one; what it had recovered from before stays so."""
    instants = [failure.at_s for failure in failures]
    if normal is None or not twin_kept_up:
        why = Unrecovered.TWIN_INCOMPLETE if normal is None else Unrecovered.TWIN_BEHIND
        found = [unmeasured(why) for _ in failures]
    else:
        found = recoveries(
            windows, failed_at_s=instants, normal=normal, until_s=record.until_s, calm_s=calm_s
        )
    if record.died is None and not record.stalled:
        return found
    why_not = Unrecovered.STALLED if record.stalled else Unrecovered.DIED
    ended_s = _end_of_output_s(windows, usual_s=0.0 if normal is None else normal.late_s)
    fatal_s = max((at_s for at_s in instants if at_s <= ended_s), default=0.0)
    return [
        one
        if at_s < fatal_s
        else replace(
            not_within(record.until_s - at_s, why_not),
            outage_s=one.outage_s,
            outage_5_s=one.outage_5_s,
            overlaps=one.overlaps,
        )
        for at_s, one in zip(instants, found, strict=True)
    ]


def _end_of_output_s(windows: pd.DataFrame, *, usual_s: float) -> float:
    """Return when the first window was to come after which none did; infinity if the last came.

    A window is to come ``usual_s`` after it is due."""
    complete = np.flatnonzero(np.isfinite(windows["complete_s"]))
    after = windows["due_s"].iloc[complete[-1] + 1 if len(complete) else 0 :]
    return float(after.min()) + usual_s if len(after) else math.inf


def detection(incidents: pd.DataFrame, failure: Kill, later: Sequence[Kill] = ()) -> dict[str, Any]:
    """Return the engine's first report of a failure, and its recovery, by `Kill`'s fields.

    A report belongs to the newest failure of its node; ``later`` are those that followed."""
    noticed = _noticed(incidents, failure, later)
    if not len(noticed):
        return {"paper_recovery_why_not": Unknown.NOT_DETECTED.value}
    first = noticed.iloc[0]
    at_s, cause = float(first["at_s"]), first.get("cause")
    known = {
        "detected_at_s": at_s,
        "detection_s": at_s - failure.at_s,
        "detected_by": None if pd.isna(cause) else cause,
    }
    lost = noticed[noticed["tasks"].ne("")] if "tasks" in noticed.columns else noticed
    if not len(lost):
        return {**known, "paper_recovery_why_not": Unknown.NOTHING_LOST.value}
    back = [regained(incidents, one) for _, one in lost.iterrows()]
    if any(not len(rows) for rows in back):
        return {**known, "paper_recovery_why_not": Unknown.NOT_REGAINED.value}
    return {
        **known,
        "restart_s": _last_step(back, "there_after_s"),
        "restore_s": _last_step(back, "ready_after_s"),
        "paper_recovery_s": float(max(rows["at_s"].min() for rows in back)) - at_s,
    }


def _last_step(back: Sequence[pd.DataFrame], name: str) -> float | None:
    """Return when the last of the lost nodes had made a step; None where it is not reported."""
    steps = [rows[name].dropna() for rows in back if name in rows]
    return max((float(each.max()) for each in steps if len(each)), default=None)


def _noticed(incidents: pd.DataFrame, failure: Kill, later: Sequence[Kill]) -> pd.DataFrame:
    """Return the first detection of each node that was hit, in the order of time.

    One that names no node may be of any: it belongs to the newest failure."""
    if not len(incidents):
        return incidents
    mine = incidents[(incidents["event"] == DETECTED) & (incidents["at_s"] >= failure.at_s)]
    if "target" not in mine.columns:
        mine = mine.assign(target=None)
    until_s = {
        node: min((one.at_s for one in later if node in one.nodes), default=math.inf)
        for node in failure.nodes
    }
    unnamed = mine["target"].isna()
    limit_s = mine["target"].map(until_s).astype(float).fillna(-math.inf)
    limit_s = limit_s.mask(unnamed, min((one.at_s for one in later), default=math.inf))
    return mine[mine["at_s"] < limit_s].sort_values("at_s").drop_duplicates("target")


def regained(incidents: pd.DataFrame, noticed: pd.Series[Any]) -> pd.DataFrame:
    """Return the reports that what a node had run is where it had been; ``noticed`` is its loss.

    They are those of this very loss where the engine names it, and all later ones elsewhere."""
    back: pd.DataFrame = incidents[
        (incidents["event"] == REGAINED) & (incidents["at_s"] >= noticed["at_s"])
    ]
    if "target" in back.columns and not pd.isna(noticed["target"]):
        back = back[back["target"].isna() | back["target"].eq(noticed["target"])]
    if LOSS in back.columns and not pd.isna(noticed[LOSS]):
        back = back[back[LOSS].eq(noticed[LOSS])]
    return back
