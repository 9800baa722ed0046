"""Accuracy in this process, against sets counted by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from workloads.accident import accidents
from workloads.base import Workload
from workloads.examples.hottest import WORKLOAD as WITHOUT_MEMBERS
from workloads.synthetic import synthetic
from workloads.toolkit.accuracy import local_accuracy
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

W1, W2 = 1_800_000_000, 1_800_000_001

CASES = [
    (world_cup(), [(W1, "1:9 2:8 7:1"), (W2, "5:1")], [(W1, "2:9 1:9 3:7 4:6"), (W2, "5:3")], 0.6),
    (traffic_jams(), [(W1, "3 8"), (W2, "1")], [(W1, "3 5 8 9"), (W2, "1")], 3 / 5),
    (accidents(), [(W1, 4, "1 2"), (W1, 5, "9")], [(W1, 4, "1 2 3"), (W1, 6, "9")], 2 / 4),
    (word_count(), [(W1, "a", 2), (W1, "b", 1)], [(W1, "a", 2), (W1, "b", 3), (W2, "a", 2)], 1 / 3),
]  # fmt: skip


def results(workload: Workload, rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(dict(zip(workload.columns, zip(*rows, strict=True), strict=True)))


@pytest.mark.parametrize(("workload", "delivered", "accurate", "share"), CASES)
def test_the_share_of_right_members(
    workload: Workload, delivered: list[Any], accurate: list[Any], share: float
) -> None:
    found = local_accuracy(workload, results(workload, delivered), results(workload, accurate))
    assert found == pytest.approx(share)
    assert local_accuracy(workload, *[results(workload, accurate)] * 2) == 1.0


def test_without_results_there_is_no_accuracy() -> None:
    workload = world_cup()
    empty = results(workload, [(W1, "")])
    assert local_accuracy(workload, empty, empty) is None


@pytest.mark.parametrize("workload", [WITHOUT_MEMBERS, synthetic()])
def test_a_workload_without_members_is_refused(workload: Workload) -> None:
    empty = pa.table({})
    with pytest.raises(ValueError, match="names no members"):
        local_accuracy(workload, empty, empty)
