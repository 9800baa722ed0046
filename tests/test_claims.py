"""Sentences whose check stands once for several figures."""

from __future__ import annotations

from harness.claims import at_most, region, shares

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
    assert found.measured["where"] == ["2/a"]
    assert found.measured["combinations"] == 3
    assert found.measured["best"] == "2/a"
    assert found.measured["failing_there"] == []


def test_without_a_region_the_best_combination_is_named_with_what_fails_there() -> None:
    found = region({place: HELD[place] for place in ((1, "a"), (2, "b"))}, named)
    assert found.held is False
    assert found.measured["combinations_where_all_hold"] == 0
    assert found.measured["best"] == "1/a"
    assert found.measured["failing_there"] == ["cheaper"]
