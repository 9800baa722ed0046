"""The batch query against counting by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.base import QUERY
from workloads.wordcount import word_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Record = tuple[int, str]
"""Event time in ms, and a line."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def counted_by_hand(
    records: Sequence[Record], window_ms: int, slide_ms: int
) -> dict[tuple[int, str], int]:
    """Return counts by window start in ms and word, one record and one window at a time."""
    counts: Counter[tuple[int, str]] = Counter()
    for time_ms, line in records:
        last = time_ms - time_ms % slide_ms
        for start in range(last, time_ms - window_ms, -slide_ms):
            for word in re.findall(r"[A-Za-z0-9_]+", line):
                counts[start, word.lower()] += 1
    return dict(counts)


def counted_by_spark(
    spark: SparkSession, records: Sequence[Record], window_s: float, slide_s: float
) -> dict[tuple[int, str], int]:
    workload = word_count(text=[__file__], window_s=window_s, slide_s=slide_s)
    rows = [
        (None, line.encode(), 0, i, datetime.fromtimestamp(time_ms / 1000, UTC))
        for i, (time_ms, line) in enumerate(records)
    ]
    schema = "key binary, value binary, partition int, offset long, timestamp timestamp"
    result = workload.form(QUERY)(spark, {"lines": spark.createDataFrame(rows, schema)})
    assert result.columns == workload.columns
    return {
        (round(row.window_start.timestamp() * 1000), row.word): row["count"]
        for row in result.collect()
    }


BASE_MS = 1_800_000_000_000


def test_sliding_windows(spark: SparkSession) -> None:
    records = [
        (BASE_MS, "a b A"), (BASE_MS + 999, "b_1 é; a"), (BASE_MS + 1000, ""), (BASE_MS + 3999, "a")
    ]  # fmt: skip
    counts = counted_by_spark(spark, records, 4, 1)
    assert counts == counted_by_hand(records, 4000, 1000)
    assert (counts[BASE_MS, "a"], counts[BASE_MS - 3000, "a"]) == (4, 3)
    assert counts[BASE_MS + 1000, "a"] == 1


lines = st.text(alphabet="abAB_1 .,\t'éİKß-", max_size=25)


@given(
    records=st.lists(st.tuples(st.integers(BASE_MS, BASE_MS + 20_000), lines), max_size=25),
    shape=st.sampled_from([(4, 1), (4, 2), (2, 2), (3, 1.5)]),
)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_counts_equal_counting_by_hand(
    spark: SparkSession, records: list[Record], shape: tuple[float, float]
) -> None:
    window_s, slide_s = shape
    by_hand = counted_by_hand(records, round(window_s * 1000), round(slide_s * 1000))
    assert counted_by_spark(spark, records, window_s, slide_s) == by_hand


def test_contributions_are_the_windows_of_each_word() -> None:
    """A record goes into each window that holds its event time, for each of its words once."""
    workload = word_count(text=[__file__], window_s=4, slide_s=2, traced=True)
    assert workload.contributions is not None
    found = workload.contributions(
        "lines", [b"a B a", b"", b"c"], np.array([1_001_000, 1_001_000, 1_002_000])
    )
    columns = ["record", "window_start", "word"]
    rows = set(found[columns].itertuples(index=False, name=None))
    assert rows == {
        (record, start_ms, word)
        for record, starts_ms, words in ((0, (1_000_000, 998_000), "ab"),
                                         (2, (1_002_000, 1_000_000), "c"))
        for start_ms in starts_ms
        for word in words
    }  # fmt: skip
    assert word_count(text=[__file__]).contributions is None
