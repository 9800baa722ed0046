"""The results that a record of word count goes into."""

from __future__ import annotations

import numpy as np

from workloads.wordcount import word_count


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
