from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.versions import (
    STABILITY,
    Stability,
    compare,
    early_error,
    settled,
    versions,
)

IDENTITY, VALUES = ["window_start_s", "word"], ["count"]


def frame(*rows: tuple[int, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*IDENTITY, *VALUES]).astype(
        {"window_start_s": float, "word": str, "count": int}
    )


TRUTH = frame((0, "a", 3), (0, "b", 1), (1, "a", 2))


def test_an_identity_twice_is_refused() -> None:
    twice = pd.concat([TRUTH, TRUTH.head(1)])
    with pytest.raises(ValueError, match="twice among the delivered"):
        compare(twice, TRUTH, IDENTITY, VALUES)


def told(*rows: tuple[int, str, int, str]) -> pd.DataFrame:
    """Return deliveries with their stability."""
    plain = frame(*(row[:3] for row in rows))
    return plain.assign(**{STABILITY: [row[3] for row in rows]})


def test_a_stable_result_after_a_tentative_one_is_a_correction() -> None:
    delivered = told(
        (0, "a", 2, "tentative"), (0, "b", 1, "tentative"), (0, "a", 2, "undo"),
        (0, "a", 3, "stable"), (0, "b", 1, "stable"),
    )  # fmt: skip
    seen = versions(delivered, IDENTITY, VALUES)
    assert seen.corrections == 1, "b was right from the beginning"
    assert not len(seen.contradictions)
    assert (seen.duplicates, seen.uncorrected) == (0, 0)
    assert seen.first["count"].tolist() == [2, 1], "what a user acted on"
    assert compare(seen.stable, TRUTH.head(2), IDENTITY, VALUES).equal
    assert compare(seen.last, TRUTH.head(2), IDENTITY, VALUES).equal


def test_the_same_tentative_result_after_its_undo_is_no_repetition() -> None:
    row = (0, "a", 3)
    again = told((*row, "tentative"), (*row, "undo"), (*row, "tentative"), (*row, "stable"))
    assert versions(again, IDENTITY, VALUES).duplicates == 0
    twice = told((*row, "tentative"), (*row, "tentative"), (*row, "stable"), (*row, "stable"))
    assert versions(twice, IDENTITY, VALUES).duplicates == 2


def test_an_unknown_stability_is_refused() -> None:
    with pytest.raises(ValueError, match="certain"):
        versions(told((0, "a", 3, "certain")), IDENTITY, VALUES)


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 2),
                  st.sampled_from([Stability.STABLE, Stability.TENTATIVE, Stability.UNDO])),
        max_size=12,
    )
)  # fmt: skip
def test_versions_are_what_a_reader_of_one_row_after_the_other_sees(
    rows: list[tuple[int, str, int, Stability]],
) -> None:
    first: dict[tuple[int, str], int] = {}
    standing: dict[tuple[int, str], int] = {}
    final: dict[tuple[int, str], int] = {}
    broken = set()
    for start, word, count, stability in rows:
        key = (start, word)
        if stability is not Stability.UNDO:
            first.setdefault(key, count)
        if stability is Stability.STABLE:
            if final.setdefault(key, count) != count:
                broken.add(key)
            standing[key] = count
        elif key in final:
            if stability is Stability.UNDO:
                broken.add(key)
        elif stability is Stability.UNDO:
            standing.pop(key, None)
        else:
            standing[key] = count
    seen = versions(told(*((*row[:3], row[3].value) for row in rows)), IDENTITY, VALUES)

    def found(table: pd.DataFrame) -> dict[tuple[int, str], int]:
        columns = zip(table["window_start_s"], table["word"], table["count"], strict=True)
        return {(int(start), word): count for start, word, count in columns}

    assert found(seen.first) == first
    assert found(seen.last) == standing
    assert found(seen.stable) == final
    keys = zip(seen.contradictions["window_start_s"], seen.contradictions["word"], strict=True)
    assert {(int(start), word) for start, word in keys} == broken
    assert seen.uncorrected == len({row[:2] for row in rows}) - len(final)


results = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abc")), st.integers(0, 3), max_size=8
)


