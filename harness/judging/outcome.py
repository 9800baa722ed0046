"""The judge: the numbers of a run, from the records of its twin and its pass with failures.

Pure: frames in, an `Outcome` out. The ground truth is the batch query over the same topics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from harness.cluster.base import Action
from harness.engines.base import NOT_SCORED, EventKind, Scored
from harness.failures.injector import ROW
from harness.failures.schedule import ENDS, Schedule
from harness.judging import again, failures, resources, trust
from harness.judging.contributions import newest_contributions_s, tuple_success
from harness.judging.headroom import room_facts
from harness.judging.passes import PassRecord
from harness.load.plan import Stream
from harness.measure.recovery import CALM_S
from harness.measure.values import normalized, types_of
from harness.measure.versions import (
    Comparison,
    Versions,
    compare,
    early_error,
    first_of_each,
    revises,
    settled,
    versions,
)
from harness.measure.windows import Normal, due_times, normal_of, summarize_windows, timeline
from harness.results.kills import OF_ONE_FAILURE, SERIES, Kill, Unrecovered, frame_of
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
    stationary: bool = True,
    punctual_s: float | None = None,
    calm_s: float = CALM_S,
) -> Outcome:
    """Judge a pass with failures by its twin and by the ground truth.

    ``truth`` has ``window_start_s`` and the workload's other columns. The first ``settle_s``
    seconds of the load count for no latency. ``accuracy`` is the engine's score. Without ``timed``
    (the smoke profile) a pass that was not on time makes no run invalid (`harness.judging.trust`),
    and with ``stationary`` one whose twin fell behind is made again. The others are a `LiveRun`'s;
    ``punctual_s`` is by default that of a checkpoint every ``trigger_s``."""
    (twin, failed), truth = in_one_form([twin, failed], truth, workload)
    punctual_s = trust.punctual_s(trigger_s) if punctual_s is None else punctual_s
    calm, broken = _Seen(twin, truth, workload), _Seen(failed, truth, workload)
    problem = trust.incomparable(twin, failed, truth, workload) or trust.missed(failed, schedule)
    untimed = (mistimed := trust.mistimed(twin, failed)) or trust.unclear(twin, failed)
    normal = _normal(calm, settle_s, failed.until_s)
    kept_up = normal is not None and normal.kept_up(trigger_s)
    after = failures.aftermath(
        failed,
        broken.windows,
        normal,
        twin_kept_up=kept_up,
        arrival_s=broken.first["arrival_s"],
        twin_arrival_s=calm.first["arrival_s"],
        twin_windows=calm.windows,
        calm_s=calm_s,
    )
    if untimed is not None:
        after = [failure.without_times for failure in after]
    values = {
        **_correctness(calm, broken, truth, workload),
        **_table(failed, truth, workload),
        **_failures(failed, schedule, after),
        "punctual_s": punctual_s,
        **_latencies(calm, broken, normal, settle_s, trusted=untimed is None),
        "twin_kept_up": kept_up,
        **_first_failure(after),
        **resources.used(twin, failed),
        **_conditions(twin, failed),
        **room_facts(twin, failed, settle_s=settle_s, timed=timed),
        "paper_accuracy_first": accuracy.first,
        "paper_accuracy_last": accuracy.last,
        "paper_accuracy_reason": accuracy.reason,
        "success_rate": tuple_success(failed, broken.first, workload),
        "twin_success_rate": tuple_success(twin, calm.first, workload),
        "twin_dropped_rows": trust.dropped(twin),
        **_course(failed),
        "mistimed": untimed,
        "schedule": schedule.to_json(),
    }
    return Outcome(
        values=values,
        series=_series(calm, broken, accuracy.windows, after, truth),
        invalid=problem or (mistimed or trust.unpunctual(failed, punctual_s) if timed else None),
        again=TWIN_BEHIND if timed and stationary and not kept_up else None,
    )


def _course(failed: PassRecord) -> dict[str, Any]:
    """Return the course of the pass with failures: its load, restarts and end."""
    return {
        "records": failed.load.records,
        "load_s": failed.until_s,
        "load_lag_s": failed.load.lag["p99_s"],
        "dropped_rows": trust.dropped(failed),
        "restarts": restarts(failed),
        **_adaptations(failed),
        "drained": failed.drained,
        "stalled": failed.stalled,
        "died": failed.died,
    }


def in_one_form(
    passes: Sequence[PassRecord], truth: pd.DataFrame, workload: Workload
) -> tuple[list[PassRecord], pd.DataFrame]:
    """Return the passes and the truth with all results in the form of their types."""
    types = types_of(truth, workload.columns, workload.types)
    formed = [
        replace(
            one,
            deliveries=normalized(one.deliveries, types),
            table=None if one.table is None else normalized(one.table, types),
        )
        for one in passes
    ]
    return formed, normalized(truth, types)


def against_truth(
    stable: pd.DataFrame, truth: pd.DataFrame, workload: Workload, identity: list[str]
) -> Comparison:
    """Compare the first copies of stable results with the ground truth."""
    types = types_of(truth, workload.columns, workload.types)
    due, once = normalized(truth, types), normalized(first_of_each(stable, identity), types)
    return compare(once, due, identity, workload.values, tolerance=workload.tolerance)


def wrong_results(
    deliveries: pd.DataFrame, truth: pd.DataFrame, workload: Workload
) -> dict[str, int]:
    """Count what is wrong with a pass's output: all are 0 where stable results equal the truth."""
    identity = workload.identity_in_run
    stable = deliveries[deliveries["stability"] == "stable"]
    found = against_truth(stable, truth, workload, identity)
    return {
        "lost": len(found.missing),
        "duplicated": int(stable.duplicated(identity).sum()),
        "contradictions": len(found.extra) + len(found.wrong),
    }


