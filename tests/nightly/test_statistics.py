"""The decisions of the gate, on samples with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from harness.nightly.statistics import (
    FALSE_ALARMS,
    FEWEST_PAIRS,
    Change,
    Pairs,
    Scale,
    compare,
    confirming_pairs,
    decide,
)
from harness.seeds import generator

PAIRS = 15


def noisy(slower: float, *, seed: int) -> Pairs:
    """Draw costs of a loop on a machine that also drifts and is sometimes busy."""
    draw = generator(seed, "noisy")
    drift = np.exp(np.cumsum(draw.normal(0.0, 0.05, PAIRS)))
    busy = np.where(draw.random((2, PAIRS)) < 0.04, 1.3, 1.0)
    jitter = np.exp(draw.normal(0.0, 0.05, (2, PAIRS)))
    baseline, tonight = drift * busy * jitter * np.array([[1.0], [slower]])
    return Pairs(baseline=baseline.tolist(), tonight=tonight.tolist())


def verdict(slower: float, seed: int) -> Change:
    looks = noisy(slower, seed=2 * seed), noisy(slower, seed=2 * seed + 1)
    return decide(*looks, measured_last_night=False).verdict


def test_equal_code_is_called_equal() -> None:
    found = [verdict(1.0, seed) for seed in range(400)]
    assert sum(each is not Change.NO_CHANGE for each in found) <= 2


@pytest.mark.parametrize(("slower", "at_least"), [(1.2, 90), (1.5, 100)])
def test_a_planted_slowdown_is_found(slower: float, at_least: int) -> None:
    found = [verdict(slower, seed) for seed in range(100)]
    assert found.count(Change.WORSE) >= at_least
    assert Change.BETTER not in found


@pytest.mark.parametrize("pairs", [FEWEST_PAIRS, PAIRS, 24])
def test_the_interval_holds_the_truth_as_often_as_it_says(pairs: int) -> None:
    """Tolerance: two standard deviations of 2,000 trials."""
    draw = generator(pairs, "the truth")
    held = 0
    for _ in range(2_000):
        found = compare([1.0] * pairs, (1.1 * draw.lognormal(0.0, 0.1, pairs)).tolist())
        assert found.low <= found.ratio <= found.high
        held += found.low <= 1.1 <= found.high
    assert held / 2_000 >= 0.99 - 0.0045


def test_a_change_that_a_second_look_does_not_see_is_none() -> None:
    first = noisy(1.5, seed=1)
    suspected = first.compare()
    assert suspected is not None
    assert suspected.verdict is Change.WORSE
    found = decide(first, noisy(1.0, seed=2), measured_last_night=True)
    assert found.verdict is Change.NO_CHANGE


@pytest.mark.parametrize(("first", "fresh"), [(3, 10), (5, 8), (8, 8)])
def test_few_first_pairs_ask_for_more_fresh_ones(first: int, fresh: int) -> None:
    """Tolerance: two standard deviations of the number of false alarms in 2,000 comparisons."""
    assert confirming_pairs(first, 22) == fresh
    draw = generator(first, "equal costs")
    alarms = 0
    for _ in range(2_000):
        sides = draw.normal(0.0, 10.0, first + fresh)
        alarms += decide(
            outages(sides[:first]), outages(sides[first:]), measured_last_night=True
        ).verdict in (Change.WORSE, Change.BETTER)
    expected = 2_000 * FALSE_ALARMS / 22
    assert alarms <= expected + 2 * np.sqrt(expected)


def outages(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Pairs:
    return Pairs(
        baseline=[20.0] * len(differences),
        tonight=(20.0 + differences).tolist(),
        scale=Scale("s"),
        fewest=3,
    )


def test_a_change_that_too_few_fresh_pairs_could_confirm_is_none() -> None:
    few = Pairs(baseline=[1.0] * PAIRS, tonight=[2.0] * 3 + [None] * (PAIRS - 3))
    found = decide(noisy(1.5, seed=1), few, measured_last_night=True)
    assert found.verdict is Change.NO_CHANGE


NONE: list[float | None] = [None] * PAIRS
SOME: list[float | None] = [1.0] * PAIRS


@pytest.mark.parametrize(
    ("baseline", "tonight", "last", "expected"),
    [
        (SOME, NONE, False, Change.LOST),
        (NONE, NONE, True, Change.LOST),
        (NONE, NONE, False, Change.NOT_MEASURED),
        (NONE, SOME, True, Change.NEW),
    ],
)
def test_a_number_that_is_missing(
    baseline: list[float | None], tonight: list[float | None], last: bool, expected: Change
) -> None:
    pairs = Pairs(baseline=baseline, tonight=tonight)
    assert decide(pairs, None, measured_last_night=last).verdict is expected
