"""What was broken in a pass, and what became of the output after each failure.

Every failure that reached something has a recovery of its own: the kill of a node or of a rack, a
pause, a cut. Where the engine knows, its detection stands beside it (the instant and the cause),
and the recovery as the papers define it: from the detection until the failed task's processing
progress is back where it was before the failure (`su-2016`; detection excluded).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from harness.cluster.base import TOGETHER, Action
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import Schedule
from harness.judging.passes import PassRecord
from harness.measure.recovery import (
    OutputRecovery,
    Unrecovered,
    not_within,
    recoveries,
    unmeasured,
)
from harness.measure.windows import Normal, longest_silence_s

BREAKS = (Action.KILL, Action.PAUSE, Action.CUT)
"""What is a failure; the other actions end one."""

_ENDS = {Action.KILL: Action.RESTART, Action.PAUSE: Action.RESUME, Action.CUT: Action.HEAL}

DETECTED, REGAINED = "detected", "recovered"
"""Incidents that an engine may report: it noticed a failure (with ``cause``), and the progress
that the failure cost is made up for. Both may name a ``target``, a node."""


class Unknown(StrEnum):
    """Why a failure has no recovery as the papers define it."""

    NOT_DETECTED = "the engine did not notice the failure"
    NOT_REGAINED = "the progress was not regained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure that reached something. Times are seconds from the start of the load."""

    action: Action
    target: str
    scope: str
    """"node", "nodes" that were named together, or "rack"."""
    nodes: Sequence[str]
    """The nodes it reached."""
    at_s: float
    """When it began: before the first signal, where the backend says that."""
    ended_at_s: float | None
    """When its node was restarted, resumed or healed; None if that was not done."""


def reached(done: InjectedFailure) -> bool:
    """Whether an action was really done to a node on which something of the engine ran."""
    return any(victim.felt for victim in done.victims) and done.error is None


def planned(schedule: Schedule) -> int:
    """How many failures a schedule has."""
    return sum(event.action in BREAKS for event in schedule.events)


def disturbances(record: PassRecord) -> list[Failure]:
    """The failures of a pass that reached something, in the order in which they were done."""
    found = []
    for number, done in enumerate(record.injected):
        if done.event.action not in BREAKS or not reached(done):
            continue
        nodes = sorted(victim.node for victim in done.victims if victim.felt)
        found.append(
            Failure(
                action=done.event.action,
                target=done.event.target,
                scope=_scope(done.event.target, nodes),
                nodes=nodes,
                at_s=done.began_unix_s - record.start_unix_s,
                ended_at_s=_ended_at_s(done, record.injected[number + 1 :], record.start_unix_s),
            )
        )
    return sorted(found, key=lambda one: one.at_s)


def _scope(target: str, nodes: Sequence[str]) -> str:
    if TOGETHER in target:
        return "nodes"
    return "node" if list(nodes) == [target] else "rack"


def _ended_at_s(
    broken: InjectedFailure, later: Sequence[InjectedFailure], start_unix_s: float
) -> float | None:
    wanted = _ENDS[broken.event.action], broken.event.target
    return next(
        (
            done.at_unix_s - start_unix_s
            for done in later
            if (done.event.action, done.event.target) == wanted and done.error is None
        ),
        None,
    )


def aftermath(
    record: PassRecord,
    windows: pd.DataFrame,
    normal: Normal | None,
    *,
    twin_kept_up: bool,
    arrival_s: pd.Series[float],
    twin_arrival_s: pd.Series[float],
) -> pd.DataFrame:
    """A row per failure of the pass: what it was, its detection, both recoveries, and for how long
    the output was silent between it and the next one, in this pass and in the twin.

    ``arrival_s`` are the arrivals of first versions. Columns: `COLUMNS`. The gap, by how much the
    silence is longer than the twin's, is null where the twin did not keep up with its load: there
    is nothing to compare with.
    """
    failures = disturbances(record)
    found = _recoveries(record, failures, windows, normal, twin_kept_up)
    rows = [
        {
            **_described(failure),
            "recovery_s": recovery.seconds,
            "recovery_at_least_s": recovery.at_least_s,
            "recovery_why_not": recovery.why_not.value if recovery.why_not else None,
            "overlaps": recovery.overlaps,
            **_detected(record, failure, _next_at_s(failures, number)),
            **_silence(
                arrival_s,
                twin_arrival_s,
                from_s=failure.at_s,
                until_s=min(record.until_s, _next_at_s(failures, number)),
                comparable=twin_kept_up,
            ),
        }
        for number, (failure, recovery) in enumerate(zip(failures, found, strict=True))
    ]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({name: float for name in COLUMNS if name.endswith("_s")})


