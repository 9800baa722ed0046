"""Outages of a pass, and the parts of each.

The outage is that of `harness.measure.recovery`, the one yardstick, with every relapse, such as
that when the next process starts. One that is not over when the next kill comes, or when the load
ends, is a lower bound, and the next kill's overlaps it. The parts count from the kill. Each is
measured by itself, by the observer who sees it, and none is what the others leave over:

* *detection*: from the injector's first signal to the engine's own report;
* *new place* and *restoration*: durations that the engine reports, or Spark's event log;
* *open transaction*: those of the dead between two tasks, from when state was there until the
  broker lists none (the engine asks it), and then the first late result, from its append until it
  can be read, both by the broker's clock;
* *replay*: from the first late result until the last one before the calm, in the out topic alone;
* *relapse*: the time for which results were late again, in the out topic alone.

So nothing makes them add up. Time between the report that state is there and the first late result
is in no part, and reports that overlap results are counted twice: `apart_s` has the difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from harness.failures.schedule import ENDS
from harness.measure.recovery import recovery
from harness.measure.windows import Normal, normal_of

if TYPE_CHECKING:
    from experiments.live._outage import Reports
    from harness.judging.passes import PassRecord
    from workloads.base import Workload

HELD = "held_s"
"""A detail of an engine's events (`harness.engines.kafka_streams.engine`)."""
WAVE_S = 1.0
"""Longest time in which the tasks of one batch are launched; those of the next one follow after the
checkpoint interval."""
PARTS = ("detection_s", "restart_s", "restore_s", "transaction_s", "replay_s")
"""Until the engine noticed; until the lost work had a place; until its state was there; until the
first late result could be read, of an engine that writes in transactions; until the last one before
output had caught up. ``relapse_s`` is the rest."""
Steps = Callable[[pd.DataFrame, float, float], tuple[float, float] | None]
"""From the engine's events about the killed nodes, the kill and the detection: the time until the
lost work had a place, and the time until its state was there; None where they are not known."""


def windows_of(record: PassRecord, workload: Workload, *, settled_s: float) -> pd.DataFrame:
    """Return a row per window: its end, its last result's arrival, its lateness.

    A window without any result is late until the next one comes, for ever if none does. Of a
    repeated result the first counts, of one that is revised the first with the value that
    stays. ``appended_s`` is its append, which in a transaction is earlier.
    Windows that end before ``settled_s`` are left out."""
    stable = record.deliveries[record.deliveries["stability"] == "stable"]
    first = stable.drop_duplicates(workload.identity_in_run)
    if "appended_s" not in first:
        first = first.assign(appended_s=first["arrival_s"])
    grouped = first.groupby("window_start_s")[["arrival_s", "appended_s"]].max()
    grouped.index = grouped.index.map(lambda begin_s: round((begin_s + workload.window_s) * 1000))
    slide_ms = round(workload.slide_s * 1000)
    first_ms = math.ceil(settled_s * 1000 / slide_ms) * slide_ms
    ends_ms = pd.RangeIndex(first_ms, round(record.until_s * 1000) + 1, slide_ms, name="ended_s")
    frame = grouped.reindex(ends_ms).bfill().fillna(math.inf).reset_index()
    frame = frame.rename(columns={"arrival_s": "arrived_s"})
    frame["ended_s"] /= 1000
    return frame.assign(late_s=frame["arrived_s"] - frame["ended_s"])


def outages(
    record: PassRecord,
    windows: pd.DataFrame,
    normal: Normal | None,
    steps: Steps | None = None,
) -> pd.DataFrame:
    """Return a row per kill; ``normal`` is the twin's lateness.

    A kill that came while results were late because of the one before has no outage of its own.
    ``hit_work``: a result was late after it, or the engine reported a recovery. Else nothing ran
    there that output hangs on, or nobody can tell.
    ``steps``: `reported` by default."""
    kills = [
        (
            min(victim.earliest_unix_s for victim in one.victims if victim.felt)
            - record.start_unix_s,
            one.event,
            {victim.node for victim in one.victims if victim.felt},
        )
        for one in record.injected
        if one.event.action in ENDS and one.felt
    ]
    rows: list[dict[str, object]] = []
    for number, (at_s, event, nodes) in enumerate(kills):
        next_s = kills[number + 1][0] if number + 1 < len(kills) else record.until_s
        seen = _of_kill(record.incidents, at_s, next_s, nodes)
        row = outage(windows, seen, at_s, next_s, normal, steps or reported)
        back = seen is not None and bool((seen["event"] == "recovered").any())
        late = bool(row["outage_s"])  # unknown without a window of the twin
        mixed = bool(rows) and not rows[-1]["caught_up"]
        own = {**_nothing(), "caught_up": row["caught_up"]} if mixed else row
        where: dict[str, object] = {
            "number": number,
            "target": event.target,
            "action": event.action.value,
            "nodes": "+".join(sorted(nodes)),
            "at_s": at_s,
            "hit_work": back or late,
            "overlaps": mixed or (number + 1 < len(kills) and not row["caught_up"]),
        }
        rows.append({**where, **own})
    return pd.DataFrame(rows)