class _Seen:
    """One pass in the view of a reader of its results.

    Its ``first`` has the versions whose arrival counts: the first ones, of revisions the first
    with the value that stays."""

    def __init__(self, record: PassRecord, truth: pd.DataFrame, workload: Workload) -> None:
        identity, values = workload.identity_in_run, workload.values
        tolerance = workload.tolerance
        self.record, self.window_s = record, workload.window_s
        self.settled = settled(record.deliveries, identity, values, tolerance=tolerance)
        self.versions: Versions = versions(self.settled, identity, values, tolerance=tolerance)
        self.revises = revises(record.deliveries)
        counted = self.versions.stable if self.revises else self.versions.first
        self.first = with_latency(counted, record, workload, revised=self.revises)
        self.earliest = with_latency(self.versions.first, record, workload, revised=self.revises)
        self.windows = summarize_windows(
            self.first, truth, partial(_due_s, record, workload), identity
        )


def with_latency(
    first: pd.DataFrame, record: PassRecord, workload: Workload, *, revised: bool = False
) -> pd.DataFrame:
    """Return versions of a pass's results with ``latency_s``: arrival minus due time.

    A revision is due with the newest record that goes into its result, where the workload has
    `Workload.contributions`; elsewhere with its window, and one that came before is not late."""
    if revised and workload.contributions is not None:
        newest_s = newest_contributions_s(first, record, workload)
        return first.assign(latency_s=first["arrival_s"] - newest_s)
    latency_s = first["arrival_s"] - _due_s(record, workload, first["window_start_s"])
    return first.assign(latency_s=latency_s.clip(lower=0.0) if revised else latency_s)


def settled_latency_s(first: pd.DataFrame, settle_s: float) -> pd.Series[float]:
    """Return the latencies of results that a record of the load closed after the settling time.

    ``first`` is a frame of `with_latency`."""
    due = first["arrival_s"] - first["latency_s"]
    latency: pd.Series[float] = first.loc[
        np.isfinite(first["latency_s"]) & (due >= settle_s), "latency_s"
    ]
    return latency


def first_latencies_s(record: PassRecord, workload: Workload, settle_s: float) -> pd.Series[float]:
    """Return `settled_latency_s` of the first version of each result of a pass."""
    first = versions(record.deliveries, workload.identity_in_run, workload.values).first
    return settled_latency_s(with_latency(first, record, workload), settle_s)


def _due_s(
    record: PassRecord, workload: Workload, window_start_s: pd.Series[float]
) -> pd.Series[float]:
    own = record.plan.event.begin_unix_s is not None
    due: pd.Series[float] = due_times(
        window_start_s,
        window_s=workload.window_s,
        watermark_delay_s=workload.watermark_delay_s
        if record.closes_after_s is None
        else record.closes_after_s,
        # Event time stands still until the slowest source has moved on.
        next_record_s=lambda at_s: max(
            stream.awake_s(
                _next_of(stream, (at_s + stream.lag_s) / record.plan.event.speed, by_marker=own)
            )
            for stream in record.plan.streams
        ),
    )
    return due


def _next_of(stream: Stream, at_s: float, *, by_marker: bool) -> float:
    """Return when the first record at or after an instant is due, with ``by_marker`` any marker.

    A recording may pause for long; then a marker moves event time on."""
    rate, marker_s = stream.rate, stream.marker_s
    if by_marker and marker_s and at_s <= rate.duration_s:
        return min(_next_of(stream, at_s, by_marker=False), math.ceil(at_s / marker_s) * marker_s)
    number = max(rate.due(at_s) - 1, 0)
    while number < rate.records:
        intended = float(rate.intended_s(np.array([number]))[0])
        if intended >= at_s:
            return intended
        number += 1
    return float("inf")


