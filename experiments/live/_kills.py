"""Nodes of the task engine killed one after the other, and the absence of each.

A dead node is seen by the end of its connection. It is restored when every task of it is where it
was: its new primary has processed, stable, all batches of the old one. Times count from the
earliest instant at which the kill can have happened, just before its first signal.

That is the engine's own measure. From outside, a kill is over when output is on time again
(`outside`): windows that were complete before the first kill say what is on time. A pass whose
kills came late is invalid by the rule of all others (`harness.judging.trust`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from harness.experiment import Outcome, Profile

if TYPE_CHECKING:
    from harness.judging.passes import PassRecord
    from harness.judging.runner import Runner
    from workloads.base import Workload

KILL_GAP_S = 2.5
"""Time between two kills: three times that of a node to come back on an idle machine."""
CALM_WINDOWS = 5
"""Fewest windows before the first kill: they say what is on time."""
SLACK_S, WITHIN_S = 0.1, 2.0
"""Time before and after a kill in which events of its node are caused by it."""


OUTSIDE_NOTE = (
    "Two measures of each kill. As the engine reports it: until every task of the node is where it "
    "was. As seen from outside: from the first signal until the last late window was complete; "
    "late is what comes later than usual before the first kill. Windows come at their end and a "
    "kill falls between two ends, so the second measure has up to a slide of waiting in it, or is "
    "0 where no window was late."
)


def measure_kills(
    runner: Runner,
    *,
    workload: Workload,
    rate_per_s: float,
    interval_s: float,
    checkpoint_s: float,
    kills: int,
    gap_s: float = KILL_GAP_S,
    first_s: float = 0.0,
    victims: Sequence[int] = (),
) -> Outcome:
    """Run a pass in which a node dies every ``gap_s``, not before ``first_s`` and `CALM_WINDOWS`.

    Each once the one before is back: the nodes numbered ``victims`` in turn, by default all. Each
    repetition begins at another place between two checkpoints. ``checkpoint_s``: the interval that
    decides how late a kill may be."""
    from harness.cluster.base import Action
    from harness.failures.schedule import FailureEvent, Schedule
    from harness.judging import trust

    first_s = max(first_s, workload.window_s + CALM_WINDOWS * workload.slide_s)
    first_s += runner.context.seed("phase") % 1000 / 1000 * checkpoint_s
    nodes = runner.engine.targets()
    names = [nodes[number].name for number in victims or range(len(nodes))]
    events = [
        FailureEvent(
            # Not always at the same place within a batch and between two checkpoints.
            at_s=first_s + number * gap_s + (number * 0.037) % 0.5,
            action=Action.KILL,
            target=names[number % len(names)],
        )
        for number in range(kills)
    ]
    seconds = first_s + kills * gap_s + 1
    schedule = Schedule(events=events, origin="one node after the other")
    made = runner.steady(
        "kills", workload, rate_per_s, seconds, interval_s, schedule=schedule, truth=True
    )
    record, truth, wrong = made.record, made.due(seconds), made.wrong(seconds)
    timed = runner.context.profile is not Profile.SMOKE
    return Outcome(
        values={
            **wrong,
            "failures": sum(wrong.values()),
            "due": len(truth),
            "injected": sum(1 for done in record.injected if any(v.felt for v in done.victims)),
            "drained": record.drained,
        },
        series={
            "kills": recoveries(record, within_s=gap_s - 0.5).merge(
                outside(record, truth, workload, calm_s=workload.slide_s), how="left", on="at_s"
            )
        },
        invalid=trust.late_pass(record, checkpoint_s, timed=timed),
    )


def outside(
    record: PassRecord,
    truth: pd.DataFrame,
    workload: Workload,
    *,
    calm_s: float,
) -> pd.DataFrame:
    """Return a row per kill: ``at_s``, and the outage as a user sees it.

    A window is due at its end. ``usual_ms`` is the median lateness of the windows that were
    complete before the first kill, which stand for a twin. ``outside_ms`` is the outage
    (`harness.measure.recovery`) with its relapses, and where it was not over a lower bound of it
    is in ``outside_at_least_ms``."""
    from harness.judging import failures
    from harness.measure.recovery import recoveries as of_windows
    from harness.measure.versions import first_of_each
    from harness.measure.windows import normal_of, summarize_windows

    columns = [
        "at_s", "outside_ms", "outside_at_least_ms", "outside_why_not", "overlaps", "usual_ms",
    ]  # fmt: skip
    kills_s = [one.at_s for one in failures.done(record)]
    stable = record.deliveries[record.deliveries["stability"] == "stable"]
    identity = workload.identity_in_run
    first = first_of_each(stable.sort_values("arrival_s"), identity)
    windows = summarize_windows(first, truth, lambda start_s: start_s + workload.window_s, identity)
    complete = windows["complete_s"] < min(kills_s, default=0.0)
    calm = windows[complete & windows["due_s"].between(workload.window_s, record.until_s)]
    if not len(calm):
        return pd.DataFrame(columns=columns).astype({"at_s": float})
    normal = normal_of(calm, from_s=workload.window_s, until_s=record.until_s)
    found = of_windows(
        windows, failed_at_s=kills_s, normal=normal, until_s=record.until_s, calm_s=calm_s
    )
    rows = [
        (
            at_s,
            _ms(one.outage_s if one.over else None, 0.0),
            _ms(None if one.over else one.outage_s, 0.0),
            one.why_not and one.why_not.value,
            one.overlaps,
            normal.median_s * 1000,
        )
        for at_s, one in zip(kills_s, found, strict=True)
    ]
    return pd.DataFrame(rows, columns=columns)


def recoveries(record: PassRecord, *, within_s: float = WITHIN_S) -> pd.DataFrame:
    """Return a row per kill: times until it was seen, and until all its tasks were restored.

    Null where the node had no task, or one of them did not come back within ``within_s``. The steps
    of the last task count from detection: its new primary is there (``there_ms``), has its state
    (``ready_ms``), and is where the old one was (``takeover_ms``).

    All clocks are of one machine. A kill happens between two instants, read just before its first
    signal and right after its last (``signal_ms`` later): times count from the earlier one, so
    that they are never too short. Where a backend knows only the later one, a busy machine can
    read it after consequences of the kill (`SLACK_S`)."""
    from harness.judging.failures import regained

    noticed = record.incidents
    rows = []
    for done in record.injected:
        for victim in (victim for victim in done.victims if victim.felt):
            after_s = victim.at_unix_s - record.start_unix_s
            known = victim.began_unix_s is not None
            at_s = victim.earliest_unix_s - record.start_unix_s
            first_s = at_s if known else at_s - SLACK_S
            near = noticed["at_s"].between(first_s, at_s + within_s)
            mine = noticed[(noticed["target"] == victim.node) & near]
            seen = mine[mine["event"] == "failed"]["at_s"]
            lost = mine[mine["event"] == "detected"].head(1)
            back = regained(mine, lost.iloc[0]) if len(lost) else mine.iloc[:0]
            detected_s = lost["at_s"].iloc[0] if len(lost) else None
            restored_s = back["at_s"].iloc[0] if len(back) else None
            rows.append(
                {
                    "node": victim.node,
                    "at_s": at_s,
                    "late_ms": done.lateness_s * 1000,
                    "signal_ms": _ms(after_s, at_s),
                    "tasks": lost["tasks"].iloc[0] if len(lost) else "",
                    "seen_ms": _ms(seen.min() if len(seen) else None, at_s),
                    "there_ms": _after(back, "there_after_s"),
                    "ready_ms": _after(back, "ready_after_s"),
                    "takeover_ms": _ms(restored_s, detected_s),
                    "restored_ms": _ms(restored_s, at_s),
                    "how": back["cause"].iloc[0] if len(back) else "",
                }
            )
    return pd.DataFrame(rows)


def _after(back: pd.DataFrame, step: str) -> float | None:
    """Return milliseconds from detection to a step of the task that was back last."""
    known = back[step].dropna() if step in back else back.iloc[:0]
    return float(known.iloc[0]) * 1000 if len(known) else None


def _ms(until_s: float | None, since_s: float | None) -> float | None:
    return None if until_s is None or since_s is None else (until_s - since_s) * 1000