@given(delivered=results, expected=results)
def test_comparison_accounts_for_every_result(
    delivered: dict[tuple[int, str], int], expected: dict[tuple[int, str], int]
) -> None:
    def rows(of: dict[tuple[int, str], int]) -> pd.DataFrame:
        return frame(*((start, word, count) for (start, word), count in of.items()))

    found = compare(rows(delivered), rows(expected), IDENTITY, VALUES)
    assert len(found.missing) == len(expected.keys() - delivered.keys())
    assert len(found.extra) == len(delivered.keys() - expected.keys())
    both = expected.keys() & delivered.keys()
    assert len(found.wrong) == sum(delivered[key] != expected[key] for key in both)
    assert found.equal == (bool(expected) and delivered == expected), "nothing proves nothing"
    assert (found.accuracy is None) == (not expected)


ODD_KEYS = [None, "", "\0", "null", "NaN", "a\0b", "a\0c", "caf\u00e9", "cafe\u0301", "\u2028"]
"""Null, text that differs after a NUL alone, and text that looks the same."""


def odd(keys: Sequence[str | float | None], count: int = 1) -> pd.DataFrame:
    rows = pd.DataFrame({"word": list(keys)}, dtype=object)
    return rows.assign(window_start_s=0.0, count=count)


def test_a_null_is_a_key_like_any_other() -> None:
    due = odd(ODD_KEYS)
    assert compare(due.iloc[::-1], due, IDENTITY, VALUES).equal
    lost = compare(due.iloc[1:], due, IDENTITY, VALUES)
    assert lost.missing["word"].tolist() == [None]
    assert compare(due.iloc[:5], due.iloc[5:], IDENTITY, VALUES).accuracy == 0
    numbers = compare(odd([None, *"12"]), odd([float("nan"), "1", "2"]), IDENTITY, VALUES)
    assert numbers.equal, "pandas makes NaN of some nulls"


@pytest.mark.parametrize("key", [None, "\0"])
def test_versions_of_an_odd_key_are_counted(key: str | None) -> None:
    given = pd.concat(
        [odd(ODD_KEYS), odd([key], count=2), odd([key]), odd([key], count=2)], ignore_index=True
    )
    contradicted = versions(given, IDENTITY, VALUES)
    assert (len(contradicted.contradictions), contradicted.duplicates) == (4, 2)
    revised = versions(given.assign(stability="revision"), IDENTITY, VALUES)
    assert (revised.early, revised.setbacks, revised.duplicates) == (2, 1, 2)
    marked = settled(given.assign(stability="revision"), IDENTITY, VALUES)
    assert early_error(marked, IDENTITY, VALUES) == pytest.approx(0.5)
    marks = ["tentative"] * len(ODD_KEYS) + ["undo", "tentative", "stable"]
    tentative = versions(given.assign(stability=marks), IDENTITY, VALUES)
    assert (tentative.corrections, tentative.uncorrected) == (1, len(ODD_KEYS) - 1)
    assert not tentative.duplicates, "it came again after its undo"


def revisions(*rows: tuple[str, int]) -> pd.DataFrame:
    revised = frame(*((0, word, count) for word, count in rows))
    return revised.assign(stability=Stability.REVISION.value, arrival_s=range(len(rows)))


def test_a_revised_result_is_its_last_value_from_when_that_first_came() -> None:
    """After the value 3 an engine that was started again counts from 2 on once more."""
    given = revisions(("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 2), ("a", 3), ("b", 1))
    found = versions(given, IDENTITY, VALUES)
    assert found.stable[["word", "count", "arrival_s"]].to_dict("records") == [
        {"word": "b", "count": 1, "arrival_s": 1},
        {"word": "a", "count": 3, "arrival_s": 3},
    ]
    assert found.first["count"].tolist() == [1, 1]
    assert sorted(found.last["count"]) == [1, 3]
    assert (found.early, found.setbacks, found.duplicates) == (3, 1, 3)
    assert (found.tentative, found.corrections, found.uncorrected) == (1, 1, 0)
    assert not len(found.contradictions)
    error = early_error(settled(given, IDENTITY, VALUES), IDENTITY, VALUES)
    assert error == pytest.approx((2 / 3 + 1 / 3 + 1 / 3) / 3)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=1))
def test_text_and_floats_are_told_apart_as_whole_numbers_are(rows: list[tuple[str, int]]) -> None:
    """Whole numbers and text take a shorter way, with the same result."""
    whole = revisions(*rows)
    slow = whole.assign(count=whole["count"].astype(float))
    text = whole.assign(count=whole["count"].astype(str))
    counts = [
        (v.early, v.setbacks, v.duplicates, v.corrections, len(v.stable))
        for v in (versions(one, IDENTITY, VALUES) for one in (whole, slow, text))
    ]
    assert counts[0] == counts[1] == counts[2]