def _correctness(
    calm: _Seen, broken: _Seen, truth: pd.DataFrame, workload: Workload
) -> dict[str, Any]:
    """Compare the outputs with each other and with the truth.

    Equality is that of stable output: the first stable version of every result, and the one at the
    end. Accuracy is that of first versions, on which users act, tentative or not."""
    identity = workload.identity_in_run
    against = partial(
        compare, identity=identity, values=workload.values, tolerance=workload.tolerance
    )
    seen, calmly = broken.versions, calm.versions
    stable = against(seen.stable, truth)
    standing = against(seen.last, truth)
    twin_truth = against(calmly.stable, truth)
    against_twin = against(seen.stable, calmly.stable)
    late, twin_late = _unfinished(broken.record), _unfinished(calm.record)
    twin_short = twin_late or ("the twin lost results" if len(twin_truth.missing) else None)
    return {
        "output_equals_truth": _verdict(stable, standing, missing=late),
        "output_equals_twin": _verdict(against_twin, missing=late, extra=twin_short),
        "twin_equals_truth": _verdict(twin_truth, missing=twin_late),
        "incomplete": late or twin_short,
        "tolerance": workload.tolerance,
        "difference_from_truth": (standing if stable.equal else stable).describe(),
        "difference_from_twin": against_twin.describe(),
        "results": stable.expected,
        "accuracy_first": against(seen.first, truth).accuracy,
        "accuracy_last": standing.accuracy,
        "contradictions": len(seen.contradictions) + len(calmly.contradictions),
        "duplicates": seen.duplicates,
        "twin_duplicates": calmly.duplicates,
        "tentative": seen.tentative,
        "corrections": seen.corrections,
        "revises": broken.revises,
        "early_versions": seen.early,
        "setbacks": seen.setbacks,
        "twin_setbacks": calmly.setbacks,
        "early_error": early_error(broken.settled, identity, workload.values)
        if broken.revises
        else None,
        "uncorrected": seen.uncorrected,
    }


def _unfinished(record: PassRecord) -> str | None:
    """Return the reason why results of a pass may be missing without being lost.

    A pass is ended while its last results are still to come (`harness.judging.passes.DRAIN_S`). An
    engine that died or stalled lost them."""
    if record.drained or record.died is not None or record.stalled:
        return None
    why = f": {record.undelivered}" if record.undelivered else ""
    return f"{record.name}: the engine did not deliver everything in the time allowed{why}"


def _verdict(
    *found: Comparison, missing: str | None = None, extra: str | None = None
) -> bool | None:
    """Return True if all are equal, None if they are incomplete, else False.

    Incomplete: the only differences are missing results, or surplus ones (missing on the other
    side), and there is a reason for which that side is incomplete."""
    if all(one.equal for one in found):
        return True
    excused = all(
        not len(one.wrong)
        and (missing is not None or not len(one.missing))
        and (extra is not None or not len(one.extra))
        for one in found
    )
    return None if excused and (missing or extra) else False


def _table(failed: PassRecord, truth: pd.DataFrame, workload: Workload) -> dict[str, Any]:
    """Compare the database table with the ground truth; null for a workload without one."""
    if failed.table is None:
        return dict.fromkeys(["table_rows", "table_equals_truth", "table_difference"])
    identity = workload.identity_in_run
    found = compare(failed.table, truth, identity, workload.values, tolerance=workload.tolerance)
    return {
        "table_rows": len(failed.table),
        "table_equals_truth": _verdict(found, missing=_unfinished(failed)),
        "table_difference": found.describe(),
    }


