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
from harness.engines.contributions import tuple_success
from harness.engines.passes import PassRecord
from harness.engines.structured.accuracy import NOT_SCORED, Scored
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import Schedule
from harness.measure.versions import Versions, compare, versions
from harness.measure.windows import (
    due_times,
    kept_up,
    longest_silence_s,
    normal_latency_s,
    recovery_s,
    summarize_windows,
    timeline,
)
from harness.results.record import Outcome
from workloads.base import Workload

BIN_S = 0.5
"""Of the timeline."""


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
) -> Outcome:
    """``truth`` has ``window_start_s`` and the workload's other columns; the first ``settle_s``
    seconds of the load count for no latency. ``accuracy`` is what Spark scored."""
    identity = workload.identity_in_run
    calm = _Seen(twin, truth, workload, identity)
    broken = _Seen(failed, truth, workload, identity)
    problem = _invalid(twin, failed, truth)
    values = {
        **_correctness(calm, broken, truth, identity, workload),
        **_table(failed, truth, identity, workload),
        **_failures(failed, schedule),
        **_timing(calm, broken, trigger_s, settle_s),
        **_resources(twin, failed),
        "paper_accuracy_first": accuracy.first,
        "paper_accuracy_last": accuracy.last,
        "paper_accuracy_reason": accuracy.reason,
        "success_rate": tuple_success(failed, broken.first, workload, identity),
        "twin_success_rate": tuple_success(twin, calm.first, workload, identity),
        "records": failed.load.records,
        "load_s": failed.until_s,
        "load_lag_s": failed.load.lag["p99_s"],
        "dropped_rows": _dropped(failed),
        "restarts": _restarts(failed),
        "drained": failed.drained,
        "schedule": schedule.to_json(),
    }
    series = {**_series(calm, broken), "accuracy": accuracy.windows}
    return Outcome(values=values, series=series, invalid=problem)


class _Seen:
    """One pass as a reader of its results saw it."""

    def __init__(
        self, record: PassRecord, truth: pd.DataFrame, workload: Workload, identity: Sequence[str]
    ) -> None:
        self.record = record
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
        watermark_delay_s=workload.watermark_delay_s,
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
    values = list(workload.values)
    against_truth = compare(broken.versions.first, truth, identity, values)
    last = compare(broken.versions.last, truth, identity, values)
    twin_truth = compare(calm.versions.first, truth, identity, values)
    against_twin = compare(broken.versions.first, calm.versions.first, identity, values)
    return {
        "output_equals_truth": against_truth.equal and last.equal,
        "output_equals_twin": against_twin.equal,
        "twin_equals_truth": twin_truth.equal,
        "difference_from_truth": against_truth.describe(),
        "difference_from_twin": against_twin.describe(),
        "results": against_truth.expected,
        "accuracy_first": against_truth.accuracy,
        "accuracy_last": last.accuracy,
        "contradictions": len(broken.versions.contradictions) + len(calm.versions.contradictions),
        "duplicates": broken.versions.duplicates,
        "twin_duplicates": calm.versions.duplicates,
    }


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
    reached = [done for done in kills if done.processes]
    return {
        "kills_planned": len(schedule.kills),
        "kills_done": len(reached),
        "processes_killed": sum(done.processes for done in kills),
        "nodes_killed": sorted({v.node for done in reached for v in done.victims if v.processes}),
        "kill_lateness_s": max((done.lateness_s for done in kills), default=None),
        "injection_errors": [done.error for done in failed.injected if done.error],
        "killed_at_s": _first_kill_s(failed.injected, failed.start_unix_s),
    }


def _first_kill_s(injected: Sequence[InjectedFailure], start_unix_s: float) -> float | None:
    """When the first kill that reached a process was done."""
    return min(
        (
            done.at_unix_s - start_unix_s
            for done in injected
            if done.event.action is Action.KILL and done.processes
        ),
        default=None,
    )


