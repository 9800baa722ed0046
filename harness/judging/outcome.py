"""From what happened in a twin and in a pass with failures to the numbers of a run.

Pure: frames in, an `Outcome` out. The ground truth is the batch query over the same topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from harness.cluster.base import Action
from harness.engines.base import NOT_SCORED, EventKind, Scored
from harness.failures.injector import ROW
from harness.failures.schedule import Schedule
from harness.judging import resources, trust
from harness.judging.contributions import tuple_success
from harness.judging.disturbances import (
    BREAKS,
    OF_ONE_FAILURE,
    aftermath,
    disturbances,
    planned,
    reached,
    without_times,
)
from harness.judging.passes import PassRecord
from harness.measure.recovery import Unrecovered
from harness.measure.versions import Comparison, Versions, compare, versions
from harness.measure.windows import (
    Normal,
    due_times,
    normal_of,
    summarize_windows,
    timeline,
)
from harness.results.record import Outcome
from workloads.base import Workload

BIN_S = 0.5
"""Of the timeline."""
TWIN_BEHIND = "the twin did not follow its load, so no time can be compared with it"


def judge(
    twin: PassRecord,
    failed: PassRecord,
    truth: pd.DataFrame,
    *,
    workload: Workload,
    schedule: Schedule,
    trigger_s: float,
    settle_s: float,
    accuracy: Scored = NOT_SCORED,
    timed: bool = True,
) -> Outcome:
    """``truth`` has ``window_start_s`` and the workload's other columns; the first ``settle_s``
    seconds of the load count for no latency. ``accuracy`` is what the engine scored; ``timed``:
    whether anything is said of times."""
    identity = workload.identity_in_run
    calm = _Seen(twin, truth, workload, identity)
    broken = _Seen(failed, truth, workload, identity)
    problem = trust.incomparable(twin, failed, truth) or trust.missed(failed)
    mistimed = trust.mistimed(twin, failed)
    normal = _normal(calm, settle_s, failed.until_s)
    kept_up = normal is not None and normal.kept_up(trigger_s)
    after = aftermath(
        failed,
        broken.windows,
        normal,
        twin_kept_up=kept_up,
        arrival_s=broken.first["arrival_s"],
        twin_arrival_s=calm.first["arrival_s"],
    )
    if mistimed is not None:
        after = without_times(after)
    values = {
        **_correctness(calm, broken, truth, identity, workload),
        **_table(failed, truth, identity, workload),
        **_failures(failed, schedule),
        **_latencies(calm, broken, settle_s, trusted=mistimed is None),
        **_yardstick(normal if mistimed is None else None, kept_up),
        **_first_failure(after),
        **resources.used(twin, failed),
        **_conditions(twin, failed),
        "paper_accuracy_first": accuracy.first,
        "paper_accuracy_last": accuracy.last,
        "paper_accuracy_reason": accuracy.reason,
        "success_rate": tuple_success(failed, broken.first, workload, identity),
        "twin_success_rate": tuple_success(twin, calm.first, workload, identity),
        "records": failed.load.records,
        "load_s": failed.until_s,
        "load_lag_s": failed.load.lag["p99_s"],
        "dropped_rows": trust.dropped(failed),
        "twin_dropped_rows": trust.dropped(twin),
        "restarts": _restarts(failed),
        **_adaptations(failed),
        "drained": failed.drained,
        "stalled": failed.stalled,
        "died": failed.died,
        "mistimed": mistimed,
        "schedule": schedule.to_json(),
    }
    series = {**_series(calm, broken), "accuracy": accuracy.windows, "recoveries": after}
    return Outcome(
        values=values,
        series=series,
        invalid=problem or (mistimed if timed else None),
        again=TWIN_BEHIND if timed and not kept_up else None,
    )


class _Seen:
    """One pass as a reader of its results saw it."""

    def __init__(
        self, record: PassRecord, truth: pd.DataFrame, workload: Workload, identity: Sequence[str]
    ) -> None:
        self.record, self.window_s = record, workload.window_s
        self.versions: Versions = versions(record.deliveries, identity, workload.values)
        self.first = with_latency(self.versions.first, record, workload)
        self.windows = summarize_windows(self.first, truth, partial(_due_s, record, workload))


def with_latency(first: pd.DataFrame, record: PassRecord, workload: Workload) -> pd.DataFrame:
    """The first versions of a pass's results with ``latency_s``: arrival minus due time."""
    return first.assign(
        latency_s=lambda f: f["arrival_s"] - _due_s(record, workload, f["window_start_s"])
    )


def settled_latency_s(first: pd.DataFrame, settle_s: float) -> pd.Series[float]:
    """Of what `with_latency` gave, the latencies of the results that a record of the load closed
    after the settling time."""
    due = first["arrival_s"] - first["latency_s"]
    latency: pd.Series[float] = first.loc[
        np.isfinite(first["latency_s"]) & (due >= settle_s), "latency_s"
    ]
    return latency


