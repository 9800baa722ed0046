from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.windows import (
    TOLERANCE,
    due_times,
    longest_silence_s,
    normal_latency_s,
    recovery_s,
    summarize_windows,
    timeline,
)


def windows(latency_s: Mapping[int, float], *, until: int = 30, usual: float = 1.0) -> pd.DataFrame:
    """A window due every second; all take ``usual``, those in ``latency_s`` what it says."""
    due = np.arange(0.0, until)
    latency = np.array([latency_s.get(int(at), usual) for at in due])
    return pd.DataFrame({"due_s": due, "complete_s": due + latency, "latency_s": latency})


def recovered(late: Mapping[int, float], **changes: float) -> float | None:
    settings = {"failed_at_s": 10.2, "normal_s": 1.5, "until_s": 29.0, **changes}
    return recovery_s(windows(late), **settings)


def test_output_that_never_was_late_took_no_time() -> None:
    assert recovered({}) == 0


def test_recovery_ends_with_the_last_late_result() -> None:
    late = {10: 6.0, 11: 5.1, 12: 4.3, 13: 3.5}
    assert recovered(late) == pytest.approx(13 + 3.5 - 10.2)


def test_windows_that_arrive_together_late() -> None:
    assert recovered({at: 20.0 - at for at in range(10, 19)}) == pytest.approx(9.8)


def test_lateness_before_the_failure_is_not_its_doing() -> None:
    assert recovered({3: 4.0, 4: 3.0}) == 0


def test_a_hiccup_after_a_calm_is_another_disturbance() -> None:
    assert recovered({10: 3.0, 25: 4.0}) == pytest.approx(2.8)
    assert recovered({25: 4.0}) == 0


def test_a_hiccup_within_the_calm_is_the_same_disturbance() -> None:
    assert recovered({10: 3.0, 14: 4.0}) == pytest.approx(14 + 4 - 10.2)


def test_output_that_never_came_back_has_no_recovery_time() -> None:
    assert recovered(dict.fromkeys(range(10, 30), math.inf)) is None
    assert recovered({28: 5.0, 29: 4.0}, failed_at_s=27.5) is None
    assert recovered({12: math.inf}) is None


def test_no_window_after_the_failure() -> None:
    assert recovered({}, failed_at_s=40.0) is None


@given(
    st.dictionaries(st.integers(0, 29), st.floats(0, 40), max_size=30),
    st.floats(0, 29),
)
def test_recovery_is_the_arrival_of_a_late_window_or_nothing(
    late: dict[int, float], failed_at_s: float
) -> None:
    frame = windows(late)
    found = recovery_s(frame, failed_at_s=failed_at_s, normal_s=1.5, until_s=29)
    if found:
        ends = frame.loc[frame["latency_s"] > 1.5, "complete_s"] - failed_at_s
        assert np.isclose(ends, found).any()
    else:
        assert found is None or found == 0


def test_normal_is_the_slowest_window_of_the_twin_and_a_quarter() -> None:
    twin = windows({1: 9.0, 7: 1.4, 28: 9.0})
    assert normal_latency_s(twin, from_s=2, until_s=20) == pytest.approx(1.4 * TOLERANCE)


@pytest.mark.parametrize("late", [{5: math.inf}, dict.fromkeys(range(30), math.inf)])
def test_a_twin_with_missing_windows_is_no_measure(late: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="nothing is normal"):
        normal_latency_s(windows(late), from_s=2, until_s=20)


def test_silence() -> None:
    arrivals = pd.Series([0.5, 1.0, 2.0, 2.0, 9.0, 9.5])
    assert longest_silence_s(arrivals, from_s=1.5, until_s=10) == 7
    assert longest_silence_s(arrivals, from_s=5, until_s=10) == 7
    assert longest_silence_s(arrivals, from_s=9.2, until_s=9.8) == 0.5
    assert longest_silence_s(arrivals, from_s=9.6, until_s=20) == 10.5
    assert longest_silence_s(arrivals.head(0), from_s=1, until_s=4) == 3


def test_a_window_is_due_with_the_record_that_closes_it() -> None:
    def next_record_s(at: float) -> float:
        return math.ceil(at * 4) / 4 if at <= 8 else math.inf

    due = due_times(
        pd.Series([0.0, 1.0, 1.0, 5.0]),
        window_s=2,
        watermark_delay_s=1.1,
        next_record_s=next_record_s,
    )
    assert due.tolist() == [3.25, 4.25, 4.25, math.inf]


def test_windows_are_complete_with_their_last_result() -> None:
    expected = pd.DataFrame({"window_start_s": [0.0, 0, 1, 1, 2], "word": list("ababa")})
    first = pd.DataFrame(
        {"window_start_s": [0.0, 0, 1], "word": list("aba"), "arrival_s": [4.0, 5.5, 6.0]}
    )
    table = summarize_windows(first, expected, lambda start: start + 3)
    assert table["due_s"].tolist() == [3, 4, 5]
    assert table["delivered"].tolist() == [2, 1, 0]
    assert table["first_s"].tolist() == [4, 6, math.inf]
    assert table["complete_s"].tolist() == [5.5, math.inf, math.inf]
    assert table["latency_s"].tolist() == [2.5, math.inf, math.inf]


def test_timeline_counts_every_bin() -> None:
    first = pd.DataFrame({"arrival_s": [0.1, 0.2, 1.6, 9.0], "latency_s": [1.0, 3.0, 5.0, 1.0]})
    table = timeline(first, until_s=2, bin_s=0.5)
    assert table["at_s"].tolist() == [0, 0.5, 1, 1.5]
    assert table["throughput_per_s"].tolist() == [4, 0, 0, 2]
    assert table["latency_p50_s"].dropna().tolist() == [2, 5]
    assert table["latency_max_s"].dropna().tolist() == [3, 5]
