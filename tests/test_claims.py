"""Claims with one rule for several figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import exp, inf, isnan, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.claims import (
    Cause,
    Finding,
    Sample,
    Word,
    at_least,
    at_most,
    difference_of,
    every,
    found,
    hypothesis,
    judge,
    mean_of,
    median_of,
    not_asked,
    paper,
    ratio_of,
    rows,
)
from harness.claims.samples import FEWEST, lasting
from harness.seeds import generator
from tests.there import there


def test_a_limit_counts_as_kept_and_is_shown() -> None:
    kept = at_most(10.0, 10.0, ms=10.0)
    assert kept.held is True
    assert kept.measured == {"ms": 10.0, "limit": 10.0}
    assert at_most(10.1, 10.0).held is False
    assert at_most(None, 10.0).held is None


def test_a_limit_inside_the_interval_leaves_a_claim_undecided() -> None:
    near = there(median_of([9.0, 9.5, 10.5, 11.0, 10.2, 10.3, None]))
    assert near.n == 6
    for limit, word in ((10.0, Word.UNDECIDED), (12.0, Word.HOLDS), (8.0, Word.DOES_NOT_HOLD)):
        claim = hypothesis("short", "It is short.").at_most(lambda table: near, limit)
        verdict = there(judge(claim, None))
        assert verdict.word is word
        assert verdict.measured["interval_95"] == [near.low, near.high]
        assert ("limit inside" in (verdict.why or "")) is (word is Word.UNDECIDED)


@given(st.lists(st.floats(1e-3, 1e3), min_size=FEWEST, max_size=30))
def test_an_interval_encloses_its_median_and_stays_within_the_samples(values: list[float]) -> None:
    sample = there(median_of(values))
    low, high = there(sample.low), there(sample.high)
    assert min(values) <= low <= sample.value <= high <= max(values)
    assert there(ratio_of(values, values)).value == 1.0


@pytest.mark.parametrize(
    ("one", "other", "value", "verdict"),
    [
        ([0.0] * 6, [0.0] * 6, 1.0, False),  # neither is late
        ([0.0] * 6, [1.0] * 6, 0.0, True),
        ([1.0] * 6, [0.0] * 6, inf, False),
        ([0.0] * 6, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 0.0, None),
        ([inf] * 6, [1.0] * 6, inf, False),
    ],
)
def test_a_ratio_of_zeros_has_an_interval(
    one: list[float], other: list[float], value: float, verdict: bool | None
) -> None:
    ratio = there(ratio_of(one, other))
    assert ratio.value == value
    assert not isnan(ratio.low or 0.0)
    assert ratio.below(0.1) is verdict


@pytest.mark.parametrize(
    ("compared", "low"),
    [(ratio_of([inf] * 9, [inf] * 9), 0.0), (difference_of([inf] * 9, [inf] * 9), -inf)],
)
def test_what_never_ends_on_either_side_decides_nothing(compared: Sample, low: float) -> None:
    assert isnan(compared.value)
    assert (compared.low, compared.high) == (low, inf)
    for finding in (at_most(compared, 1.0), at_least(compared, 1.0)):
        assert finding.held is None


@pytest.mark.parametrize("statistic", [median_of, mean_of, partial(ratio_of, [1.0] * 9)])
def test_fewer_samples_than_six_decide_nothing(
    statistic: Callable[[list[float | None]], Sample | None],
) -> None:
    assert FEWEST == 6, "two of 32 sets of five have all samples on one side of the median"
    few, enough = there(statistic([1.0] * 5)), there(statistic([1.0] * 6))
    assert (few.value, few.low, few.n, few.below(2.0), few.above(2.0)) == (1.0, None, 5, None, None)
    assert enough.below(2.0) is True
    claim = hypothesis("one", "One is enough.").at_most(lambda table: few, 2.0)
    verdict = there(judge(claim, None))
    assert verdict.word is Word.UNDECIDED
    assert verdict.why == "it takes 6 samples, and there are 5: add some with --repeats"
    assert statistic([None, float("nan")]) is None


NORMAL, EXPONENTIAL, LOGNORMAL = "normal", "exponential", "lognormal"
TRIALS = 600
NOISE = 0.018
"""Tolerance: two standard deviations of the share of trials, at 95 %."""


def drawn(name: str, n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return trials of n samples each."""
    draw = generator(n, "coverage", name)
    size = (TRIALS, n)
    return {
        NORMAL: draw.normal(10.0, 2.0, size),
        EXPONENTIAL: draw.exponential(1.0, size),
        LOGNORMAL: draw.lognormal(0.0, 1.0, size),
    }[name]


MEANS = {NORMAL: 10.0, EXPONENTIAL: 1.0, LOGNORMAL: exp(0.5)}
MEDIANS = {NORMAL: 10.0, EXPONENTIAL: log(2.0), LOGNORMAL: 1.0}