def _due_s(
    record: PassRecord, workload: Workload, window_start_s: pd.Series[float]
) -> pd.Series[float]:
    due: pd.Series[float] = due_times(
        window_start_s,
        window_s=workload.window_s,
        watermark_delay_s=workload.watermark_delay_s
        if record.closes_after_s is None
        else record.closes_after_s,
        # Event time stands still until the slowest source has moved on.
        next_record_s=lambda at_s: max(_next_of(s.rate, at_s) for s in record.plan.streams),
    )
    return due


def _next_of(rate: Any, at_s: float) -> float:
    """Records at or before an instant are numbered below ``due``."""
    number = max(rate.due(at_s) - 1, 0)
    while number < rate.records:
        intended = float(rate.intended_s(np.array([number]))[0])
        if intended >= at_s:
            return intended
        number += 1
    return float("inf")


def _correctness(
    calm: _Seen, broken: _Seen, truth: pd.DataFrame, identity: list[str], workload: Workload
) -> dict[str, Any]:
    """Equality is of stable output: the first stable version of every result, and what stands at
    the end. Accuracy is of what a user saw, tentative or not."""
    values = list(workload.values)
    seen, calmly = broken.versions, calm.versions
    stable = compare(seen.stable, truth, identity, values)
    standing = compare(seen.last, truth, identity, values)
    twin_truth = compare(calmly.stable, truth, identity, values)
    against_twin = compare(seen.stable, calmly.stable, identity, values)
    given_up = broken.record.died is not None or broken.record.stalled
    late = not broken.record.drained and not given_up
    return {
        "output_equals_truth": _verdict(stable, standing, late=late),
        "output_equals_twin": _verdict(against_twin, late=late),
        "twin_equals_truth": twin_truth.equal,
        "difference_from_truth": (standing if stable.equal else stable).describe(),
        "difference_from_twin": against_twin.describe(),
        "results": stable.expected,
        "accuracy_first": compare(seen.first, truth, identity, values).accuracy,
        "accuracy_last": standing.accuracy,
        "contradictions": len(seen.contradictions) + len(calmly.contradictions),
        "duplicates": seen.duplicates,
        "twin_duplicates": calmly.duplicates,
        "tentative": seen.tentative,
        "corrections": seen.corrections,
        "uncorrected": seen.uncorrected,
    }


def _verdict(*found: Comparison, late: bool) -> bool | None:
    """Whether all are equal. None for a pass that was ended while its last results were still to
    come (`DRAIN_S`), if all that is wrong is that some are missing: whether they would have come
    nobody knows. An engine that died or stalled lost them."""
    if all(one.equal for one in found):
        return True
    only_missing = not any(len(one.wrong) + len(one.extra) for one in found)
    return None if late and only_missing else False


def _table(
    failed: PassRecord, truth: pd.DataFrame, identity: list[str], workload: Workload
) -> dict[str, Any]:
    """The database table against the ground truth; null for a workload without one."""
    if failed.table is None:
        return dict.fromkeys(["table_rows", "table_equals_truth", "table_difference"])
    found = compare(failed.table, truth, identity, list(workload.values))
    return {
        "table_rows": len(failed.table),
        "table_equals_truth": found.equal,
        "table_difference": found.describe(),
    }


def _failures(failed: PassRecord, schedule: Schedule) -> dict[str, Any]:
    kills = [done for done in failed.injected if done.event.action is Action.KILL]
    killed = [done for done in kills if reached(done)]
    failures = disturbances(failed)
    return {
        "failures_planned": planned(schedule),
        "failures_done": len(failures),
        "failed_at_s": failures[0].at_s if failures else None,
        "failure_lateness_s": max(
            (done.lateness_s for done in failed.injected if done.event.action in BREAKS),
            default=None,
        ),
        "kills_planned": len(schedule.kills),
        "kills_done": len(killed),
        "processes_killed": sum(done.processes for done in kills),
        "nodes_killed": sorted({v.node for done in killed for v in done.victims if v.felt}),
        "kill_lateness_s": max((done.lateness_s for done in kills), default=None),
        "injection_errors": [done.error for done in failed.injected if done.error],
        "killed_at_s": min(
            (done.began_unix_s - failed.start_unix_s for done in killed), default=None
        ),
    }


def _normal(calm: _Seen, settle_s: float, until_s: float) -> Normal | None:
    """None where the twin did not complete every window."""
    try:
        return normal_of(calm.windows, from_s=settle_s, until_s=until_s)
    except ValueError:
        return None


