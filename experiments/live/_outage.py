"""An outage in Spark's own event log: of stock Spark, in either mode.

Spark writes an event for every executor that it gives up and for every task that it launches. After
it has missed the executor, time passes in two ways until the next batch is committed: no task runs
(Spark reschedules, or waits for a slot near a task's state), or tasks of the batch run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOR_RECOVERY: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0s",
    "spark.shuffle.io.retryWait": "200ms",
}
"""Stock Spark as its best users run it, where processes die: docs/stock-settings.md, "Tuned for
recovery"."""
LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""Settings with which Spark writes its events as lines of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One launched task. Times are Unix seconds."""

    began_s: float
    ended_s: float | None
    """None while it runs, and for a task that was lost with its executor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The events that decide the parts of an outage."""

    removed_s: Sequence[float]
    """Instants at which an executor was given up."""
    tasks: Sequence[TaskRun]


def settings(directory: Path) -> Mapping[str, str]:
    """Return the settings of an application that writes its events into a directory."""
    directory.mkdir(mode=0o700, exist_ok=True)
    return {**LOG, "spark.eventLog.dir": directory.as_uri()}


def read_reports(directory: Path) -> Reports:
    """Read the event logs of all applications in a directory, also of those that still run."""
    lines = (
        line
        for file in sorted(directory.iterdir())
        if file.is_file()
        for line in file.read_text(errors="replace").splitlines()
    )
    return reports_of(_events(lines))


def _events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the last line of a log that is being written


def reports_of(events: Iterable[Mapping[str, Any]]) -> Reports:
    """Return what decides the parts of an outage, from Spark's events."""
    removed: list[float] = []
    begun: dict[int, TaskRun] = {}
    ended: list[TaskRun] = []
    for event in events:
        kind = event.get("Event")
        if kind == "SparkListenerExecutorRemoved":
            removed.append(event["Timestamp"] / 1000)
        elif kind in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
            info = event["Task Info"]
            one = TaskRun(began_s=info["Launch Time"] / 1000, ended_s=None)
            if kind == "SparkListenerTaskStart":
                begun[info["Task ID"]] = one
                continue
            begun.pop(info["Task ID"], None)
            if event["Task End Reason"].get("Reason") == "Success":
                finish_s = info["Finish Time"] / 1000
                ended.append(TaskRun(began_s=one.began_s, ended_s=finish_s))
    return Reports(removed_s=removed, tasks=[*ended, *begun.values()])


def pause_and_work_s(
    reports: Reports, *, killed_s: float, committed_s: float | None
) -> tuple[float, float] | None:
    """Return the seconds without a task, and with one, from the lost executor to the next batch.

    ``committed_s``: the report of that batch. None where Spark reports no lost executor, or no
    batch after it."""
    lost = [at_s for at_s in reports.removed_s if at_s >= killed_s - _CLOCKS_S]
    if not lost or committed_s is None or committed_s < min(lost):
        return None
    removed_s = max(killed_s, min(lost))
    ran = sorted(
        (max(one.began_s, removed_s), min(one.ended_s, committed_s))
        for one in reports.tasks
        if one.ended_s is not None and one.ended_s > removed_s and one.began_s < committed_s
    )
    until_s, idle_s = removed_s, 0.0
    for began_s, ended_s in ran:
        idle_s += max(0.0, began_s - until_s)
        until_s = max(until_s, ended_s)
    return idle_s, committed_s - removed_s - idle_s


_CLOCKS_S = 0.05
"""Most by which Spark's clock, in milliseconds, may be before the instant of the first signal."""