def _timing(calm: _Seen, broken: _Seen, trigger_s: float, settle_s: float) -> dict[str, Any]:
    """Recovery and gap are null where the twin did not keep up with its load: there is nothing to
    compare with."""
    until_s = broken.record.until_s
    killed_at_s = _first_kill_s(broken.record.injected, broken.record.start_unix_s)
    values: dict[str, Any] = {
        **_quantiles("latency", settled_latency_s(broken.first, settle_s)),
        **_quantiles("twin_latency", settled_latency_s(calm.first, settle_s)),
        "throughput_per_s": float((broken.first["arrival_s"] < until_s).sum()) / until_s,
        "recovery_s": None,
        "output_gap_s": None,
        "silence_s": None,
        "twin_silence_s": None,
        "normal_latency_s": None,
        "twin_kept_up": kept_up(
            calm.windows, trigger_s=trigger_s, from_s=settle_s, until_s=until_s
        ),
    }
    try:
        normal_s = normal_latency_s(calm.windows, from_s=settle_s, until_s=until_s)
    except ValueError:
        return values
    values["normal_latency_s"] = normal_s
    if killed_at_s is None:
        return values
    silence, twin_silence = (
        longest_silence_s(seen.first["arrival_s"], from_s=killed_at_s, until_s=until_s)
        for seen in (broken, calm)
    )
    values |= {"silence_s": silence, "twin_silence_s": twin_silence}
    if not values["twin_kept_up"]:
        return values
    return values | {
        "recovery_s": recovery_s(
            broken.windows, failed_at_s=killed_at_s, normal_s=normal_s, until_s=until_s
        ),
        "output_gap_s": max(0.0, silence - twin_silence),
    }


def _quantiles(name: str, latency_s: pd.Series[float]) -> dict[str, float | None]:
    if not len(latency_s):
        return dict.fromkeys([f"{name}_p50_s", f"{name}_p99_s", f"{name}_max_s"])
    return {
        f"{name}_p50_s": float(latency_s.quantile(0.5)),
        f"{name}_p99_s": float(latency_s.quantile(0.99)),
        f"{name}_max_s": float(latency_s.max()),
    }


def _resources(twin: PassRecord, failed: PassRecord) -> dict[str, Any]:
    cpu_s, resident = _used(failed.usage)
    twin_cpu_s, twin_resident = _used(twin.usage)
    return {
        "cpu_s": cpu_s,
        "twin_cpu_s": twin_cpu_s,
        "resident_bytes": resident,
        "twin_resident_bytes": twin_resident,
    }


def _used(usage: pd.DataFrame) -> tuple[float | None, float | None]:
    """CPU seconds during the pass, and the largest sum of resident bytes."""
    if usage["cpu_s"].isna().any() or usage["resident_bytes"].isna().any():
        return None, None
    cpu = usage.groupby("who")["cpu_s"]
    resident = usage.groupby("at_s")["resident_bytes"].sum()
    return float((cpu.max() - cpu.min()).sum()), float(resident.max())


def _dropped(record: PassRecord) -> int:
    return int(record.batches["dropped_rows"].sum()) if len(record.batches) else 0


def _restarts(record: PassRecord) -> int:
    return int((record.incidents["event"] == "restarted").sum()) if len(record.incidents) else 0


def _invalid(twin: PassRecord, failed: PassRecord, truth: pd.DataFrame) -> str | None:
    """Why the numbers cannot be trusted."""
    if not len(truth):
        return (
            "the batch query over the same input has no result, so there is nothing to compare: "
            "the load was too short, or nothing the query looks for is in it"
        )
    for record in (twin, failed):
        if record.load.invalid is not None:
            return f"{record.name}: {record.load.invalid}"
        if _dropped(record):
            return (
                f"{record.name}: the watermark dropped {_dropped(record)} rows, so the query "
                "answered another question than the batch"
            )
        expected = sum(stream.rate.records for stream in record.plan.streams)
        if record.load.records != expected:
            return f"{record.name}: {record.load.records} of {expected} records were sent"
    return None


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
            [
                {
                    "planned_at_s": done.event.at_s,
                    "at_s": done.at_unix_s - broken.record.start_unix_s,
                    "action": done.event.action.value,
                    "target": done.event.target,
                    "processes": done.processes,
                    "error": done.error,
                }
                for done in broken.record.injected
            ],
            columns=["planned_at_s", "at_s", "action", "target", "processes", "error"],
        ),
    }
