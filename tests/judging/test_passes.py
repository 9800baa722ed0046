from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.loads import align
from harness.judging.passes import STALLED_S, DrainProgress
from harness.measure.values import read_json
from tests.judging.constructed import WORKLOAD


@given(
    now=st.floats(1.7e9, 1.9e9),
    periods=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0, 0.25, 10.0]), min_size=1),
)
def test_passes_start_at_a_common_multiple(now: float, periods: list[float]) -> None:
    start = align(now, *periods)
    assert start >= now
    for period in periods:
        assert round(start * 1000) % round(period * 1000) == 0


def test_results_of_another_query_are_refused() -> None:
    with pytest.raises(ValueError, match="without \\['count'\\]"):
        read_json([b'{"window_start":1,"word":"a"}'], WORKLOAD.columns)


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
