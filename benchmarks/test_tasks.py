"""The cost of the task engine's hot paths, as ratios taken in turns in one process.

``ratio`` is the duration of the plain way as a multiple: the code before its optimization, or the
obvious code. ``us_per_line`` and the like depend on the machine; they are for reading, not for
comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from datasets.text import TextLines
from datasets.worldcup.format import RECORD
from harness.engines.tasks.exchange import source_settings
from harness.engines.tasks.sources import SourceReader
from workloads import wordcount, worldcup
from workloads.toolkit.operators import SOURCE_SCHEMA, Timeline, joined, totals

BATCH_LINES, BATCHES, ROUNDS = 2_500, 20, 5
"""Word count at 25,000 lines a second of a source, in batches of 0.1 s."""
TIMELINE = Timeline(start_us=0, batch_us=100_000, slide_us=1_000_000, window_us=4_000_000)


def source(values: list[bytes], first_offset: int) -> pa.Table:
    columns: list[Any] = [
        pa.array(values, pa.binary()),
        pa.array(np.zeros(len(values), dtype=np.int32)),
        pa.array(np.arange(first_offset, first_offset + len(values))),
        pa.nulls(len(values), pa.timestamp("us")),
    ]
    return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)


def in_turns(*functions: Callable[[], object]) -> list[float]:
    """Return the least CPU seconds of each, taken in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for place, function in enumerate(functions):
            began = process_time()
            function()
            least[place] = min(least[place], process_time() - began)
    return least


def counts_as_the_engine(batches: list[pa.Table]) -> pa.Table:
    split, lower, count = wordcount.Split(), wordcount.Lower(1), wordcount.Count(TIMELINE)
    state, results = count.initial(), []
    for number, batch in enumerate(batches):
        _, (words,) = split.work(None, number, [batch])
        _, (words,) = lower.work(None, number, [words])
        state, (result,) = count.work(state, number, [words])
        results.append(result)
    return pa.concat_tables(results)


def counts_the_plain_way(batches: list[pa.Table]) -> pa.Table:
    """Count line by line: each word goes to the counter, which adds up the whole pane each time."""
    pane = wordcount.COUNTS.empty_table()
    panes: list[pa.Table] = []
    results: list[pa.Table] = []
    for number, batch in enumerate(batches):
        lines = batch.column("value").combine_chunks()
        words = pc.list_flatten(pc.split_pattern_regex(lines, b"[^A-Za-z0-9_]+"))
        words = pc.utf8_lower(words.filter(pc.greater(pc.binary_length(words), 0)).cast("string"))
        ones = pa.array(np.ones(len(words), dtype=np.int64))
        fresh = pa.Table.from_arrays([words, ones], schema=wordcount.COUNTS)
        pane = totals(joined([pane, fresh], wordcount.COUNTS), ["word"], ["count"])
        if TIMELINE.ends_pane(number):
            panes = [*panes, pane][-TIMELINE.panes_per_window :]
            results.append(totals(joined(panes, wordcount.COUNTS), ["word"], ["count"]))
            pane = wordcount.COUNTS.empty_table()
    return pa.concat_tables(results)


def test_counting_words(benchmark: Any) -> None:
    lines = TextLines(paths=[], partitions=1, seed=1).payloads(0, 0, BATCH_LINES * BATCHES)
    batches = [
        source(lines[first : first + BATCH_LINES], first)
        for first in range(0, len(lines), BATCH_LINES)
    ]
    ours = counts_as_the_engine(batches).select(wordcount.COUNTS.names)
    assert sorted(ours.to_pylist(), key=str) == sorted(
        counts_the_plain_way(batches).to_pylist(), key=str
    )
    fast, plain = in_turns(
        lambda: counts_as_the_engine(batches), lambda: counts_the_plain_way(batches)
    )
    benchmark.pedantic(lambda: counts_as_the_engine(batches), rounds=1)
    benchmark.extra_info.update(ratio=plain / fast, us_per_line=fast / len(lines) * 1e6)
    print(benchmark.extra_info)
    assert plain / fast > 2


def test_an_empty_batch(benchmark: Any) -> None:
    """Measure a World Cup slicer against one of 250 requests.

    20 slicers at ten batches a second have 200 of them."""
    records = np.zeros(250, dtype=RECORD)
    records["object"] = np.arange(250) % 97
    full = source([record.tobytes() for record in records], 0)
    empty = source([b""], 0)
    slicer = worldcup.SliceCount(TIMELINE)
    state = slicer.initial()

    def several(batch: pa.Table) -> None:
        for _ in range(500):
            slicer.work(state, 0, [batch])

    nothing, something = in_turns(lambda: several(empty), lambda: several(full))
    benchmark.pedantic(lambda: several(empty), rounds=1)
    benchmark.extra_info.update(ratio=something / nothing, us_per_batch=nothing / 500 * 1e6)
    print(benchmark.extra_info)
    assert something / nothing > 2


@pytest.fixture
def broker() -> Iterator[str]:
    """Start the client library's own imitation of a broker, in this process."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=5).brokers.values()
    lines = TextLines(paths=[], partitions=1, seed=1).payloads(0, 0, 50_000)
    for number, line in enumerate(lines):
        producer.produce("lines", line, partition=0, timestamp=1_000 + number // 25)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush(10)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    assert not len(producer), "it lives as long as its imitation is used"


def test_reading_a_source(benchmark: Any, broker: str) -> None:
    """Measure records to tables by batch, against fetching the records alone."""
    from confluent_kafka import Consumer, TopicPartition

    def read(use: Callable[[list[Any]], object]) -> int:
        consumer = Consumer(source_settings({"bootstrap.servers": broker}, 100_000))
        consumer.assign([TopicPartition("lines", 0, 0)])
        count = 0
        while count < 50_000:
            messages = consumer.consume(2_000, 1)
            count += len(messages)
            use(messages)
        consumer.close()
        return count

    def cut() -> None:
        given: list[pa.Table] = []
        reader = SourceReader(
            first=10, start_us=0, batch_us=100_000, partition=0, with_times=False,
            give=lambda batch, table: given.append(table),
        )  # fmt: skip
        read(lambda messages: reader.take(reader.cut(messages)))
        assert sum(table.num_rows for table in given) >= 45_000

    whole, bare = in_turns(cut, lambda: read(lambda messages: None))
    benchmark.pedantic(cut, rounds=1)
    benchmark.extra_info.update(ratio=whole / bare, us_per_record=whole / 50_000 * 1e6)
    print(benchmark.extra_info)
    assert whole / bare < 3
