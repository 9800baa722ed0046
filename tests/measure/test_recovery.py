from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.recovery import (
    OutputRecovery,
    bounds_of_mean,
    not_within,
    recoveries,
    recovery,
    unmeasured,
)
from harness.measure.windows import Normal
from harness.results.kills import Kill, Unrecovered
from tests.measure.test_windows import windows

NORMAL = Normal(median_s=1.0, slowest_s=1.4)
"""Late from 2 s on, and much too late from 6 s on."""


def recovered(late: Mapping[int, float], **changes: float) -> OutputRecovery:
    settings = {"failed_at_s": 10.2, "until_s": 29.0, **changes}
    return recovery(windows(late), normal=NORMAL, **settings)


def each(late: Mapping[int, float], failed_at_s: Sequence[float]) -> list[OutputRecovery]:
    return recoveries(windows(late), failed_at_s=failed_at_s, normal=NORMAL, until_s=29.0)


def test_output_that_never_was_late_took_no_time() -> None:
    assert recovered({}) == OutputRecovery(seconds=0.0, outage_s=0.0, outage_5_s=0.0)
    assert recovered(dict.fromkeys(range(10, 30), 2.0)).outage_s == 0.0, "1 s later is on time"


@pytest.mark.parametrize(
    ("late", "seconds", "relapse_s", "over"),
    [
        ({10: 3.0, 22: 4.0}, 2.8, 3.0, True),
        ({22: 4.0}, 0.0, 3.0, True),
        ({10: 3.0, 17: 5.0, 18: 2.0, 24: 3.0}, 2.8, 4.0 + 2.0, True),
        ({10: 3.0, 28: 9.0, 29: 8.0}, 2.8, 29.0 - 29.0, False),
        ({10: 3.0, 26: 9.0, 27: 8.0, 28: 7.0, 29: 6.0}, 2.8, 29.0 - 27.0, False),
    ],
)
def test_a_relapse_lasts_from_when_its_first_window_would_have_come(
    late: dict[int, float], seconds: float, relapse_s: float, over: bool
) -> None:
    found = recovered(late)
    assert (found.seconds, found.relapse_s) == pytest.approx((seconds, relapse_s))
    assert (found.over, found.why_not) == (over, None)
    first_s = max(10.2, 10.0 + NORMAL.median_s) if 10 in late else 10.2
    assert found.outage_s == pytest.approx(10.2 + seconds - first_s + relapse_s)


def test_an_outage_begins_when_its_first_late_result_would_have_come() -> None:
    late = {12: 6.0, 13: 5.1, 14: 4.3}
    found = recovered(late)
    assert found.outage_s == pytest.approx(14 + 4.3 - (12 + NORMAL.median_s))
    assert found.seconds == pytest.approx(14 + 4.3 - 10.2), "a recovery counts from the failure"
    assert recovered({9: 9.0}).outage_s == pytest.approx(18 - 10.2), "nor before the failure"


def test_the_second_length_counts_what_is_much_too_late() -> None:
    late = {12: 3.0, 13: 7.0, 14: 6.5, 15: 3.0}
    found = recovered(late)
    assert found.outage_s == pytest.approx(14 + 6.5 - 13)
    assert found.outage_5_s == pytest.approx(14 + 6.5 - (13 + NORMAL.median_s))
    assert recovered({12: 3.0}).outage_5_s == 0.0
    both = recovered({12: 18.0, 29: 3.0})
    assert (both.outage_s, both.outage_5_s) == (29 - 13, 29 - 13), "both are watched until the end"


def test_a_lost_result_is_late_until_the_next_window_is_complete() -> None:
    found = recovered({12: math.inf, 13: math.inf})
    assert found.over
    assert found.seconds == pytest.approx(14 + 1.0 - 10.2)
    assert found.outage_s == pytest.approx(15.0 - 13.0)
    never = recovered(dict.fromkeys(range(12, 30), math.inf))
    assert never.why_not is Unrecovered.LOST
    assert never.outage_s == pytest.approx(29 - 13)


def test_a_relapse_that_meets_the_next_failure_overlaps_it() -> None:
    calm, late = each({5: 3.0, 13: 3.0}, [5.0, 22.0]), each({5: 3.0, 19: 3.0}, [5.0, 22.0])
    assert [one.overlaps for one in calm] == [False, False]
    assert [one.overlaps for one in late] == [True, True]
    assert calm[0].relapse_s == pytest.approx(2.0)


def test_output_that_never_came_back_is_a_value() -> None:
    found = recovered({28: 5.0, 29: 4.0}, failed_at_s=27.5)
    assert (found.why_not, found.at_least_s) == (Unrecovered.NOT_BY_END, 1.5)
    assert (found.over, found.outage_s) == (False, 0.0), "29 s is when the first would have come"
    found = recovered(dict.fromkeys(range(10, 30), math.inf))
    assert (found.at_least_s, found.outage_s) == pytest.approx((18.8, 18.0))


def test_no_window_after_the_failure() -> None:
    assert recovered({}, failed_at_s=40.0) == unmeasured(Unrecovered.NOTHING_DUE)


def test_failures_that_overlap_are_said_not_to_be_told_apart() -> None:
    late = {5: 8.0, 6: 7.0, 7: 6.0, 8: 6.5}
    first, second = each(late, [5.0, 8.0])
    assert [first.seconds, second.seconds] == pytest.approx([9.5, 6.5])
    assert first.overlaps
    assert second.overlaps
    assert each({5: 3.0}, [5.0, 10.0])[0].overlaps, "no calm of 5 s in between"


def test_a_mean_never_leaves_out_what_did_not_recover() -> None:
    three, ten = Kill(recovery_s=3.0), Kill(recovery_s=10.0)
    never = Kill(**not_within(20.0, Unrecovered.NOT_BY_END).columns)
    assert bounds_of_mean([three, ten]) == (6.5, 6.5)
    assert bounds_of_mean([ten, never]) == (15.0, math.inf)
    assert all(math.isnan(bound) for bound in bounds_of_mean([]))
    assert all(math.isnan(b) for b in bounds_of_mean([three, Kill()]))


@given(st.dictionaries(st.integers(0, 29), st.floats(0, 40), max_size=30), st.floats(0, 28))
def test_recovery_is_the_arrival_of_a_late_window_or_nothing(
    late: dict[int, float], failed_at_s: float
) -> None:
    frame = windows(late)
    found = recovery(frame, failed_at_s=failed_at_s, normal=NORMAL, until_s=29)
    if found.seconds:
        ends = frame.loc[frame["latency_s"] > NORMAL.late_s, "complete_s"] - failed_at_s
        assert np.isclose(ends, found.seconds).any()
    elif found.seconds is None:
        after = frame[frame["complete_s"] > failed_at_s]
        assert (after["latency_s"] > NORMAL.late_s).any()
    if found.outage_s is not None:
        assert 0 <= (found.outage_5_s or 0.0) <= found.outage_s
        assert found.outage_s <= 70 - failed_at_s
