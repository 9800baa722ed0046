"""Vectorized counting against counting by hand, batch by batch."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from datasets.worldcup.format import RECORD, RECORD_BYTES
from workloads import wordcount, worldcup
from workloads.toolkit.operators import COMPACT_EVERY, SOURCE_SCHEMA, Timeline, summed, whole_values

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


def requests(objects: list[int]) -> list[bytes]:
    records = np.zeros(len(objects), dtype=RECORD)
    records["object"] = objects
    raw = records.tobytes()
    return [raw[at : at + RECORD_BYTES] for at in range(0, len(raw), RECORD_BYTES)]


@given(st.lists(st.lists(st.integers(0, 5), max_size=150), min_size=1, max_size=6))
def test_a_slicer_counts_every_record_once(batches: list[list[int]]) -> None:
    timeline = Timeline(start_us=0, batch_us=1, slide_us=len(batches), window_us=len(batches))
    slicer, marker = worldcup.SliceCount(timeline), b""
    state, offset = slicer.initial(), 0
    due: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    for batch, objects in enumerate(batches):
        table = source([*requests(objects), marker], offset)
        offset += table.num_rows
        due.update(objects)
        before = state
        state, (counts,) = slicer.process(state, batch, [table])
        for item, number in zip(*(column.to_pylist() for column in counts.columns), strict=True):
            sent[item] += number
        if not objects and not timeline.ends_pane(batch):
            assert state is before, "an empty batch costs nothing"
            assert counts.num_rows == 0
        assert timeline.ends_pane(batch) or len(set(state["slice"].to_pylist())) <= 1
    assert sent == due
    assert state.num_rows == 0


@given(st.lists(st.binary(max_size=4)), st.integers(0, 3))
def test_whole_values_are_those_of_the_right_length(values: list[bytes], skipped: int) -> None:
    table = source(values).slice(skipped)
    whole, raw = whole_values(table, 3)
    left = values[skipped:]
    assert whole.tolist() == [len(value) == 3 for value in left]
    assert [bytes(row) for row in raw] == [value for value in left if len(value) == 3]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**40))))
def test_sums_by_key(pairs: list[tuple[int, int]]) -> None:
    due: Counter[int] = Counter()
    for key, amount in pairs:
        due[key] += amount
    arrays = [np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1)]
    keys, sums = summed(arrays[0], arrays[1])
    assert keys.tolist() == sorted(due)
    assert dict(zip(keys.tolist(), sums.tolist(), strict=True)) == due
