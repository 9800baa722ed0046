"""A fit finds what made the recoveries, and files that show none are refused with a reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

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
    return [Observation(interval_s=interval, outage_s=took) for interval, took in pairs]


@given(
    st.floats(0.5, 600.0),
    st.floats(0.05, 0.9),
    st.floats(1.0, 100.0),
    st.floats(3.5, 50.0),
    st.integers(2, 5),
)
def test_a_fit_finds_the_outage_and_the_capacity_that_made_the_recoveries(
    downtime_s: float, busy: float, interval_s: float, apart: float, count: int
) -> None:
    capacity = RATE / busy
    intervals = [interval_s * apart**place for place in range(count)]
    made = seen(*((each, predict_s(downtime_s, capacity, each, RATE)) for each in intervals))
    found = fit_observed(made, rate_per_s=RATE)
    assert found.downtime_s == pytest.approx(downtime_s, rel=1e-4, abs=1e-4)
    assert found.capacity_per_s == pytest.approx(capacity, rel=1e-4)
    # What is left out here may leave one interval, which does not tell the capacity.
    if count > 3:
        assert found.median_error == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("text", ["60s", "60:217", "60s:-3s", "-1s:5s", "60s:0s", "a:b", ""])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--observed"):
        parse_observation(text)


def job(*failures: tuple[int, int], until: int = 300, commits_s: int = 1) -> dict[int, int]:
    """Return by second the lag of a job with 10,000 tuples/s that can do 15,000.

    Each failure is its second and how long it is out. The lag is that of offsets committed every
    ``commits_s``, so it also has what was read since."""
    lag, waits, committed_s = {}, 0, 0
    for second in range(until + 1):
        out = any(at < second <= at + lasts for at, lasts in failures)
        waits = waits + 10_000 if out else max(0, waits - 5_000)
        if waits or second % commits_s == 0:
            committed_s = second
        lag[second] = waits + 10_000 * (second - committed_s)
    return lag


def csv_of(lag: dict[int, int]) -> str:
    return "time,lag\n" + "".join(f"{second},{waits}\n" for second, waits in lag.items())


ZONED = datetime(2026, 10, 25, 2, 58, 30, tzinfo=timezone(timedelta(hours=2)))
ONE, TWO, BIGGER = (
    job((60, 45)),
    job((60, 45), (340, 45), until=600),
    job((60, 30), (240, 45), until=400),
)
READABLE = {
    "plain": csv_of(ONE),
    # Columns in another order, blanks, CRLF, a zone, in the night when clocks go back, every 5 s.
    "with a zone": "lag, time ,topic\r\n" + "".join(
        f"{waits},{(ZONED + timedelta(seconds=second)).isoformat()},orders\r\n"
        for second, waits in ONE.items() if second % 5 == 0
    ),
    # Times of no zone over an hour that Berlin's clock has twice.
    "without a zone": "time,lag\n" + "".join(
        f"{datetime(2026, 10, 25, 2, 58, 30) + timedelta(seconds=second)},{waits}\n"
        for second, waits in ONE.items()
    ),
    "summer": "time,lag\n" + "".join(
        f"{datetime(2026, 3, 29, 1, 58, 30) + timedelta(seconds=second)},{waits}\n"
        for second, waits in ONE.items()
    ),
}  # fmt: skip


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_a_record_of_the_lag_is_read_whatever_its_form(text: str) -> None:
    found = read_lag(text, name="lag.csv", interval_s=60.0, rate_per_s=10_000.0)
    assert found.downtime_s == pytest.approx(45.0, abs=5.0)
    assert found.outage_s == pytest.approx(130.5, abs=5.0), "back at 5 % of the largest lag"
    assert found.capacity_per_s == pytest.approx(15_000.0, rel=0.01)


GRAFANA = '"Time","orders-0","orders-1"\n' + "".join(
    f'"2026-10-25 00:58:{second:02}","{waits / 2000:.1f} K","{waits / 2000:.1f} K"\n'
    for second, waits in ONE.items()
    if second < 60
)
REFUSED = {
    "two failures": (csv_of(TWO), "rises more than once, to 450,000 .* and to 450,000"),
    "the larger one second": (csv_of(BIGGER), "to 450,000 tuples in row 286 and to 300,000 in row"),
    "while it catches up": (csv_of(job((60, 45), (120, 20))), "rises more than once"),
    "a smaller one later": (csv_of(job((60, 45), (130, 15))), "rises more than once"),
    "by commits": (csv_of(job((60, 45), commits_s=30)), "swings from 0 to 290,000 tuples"),
    "by commits, few rows before": (
        csv_of({s: lag for s, lag in job((60, 45), commits_s=30).items() if 50 <= s <= 280}),
        "swings|rises more than once",
    ),
    "never back": (csv_of(job((60, 45), until=120)), "does not come back to 22,500 tuples"),
    "of Grafana": (GRAFANA, "the lag does not grow from a usual one"),
    "in thousandths": (csv_of({s: 1000 * lag for s, lag in ONE.items()}), "and the rate is 10,000"),
    "empty": ("", "has no column time and no column lag"),
    "another column": ("time,late\n0,1\n", "has no column lag, but time, late"),
    "too few rows": ("time,lag\n0,1\n1,2\n", "has 2 rows"),
    "level": (csv_of(dict.fromkeys(range(9), 1)), "does not grow"),
    "rising": (csv_of({n: n for n in range(9)}), "does not come back"),
    "backwards": (csv_of({9 - n: n for n in range(9)}), "times do not grow"),
    "negative": (csv_of(dict.fromkeys(range(9), -1)), "negative"),
    "no number": ("time,lag\n" + "".join(f"{n},none\n" for n in range(9)), "could not convert"),
    "no time": ("time,lag\n" + "".join(f"soon,{n}\n" for n in range(9)), "soon"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_a_record_of_the_lag_that_shows_no_single_recovery_is_refused(
    text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        read_lag(text, name="lag.csv", interval_s=60.0, rate_per_s=10_000.0)


def test_an_impossible_observation_is_refused() -> None:
    for interval_s, outage_s in ((-1.0, 5.0), (1.0, 0.0)):
        with pytest.raises(UsageError, match="observed"):
            Observation(interval_s=interval_s, outage_s=outage_s)
    with pytest.raises(UsageError, match="nothing was observed"):
        fit_observed([], rate_per_s=RATE)


@given(st.floats(0.5, 600.0), st.floats(0.05, 0.9), st.floats(0.0, 1000.0))
def test_one_recovery_gives_the_outage_where_the_capacity_is_known(
    downtime_s: float, busy: float, interval_s: float
) -> None:
    capacity = RATE / busy
    made = seen((interval_s, predict_s(downtime_s, capacity, interval_s, RATE)))
    found = fit_observed(made, rate_per_s=RATE, capacity_per_s=capacity)
    assert found.downtime_s == pytest.approx(downtime_s, rel=1e-6, abs=1e-6)
    assert found.errors == []
