"""Every record has one intended time; the counts add up."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.load.lag import LagHistogram
from harness.load.plan import EventTime, LoadPlan, Stream
from harness.load.profile import RateProfile
from workloads.base import Reference

TEXT = Reference(
    target="datasets.text:TextLines", parameters={"paths": [], "partitions": 3, "seed": 1}
)
steps = st.one_of(
    st.tuples(st.floats(0.01, 50), st.one_of(st.just(0.0), st.floats(0.5, 500))),
    st.tuples(st.just(0.0), st.integers(1, 50).map(float)),
)
profiles = (
    st.lists(steps, min_size=1, max_size=6)
    .filter(lambda s: sum(d * r for d, r in s) >= 1 and sum(d for d, _ in s) > 0)
    .map(lambda s: RateProfile(tuple(s)))
)


@given(profiles)
def test_intended_times_rise_within_the_duration(profile: RateProfile) -> None:
    times = profile.intended_s(np.arange(profile.records))
    assert times[0] >= 0
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= profile.duration_s + 1e-6


@given(profiles, st.floats(-1, 400))
def test_what_is_due_was_meant_to_be_sent(profile: RateProfile, elapsed: float) -> None:
    due = profile.due(elapsed)
    assert 0 <= due <= profile.records
    times = profile.intended_s(np.arange(profile.records))
    assert (times[:due] <= elapsed + 1e-6).all()
    assert (times[due:] > elapsed - 1e-6).all()
    assert profile.due(profile.duration_s + 1) == profile.records


@given(profiles)
def test_a_plan_reaches_the_generator_as_it_is(profile: RateProfile) -> None:
    stream = Stream(
        topic="t", partitions=2, rate=profile, records=TEXT, marker_s=0.5, marker=b"\0m",
        skew=(1, 3), lag_s=0.5, silent={1: (1.0, 2.5)},
    )  # fmt: skip
    plan = LoadPlan(streams=[stream], event=EventTime(begin_unix_s=7.0, speed=60.0))
    sent = json.dumps(msgspec.to_builtins(plan, str_keys=True))
    assert msgspec.convert(json.loads(sent), LoadPlan, str_keys=True) == plan


@pytest.mark.parametrize(
    ("elapsed_s", "due"),
    [(-1e-9, 0), (0.0, 1), (0.999, 1), (1.0, 2), (3.999, 2), (4.0, 3), (4.5, 4), (5.0, 4)],
)
def test_a_record_is_due_at_its_intended_instant(elapsed_s: float, due: int) -> None:
    """Two records in two seconds, a pause of two, two more in one."""
    profile = RateProfile(((2, 1), (2, 0), (1, 2)))
    assert profile.due(elapsed_s) == due
    assert profile.intended_s(np.arange(4)).tolist() == [0, 1, 4, 4.5]


def test_no_partitions_and_no_streams_are_refused() -> None:
    with pytest.raises(UsageError, match="0 partitions"):
        Stream(topic="t", partitions=0, rate=RateProfile.constant(1, 1), records=TEXT)
    with pytest.raises(UsageError, match="no streams"):
        LoadPlan(streams=[])


@given(st.lists(st.floats(0, 1000), min_size=1))
def test_the_lag_histogram_bounds_the_quantiles(lags: list[float]) -> None:
    histogram = LagHistogram()
    half = len(lags) // 2
    histogram.add(np.array(lags[:half]))
    histogram.add(np.array(lags[half:]))
    assert (histogram.records, histogram.largest_s) == (len(lags), max(lags))
    assert histogram.late_share == sum(lag > 0.1 for lag in lags) / len(lags)
    for share in (0.5, 0.99, 1.0):
        exact = float(np.quantile(lags, share, method="inverted_cdf"))
        assert histogram.quantile_s(share) >= min(exact, histogram.largest_s) * (1 - 1e-9)
        assert histogram.quantile_s(share) <= max(exact * 1.1221, 1.0001e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RateProfile.constant(0, 1), "a rate of 0 records/s"),
        (lambda: RateProfile(((0, 1),)), "a load has no duration"),
        (lambda: RateProfile(()), "load"),
        (lambda: RateProfile(((1, 0),)), "load"),
        (lambda: RateProfile(((1, 1), (-1, 1))), "step 2 of the load lasts -1 s"),
        (lambda: RateProfile(((1, 1), (inf, 0))), "step 2 of the load lasts inf s"),
        (lambda: RateProfile(((1, inf),)), "step 1 of the load has a rate of inf"),
    ],
)
def test_a_load_that_cannot_be_is_refused(make: Callable[[], RateProfile], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


@given(profiles, st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any))
def test_every_record_is_dealt_once(profile: RateProfile, shares: list[int]) -> None:
    """By these shares; without a skew to all partitions in turn."""
    skew = () if len(set(shares)) == 1 else tuple(shares)
    stream = Stream(topic="t", partitions=len(shares), rate=profile, records=TEXT, skew=skew)
    counts = stream.counts()
    assert sum(counts) == profile.records
    partition, offset = stream.places(np.arange(profile.records))
    assert np.bincount(partition, minlength=len(shares)).tolist() == counts
    for number, count in enumerate(counts):
        assert offset[partition == number].tolist() == list(range(count))
        sent = profile.intended_s(np.flatnonzero(partition == number))
        assert np.array_equal(stream.intended_s(number, np.arange(count)), sent)
