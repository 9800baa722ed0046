"""Word count: windows over many batches, its tuples, and the results of a record."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from workloads import wordcount
from workloads.toolkit.operators import COMPACT_EVERY, Timeline

TIMELINE = Timeline(start_us=0, batch_us=1, slide_us=2 * COMPACT_EVERY, window_us=4 * COMPACT_EVERY)


def counted(words: list[str]) -> pa.Table:
    counts = Counter(words)
    return pa.table([list(counts), list(counts.values())], schema=wordcount.COUNTS)


def test_a_row_stands_for_as_many_words_as_it_counts() -> None:
    assert wordcount.Lower(2).tuples([counted(["a", "B", "a"]), None]) == 3


@given(st.lists(st.lists(st.sampled_from("abc")), min_size=1, max_size=5 * COMPACT_EVERY))
def test_a_window_is_the_sum_of_its_batches(batches: list[list[str]]) -> None:
    count = wordcount.Count(TIMELINE)
    state = count.initial()
    for batch, words in enumerate(batches):
        state, (result,) = count.process(state, batch, [counted(words)])
        since = max(0, batch + 1 - TIMELINE.batches_per_window)
        due = Counter(word for words in batches[since : batch + 1] for word in words)
        columns = (result.column(name).to_pylist() for name in ("word", "count"))
        found = sorted(zip(*columns, strict=True))
        assert found == (sorted(due.items()) if TIMELINE.ends_pane(batch) else [])


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
