"""A fit finds what made the recoveries, and files that show none are refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.intervals.observed import (
    Observation,
    fit_observed,
    parse_observation,
    predict_s,
    read_lag,
)

RATE = 1000.0


def seen(*pairs: tuple[float, float]) -> list[Observation]:
    return [Observation(interval_s=interval, recovery_s=took) for interval, took in pairs]


@given(
    st.floats(0.5, 600.0),
    st.floats(0.05, 0.9),
    st.floats(1.0, 100.0),
    st.floats(3.5, 50.0),
    st.integers(2, 5),
)
def test_a_fit_finds_the_outage_and_the_capacity_that_made_the_recoveries(
    outage_s: float, busy: float, interval_s: float, apart: float, count: int
) -> None:
    capacity = RATE / busy
    intervals = [interval_s * apart**place for place in range(count)]
    made = seen(*((each, predict_s(outage_s, capacity, each, RATE)) for each in intervals))
    found = fit_observed(made, rate_per_s=RATE)
    assert found.outage_s == pytest.approx(outage_s, rel=1e-4, abs=1e-4)
    assert found.capacity_per_s == pytest.approx(capacity, rel=1e-4)
    # What is left out here may leave one interval, which does not tell the capacity.
    if count > 3:
        assert found.median_error == pytest.approx(0.0, abs=1e-4)


@given(st.floats(0.5, 600.0), st.floats(0.05, 0.9), st.floats(0.0, 1000.0))
def test_one_recovery_gives_the_outage_where_the_capacity_is_known(
    outage_s: float, busy: float, interval_s: float
) -> None:
    capacity = RATE / busy
    made = seen((interval_s, predict_s(outage_s, capacity, interval_s, RATE)))
    found = fit_observed(made, rate_per_s=RATE, capacity_per_s=capacity)
    assert found.outage_s == pytest.approx(outage_s, rel=1e-6, abs=1e-6)
    assert found.errors == []


def test_intervals_that_are_near_do_not_tell_the_capacity() -> None:
    found = fit_observed(seen((1.0, 8.0), (2.0, 10.0), (2.0, 11.0)), rate_per_s=RATE)
    assert found.capacity_per_s is None
    assert found.outage_s == 10.0


def test_recoveries_that_do_not_grow_with_the_interval_tell_no_capacity() -> None:
    found = fit_observed(seen((10.0, 20.0), (100.0, 19.0)), rate_per_s=RATE)
    assert found.capacity_per_s is None
    assert found.outage_s == pytest.approx(19.5, abs=0.1)


def test_an_odd_recovery_is_seen_in_the_error() -> None:
    found = fit_observed(seen((10.0, 20.0), (10.0, 21.0), (10.0, 80.0)), rate_per_s=RATE)
    assert found.median_error is not None
    assert found.median_error > 0.3


def test_a_pair_is_an_interval_and_a_recovery() -> None:
    assert parse_observation("60s:217s") == Observation(interval_s=60.0, recovery_s=217.0)
    assert parse_observation("0s:3min").recovery_s == 180.0


@pytest.mark.parametrize("text", ["60s", "60:217", "60s:-3s", "-1s:5s", "60s:0s", "a:b", ""])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--observed"):
        parse_observation(text)


def lag(outage_s: int, rate: int, spare: int, *, iso: bool = False) -> str:
    """Return a lag of 500 that grows by ``rate`` while out, then shrinks by ``spare`` a second."""
    rows, waits = ["time,lag"], 500.0
    for second in range(200):
        stamp = f"2026-11-23T10:{second // 60:02}:{second % 60:02}" if iso else str(second)
        rows.append(f"{stamp},{waits:g}")
        out = 20 <= second < 20 + outage_s
        waits = waits + rate if out else max(500.0, waits - spare)
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("iso", [False, True])
def test_the_lag_over_time_shows_outage_recovery_and_capacity(iso: bool) -> None:
    text = lag(30, 1000, 600, iso=iso)
    found = read_lag(text, name="lag.csv", interval_s=60.0, rate_per_s=RATE)
    assert found.outage_s == pytest.approx(30.0, abs=2.0)
    assert found.recovery_s == pytest.approx(80.0, rel=0.06), "30 s, and 30,000 tuples at 600/s"
    assert found.capacity_per_s == pytest.approx(1600.0, rel=0.01)
    fitted = fit_observed([found], rate_per_s=RATE)
    assert fitted.capacity_per_s == pytest.approx(1600.0, rel=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no column time and no column lag"),
        ("time,late\n0,1\n", "has no column lag, but time, late"),
        ("time,lag\n0,1\n1,2\n", "has 2 rows"),
        ("time,lag\n" + "".join(f"{n},1\n" for n in range(9)), "does not grow"),
        ("time,lag\n" + "".join(f"{n},{n}\n" for n in range(9)), "does not come back"),
        ("time,lag\n" + "".join(f"{9 - n},{n}\n" for n in range(9)), "times do not grow"),
        ("time,lag\n" + "".join(f"{n},-1\n" for n in range(9)), "negative"),
        ("time,lag\n" + "".join(f"{n},none\n" for n in range(9)), "could not convert"),
        ("time,lag\n" + "".join(f"soon,{n}\n" for n in range(9)), "soon"),
    ],
)
def test_a_file_without_a_recovery_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_lag(text, name="lag.csv", interval_s=60.0, rate_per_s=RATE)


def test_an_impossible_observation_is_refused() -> None:
    for interval_s, recovery_s in ((-1.0, 5.0), (1.0, 0.0)):
        with pytest.raises(UsageError, match="observed"):
            Observation(interval_s=interval_s, recovery_s=recovery_s)
    with pytest.raises(UsageError, match="nothing was observed"):
        fit_observed([], rate_per_s=RATE)
