"""Q1: the query against counting by hand, the operators against the query."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets.worldcup.format import RECORD, decode
from datasets.worldcup.generator import Day66
from harness.errors import UsageError
from tests.datasets.logs import genuine_log
from tests.levels import amount
from tests.workloads.agreement import (
    START_US,
    by_operators,
    by_query,
    require_equal,
    source_table,
    steady,
)
from workloads.toolkit.operators import timeline_of
from workloads.worldcup import TOP, parse_top, program, world_cup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Records = list[list[tuple[int, bytes]]]


def request(number: int) -> bytes:
    record = np.zeros(1, dtype=RECORD)
    record["object"] = number
    return record.tobytes()


def counted_by_hand(partitions: Records, window_ms: int, slide_ms: int) -> dict[int, str]:
    """Return the text of each top 100, by window start in ms after the start of the run."""
    windows: dict[int, Counter[int]] = {}
    for records in partitions:
        for time_ms, value in records:
            if not value:
                continue
            [record] = decode(value)
            last = time_ms - time_ms % slide_ms
            for start in range(last, time_ms - window_ms, -slide_ms):
                windows.setdefault(start, Counter())[int(record["object"])] += 1
    return {
        start: " ".join(
            f"{item}:{count}"
            for item, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
        )
        for start, counts in windows.items()
    }


def as_dict(results: pd.DataFrame) -> dict[int, str]:
    starts = results["window_start"].astype("datetime64[us]").astype("int64")
    return {
        (int(us) - START_US) // 1000: top for us, top in zip(starts, results["top"], strict=True)
    }


# Few objects make ties; more than 100 of them make a top 100 that leaves some out.
events = st.lists(
    st.tuples(
        st.integers(0, 11_999),
        st.one_of(st.integers(0, 5), st.integers(0, 250)).map(request) | st.just(b""),
    ),
    max_size=60,
).map(sorted)


@given(
    partitions=st.lists(events, min_size=2, max_size=2),
    repeat=st.sampled_from([1, 7]),
    shape=st.sampled_from([(4.0, 1.0), (2.0, 2.0), (3.0, 1.5)]),
    batch_s=st.sampled_from([0.25, 0.5]),
    merging=st.sampled_from([(1, False), (3, True)]),
)
@settings(max_examples=amount(30), deadline=None)
def test_operators_equal_counting_by_hand(
    partitions: Records,
    repeat: int,
    shape: tuple[float, float],
    batch_s: float,
    merging: tuple[int, bool],
) -> None:
    """With mergers of their own slicers, and with a full edge where they share the objects."""
    repeated = [[event for event in records for _ in range(repeat)] for records in partitions]
    workload = world_cup(window_s=shape[0], slide_s=shape[1])
    mergers, full = merging
    timeline = timeline_of(workload, start_us=START_US, batch_s=batch_s)
    code = program(timeline=timeline, slicers=2, mergers=mergers, full=full)
    found = by_operators(code, workload, {"requests": source_table(repeated)})
    by_hand = counted_by_hand(repeated, round(shape[0] * 1000), round(shape[1] * 1000))
    assert as_dict(found) == by_hand


@pytest.mark.spark
@pytest.mark.slow
@given(partitions=st.lists(events, min_size=2, max_size=2), shape=st.sampled_from([(4, 1), (2, 2)]))
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_query_equals_operators(
    spark: SparkSession, partitions: Records, shape: tuple[int, int]
) -> None:
    workload = world_cup(window_s=shape[0], slide_s=shape[1])
    code = program(
        timeline=timeline_of(workload, start_us=START_US, batch_s=0.5), slicers=2, mergers=1
    )
    sources = {"requests": source_table(partitions)}
    require_equal(by_query(spark, workload, sources), by_operators(code, workload, sources))


@pytest.mark.spark
@pytest.mark.slow
def test_query_equals_operators_on_genuine_records(spark: SparkSession) -> None:
    records = decode(genuine_log().read_bytes())
    servers = np.unique(records["server"])
    # 42 s of the log, replayed 4 times as fast; a server is in one partition, as in the papers.
    partitions: Records = [[] for _ in range(4)]
    elapsed_ms = (records["timestamp"].astype(int) - int(records["timestamp"][0])) * 250
    for place, time_ms, record in zip(
        np.searchsorted(servers, records["server"]) % 4, elapsed_ms, records, strict=True
    ):
        partitions[place].append((int(time_ms), record.tobytes()))
    workload = world_cup(partitions=4, window_s=4, slide_s=1)
    code = program(
        timeline=timeline_of(workload, start_us=START_US, batch_s=0.25), slicers=4, mergers=2
    )
    sources = {"requests": source_table(partitions)}
    found = by_query(spark, workload, sources)
    require_equal(found, by_operators(code, workload, sources))
    whole = [parse_top(top) for top in found["top"]]
    assert max(len(top) for top in whole) == TOP
    assert as_dict(found) == counted_by_hand(partitions, 4000, 1000)


def test_a_result_is_read_back() -> None:
    assert parse_top("22:121 114:105") == [(22, 121), (114, 105)]
    assert parse_top("") == []


def test_slices_travel_as_they_fill() -> None:
    """100 tuples of one partition leave O1 at once; the rest waits for the pane's end."""
    workload = world_cup(window_s=2, slide_s=1)
    timeline = timeline_of(workload, start_us=START_US, batch_s=0.5)
    task = program(timeline=timeline, slicers=2, mergers=1).task("slice", 0)
    source = steady([[request(i % 3) for i in range(250)]], 500)
    state, (sent,) = task.process(task.initial(), 0, [source])
    assert sum(sent.column("requests").to_pylist()) == 200
    assert sent.num_rows == 2 * 3, "two slices of three objects"
    assert task.state_tuples(state) == 3
    state, (rest,) = task.process(state, 1, [source.slice(0, 0)])
    assert sum(rest.column("requests").to_pylist()) == 50
    assert task.state_tuples(state) == 0


def test_the_papers_degrees() -> None:
    workload = world_cup()
    topology = program(timeline=timeline_of(workload, start_us=START_US, batch_s=1)).topology
    assert [operator.parallelism for operator in topology.operators] == [20, 4, 1]
    assert topology.input_rates("slice").sum() == pytest.approx(40_718, abs=1)
    with pytest.raises(UsageError, match="31 slicers"):
        program(timeline=timeline_of(workload, start_us=START_US, batch_s=1), slicers=31)


def test_generated_records_are_what_the_query_reads() -> None:
    source = world_cup(partitions=3).sources[0]
    built = source.records.build()
    assert isinstance(built, Day66)
    assert {len(payload) for payload in built.payloads(2, 0, 100)} == {20}
