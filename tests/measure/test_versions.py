from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.versions import compare, versions

IDENTITY, VALUES = ["window_start_s", "word"], ["count"]


def frame(*rows: tuple[int, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*IDENTITY, *VALUES]).astype(
        {"window_start_s": float, "word": str, "count": int}
    )


TRUTH = frame((0, "a", 3), (0, "b", 1), (1, "a", 2))


def test_equal_in_any_order() -> None:
    found = compare(TRUTH.iloc[::-1], TRUTH, IDENTITY, VALUES)
    assert found.equal
    assert found.accuracy == 1
    assert found.describe() == "all 3 equal"


def test_a_tampered_count_is_found() -> None:
    tampered = TRUTH.assign(count=[3, 1, 99])
    found = compare(tampered, TRUTH, IDENTITY, VALUES)
    assert not found.equal
    assert found.wrong.to_dict("records") == [
        {"window_start_s": 1.0, "word": "a", "count_expected": 2, "count_delivered": 99}
    ]
    assert found.accuracy == pytest.approx(2 / 3)
    assert "1 wrong" in found.describe()


def test_missing_and_extra_results_are_listed() -> None:
    found = compare(frame((0, "a", 3), (1, "a", 2), (1, "z", 7)), TRUTH, IDENTITY, VALUES)
    assert not found.equal
    assert found.missing.to_dict("records") == frame((0, "b", 1)).to_dict("records")
    assert found.extra.to_dict("records") == frame((1, "z", 7)).to_dict("records")
    assert found.accuracy == pytest.approx(2 / 3)
    assert "1 missing" in found.describe()
    assert "1 extra" in found.describe()


def test_nothing_delivered() -> None:
    found = compare(TRUTH.head(0), TRUTH, IDENTITY, VALUES)
    assert not found.equal
    assert found.accuracy == 0


def test_nothing_expected_proves_nothing() -> None:
    found = compare(TRUTH.head(0), TRUTH.head(0), IDENTITY, VALUES)
    assert not found.equal
    assert found.accuracy is None


def test_an_identity_twice_is_refused() -> None:
    twice = pd.concat([TRUTH, TRUTH.head(1)])
    with pytest.raises(ValueError, match="twice among the delivered"):
        compare(twice, TRUTH, IDENTITY, VALUES)


def test_the_first_copy_is_taken_and_the_others_counted() -> None:
    delivered = frame((0, "a", 3), (0, "b", 1), (0, "a", 3), (0, "a", 3), (1, "a", 2))
    seen = versions(delivered, IDENTITY, VALUES)
    assert seen.duplicates == 2
    assert seen.first.index.tolist() == [0, 1, 4]
    assert seen.last.index.tolist() == [1, 3, 4]
    assert not len(seen.contradictions)


def test_two_values_for_one_identity_contradict() -> None:
    delivered = frame((0, "a", 3), (0, "b", 1), (0, "a", 4), (0, "b", 1))
    seen = versions(delivered, IDENTITY, VALUES)
    assert seen.contradictions["count"].tolist() == [3, 4]
    assert compare(seen.first, TRUTH.head(2), IDENTITY, VALUES).equal
    assert not compare(seen.last, TRUTH.head(2), IDENTITY, VALUES).equal


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
    assert found.equal == (bool(expected) and delivered == expected)
