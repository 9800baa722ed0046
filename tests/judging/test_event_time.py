"""Event time that runs faster than the clock: windows are due sooner, and are the same ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.engines.deliveries import relative_windows
from harness.errors import UsageError
from harness.judging.loads import load_plan
from harness.judging.outcome import with_latency
from harness.judging.passes import PassRecord
from harness.load.plan import BY_THE_CLOCK, EventTime
from harness.load.profile import RateProfile
from tests.judging.constructed import RATE, START, WORKLOAD, record

BEGIN = 1_577_836_800.0
FAST = EventTime(begin_unix_s=BEGIN, speed=10.0)


def passed(event: EventTime, rate: RateProfile = RATE, *, marker_s: float = 0.0) -> PassRecord:
    plan = load_plan(WORKLOAD, rate, {"lines": "lines"}, marker_s=marker_s, event=event)
    return record(plan=plan)


def test_event_time_begins_where_it_is_told_and_runs_at_its_speed() -> None:
    assert BY_THE_CLOCK.at(5.0, START) == START + 5
    assert FAST.at(5.0, START) == BEGIN + 50
    assert FAST.elapsed_s(BEGIN + 50, START) == 5
    assert passed(FAST).origin_unix_s == BEGIN
    assert passed(BY_THE_CLOCK).origin_unix_s == START
    with pytest.raises(UsageError, match="runs 0 times as fast"):
        EventTime(speed=0)


@pytest.mark.parametrize(("event", "latency_s"), [(FAST, 0.5), (BY_THE_CLOCK, np.nan)])
def test_a_marker_closes_a_window_where_a_recording_pauses(
    event: EventTime, latency_s: float
) -> None:
    paused = RateProfile(((1.0, 10.0), (29.0, 0.0)))
    first = pd.DataFrame({"window_start_s": [17.0], "arrival_s": [2.5]})
    found = with_latency(first, passed(event, paused, marker_s=0.1), WORKLOAD)
    finite = found["latency_s"].replace([np.inf, -np.inf], np.nan)
    assert finite.tolist() == pytest.approx([latency_s], nan_ok=True)


def test_a_session_counts_from_its_last_record() -> None:
    sessions = replace(
        WORKLOAD,
        identity=["end", "word"],
        window_start="",
        window_end="end",
        members=None,
        forms={"query": WORKLOAD.forms["query"]},
    )
    frame = pd.DataFrame({"end": [round((BEGIN + 7) * 1000)], "word": ["a"], "count": [1]})
    found = relative_windows(frame, sessions, BEGIN)
    assert found["window_start_s"].tolist() == [7 - WORKLOAD.window_s]
    assert sessions.identity_in_run == ["window_start_s", "word"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"window_start": "", "window_end": ""}, "window_start is ''"),
        ({"window_end": "word"}, "and window_end 'word'"),
        ({"window_start": "", "window_end": "elsewhere"}, "do not fit together"),
        ({"window_start": "", "window_end": "word"}, "members or a topology of tasks"),
    ],
)
def test_a_window_is_known_by_its_begin_or_its_end(names: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(WORKLOAD, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "later_s"),
    [
        ({"lag_s": 3.0}, 0.3),
        ({"partitions": 1, "skew": (), "silent": {0: (15.0, 27.0)}}, 0.7),
        ({"partitions": 2, "silent": {0: (15.0, 27.0)}}, 0.0),
    ],
)
def test_a_window_is_due_when_the_slowest_source_has_moved_on(
    changes: dict[str, Any], later_s: float
) -> None:
    """A source that lags moves on later, and one whose partitions are all silent at their end."""
    first = pd.DataFrame({"window_start_s": [17.0], "arrival_s": [2.5]})
    slow = replace(WORKLOAD, sources=[replace(WORKLOAD.sources[0], **changes)])
    assert slow.due_after_s == WORKLOAD.watermark_delay_s + slow.sources[0].lag_s
    plan = load_plan(slow, RATE, {"lines": "lines"}, marker_s=0.1, event=FAST)
    usual = with_latency(first, passed(FAST, marker_s=0.1), WORKLOAD)["latency_s"]
    found = with_latency(first, record(plan=plan), slow)["latency_s"]
    assert (usual - found).tolist() == pytest.approx([later_s], abs=0.02)
