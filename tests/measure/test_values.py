"""Values compare by their type, independent of the form in a sink."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.measure.values import (
    demand_comparable,
    differs,
    equal,
    from_arrow,
    normalized,
    read_json,
)
from harness.measure.versions import versions

SEEN_AT = datetime(2020, 1, 2, 0, 0, 0, 7)
STRUCT = pa.struct([("low", pa.float64()), ("at", pa.date32())])


def same(kind: pa.DataType, one: Any, other: Any, tolerance: float = 1e-9) -> bool:
    """Return True if two columns with one value each are equal as this type."""
    columns = [
        normalized(pd.DataFrame({"x": pd.Series([value], dtype=object)}), {"x": kind})["x"]
        for value in (one, other)
    ]
    (wrong,) = differs(columns[0], columns[1], tolerance)
    (back,) = differs(columns[1], columns[0], tolerance)
    assert wrong == back, "equality has no direction"
    return not wrong


@pytest.mark.parametrize(
    ("kind", "one", "other", "equal"),
    [
        (pa.decimal128(16, 6), Decimal("22.167188"), 22.167188, True),
        (pa.decimal128(16, 6), Decimal("22.100000"), "22.1", True),
        (pa.decimal128(16, 6), Decimal("22.167188"), "22.167189", False),
        (pa.decimal128(16, 6), Decimal("22.167188"), "22.1671880001", False),
        (pa.decimal128(38, 2), Decimal("123456789012345678.91"), "123456789012345678.92", False),
        (pa.decimal128(38, 2), "1" * 30 + ".5", Decimal("1" * 30 + ".50"), True),
        (pa.decimal128(38, 2), "1" * 30 + ".51", Decimal("1" * 30 + ".50"), False),
        (pa.decimal256(76, 40), "7" * 36 + ".5", Decimal("7" * 36 + ".5" + "0" * 39), True),
        (pa.decimal128(16, 6), Decimal(7), 7, True),
        (pa.float64(), 18.430588235294113, 18.430588235294117, True),
        (pa.float64(), 18.4305, 18.4306, False),
        (pa.float64(), nan, "NaN", True),
        (pa.float64(), inf, "Infinity", True),
        (pa.float64(), inf, 1e300, False),
        (pa.float64(), nan, None, False),
        (pa.float64(), 0.0, None, False),
        (pa.float64(), 0.0, -0.0, True),
        (pa.int64(), 2**60, 2**60 + 1, False),
        (pa.int64(), None, None, True),
        (pa.string(), "2020-01-01", "2020-01-01", True),
        (pa.string(), "1.0", "1.00", False),
        (pa.string(), "", None, False),
        (pa.bool_(), True, False, False),
        (pa.binary(), b"\x00\x01", "AAE=", True),
        (pa.date32(), date(2020, 1, 2), "2020-01-02", True),
        (pa.date32(), date(2020, 1, 2), "2020-01-03", False),
        (pa.timestamp("us"), datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T01:00:00+01:00", True),
        (pa.timestamp("us"), datetime(2020, 1, 2), 1_577_923_200_000, True),
        (pa.timestamp("us"), 1_577_923_200_001, "2020-01-02T00:00:00.000Z", False),
        (pa.timestamp("us"), SEEN_AT, "2020-01-02T00:00:00.000007Z", True),
        (pa.timestamp("us"), SEEN_AT, "2020-01-02T00:00:00.000008Z", False),
        (pa.list_(pa.timestamp("us")), [SEEN_AT], ["2020-01-02T00:00:00.000008Z"], False),
        (pa.list_(pa.float64()), np.array([0.1 + 0.2, 1.0]), [0.3, 1], True),
        (pa.list_(pa.int64()), [1, 2], [2, 1], False),
        (pa.list_(pa.int64()), [1], [1, 1], False),
        (pa.list_(pa.decimal128(5, 2)), [Decimal("1.10"), None], ["1.1", None], True),
        (STRUCT, {"low": 0.3, "at": date(2020, 1, 2)}, {"at": "2020-01-02", "low": 0.1 + 0.2},
         True),
        (STRUCT, {"low": 0.3, "at": None}, {"low": 0.3}, True),
        (STRUCT, {"low": 0.3, "at": None}, {"low": 0.4, "at": None}, False),
        (pa.list_(STRUCT), [{"low": None, "at": None}], [{"low": nan, "at": None}], False),
    ],
)  # fmt: skip
def test_values_compare_as_what_they_are(
    kind: pa.DataType, one: Any, other: Any, equal: bool
) -> None:
    assert same(kind, one, other) is equal
    assert same(kind, one, one)
    assert same(kind, other, other)


@given(st.lists(st.floats(1e-3, 1e3), min_size=2), st.randoms())
def test_a_sum_in_another_order_is_equal(numbers: list[float], chance: Any) -> None:
    shuffled = chance.sample(numbers, len(numbers))
    assert equal(sum(numbers), sum(shuffled), 1e-9)


@given(st.decimals(-1000, 1000, places=3), st.decimals(-1000, 1000, places=3))
def test_decimals_through_json_are_equal_exactly_when_they_are(
    one: Decimal, other: Decimal
) -> None:
    sent = [f'{{"x":{value}}}'.encode() for value in (one, other)]
    frame = normalized(read_json(sent, ["x"]), {"x": pa.decimal128(10, 3)})
    (wrong,) = differs(frame["x"][:1], frame["x"][1:], 0.5)
    assert wrong == (one != other)


def test_json_loses_no_digit_and_guesses_no_type() -> None:
    sent: list[dict[str, Any]] = [
        {"n": 2**53 + 1, "d": 22.1, "s": "2020-01-01 00:00:00", "f": "NaN", "gone": None},
        {"n": None, "d": 7, "s": "b", "f": 1.5, "gone": None},
    ]
    frame = read_json([json.dumps(row).encode() for row in sent], list(sent[0]))
    assert frame["n"].tolist() == [2**53 + 1, None]
    assert frame["d"].tolist() == [Decimal("22.1"), 7]
    assert frame["s"].tolist() == ["2020-01-01 00:00:00", "b"]
    assert frame["gone"].tolist() == [None, None]


def test_a_null_is_no_nan_in_a_table() -> None:
    table = pa.table(
        {"f": [1.5, nan, None], "n": [1, None, 2**60 + 1], "l": [[1.5, None], [], None]}
    )
    frame = from_arrow(table)
    assert frame["f"][2] is None
    assert np.isnan(frame["f"][1])
    assert frame["n"].tolist() == [1, None, 2**60 + 1]
    assert frame["l"].tolist() == [[1.5, None], [], None]


@pytest.mark.parametrize(
    ("kind", "identity", "says"),
    [
        (pa.map_(pa.string(), pa.int64()), False, "map_entries"),
        (pa.list_(pa.map_(pa.string(), pa.int64())), False, "map_entries"),
        (pa.duration("us"), False, "write numbers"),
        (pa.float64(), True, "CAST(x AS STRING)"),
        (pa.list_(pa.int64()), True, "CAST(x AS STRING)"),
    ],
)
def test_what_cannot_be_compared_is_refused(kind: pa.DataType, identity: bool, says: str) -> None:
    with pytest.raises(UsageError, match="'mine': column 'x'") as refused:
        demand_comparable("mine", "x", kind, identity=identity)
    assert says in refused.value.remedy


def results(*values: float) -> pd.DataFrame:
    """Return deliveries of one result with these values."""
    return pd.DataFrame({"window_start_s": 0.0, "mean": values})


def test_deliveries_whose_sums_have_another_order_are_repetitions() -> None:
    found = versions(results(0.3, 0.1 + 0.2, 0.3), ["window_start_s"], ["mean"], tolerance=1e-9)
    assert (found.duplicates, len(found.contradictions)) == (2, 0)
    exact = versions(results(0.3, 0.1 + 0.2, 0.3), ["window_start_s"], ["mean"])
    assert (exact.duplicates, len(exact.contradictions)) == (1, 3)
    other = versions(results(0.3, 0.4), ["window_start_s"], ["mean"], tolerance=1e-9)
    assert (other.duplicates, len(other.contradictions)) == (0, 2)
