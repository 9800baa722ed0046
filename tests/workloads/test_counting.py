"""Word count: vectorized counting against counting by hand, and the results of a record."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from workloads import wordcount
from workloads.toolkit.operators import COMPACT_EVERY, SOURCE_SCHEMA, Timeline

LINES = st.lists(st.binary(max_size=30) | st.text("aAbB _9é", max_size=30).map(str.encode))
TIMELINE = Timeline(start_us=0, batch_us=1, slide_us=2 * COMPACT_EVERY, window_us=4 * COMPACT_EVERY)


def source(values: list[bytes], first_offset: int = 0) -> pa.Table:
    count = len(values)
    columns: list[Any] = [
        pa.array(values, pa.binary()),
        pa.array([0] * count, pa.int32()),
        pa.array(range(first_offset, first_offset + count), pa.int64()),
        pa.nulls(count, pa.timestamp("us")),
    ]
    return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)


def rows(table: pa.Table) -> dict[Any, int]:
    keys, amounts = (column.to_pylist() for column in table.columns)
    found = dict(zip(keys, amounts, strict=True))
    assert len(found) == len(keys), "a key stands in one row"
    return found


@given(LINES, LINES, st.integers(1, 3))
def test_words_reach_one_counter_each_with_their_number(
    first: list[bytes], second: list[bytes], counters: int
) -> None:
    split, lower = wordcount.Split(), wordcount.Lower(counters)
    tables = [source(first), source(second)]
    _, (words,) = split.process(None, 0, tables)
    text = "\n".join(line.decode("latin-1") for line in first + second)
    found = re.findall(r"[A-Za-z0-9_]+", text)
    assert rows(words) == Counter(found)
    assert lower.tuples([words]) == len(found), "a row stands for as many words as it counts"
    _, parts = lower.process(None, 0, [words])
    assert len(parts) == counters
    together: Counter[str] = Counter()
    for part in parts:
        assert not together.keys() & rows(part).keys(), "a word is counted by one counter"
        together.update(rows(part))
    assert together == Counter(word.lower() for word in found)


@given(st.lists(st.lists(st.sampled_from("abc")), min_size=1, max_size=5 * COMPACT_EVERY))
def test_a_window_is_the_sum_of_its_batches(batches: list[list[str]]) -> None:
    count = wordcount.Count(TIMELINE)
    state, given_by_batch = count.initial(), []
    for batch, words in enumerate(batches):
        counted = Counter(words)
        table = pa.table([list(counted), list(counted.values())], schema=wordcount.COUNTS)
        state, (result,) = count.process(state, batch, [table])
        given_by_batch.append(result)
    for batch, result in enumerate(given_by_batch):
        since = max(0, batch + 1 - TIMELINE.batches_per_window)
        due = Counter(word for words in batches[since : batch + 1] for word in words)
        ends = TIMELINE.ends_pane(batch)
        assert rows(result.select(["word", "count"])) == (due if ends else {})


def test_contributions_are_the_windows_of_each_word() -> None:
    """A record goes into each window that holds its event time, for each of its words once."""
    workload = wordcount.word_count(text=[__file__], window_s=4, slide_s=2, traced=True)
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
    assert wordcount.word_count(text=[__file__]).contributions is None