@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize(
    ("name", "mean_covers"), [(NORMAL, 0.94), (EXPONENTIAL, 0.92), (LOGNORMAL, 0.88)]
)
def test_an_interval_has_the_truth_inside_as_often_as_it_says(
    name: str, mean_covers: float, n: int
) -> None:
    """Medians reach 95 % on any distribution; means fall short of it by what is stated here."""
    one, other = drawn(name, n), np.roll(drawn(name, n), 1, axis=0)

    def covers(samples: Iterator[Sample | None], truth: float) -> float:
        return float(np.mean([s is not None and s.low <= truth <= s.high for s in samples]))  # type: ignore[operator]

    assert covers(map(median_of, one), MEDIANS[name]) >= 0.95 - NOISE
    assert covers(map(mean_of, one), MEANS[name]) >= mean_covers - 2 * NOISE
    pairs = list(zip(one[:300], other[:300], strict=True))
    assert covers((ratio_of(*pair) for pair in pairs), 1.0) >= 0.95 - 2 * NOISE
    assert covers((difference_of(*pair) for pair in pairs), 0.0) >= 0.95 - 2 * NOISE


def test_a_cell_refutes_on_a_part_of_the_grid_and_nothing_else_is_decided_there() -> None:
    refuted = paper("all", "All do.")(lambda table: every([True, False, None]))
    whole = paper("mean", "The mean does.")(lambda table: found(False))
    fails = paper("rows", "It needs rows.")(lambda table: found(table["missing"]))
    held = [judge(claim, {}, missing="2 of 3 runs") for claim in (refuted, whole, fails)]
    assert [verdict and verdict.held for verdict in held] == [False, None, None]
    assert [verdict and verdict.why for verdict in held][1:] == ["2 of 3 runs"] * 2
    assert "KeyError" in (there(judge(fails, {})).problem or "")


def test_a_reason_is_shown_only_with_the_verdict_that_it_explains() -> None:
    claim = paper(
        "a", "It does.", because="never", cause=Cause.NOT_SO, unmeasured_because="no data"
    )
    for held, why in ((True, None), (False, "never"), (None, "no data")):
        verdict = there(judge(claim(partial(lambda held, table: found(held), held)), None))
        assert verdict.why == why
        assert verdict.cause == (Cause.NOT_SO if held is False else None)
    own = there(judge(claim(lambda table: found(False, "computed")), None))
    assert own.why == "computed", "that of the finding goes before"
    assert judge(claim(lambda table: not_asked()), None) is None


def test_builders_compare_and_show_what_they_compared() -> None:
    grows = hypothesis("g", "It grows.").grows(lambda table: {2: 1.0, 1: 0.5, 4: 3.0})
    between = hypothesis("b", "It is between.").between(lambda table: 0.5, 0.0, 1.0)
    near = hypothesis("n", "It is near.").near(lambda table: 11.5, 11.6, 0.05)
    each = hypothesis("e", "Each does.").every(lambda table: {"x": True, "y": False})
    verdicts = [there(judge(claim, None)) for claim in (grows, between, near, each)]
    assert [verdict.held for verdict in verdicts] == [True, True, False, False]
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
    found = there(lasting(seconds, over))
    assert found.describe() == said
    assert found.not_over == over.count(False)
    one = there(lasting(seconds, over, passes=["a"] * len(seconds)))
    assert (one.low, one.median) == (None, found.median), "one pass has no interval"
    assert lasting([], []) is None


def test_the_interval_of_a_censored_median_covers_it() -> None:
    """Exponential durations, three of ten cut off by the end of watching; seeds 0 to 199."""
    covered = ended = naive = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        seconds, watched_s = draw.exponential(10.0, 12), draw.exponential(10.0 * 7 / 3, 12)
        over = seconds <= watched_s
        found = there(lasting(np.minimum(seconds, watched_s), over))
        covered += there(found.low) <= 10.0 * log(2.0) <= there(found.high)
        ended += found.median >= 10.0 * log(2.0)
        naive += float(np.median(seconds[over])) >= 10.0 * log(2.0)
    assert covered >= 0.93 * 200
    assert abs(ended - 100) < 30, "as often above the median as below"
    assert naive < 70, "of those that ended alone, the median is too short"


def test_a_rule_says_what_it_needs_with_its_limits() -> None:
    assert (
        paper("x", "x").at_most(lambda tables: tables, 0.25).needs == "its number is at most 0.25"
    )
    assert paper("x", "x").every(rows["loss"] <= 0.1).needs == "in each case: loss ≤ 0.1"

    @paper("x", "x")
    def documented(tables: Any) -> Finding:
        """Judge the median of the runs."""
        return found(None)

    assert documented.needs == documented.on("live").needs == "Judge the median of the runs."
    assert paper("x", "x")(lambda table: found(None)).needs == ""