def _latencies(calm: _Seen, broken: _Seen, settle_s: float, *, trusted: bool) -> dict[str, Any]:
    """Null where the times cannot be trusted."""
    until_s = broken.record.until_s
    found = {
        **_quantiles("latency", settled_latency_s(broken.first, settle_s)),
        **_quantiles("twin_latency", settled_latency_s(calm.first, settle_s)),
        **_quantiles("end_latency", _end_latency_s(broken, settle_s)),
        **_quantiles("twin_end_latency", _end_latency_s(calm, settle_s)),
        "throughput_per_s": float((broken.first["arrival_s"] < until_s).sum()) / until_s,
    }
    return found if trusted else dict.fromkeys(found)


def _yardstick(normal: Normal | None, kept_up: bool) -> dict[str, Any]:
    return {
        "twin_kept_up": kept_up,
        "normal_latency_s": None if normal is None else normal.late_s,
        "twin_slowest_s": None if normal is None else normal.slowest_s,
        "recovery_resolution_s": None if normal is None else normal.resolution_s,
    }


def _first_failure(after: pd.DataFrame) -> dict[str, Any]:
    """The first failure's own row of the table of recoveries; the others stand there."""
    if not len(after):
        nothing = dict.fromkeys(OF_ONE_FAILURE)
        return nothing | {"recovery_why_not": Unrecovered.NOTHING_FAILED.value}
    row = after.iloc[0].astype(object)
    return {name: None if pd.isna(row[name]) else row[name] for name in OF_ONE_FAILURE}


def _end_latency_s(seen: _Seen, settle_s: float) -> pd.Series[float]:
    """Of the results that count for latency, how long after its window's end each arrived."""
    counted = settled_latency_s(seen.first, settle_s).index
    first = seen.first.loc[counted]
    latency: pd.Series[float] = first["arrival_s"] - first["window_start_s"] - seen.window_s
    return latency


def _quantiles(name: str, latency_s: pd.Series[float]) -> dict[str, float | None]:
    if not len(latency_s):
        return dict.fromkeys([f"{name}_p50_s", f"{name}_p99_s", f"{name}_max_s"])
    return {
        f"{name}_p50_s": float(latency_s.quantile(0.5)),
        f"{name}_p99_s": float(latency_s.quantile(0.99)),
        f"{name}_max_s": float(latency_s.max()),
    }


def _conditions(twin: PassRecord, failed: PassRecord) -> dict[str, Any]:
    """What else could have decided the numbers: the load generator, the machine, the clock."""
    return {
        "load_nice": failed.load.nice,
        "load_cpu_s": failed.load.cpu_s,
        "load_delivery_p99_s": failed.load.delivery["p99_s"],
        "twin_first": twin.start_unix_s < failed.start_unix_s,
        **{f"twin_{name}": value for name, value in twin.conditions.items()},
        **failed.conditions,
    }


def _restarts(record: PassRecord) -> int:
    return int((record.incidents["event"] == "restarted").sum()) if len(record.incidents) else 0


def _adaptations(record: PassRecord) -> dict[str, Any]:
    """What changes of the plan cost in all, and what the last one kept."""
    events = record.incidents
    changes = events[events["event"] == EventKind.ADAPTED.value] if len(events) else events
    if not len(changes):
        return {
            "plan_changes": 0,
            "plan_cost": 0,
            "plan_value_before": None,
            "plan_value_after": None,
        }
    return {
        "plan_changes": len(changes),
        "plan_cost": int(changes["cost"].sum()),
        "plan_value_before": float(changes["value_before"].iloc[-1]),
        "plan_value_after": float(changes["value_after"].iloc[-1]),
    }


def _series(calm: _Seen, broken: _Seen) -> Mapping[str, pd.DataFrame]:
    both = {"twin": calm, "failed": broken}
    last_s = [float(s.first["arrival_s"].max()) for s in both.values() if len(s.first)]
    until_s = max([broken.record.until_s, *last_s]) + BIN_S

    def stacked(part: Any) -> pd.DataFrame:
        frames = [part(seen).assign(**{"pass": name}) for name, seen in both.items()]
        filled = [frame for frame in frames if len(frame)]
        together: pd.DataFrame = pd.concat(filled or frames[:1], ignore_index=True)
        return together

    return {
        "results": stacked(lambda seen: seen.first),
        "windows": stacked(lambda seen: seen.windows),
        "timeline": stacked(lambda seen: timeline(seen.first, until_s=until_s, bin_s=BIN_S)),
        "batches": stacked(lambda seen: seen.record.batches),
        "usage": stacked(lambda seen: seen.record.usage),
        "incidents": broken.record.incidents,
        "failures": pd.DataFrame(
            [done.row(broken.record.start_unix_s) for done in broken.record.injected],
            columns=list(ROW),
        ),
    }