def usual(twin: pd.DataFrame) -> Normal | None:
    """Return the lateness of the twin's windows; None if it has none, or one that never came."""
    named = twin.rename(columns={"ended_s": "due_s", "late_s": "latency_s"})
    try:
        return normal_of(named, from_s=0.0, until_s=math.inf)
    except ValueError:
        return None


def _of_kill(
    incidents: pd.DataFrame, at_s: float, next_s: float, nodes: set[str]
) -> pd.DataFrame | None:
    """Return the engine's events between two kills about these nodes; None if it has none ever."""
    if "target" not in incidents:
        return None
    near = incidents["at_s"].between(at_s, next_s) & incidents["target"].isin(nodes)
    return incidents[near].sort_values("at_s")


def outage(
    windows: pd.DataFrame,
    seen: pd.DataFrame | None,
    at_s: float,
    next_s: float,
    normal: Normal | None,
    steps: Steps,
) -> dict[str, float | bool | None]:
    """Return the outage of one kill and its parts, null where they are not known.

    An outage that lasts until the next kill is not caught up, and a lower bound."""
    found = _nothing()
    if normal is None:
        return found
    due = windows[(windows["arrived_s"] > at_s) & (windows["ended_s"] + normal.late_s < next_s)]
    named = due.rename(columns={"ended_s": "due_s", "arrived_s": "complete_s"})
    back = recovery(named, failed_at_s=at_s, normal=normal, until_s=next_s)
    if back.seen_s is None:
        return found
    end_s = at_s + back.seen_s
    found |= {
        "outage_s": back.outage_s,
        "outage_5_s": back.outage_5_s,
        "recovery_s": back.seen_s,
        "caught_up": back.over,
        "after_s": float(due[due["ended_s"] > end_s]["late_s"].median()),
        "relapse_s": back.relapse_s,
    }
    late = due[(due["late_s"] > normal.late_s) & (due["arrived_s"] <= end_s)]
    if seen is None or not len(late):
        return found
    detected = seen[seen["event"] == "detected"]["at_s"]
    if not len(detected):
        return found
    noticed_s = float(detected.min())
    if (own := steps(seen, at_s, noticed_s)) is None:
        return found
    first = late.loc[late["arrived_s"].idxmin()]
    between_s = float(seen[HELD].max()) if HELD in seen and seen[HELD].notna().any() else 0.0
    out_s, free_s = float(first["arrived_s"]), noticed_s + sum(own) + between_s
    held_s = between_s + max(0.0, out_s - max(float(first["appended_s"]), free_s))
    seconds = (noticed_s - at_s, *own, held_s, end_s - out_s)
    named_parts = dict(zip(PARTS, seconds, strict=True))
    return {**found, **named_parts, "apart_s": back.seen_s - sum(seconds)}


def _nothing() -> dict[str, float | bool | None]:
    """Return the row of a kill of which nothing is known."""
    names = ("outage_s", "outage_5_s", "recovery_s", "after_s", "relapse_s", *PARTS, "apart_s")
    return {**dict.fromkeys(names), "caught_up": False}


def reported(seen: pd.DataFrame, at_s: float, noticed_s: float) -> tuple[float, float] | None:
    """Return both times by the engine's own events."""
    back = seen[seen["event"] == "recovered"]
    if len(back) and "ready_after_s" in back and back["ready_after_s"].notna().any():
        there_s, ready_s = (float(back[name].max()) for name in ("there_after_s", "ready_after_s"))
        return there_s, ready_s - there_s
    restarted = seen[(seen["event"] == "restarted") & (seen["at_s"] >= noticed_s)]["at_s"]
    placed_s = float(restarted.max()) if len(restarted) else noticed_s
    restored_s = float(back["at_s"].max()) if len(back) else placed_s
    return placed_s - noticed_s, restored_s - placed_s


def of_spark(reports: Reports, start_unix_s: float, *, real_time: bool) -> Steps:
    """Return the steps of the stock engine, from Spark's event log.

    In micro-batches the batch that was interrupted restores the state and goes on with its work. In
    real-time mode the query is started again, and its tasks report nothing before they are asked
    for a checkpoint: the work has a place when the last of them was launched."""
    from experiments.live._outage import pause_and_work_s

    def micro_batches(
        seen: pd.DataFrame, at_s: float, noticed_s: float
    ) -> tuple[float, float] | None:
        back = seen[seen["event"] == "recovered"]["at_s"]
        return pause_and_work_s(
            reports,
            killed_s=start_unix_s + at_s,
            committed_s=start_unix_s + float(back.max()) if len(back) else None,
        )

    def live(seen: pd.DataFrame, at_s: float, noticed_s: float) -> tuple[float, float] | None:
        launched = [one.began_s - start_unix_s for one in reports.tasks]
        launched = [each for each in launched if each >= noticed_s]
        if not launched:
            return None
        placed_s = max(each for each in launched if each <= min(launched) + WAVE_S)
        return placed_s - noticed_s, 0.0

    return live if real_time else micro_batches