COLUMNS = [
    "action", "target", "scope", "at_s", "ended_at_s", "recovery_s", "recovery_at_least_s",
    "recovery_why_not", "overlaps", "detected_at_s", "detection_s", "detected_by",
    "paper_recovery_s", "paper_recovery_why_not", "silence_s", "twin_silence_s", "output_gap_s",
]  # fmt: skip

OF_ONE_FAILURE = (
    "recovery_s", "recovery_at_least_s", "recovery_why_not", "overlaps", "detection_s",
    "detected_by", "paper_recovery_s", "paper_recovery_why_not", "silence_s", "twin_silence_s",
    "output_gap_s",
)  # fmt: skip
"""Of these, what stands among a run's values for its first failure."""


def without_times(after: pd.DataFrame) -> pd.DataFrame:
    """The same failures without what became of the output and when: for passes whose times cannot
    be trusted."""
    known = ("action", "target", "scope", "at_s", "ended_at_s", "overlaps")
    nothing = {name: None for name in COLUMNS if name not in known}
    return after.assign(**{**nothing, "recovery_why_not": Unrecovered.MISTIMED.value})


def _silence(
    arrival_s: pd.Series[float],
    twin_arrival_s: pd.Series[float],
    *,
    from_s: float,
    until_s: float,
    comparable: bool,
) -> dict[str, float | None]:
    silence_s, twin_silence_s = (
        longest_silence_s(arrivals, from_s=from_s, until_s=until_s)
        for arrivals in (arrival_s, twin_arrival_s)
    )
    gap_s = max(0.0, silence_s - twin_silence_s) if comparable else None
    return {"silence_s": silence_s, "twin_silence_s": twin_silence_s, "output_gap_s": gap_s}


def _described(failure: Failure) -> dict[str, Any]:
    fields = asdict(failure)
    return {name: fields[name] for name in ("target", "scope", "at_s", "ended_at_s")} | {
        "action": failure.action.value
    }


def _next_at_s(failures: Sequence[Failure], number: int) -> float:
    return failures[number + 1].at_s if number + 1 < len(failures) else float("inf")


def _recoveries(
    record: PassRecord,
    failures: Sequence[Failure],
    windows: pd.DataFrame,
    normal: Normal | None,
    twin_kept_up: bool,
) -> Sequence[OutputRecovery]:
    """An engine that died or stalled did not recover, whatever the twin was like."""
    if record.died is not None or record.stalled:
        why_not = Unrecovered.STALLED if record.stalled else Unrecovered.DIED
        return [not_within(record.until_s - failure.at_s, why_not) for failure in failures]
    if normal is None or not twin_kept_up:
        why = Unrecovered.TWIN_INCOMPLETE if normal is None else Unrecovered.TWIN_BEHIND
        return [unmeasured(why) for _ in failures]
    instants = [failure.at_s for failure in failures]
    return recoveries(windows, failed_at_s=instants, normal=normal, until_s=record.until_s)


def _detected(record: PassRecord, failure: Failure, until_s: float) -> dict[str, Any]:
    """The engine's first word of a failure before the next one came."""
    nothing = dict.fromkeys(["detected_at_s", "detection_s", "detected_by", "paper_recovery_s"])
    noticed = _incidents(record, DETECTED, failure, failure.at_s, until_s)
    if not len(noticed):
        return {**nothing, "paper_recovery_why_not": Unknown.NOT_DETECTED.value}
    first = noticed.iloc[0]
    at_s = float(first["at_s"])
    regained_at_s = _regained_at_s(record, failure, at_s)
    return {
        "detected_at_s": at_s,
        "detection_s": at_s - failure.at_s,
        "detected_by": first.get("cause"),
        "paper_recovery_s": None if regained_at_s is None else regained_at_s - at_s,
        "paper_recovery_why_not": Unknown.NOT_REGAINED.value if regained_at_s is None else None,
    }


def _regained_at_s(record: PassRecord, failure: Failure, since_s: float) -> float | None:
    """When the last of the nodes that were hit had its progress back."""
    regained = _incidents(record, REGAINED, failure, since_s, float("inf"))
    if not len(regained):
        return None
    if "target" not in regained.columns or regained["target"].isna().all():
        return float(regained["at_s"].iloc[0])
    return float(regained.drop_duplicates("target")["at_s"].max())


def _incidents(
    record: PassRecord, event: str, failure: Failure, from_s: float, until_s: float
) -> pd.DataFrame:
    """Of that kind, in that span, about the nodes that were hit or about none in particular."""
    frame = record.incidents
    if not len(frame):
        return frame
    mine = frame[(frame["event"] == event) & (frame["at_s"] >= from_s) & (frame["at_s"] < until_s)]
    if "target" in mine.columns:
        mine = mine[mine["target"].isna() | mine["target"].isin(failure.nodes)]
    return mine.sort_values("at_s")
