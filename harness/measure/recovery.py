"""The one yardstick of an outage, as a user sees it, and the recovery that ends it.

A result is late if it comes more than `LATER_S` later than the twin's median. An outage is the time
in which results are late because of a failure: from the instant at which the first late one would
have come in the twin (or from the failure, if that was later) until the last one came before output
was on time for `CALM_S`, and every later relapse up to the next failure. Output that is late at the
end of the load is watched until then, and the outage is a lower bound. `MUCH_LATER_S` gives a
second length beside it. Lost, repeated and wrong results are counted beside it, too: a window that
lacks a result is late until the next one is complete.

A recovery is a value even where it did not happen: then it is censored, with a lower bound, and
with the reason as a word of a closed list, so that a mean can never leave out the worst ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.windows import Normal
from harness.results.kills import Kill, Unrecovered

CALM_S = 5.0
"""Time for which output must have been on time to count as caught up. Windows that are late after
that, before the next failure, are a relapse. Fixed on 2026-11-21 before the first kill was
measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecovery:
    """The output after one failure."""

    seconds: float | None
    """From the failure until the output had caught up; 0 when no window was late."""
    at_least_s: float | None = None
    """Where it had not caught up: the time for which it was watched, a lower bound."""
    why_not: Unrecovered | None = None
    """The reason for missing ``seconds``."""
    outage_s: float | None = None
    """The outage, with its relapses; a lower bound where it is not ``over``. None: unknown."""
    outage_5_s: float | None = None
    """The same for results that were much too late."""
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

        The lower bound of a recovery that did not happen."""
        return self.at_least_s if self.seconds is None else self.seconds

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
            "outage_s": self.outage_s,
            "outage_5_s": self.outage_5_s,
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
    """Measure the outage after one failure, and the recovery that ends it.

    Caught up: the arrival of the last late result before every window has been on time for
    ``calm_s``. Windows due by ``until_s`` count. What is late after a calm is a relapse."""
    after = windows[(windows["complete_s"] > failed_at_s) & (windows["due_s"] <= until_s)]
    if not len(after):
        return unmeasured(Unrecovered.NOTHING_DUE)
    # A window that lacks a result waits for the next one.
    complete_s = after["complete_s"].mask(np.isinf(after["complete_s"])).bfill().fillna(math.inf)
    after = after.assign(complete_s=complete_s)
    measured = partial(_times_of_late, after, failed_at_s, normal.median_s, until_s, calm_s)
    late, much = measured(normal.late_s), measured(normal.much_too_late_s)
    found = OutputRecovery(
        seconds=0.0,
        outage_s=late.seconds,
        outage_5_s=much.seconds if late.over else much.until(until_s),
        over=late.over,
    )
    first = late.times[0] if late.times else None
    if first is None or first.after_calm:
        return replace(found, relapse_s=late.seconds)
    if not late.over and len(late.times) == 1:
        lost = math.isinf(after["complete_s"].iloc[-1])
        why_not = Unrecovered.LOST if lost else Unrecovered.NOT_BY_END
        watched_s = max(0.0, until_s - failed_at_s)
        return replace(found, seconds=None, at_least_s=watched_s, why_not=why_not)
    return replace(
        found,
        seconds=float(first.end_s - failed_at_s),
        relapse_s=float(late.seconds - (first.end_s - first.begin_s)),
    )


@dataclass(frozen=True, slots=True)
class _Time:
    """A time in which output was late."""

    begin_s: float
    end_s: float
    after_calm: bool
    """True if output had been on time since the failure."""


@dataclass(frozen=True, slots=True)
class _Late:
    """The times in which output was late after a failure."""

    times: Sequence[_Time]
    over: bool

    @property
    def seconds(self) -> float:
        """Their length."""
        return self.until(math.inf)

    def until(self, end_s: float) -> float:
        """Return their length before an instant."""
        ends = ((one.begin_s, min(one.end_s, end_s)) for one in self.times)
        return float(sum(max(0.0, end - begin) for begin, end in ends))


def _times_of_late(
    after: pd.DataFrame,
    failed_at_s: float,
    median_s: float,
    until_s: float,
    calm_s: float,
    late_s: float,
) -> _Late:
    """Return the times in which windows took longer than ``late_s``, with a calm between them.

    One that is not over ends with ``until_s``."""
    times: list[_Time] = []
    late_due_s, calm, over = failed_at_s, False, True
    for due_s, complete_s in after[["due_s", "complete_s"]].itertuples(index=False):
        over = complete_s - due_s <= late_s
        if over:
            calm = calm or due_s - late_due_s >= calm_s
            continue
        begin_s = max(failed_at_s, due_s + median_s)
        if times and (not calm or begin_s <= times[-1].end_s):
            one = times.pop()
            times.append(replace(one, end_s=max(one.end_s, complete_s)))
        else:
            times.append(_Time(begin_s, complete_s, after_calm=calm))
        late_due_s, calm = due_s, False
    if not over:
        one = times.pop()
        times.append(replace(one, end_s=max(one.begin_s, until_s)))
    return _Late(times, over)


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
