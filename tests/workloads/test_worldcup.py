"""Q1: the query against counting by hand, the operators against the query."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.worldcup.format import RECORD, decode
from harness.errors import UsageError
from tests.levels import amount
from tests.workloads.agreement import START_US, by_operators, source_table
from workloads.toolkit.operators import timeline_of
from workloads.worldcup import TOP, program, world_cup

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


def test_the_papers_degrees() -> None:
    workload = world_cup()
    topology = program(timeline=timeline_of(workload, start_us=START_US, batch_s=1)).topology
    assert [operator.parallelism for operator in topology.operators] == [20, 4, 1]
    assert topology.input_rates("slice").sum() == pytest.approx(40_718, abs=1)
    with pytest.raises(UsageError, match="31 slicers"):
        program(timeline=timeline_of(workload, start_us=START_US, batch_s=1), slicers=31)
