"""The decisions of the gate, on samples with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from harness.nightly.statistics import (
    FEWEST_PAIRS,
    Change,
    Comparison,
    Decision,
    Pairs,
    compare,
    decide,
)
from harness.seeds import generator

PAIRS = 15


def noisy(slower: float, *, seed: int, noise: float = 0.05) -> Pairs:
    """Draw costs of a loop on a machine that also drifts and is sometimes busy."""
    draw = generator(seed, "noisy")
    drift = np.exp(np.cumsum(draw.normal(0.0, 0.05, PAIRS)))
    busy = np.where(draw.random((2, PAIRS)) < 0.04, 1.3, 1.0)
    jitter = np.exp(draw.normal(0.0, noise, (2, PAIRS)))
    baseline, tonight = drift * busy * jitter * np.array([[1.0], [slower]])
    return Pairs(baseline=baseline.tolist(), tonight=tonight.tolist())


def verdict(slower: float, seed: int, *, last: bool = False) -> Decision:
    return decide(
        noisy(slower, seed=2 * seed),
        noisy(slower, seed=2 * seed + 1),
        measured_last_night=last,
    )


def test_equal_code_is_called_equal() -> None:
    found = [verdict(1.0, seed).verdict for seed in range(400)]
    assert sum(each is not Change.NO_CHANGE for each in found) <= 2


@pytest.mark.parametrize(("slower", "at_least"), [(1.2, 90), (1.5, 100)])
def test_a_planted_slowdown_is_found(slower: float, at_least: int) -> None:
    found = [verdict(slower, seed).verdict for seed in range(100)]
    assert found.count(Change.WORSE) >= at_least
    assert Change.BETTER not in found


def test_what_became_faster_is_better() -> None:
    found = [verdict(1 / 1.3, seed).verdict for seed in range(50)]
    assert found.count(Change.BETTER) >= 48


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


def test_fewer_pairs_than_eight_decide_nothing() -> None:
    seven = Pairs(baseline=[1.0] * 7, tonight=[1.5] * 7)
    assert seven.compare() is None
    assert Pairs(baseline=[1.0] * 8, tonight=[1.5] * 8).compare() is not None


def test_a_certain_but_small_change_is_none() -> None:
    small = Comparison(ratio=1.03, low=1.02, high=1.04, pairs=PAIRS)
    assert small.verdict is Change.NO_CHANGE


def test_a_large_but_uncertain_change_is_none() -> None:
    assert Comparison(ratio=1.4, low=0.9, high=2.0, pairs=PAIRS).verdict is Change.NO_CHANGE


def test_a_change_that_a_second_look_does_not_see_is_none() -> None:
    found = decide(noisy(1.5, seed=1), noisy(1.0, seed=2), measured_last_night=True)
    assert found.verdict is Change.NO_CHANGE
    assert found.screened is not None
    assert found.screened.verdict is Change.WORSE


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


def test_a_few_lost_samples_do_not_matter() -> None:
    pairs = noisy(1.5, seed=3)
    holes = Pairs(baseline=pairs.baseline, tonight=[None, *pairs.tonight[1:]])
    found = holes.compare()
    assert found is not None
    assert found.pairs == PAIRS - 1
    assert Pairs(baseline=SOME[:FEWEST_PAIRS], tonight=NONE[:FEWEST_PAIRS]).compare() is None
