"""Passes made by hand: known words, known arrivals, known failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.cluster.base import Action, Victim
from harness.failures.generators import one_target
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import Schedule
from harness.judging.loads import load_plan
from harness.judging.outcome import judge
from harness.judging.passes import PassRecord
from harness.load.generator import LoadResult
from harness.load.profile import RateProfile
from harness.results.record import Outcome
from workloads.base import Workload
from workloads.wordcount import word_count

START, LOAD_S, KILL_AT_S = 1_800_000_000.0, 30.0, 10.0
WORKLOAD: Workload = word_count(text=[__file__], window_s=2, slide_s=1, watermark_delay_s=1)
SCHEDULE: Schedule = one_target("r1n1", at_s=KILL_AT_S, restart_after_s=8)
RATE = RateProfile.constant(100, LOAD_S)


def truth() -> pd.DataFrame:
    """Return three words in every window."""
    rows = [
        (float(start), word, 10 * start + 7)
        for start in range(-1, int(LOAD_S))
        for word in ("a", "b", "c")
    ]
    return pd.DataFrame(rows, columns=["window_start_s", "word", "count"])


def deliveries(latency_s: Mapping[int, float] | None = None) -> pd.DataFrame:
    """Return every result once, one second after it was due.

    ``latency_s`` has other latencies, by the second at which a window starts."""
    frame = truth().assign(copy=0)
    late = frame["window_start_s"].map(latency_s or {}).fillna(1.0)
    frame["arrival_s"] = frame["window_start_s"] + 3 + late
    return frame.sort_values("arrival_s", ignore_index=True)


def injected(schedule: Schedule = SCHEDULE) -> list[InjectedFailure]:
    """Return the report of an injector that is on."""
    return [
        InjectedFailure(
            event=event,
            victims=[
                Victim(
                    node="r1n1",
                    reached=True,
                    executors=1,
                    processes=(4711, 4712) if event.action is Action.KILL else (),
                    at_unix_s=START + event.at_s + 0.1,
                )
            ],
            at_unix_s=START + event.at_s + 0.1,
            lateness_s=0.002,
        )
        for event in schedule.events
    ]


def record(
    frame: pd.DataFrame | None = None,
    *,
    name: str = "failures",
    failures: Sequence[InjectedFailure] = (),
    **changes: Any,
) -> PassRecord:
    usage = pd.DataFrame(
        {
            "at_s": [0.0, 0.0, 30.0, 30.0],
            "who": ["r1n1", "drivers", "r1n1", "drivers"],
            "cpu_s": [5.0, 1.0, 11.0, 4.0],
            "resident_bytes": [100, 50, 130, 60],
        }
    )
    lag = {"p50_s": 0.001, "p99_s": 0.004, "late_share": 0.0}
    fields: dict[str, Any] = {
        "name": name,
        "start_unix_s": START,
        "plan": load_plan(WORKLOAD, RATE, {"lines": "lines"}),
        "load": LoadResult(
            records=RATE.records, lag=lag, delivery=lag, cpu_s=1.0, nice=0, invalid=None
        ),
        "deliveries": deliveries() if frame is None else frame,
        "injected": failures,
        "batches": pd.DataFrame({"at_s": [1.0], "dropped_rows": [0], "rows": [100]}),
        "incidents": pd.DataFrame({"at_s": [10.2], "event": ["executors"], "copy": [0]}),
        "usage": usage,
        "drained": True,
    }
    return PassRecord(**{**fields, **changes})


def judged(
    failed: PassRecord,
    twin: PassRecord | None = None,
    expected: pd.DataFrame | None = None,
    **changes: Any,
) -> Outcome:
    """Judge a pass by its twin, or by one in which nothing happened, and by the truth."""
    settings: dict[str, Any] = {
        "workload": WORKLOAD,
        "schedule": SCHEDULE,
        "trigger_s": 1.0,
        "settle_s": 3.0,
        **changes,
    }
    return judge(
        twin or record(name="twin"), failed, truth() if expected is None else expected, **settings
    )
