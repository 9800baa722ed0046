"""Accuracy against sets counted by hand (`workloads.toolkit.accuracy`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest

from harness.engines.base import Scored
from harness.judging.passes import PassRecord
from harness.judging.run import score
from workloads.accident import accidents
from workloads.base import Workload
from workloads.examples.hottest import WORKLOAD as WITHOUT_MEMBERS
from workloads.synthetic import synthetic
from workloads.toolkit.accuracy import local_accuracy
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

W1, W2 = (datetime.fromtimestamp(1_800_000_000 + second, UTC) for second in (0, 1))

Rows = Sequence[tuple[Any, ...]]


CASES: Sequence[tuple[Workload, Rows, Rows, float]] = [
    (
        world_cup(),
        [(W1, "1:9 2:8 7:1"), (W2, "5:1")],
        [(W1, "2:9 1:9 3:7 4:6"), (W2, "5:3")],
        3 / 5,
    ),
    (
        traffic_jams(),
        [(W1, "3 8"), (W2, "1")],
        [(W1, "3 5 8 9"), (W2, "1")],
        3 / 5,
    ),
    (
        accidents(),
        [(W1, 4, "1 2"), (W1, 5, "9")],
        [(W1, 4, "1 2 3"), (W1, 6, "9")],
        2 / 4,
    ),
    (
        word_count(text=[__file__]),
        [(W1, "a", 2), (W1, "b", 1)],
        [(W1, "a", 2), (W1, "b", 3), (W2, "a", 2)],
        1 / 3,
    ),
]
"""Workload, results in the order of arrival, the right ones, and the share of right members."""


def scored(workload: Workload, delivered: Rows, accurate: Rows) -> Scored:
    """Score rows whose window is in seconds; ``delivered`` is in the order of arrival."""
    columns = ["window_start_s", *workload.columns[1:]]
    twin, failed = (
        SimpleNamespace(
            deliveries=pd.DataFrame(rows, columns=columns).assign(arrival_s=range(len(rows)))
        )
        for rows in (accurate, delivered)
    )
    return score(cast(PassRecord, twin), cast(PassRecord, failed), workload)


def results(workload: Workload, rows: Rows) -> pa.Table:
    return pa.table(dict(zip(workload.columns, zip(*rows, strict=True), strict=True)))


@pytest.mark.parametrize(
    ("workload", "delivered", "right", "share"), CASES, ids=[case[0].name for case in CASES]
)
def test_the_share_of_right_members(
    workload: Workload, delivered: Rows, right: Rows, share: float
) -> None:
    accurate = results(workload, right)
    found = local_accuracy(workload, results(workload, delivered), accurate)
    assert found == pytest.approx(share)
    assert local_accuracy(workload, accurate, accurate) == 1.0


def test_the_first_version_and_the_last_are_scored_by_window() -> None:
    found = scored(
        world_cup(),
        delivered=[
            (0.0, "1:9 2:8 7:1"),  # tentative: one object of four is missing, one is wrong
            (1.0, "5:1"),
            (0.0, "1:9 2:8 3:7 4:6"),  # the correction
            (0.0, "1:9 2:8 3:7 4:6"),
        ],
        accurate=[(0.0, "2:19 1:9 3:7 4:6"), (1.0, "5:3")],
    )
    assert found.first == pytest.approx((2 + 1) / (4 + 1))
    assert found.last == 1.0
    assert found.windows[["members", "first", "last"]].to_numpy().tolist() == [
        [4, 2, 4], [1, 1, 1],
    ]  # fmt: skip


def test_words_are_scored_as_a_whole_and_taken_back() -> None:
    found = scored(
        word_count(text=[__file__]),
        delivered=[(0.0, "a", 2), (0.0, "b", 1), (0.0, "b", None), (1.0, "a", 6), (1.0, "a", 5)],
        accurate=[(0.0, "a", 2), (0.0, "b", 1), (1.0, "a", 5)],
    )
    assert found.last == pytest.approx(2 / 3)


@pytest.mark.parametrize("workload", [world_cup(), traffic_jams()], ids=lambda each: each.name)
def test_without_results_there_is_no_accuracy(workload: Workload) -> None:
    assert scored(workload, [], []).reason == "the twin delivered no result"
    assert scored(workload, [], [(0.0, "")]).reason == "the twin's results have no members"
    empty = results(workload, [(W1, "")])
    assert local_accuracy(workload, empty, empty) is None


@pytest.mark.parametrize("workload", [WITHOUT_MEMBERS, synthetic()])
def test_a_workload_without_members_is_refused(workload: Workload) -> None:
    empty = pa.table({})
    with pytest.raises(ValueError, match="names no members"):
        local_accuracy(workload, empty, empty)
    assert "give it members" in str(scored(workload, [], []).reason)