def _failures(failed: PassRecord, schedule: Schedule, after: Sequence[Kill]) -> dict[str, Any]:
    kills = [done for done in failed.injected if done.event.action is Action.KILL]
    killed = [done for done in kills if done.felt]
    breaks = [done for done in failed.injected if done.event.action in ENDS]
    return {
        "failures_planned": len(schedule.failures),
        "failures_done": len(after),
        "failed_at_s": after[0].at_s if after else None,
        "failure_lateness_s": max((done.lateness_s for done in breaks), default=None),
        "failure_spread_s": max((done.spread_s for done in breaks if done.felt), default=None),
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
    """Return the twin's yardstick; None where the twin did not complete every window."""
    try:
        return normal_of(calm.windows, from_s=settle_s, until_s=until_s)
    except ValueError:
        return None


def _latencies(
    calm: _Seen, broken: _Seen, normal: Normal | None, settle_s: float, *, trusted: bool
) -> dict[str, Any]:
    """Return latencies and throughput; null where the times cannot be trusted."""
    until_s = broken.record.until_s
    found = {
        **_quantiles("latency", settled_latency_s(broken.first, settle_s)),
        **_quantiles("twin_latency", settled_latency_s(calm.first, settle_s)),
        **_quantiles("first_latency", settled_latency_s(broken.earliest, settle_s)),
        **_quantiles("twin_first_latency", settled_latency_s(calm.earliest, settle_s)),
        **_quantiles("end_latency", _end_latency_s(broken, settle_s)),
        **_quantiles("twin_end_latency", _end_latency_s(calm, settle_s)),
        "throughput_per_s": float((broken.first["arrival_s"] < until_s).sum()) / until_s,
        "normal_latency_s": None if normal is None else normal.late_s,
        "twin_slowest_s": None if normal is None else normal.slowest_s,
    }
    return found if trusted else dict.fromkeys(found)


def _first_failure(after: Sequence[Kill]) -> dict[str, Any]:
    """Return the consequences of the first failure; the table of recoveries has those of all."""
    if after:
        return after[0].outcome
    nothing = dict.fromkeys(OF_ONE_FAILURE)
    return nothing | {"recovery_why_not": Unrecovered.NOTHING_FAILED.value}


def _end_latency_s(seen: _Seen, settle_s: float) -> pd.Series[float]:
    """Return the time from a window's end to each of its results that counts for latency."""
    counted = settled_latency_s(seen.first, settle_s).index
    first = seen.first.loc[counted]
    ends_s = (first["window_start_s"] + seen.window_s) / seen.record.plan.event.speed
    latency: pd.Series[float] = first["arrival_s"] - ends_s
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
    """Return other influences on the numbers: the load generator, the machine, the clock."""
    return {
        "load_nice": failed.load.nice,
        "load_cpu_s": failed.load.cpu_s,
        "load_delivery_p99_s": failed.load.delivery["p99_s"],
        "twin_first": twin.start_unix_s < failed.start_unix_s,
        **{f"twin_{name}": value for name, value in twin.conditions.items()},
        **failed.conditions,
    }


def restarts(record: PassRecord) -> int:
    """Return how often a query was started again during the pass."""
    return int((record.incidents["event"] == "restarted").sum()) if len(record.incidents) else 0


def _adaptations(record: PassRecord) -> dict[str, Any]:
    """Return the cost of all changes of the plan, and the fidelity around the last one."""
    events = record.incidents
    changes = events[events["event"] == EventKind.ADAPTED.value] if len(events) else events
    last = changes.iloc[-1] if len(changes) else None
    return {
        "plan_changes": len(changes),
        "plan_cost": 0 if last is None else int(changes["cost"].sum()),
        "plan_value_before": None if last is None else float(last["value_before"]),
        "plan_value_after": None if last is None else float(last["value_after"]),
    }


def _series(
    calm: _Seen,
    broken: _Seen,
    accuracy: pd.DataFrame,
    after: Sequence[Kill],
    truth: pd.DataFrame,
) -> Mapping[str, pd.DataFrame]:
    both = {"twin": calm, "failed": broken}
    last_s = [float(s.first["arrival_s"].max()) for s in both.values() if len(s.first)]
    until_s = max([broken.record.until_s, *last_s]) + BIN_S

    def stacked(part: Any) -> pd.DataFrame:
        frames = [part(seen).assign(**{"pass": name}) for name, seen in both.items()]
        filled = [frame for frame in frames if len(frame)]
        together: pd.DataFrame = pd.concat(filled or frames[:1], ignore_index=True)
        return together

    settings = broken.record.settings
    return {
        **({"settings": settings} if len(settings) else {}),
        again.FIRST: stacked(lambda seen: seen.first),
        again.FURTHER: stacked(lambda seen: seen.settled.drop(seen.first.index)),
        "windows": stacked(lambda seen: seen.windows),
        "timeline": stacked(lambda seen: timeline(seen.first, until_s=until_s, bin_s=BIN_S)),
        "batches": stacked(lambda seen: seen.record.batches),
        "usage": stacked(lambda seen: seen.record.usage),
        "incidents": broken.record.incidents,
        "failures": pd.DataFrame(
            [done.row(broken.record.start_unix_s) for done in broken.record.injected],
            columns=list(ROW),
        ),
        "accuracy": accuracy,
        SERIES: frame_of(after),
        again.TRUTH: truth,
    }
