from __future__ import annotations

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.deliveries import decode, relative_windows
from harness.judging.loads import align, load_plan
from harness.judging.passes import STALLED_S, DrainProgress
from harness.load.profile import RateProfile
from tests.judging.constructed import WORKLOAD
from workloads.accident import HIGHWAYS, two_highways


@given(
    now=st.floats(1.7e9, 1.9e9),
    periods=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0, 0.25, 10.0]), min_size=1),
)
def test_passes_start_at_a_common_multiple(now: float, periods: list[float]) -> None:
    start = align(now, *periods)
    assert start >= now
    for period in periods:
        assert round(start * 1000) % round(period * 1000) == 0


def test_the_next_multiple_is_taken() -> None:
    assert align(100.2, 1, 5) == 105
    assert align(105.0, 1, 5) == 105
    assert align(100.2, 1.5, 1) == 102
    assert align(100.2, 0.5) == 100.5


def test_windows_count_from_the_start_of_the_load() -> None:
    frame = pd.DataFrame({"window_start": [999_000, 1_000_000, 1_000_500], "word": list("abc")})
    moved = relative_windows(frame, WORKLOAD, 1000.0)
    assert moved["window_start_s"].tolist() == [-1.0, 0.0, 0.5]
    assert list(moved.columns) == ["word", "window_start_s"]


def test_the_rate_is_dealt_out_to_the_sources() -> None:
    plan = load_plan(WORKLOAD, RateProfile.constant(50, 4), {"lines": "topic"})
    assert plan.records == 200
    assert [stream.topic for stream in plan.streams] == ["topic"]


def test_results_come_back_from_the_wire() -> None:
    sent = [
        {"window_start": 1000, "word": "é\n", "count": 2**53 + 1},
        {"window_start": 0, "word": "b", "count": 1},
    ]
    frame = decode([json.dumps(result).encode() for result in sent], WORKLOAD.columns)
    assert frame.to_dict("records") == sent


def test_no_results_are_an_empty_frame() -> None:
    assert list(decode([], WORKLOAD.columns).columns) == WORKLOAD.columns


def test_results_of_another_query_are_refused() -> None:
    with pytest.raises(ValueError, match="without \\['count'\\]"):
        decode([b'{"window_start":1,"word":"a"}'], WORKLOAD.columns)


def test_an_engine_that_comes_further_has_not_stalled() -> None:
    progress = DrainProgress(began_s=50.0, limit_s=4 * STALLED_S)
    for number in range(5):
        progress = progress.seen(number, now_s=50.0 + number * (STALLED_S - 1))
        assert not progress.stalled
    assert not progress.overdue
    assert progress.seen(5, now_s=50.0 + 4 * STALLED_S).overdue


def test_an_engine_that_comes_no_further_has_stalled() -> None:
    progress = DrainProgress(began_s=50.0, limit_s=1e9).seen(7, now_s=60.0)
    progress = progress.seen(7, now_s=59.0 + STALLED_S)
    assert not progress.stalled
    assert progress.seen(7, now_s=60.0 + STALLED_S).stalled


def test_shares_of_the_sources_may_change_while_the_load_lasts() -> None:
    workload = two_highways(share=0.75, swaps_s=2.0)
    rate = RateProfile(((1.0, 400.0), (3.0, 200.0)))
    plan = load_plan(workload, rate, {name: name for name in HIGHWAYS})
    north, south = (stream.rate.segments for stream in plan.streams)
    assert north == ((1.0, 300.0), (1.0, 150.0), (2.0, 50.0))
    assert south == ((1.0, 100.0), (1.0, 50.0), (2.0, 150.0))
    assert plan.duration_s == rate.duration_s
