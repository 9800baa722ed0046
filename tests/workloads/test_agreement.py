"""Every workload's query and operators give the same results, and the ones counted by hand."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import accident as cars
from harness.errors import UsageError
from tests.levels import amount
from tests.workloads.agreement import (
    START_US,
    by_operators,
    by_query,
    generated,
    require_equal,
    source_table,
)
from workloads import accident, synthetic, traffic, wordcount
from workloads.base import Workload
from workloads.examples import hottest
from workloads.toolkit.local import run_locally
from workloads.toolkit.operators import TableProgram, program_of, timeline_of
from workloads.toolkit.partial import recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sources = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Case:
    """A workload in its two forms, and records for it."""

    workload: Workload
    random: Mapping[str, st.SearchStrategy[pa.Table]]
    """By source."""


def stream(
    value: Callable[[int], st.SearchStrategy[bytes]], *, partitions: int = 2
) -> st.SearchStrategy[pa.Table]:
    """Draw up to 30 records in each partition within six seconds, with (empty) markers.

    ``value`` draws those of a partition."""
    records = [
        st.lists(st.tuples(st.integers(0, 5_999), value(partition) | st.just(b"")), max_size=30)
        for partition in range(partitions)
    ]
    return st.tuples(*records).map(lambda parts: source_table([sorted(part) for part in parts]))


def numbers(form: str, *most: int) -> st.SearchStrategy[bytes]:
    """Draw whole numbers, each up to its own limit, written in this form."""
    return st.tuples(*(st.integers(0, each) for each in most)).map(
        lambda row: form.format(*row).encode()
    )


# Segment 0 belongs to partition 0 and segment 1 to partition 1.


def location(partition: int) -> st.SearchStrategy[bytes]:
    return numbers(f"{7:06},{partition:04},{{:03}}", 60)


def report(partition: int) -> st.SearchStrategy[bytes]:
    return st.integers(0, 4).map(lambda i: f"{2 * i + partition:08},{partition:04},{7:06}".encode())


def line(partition: int) -> st.SearchStrategy[bytes]:
    return st.text(alphabet="abAB_1 .,\t'éİKß-", max_size=20).map(str.encode)


TRAFFIC = traffic.traffic_jams(users=400, segments=20, window_s=4, slide_s=2)
WORDS = wordcount.word_count(text=[__file__], window_s=3, slide_s=1)
CASES = {
    "traffic": Case(TRAFFIC, {"locations": stream(location), "reports": stream(report)}),
    "accident": Case(
        accident.accidents(partitions=2),
        {"cars": stream(lambda _: numbers("{:05},{:05},{:03}", 5, 2, 4))},
    ),
    "synthetic": Case(
        synthetic.synthetic(levels=2, keys=5, window_s=3),
        {"tuples": stream(lambda _: numbers("{:06},{:02}", 9, 99), partitions=4)},
    ),
    "wordcount": Case(WORDS, {"lines": stream(line)}),
    "hottest": Case(hottest.WORKLOAD, {"readings": stream(lambda _: numbers("{},{}", 49, 3_000))}),
}


def records(table: pa.Table) -> list[tuple[int, bytes]]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    values = table.column("value").to_pylist()
    return [(time, value) for time, value in zip(times, values, strict=True) if value]


def events(table: pa.Table) -> list[tuple[int, list[int]]]:
    return [(time, [int(field) for field in value.split(b",")]) for time, value in records(table)]


def traffic_by_hand(sources: Sources) -> list[tuple[int, str]]:
    slide_us, window_us = 2_000_000, 4_000_000
    speeds = defaultdict(list)
    for time, (_, segment, speed) in events(sources["locations"]):
        speeds[time // 1_000_000, segment].append(speed)
    slow = {
        (second * 1_000_000 // slide_us, segment)
        for (second, segment), values in speeds.items()
        if sum(values) / len(values) < traffic.SLOW_KMH
    }
    windows = defaultdict(set)
    for time, (incident, segment, _) in events(sources["reports"]):
        pane = time // slide_us
        if (pane, segment) in slow:
            for start in range(pane * slide_us, pane * slide_us - window_us, -slide_us):
                windows[start].add(incident)
    return [(start, " ".join(map(str, sorted(found)))) for start, found in windows.items()]


def accidents_by_hand(sources: Sources) -> list[tuple[int, int, str]]:
    standing = defaultdict(set)
    for time, (car, place, speed) in events(sources["cars"]):
        if speed <= cars.SENSOR_ERROR_KMH:
            standing[time // 1_000_000, place].add(car)
    return [
        (second * 1_000_000, place, " ".join(map(str, sorted(found))))
        for (second, place), found in standing.items()
    ]


def words_by_hand(sources: Sources) -> list[tuple[int, str, int]]:
    slide_us, window_us = 1_000_000, 3_000_000
    counts = Counter[tuple[int, str]]()
    for time, line in records(sources["lines"]):
        starts = range(time - time % slide_us, time - window_us, -slide_us)
        for word in re.findall(r"[A-Za-z0-9_]+", line.decode("latin-1")):
            counts.update((start, word.lower()) for start in starts)
    return [(start, word, count) for (start, word), count in counts.items()]


BY_HAND: dict[str, Callable[[Sources], list[Any]]] = {
    "traffic": traffic_by_hand,
    "accident": accidents_by_hand,
    "wordcount": words_by_hand,
}


def by_hand(name: str, sources: Sources) -> pd.DataFrame:
    """Compute the results of an application with a join or a table, one record at a time."""
    workload = CASES[name].workload
    frame = pd.DataFrame(BY_HAND[name](sources), columns=workload.columns)
    frame["window_start"] = pd.to_datetime(frame["window_start"], unit="us").astype(
        "datetime64[us]"
    )
    return frame.sort_values(workload.columns, ignore_index=True)


def operators_of(case: Case, batch_s: float) -> TableProgram:
    timeline = timeline_of(case.workload, start_us=START_US, batch_s=batch_s)
    return program_of(case.workload, timeline=timeline)


@pytest.mark.parametrize("name", BY_HAND)
@given(data=st.data(), batch_s=st.sampled_from([0.25, 0.5, 1.0]))
@settings(max_examples=amount(25), deadline=None)
def test_operators_equal_counting_by_hand(name: str, data: st.DataObject, batch_s: float) -> None:
    case = CASES[name]
    sources = data.draw(st.fixed_dictionaries({**case.random}))
    found = by_operators(operators_of(case, batch_s), case.workload, sources)
    require_equal(found, by_hand(name, sources))


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_query_equals_operators(spark: SparkSession, name: str, data: st.DataObject) -> None:
    case = CASES[name]
    sources = data.draw(st.fixed_dictionaries({**case.random}))
    found = by_operators(operators_of(case, 0.5), case.workload, sources)
    require_equal(by_query(spark, case.workload, sources), found)


# What else the papers say of them


def test_the_recovery_topology_has_selectivity_one_half() -> None:
    """200 tuples a second and task on every level, and a state of rate × window tuples."""
    workload = synthetic.synthetic(levels=3, keys=50, window_s=4)
    code = synthetic.program(timeline=timeline_of(workload, start_us=START_US, batch_s=1), levels=3)
    sources = generated(workload, 8, 100)
    results = by_operators(code, workload, sources)
    assert (results.groupby("window_start").size() == 50 * 2).all()
    task = code.task("O1", 0)
    state = task.initial()
    for batch in range(8):
        tuples = pa.table({"key": list(range(100)) * 2, "amount": [1] * 200})
        state, (sent,) = task.process(state, batch, [tuples, None])
        assert sent.num_rows == 100
        assert task.state_tuples(state) == 200 * min(batch + 1, 3)


@pytest.mark.parametrize("depth", [4, 5, 7])
def test_word_count_has_the_depth_that_was_asked_for(depth: int) -> None:
    timeline = timeline_of(WORDS, start_us=START_US, batch_s=1)
    code = wordcount.program(timeline=timeline, depth=depth)
    assert len(code.topology.operators) == depth
    sources = generated(WORDS, 5, 40)
    shallow = wordcount.program(timeline=timeline, depth=4, counters=3)
    require_equal(by_operators(code, WORDS, sources), by_operators(shallow, WORDS, sources))
    with pytest.raises(UsageError, match="depth 3"):
        wordcount.program(timeline=timeline, depth=3)


def test_a_timeline_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(UsageError, match="slide"):
        timeline_of(TRAFFIC, start_us=START_US, batch_s=0.3)
    with pytest.raises(UsageError, match="start"):
        timeline_of(TRAFFIC, start_us=START_US + 1, batch_s=1)


def test_a_slide_that_cuts_seconds_is_refused() -> None:
    with pytest.raises(UsageError, match="cuts seconds apart"):
        traffic.traffic_jams(window_s=3, slide_s=1.5)


@pytest.mark.parametrize(("priorities", "tasks"), [((), 7), ((3, 1), 8)])
def test_every_report_of_two_highways_is_in_a_result(
    priorities: tuple[int, ...], tasks: int
) -> None:
    """One query or two, and no location in common."""
    workload = accident.two_highways(share=0.75, priorities=priorities, epsilon_kmh=1_000)
    timeline = timeline_of(workload, start_us=START_US, batch_s=0.25)
    program = program_of(workload, timeline=timeline, rate=400.0)
    assert program.topology.task_count == tasks
    sources, _ = recorded(workload, program, seconds=3)
    rows = run_locally(program, sources).to_pandas()
    reports = rows["car_ids"].str.split().str.len()
    south = rows["location"] >= accident.FAR
    assert int(reports[~south].sum()) == 0.75 * 400 * 3
    assert int(reports[south].sum()) == 0.25 * 400 * 3
