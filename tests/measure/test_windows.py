from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from harness.measure.windows import (
    LATER_S,
    MUCH_LATER_S,
    Normal,
    due_times,
    longest_silence_s,
    normal_of,
    summarize_windows,
)


def windows(latency_s: Mapping[int, float], *, usual: float = 1.0) -> pd.DataFrame:
    """Return a window due every second, with latency ``usual`` or its own in ``latency_s``."""
    due = np.arange(0.0, 30)
    latency = np.array([latency_s.get(int(at), usual) for at in due])
    return pd.DataFrame({"due_s": due, "complete_s": due + latency, "latency_s": latency})


def test_late_is_a_fixed_time_above_the_median_of_the_twin() -> None:
    normal = normal_of(windows({1: 9.0, 7: 1.4, 28: 9.0}), from_s=2, until_s=20)
    assert (normal.median_s, normal.slowest_s) == (1.0, 1.4)
    assert (normal.late_s, normal.much_too_late_s) == (1.0 + LATER_S, 1.0 + MUCH_LATER_S)
    slow = normal_of(windows({}, usual=20.0), from_s=0, until_s=29)
    fast = normal_of(windows({}, usual=0.02), from_s=0, until_s=29)
    assert slow.late_s - 20.0 == pytest.approx(fast.late_s - 0.02), "the same for every system"


@pytest.mark.parametrize("late", [{5: math.inf}, dict.fromkeys(range(30), math.inf)])
def test_a_twin_with_missing_windows_is_no_measure(late: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="nothing is normal"):
        normal_of(windows(late), from_s=2, until_s=20)


def test_one_hiccup_of_the_twin_hides_no_outage() -> None:
    """Among windows of 2 s one of 20 s does not move the limit, but this twin did not keep up."""
    hiccup = normal_of(windows({9: 20.0}, usual=2.0), from_s=0, until_s=29)
    assert hiccup.late_s == pytest.approx(2.0 + LATER_S)
    assert not hiccup.kept_up(2.0)
    assert normal_of(windows({9: 10.0}, usual=2.0), from_s=0, until_s=29).kept_up(2.0)
    assert not normal_of(windows({}, usual=7.1), from_s=0, until_s=29).kept_up(2.0)
    assert Normal(median_s=7.0, slowest_s=10.5).kept_up(2.0), "the limits are kept"


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
    table = summarize_windows(first, expected, lambda start: start + 3, ["window_start_s", "word"])
    assert (table["due_s"].tolist(), table["delivered"].tolist()) == ([3, 4, 5], [2, 1, 0])
    assert table["first_s"].tolist() == [4, 6, math.inf]
    assert table["complete_s"].tolist() == [5.5, math.inf, math.inf]
    assert table["latency_s"].tolist() == [2.5, math.inf, math.inf]


@pytest.mark.parametrize("key", ["b", None])
def test_a_result_that_is_not_expected_completes_no_window(key: str | None) -> None:
    expected = pd.DataFrame({"window_start_s": [0.0, 0.0], "word": ["a", key]})
    for word, complete_s in (("x", math.inf), (key, 1.5)):
        first = pd.DataFrame(
            {"window_start_s": [0.0, 0.0], "word": ["a", word], "arrival_s": [1.0, 1.5]}
        )
        due = summarize_windows(first, expected, lambda start: start, ["window_start_s", "word"])
        assert due["complete_s"].tolist() == [complete_s]


def test_silence() -> None:
    arrivals = pd.Series([0.5, 1.0, 2.0, 2.0, 9.0, 9.5])
    assert longest_silence_s(arrivals, from_s=1.5, until_s=10) == 7
    assert longest_silence_s(arrivals, from_s=5, until_s=10) == 7
    assert longest_silence_s(arrivals, from_s=9.2, until_s=9.8) == 0.5
    assert longest_silence_s(arrivals, from_s=9.6, until_s=20) == 10.5
    assert longest_silence_s(arrivals.head(0), from_s=1, until_s=4) == 3
    assert longest_silence_s(arrivals, from_s=2, until_s=10) == 7, "what came at that instant came"
