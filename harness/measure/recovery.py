"""Recovery times of the output, one for each failure.

A recovery is a value even where it did not happen: then it is censored, with a lower bound, and
with the reason as a word of a closed list, so that a mean can never leave out the worst ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.windows import Normal
from harness.results.kills import Kill, Unrecovered

CALM_S = 5.0
"""Time for which output must have been on time to count as caught up. Windows that are late after
that, before the next failure, are a relapse. Fixed on 2026-11-21 before the first kill was
measured."""

VISIBLE_S = 10.0
"""Span after a failure in which the median of the due windows must be a usual one; otherwise the
output was visibly later. Fixed on 2026-11-22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecovery:
    """The output after one failure."""

    seconds: float | None
    """From the failure until the output had caught up; 0 when no window was late."""
    at_least_s: float | None = None
    """Where it had not caught up: the time for which it was watched, a lower bound."""
    why_not: Unrecovered | None = None
    """The reason for missing ``seconds``."""
    relapse_s: float = 0.0
    """The time for which output that had caught up was late again, before the next failure."""
    over: bool = True
    """False if output was late at the end of the time for which it was watched."""
    overlaps: bool = False
    """Another failure came before the output was calm again (or was there already): the lateness
    is due to both and cannot be divided. It is counted from this failure on."""

    @property
    def seen_s(self) -> float | None:
        """The time until the output had caught up, where it is known.

        The lower bound of a recovery that did not happen; 0 below the resolution."""
        if self.why_not is Unrecovered.UNRESOLVED:
            return 0.0
        return self.at_least_s if self.seconds is None else self.seconds

    @property
    def outage_s(self) -> float | None:
        """The time for which a user saw late output, with its relapses, where it is known.

        A lower bound where it is not ``over``."""
        return None if self.seen_s is None else self.seen_s + self.relapse_s

    def __post_init__(self) -> None:
        assert (self.seconds is None) == (self.why_not is not None), self
        censored = self.why_not is not None and self.why_not.censored
        assert (self.at_least_s is not None) == censored, self
        assert not (censored and self.over), self

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns in the table of kills (`harness.results.kills.Kill`)."""
        return {
            "recovery_s": self.seconds,
            "recovery_at_least_s": self.at_least_s,
            "recovery_why_not": self.why_not and self.why_not.value,
            "relapse_s": None if self.outage_s is None else self.relapse_s,
            "relapsing": self.seconds is not None and not self.over,
            "overlaps": self.overlaps,
        }


def unmeasured(why_not: Unrecovered) -> OutputRecovery:
    """Return a recovery of which nothing is known."""
    return OutputRecovery(seconds=None, why_not=why_not)


def not_within(seconds: float, why_not: Unrecovered) -> OutputRecovery:
    """Return a recovery that did not happen while the output was watched."""
    return OutputRecovery(seconds=None, at_least_s=max(0.0, seconds), why_not=why_not, over=False)


def recoveries(
    windows: pd.DataFrame,
    *,
    failed_at_s: Sequence[float],
    normal: Normal,
    until_s: float,
    calm_s: float = CALM_S,
) -> list[OutputRecovery]:
    """Return a recovery per failure, in the order of their instants, which must ascend.

    ``windows`` as of `summarize_windows`; ``until_s`` is the end of the load. Failures belong
    together when the output was not calm for ``calm_s`` before the later one."""
    groups: list[list[float]] = []
    for at_s in failed_at_s:
        if groups and not _calm(windows, groups[-1], at_s, normal, calm_s):
            groups[-1].append(at_s)
        else:
            groups.append([at_s])
    found = []
    for number, group in enumerate(groups):
        last = number + 1 == len(groups)
        end_s = until_s if last else groups[number + 1][0]
        mine = windows if last else _due_before(windows, end_s, normal)
        for at_s in group:
            one = recovery(mine, failed_at_s=at_s, normal=normal, until_s=end_s, calm_s=calm_s)
            found.append(replace(one, overlaps=len(group) > 1))
    return found


def recovery(
    windows: pd.DataFrame,
    *,
    failed_at_s: float,
    normal: Normal,
    until_s: float,
    calm_s: float = CALM_S,
) -> OutputRecovery:
    """Measure from one failure until the output has caught up, in the view of a user.

    Caught up: the arrival of the last late result before every window has been on time for
    ``calm_s``. Windows due by ``until_s`` count. Output that is not late but visibly later than
    the twin's (`VISIBLE_S`) has no recovery time: the twin's own jitter hides it. What is late
    after a calm is a relapse, from when its first window would have been complete in the twin."""
    after = windows[(windows["complete_s"] > failed_at_s) & (windows["due_s"] <= until_s)]
    if not len(after):
        return unmeasured(Unrecovered.NOTHING_DUE)
    if not np.isfinite(after["complete_s"]).all():
        return not_within(until_s - failed_at_s, Unrecovered.LOST)
    late = [(failed_at_s, failed_at_s)]
    """Begin and end of each time of late output; the first begins with the failure."""
    late_due_s, calm, over = failed_at_s, False, True
    for due_s, complete_s in after[["due_s", "complete_s"]].itertuples(index=False):
        over = complete_s - due_s <= normal.late_s
        if over:
            calm = calm or due_s - late_due_s >= calm_s
            continue
        begin_s, end_s = (due_s + normal.median_s, complete_s) if calm else late.pop()
        late.append((begin_s, max(end_s, complete_s)))
        late_due_s, calm = due_s, False
    caught_up_s = late[0][1]
    if not over and len(late) == 1:
        return not_within(until_s - failed_at_s, Unrecovered.NOT_BY_END)
    again = late[1:] if over else [*late[1:-1], (late[-1][0], max(late[-1][0], until_s))]
    relapse_s = float(sum(end_s - begin_s for begin_s, end_s in again))
    hidden = caught_up_s == failed_at_s and _visibly_later(after, failed_at_s, normal)
    return OutputRecovery(
        seconds=None if hidden else float(caught_up_s - failed_at_s),
        why_not=Unrecovered.UNRESOLVED if hidden else None,
        relapse_s=relapse_s,
        over=over,
    )


def bounds_of_mean(kills: Iterable[Kill]) -> tuple[float, float]:
    """Return bounds of the mean of their recoveries.

    They are the same number if all are known, with infinity above where one is censored, and NaN
    twice where one was not measured or none is there."""
    seconds: list[float] = []
    censored = False
    for kill in kills:
        value = kill.recovery_at_least_s if kill.recovery_s is None else kill.recovery_s
        if value is None:
            return math.nan, math.nan
        seconds.append(value)
        censored |= kill.recovery_s is None
    if not seconds:
        return math.nan, math.nan
    mean = float(np.mean(seconds))
    return mean, math.inf if censored else mean


def _calm(
    windows: pd.DataFrame, group: Sequence[float], at_s: float, normal: Normal, calm_s: float
) -> bool:
    """Return True if output had caught up from these failures and was calm before the next one."""
    before = _due_before(windows, at_s, normal)
    one = recovery(before, failed_at_s=group[-1], normal=normal, until_s=at_s, calm_s=calm_s)
    late = before[before["complete_s"] - before["due_s"] > normal.late_s]
    quiet_since_s = max(group[-1], float(late["complete_s"].max()) if len(late) else 0.0)
    return one.seconds is not None and one.over and at_s - quiet_since_s >= calm_s


def _due_before(windows: pd.DataFrame, at_s: float, normal: Normal) -> pd.DataFrame:
    """Return the windows that are late by this failure, or will never be by it."""
    return windows[windows["due_s"] + normal.late_s < at_s]


def _visibly_later(after: pd.DataFrame, failed_at_s: float, normal: Normal) -> bool:
    soon = after[(after["due_s"] >= failed_at_s) & (after["due_s"] <= failed_at_s + VISIBLE_S)]
    return bool(len(soon) and (soon["complete_s"] - soon["due_s"]).median() > normal.usual_s)
