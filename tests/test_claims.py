"""Claims with one rule for several figures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf, isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.claims import (
    Cause,
    Finding,
    Sample,
    Word,
    at_most,
    difference_of,
    every,
    found,
    hypothesis,
    judge,
    median_of,
    not_asked,
    paper,
    ratio_of,
    region,
    shares,
)
from harness.claims.samples import lasting

HELD = {
    (1, "a"): {"faster": True, "cheaper": False},
    (2, "a"): {"faster": True, "cheaper": True, "smaller": True},
    (2, "b"): {"faster": True, "cheaper": False, "smaller": False},
}


def named(place: tuple[int, str]) -> str:
    return "{}/{}".format(*place)


def test_a_limit_counts_as_kept_and_is_shown() -> None:
    kept = at_most(10.0, 10.0, ms=10.0)
    assert kept.held is True
    assert kept.measured == {"ms": 10.0, "limit": 10.0}
    assert at_most(10.1, 10.0).held is False
    assert at_most(None, 10.0).held is None


def test_a_share_is_of_the_combinations_that_decide_a_sentence() -> None:
    assert shares(HELD) == {"faster": 1.0, "cheaper": 1 / 3, "smaller": 1 / 2}


def test_a_region_is_where_all_sentences_hold() -> None:
    found = region(HELD, named)
    assert found.held is True
    assert (found.measured["where"], found.measured["combinations"]) == (["2/a"], 3)
    assert (found.measured["best"], found.measured["failing_there"]) == ("2/a", [])


def test_without_a_region_the_best_combination_is_named_with_what_fails_there() -> None:
    found = region({place: HELD[place] for place in ((1, "a"), (2, "b"))}, named)
    assert found.held is False
    assert found.measured["combinations_where_all_hold"] == 0
    assert (found.measured["best"], found.measured["failing_there"]) == ("1/a", ["cheaper"])


def limited(sample: Sample, limit: float, _: object) -> Finding:
    return at_most(sample, limit)


def test_a_limit_inside_the_interval_leaves_a_claim_undecided() -> None:
    near = median_of([9.0, 9.5, 10.5, 11.0, 10.2, None])
    assert near is not None
    assert near.n == 5
    claim = hypothesis("short", "It is short.")(lambda table: at_most(near, 10.0))
    verdict = judge(claim, None)
    assert verdict is not None
    assert verdict.word is Word.UNDECIDED
    assert "limit inside" in (verdict.why or "")
    for limit, word in ((12.0, Word.HOLDS), (8.0, Word.DOES_NOT_HOLD)):
        decided = judge(replace(claim, decide=partial(limited, near, limit)), None)
        assert decided is not None
        assert decided.word is word
        assert decided.measured["interval_95"] == [near.low, near.high]


@given(st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=30))
def test_an_interval_encloses_its_median_and_stays_within_the_samples(values: list[float]) -> None:
    sample = median_of(values)
    assert sample is not None
    assert sample.low is not None
    assert sample.high is not None
    assert min(values) <= sample.low <= sample.value <= sample.high <= max(values)
    ratio = ratio_of(values, values)
    assert ratio is not None
    assert ratio.value == 1.0


@pytest.mark.parametrize(
    ("one", "other", "value", "verdict"),
    [
        ([0.0] * 5, [0.0] * 5, 1.0, False),  # neither is late
        ([0.0] * 5, [1.0] * 5, 0.0, True),
        ([1.0] * 5, [0.0] * 5, inf, False),
        ([0.0] * 5, [0.0, 0.0, 1.0, 1.0, 1.0], 0.0, None),
        ([inf] * 5, [1.0] * 5, inf, False),
    ],
)
def test_a_ratio_of_zeros_has_an_interval(
    one: list[float], other: list[float], value: float, verdict: bool | None
) -> None:
    ratio = ratio_of(one, other)
    assert ratio is not None
    assert ratio.value == value
    assert not isnan(ratio.low or 0.0)
    assert ratio.below(0.1) is verdict


def test_a_difference_of_what_never_ends_has_an_interval() -> None:
    difference = difference_of([inf] * 5, [inf, inf, inf, 1.0, 1.0])
    assert difference is not None
    assert (difference.value, difference.low, difference.high) == (0.0, 0.0, inf)


def test_fewer_samples_than_five_have_no_interval() -> None:
    few = median_of([1.0, 3.0])
    assert few is not None
    assert (few.value, few.low, few.n) == (2.0, None, 2)
    assert few.below(2.0) is True
    assert median_of([None, float("nan")]) is None


def test_a_cell_refutes_on_a_part_of_the_grid_and_nothing_else_is_decided_there() -> None:
    refuted = paper("all", "All do.")(lambda table: every([True, False, None]))
    whole = paper("mean", "The mean does.")(lambda table: found(False))
    fails = paper("rows", "It needs rows.")(lambda table: found(table["missing"]))
    held = [judge(claim, {}, missing="2 of 3 runs") for claim in (refuted, whole, fails)]
    assert [verdict and verdict.held for verdict in held] == [False, None, None]
    assert [verdict and verdict.why for verdict in held][1:] == ["2 of 3 runs"] * 2
    defect = judge(fails, {})
    assert defect is not None
    assert "KeyError" in (defect.problem or "")


def test_a_reason_is_shown_only_with_the_verdict_that_it_explains() -> None:
    claim = paper(
        "a", "It does.", because="never", cause=Cause.NOT_SO, unmeasured_because="no data"
    )
    for held, why in ((True, None), (False, "never"), (None, "no data")):
        verdict = judge(claim(partial(lambda held, table: found(held), held)), None)
        assert verdict is not None
        assert verdict.why == why
        assert verdict.cause == (Cause.NOT_SO if held is False else None)
    assert judge(claim(lambda table: not_asked()), None) is None


def test_builders_compare_and_show_what_they_compared() -> None:
    grows = hypothesis("g", "It grows.").grows(lambda table: {2: 1.0, 1: 0.5, 4: 3.0})
    between = hypothesis("b", "It is between.").between(lambda table: 0.5, 0.0, 1.0)
    near = hypothesis("n", "It is near.").near(lambda table: 11.5, 11.6, 0.05)
    each = hypothesis("e", "Each does.").every(lambda table: {"x": True, "y": False})
    verdicts = [judge(claim, None) for claim in (grows, between, near, each)]
    assert [verdict and verdict.held for verdict in verdicts] == [True, True, False, False]
    assert verdicts[3] is not None
    assert verdicts[3].measured["failing"] == ["y"]


@pytest.mark.parametrize(
    ("seconds", "over", "said"),
    [
        ([20.0], [False], "more than 20 s"),
        ([4.0, 6.0, 20.0], [True, True, False], "6 s"),
        ([4.0, 20.0, 21.0], [True, False, False], "more than 20 s"),
        ([1.0, 2.0, 3.0, 4.0], [True] * 4, "2.5 s"),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [True] * 8, "4.5 s (1 to 7 s)"),
        ([1.0, 2.0, 3.0, 4.0, 9.0, 9.0], [True] * 4 + [False] * 2, "3.5 s (1 s and more)"),
        # What was watched for less than the others says nothing about the long ones.
        ([0.5, 0.5, 0.5, 4.0, 6.0, 8.0], [False] * 3 + [True] * 3, "6 s (4 s and more)"),
    ],
)
def test_what_was_not_over_lasted_longer_than_it_was_watched(
    seconds: list[float], over: list[bool], said: str
) -> None:
    found = lasting(seconds, over)
    assert found is not None
    assert found.describe() == said
    assert found.not_over == over.count(False)
    assert lasting([], []) is None


def test_the_interval_of_a_censored_median_covers_it() -> None:
    """Exponential durations, three of ten cut off by the end of watching; seeds 0 to 199."""
    covered = ended = naive = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        seconds, watched_s = draw.exponential(10.0, 12), draw.exponential(10.0 * 7 / 3, 12)
        over = seconds <= watched_s
        found = lasting(np.minimum(seconds, watched_s), over)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 10.0 * log(2.0) <= found.high
        ended += found.median >= 10.0 * log(2.0)
        naive += float(np.median(seconds[over])) >= 10.0 * log(2.0)
    assert covered >= 0.93 * 200
    assert abs(ended - 100) < 30, "as often above the median as below"
    assert naive < 70, "of those that ended alone, the median is too short"
