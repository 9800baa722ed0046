"""Accuracy against sets counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from workloads.accident import accidents
from workloads.base import Workload
from workloads.toolkit.accuracy import Accuracy, score
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

W1, W2 = (datetime.fromtimestamp(1_800_000_000 + second, UTC) for second in (0, 1))

Rows = Sequence[tuple[Any, ...]]


def scored(
    spark: SparkSession, workload: Workload, kinds: str, delivered: Rows, accurate: Rows
) -> Accuracy:
    """``delivered`` in the order of arrival."""
    arrivals = [(*row, arrival) for arrival, row in enumerate(delivered)]
    schema = ", ".join(
        f"{name} {kind}" for name, kind in zip(workload.columns, kinds.split(), strict=True)
    )
    return score(
        workload,
        spark.createDataFrame(arrivals, f"{schema}, arrival long"),
        spark.createDataFrame(list(accurate), schema),
    )


def test_the_top_100_is_scored_by_its_objects(spark: SparkSession) -> None:
    found = scored(
        spark,
        world_cup(),
        "timestamp string",
        delivered=[
            (W1, "1:9 2:8 7:1"),  # tentative: one object of four is missing, one is wrong
            (W2, "5:1"),
            (W1, "1:9 2:8 3:7 4:6"),  # the correction
            (W1, "1:9 2:8 3:7 4:6"),
        ],
        accurate=[(W1, "2:19 1:9 3:7 4:6"), (W2, "5:3")],
    )
    assert found.first == pytest.approx((2 + 1) / (4 + 1))
    assert found.last == 1.0
    assert found.windows[["members", "first", "last"]].to_numpy().tolist() == [
        [4, 2, 4], [1, 1, 1],
    ]  # fmt: skip


def test_jams_are_scored_by_incident(spark: SparkSession) -> None:
    found = scored(
        spark,
        traffic_jams(),
        "timestamp string",
        delivered=[(W1, "3 8"), (W2, "1")],
        accurate=[(W1, "3 5 8 9"), (W2, "1")],
    )
    assert found.first == found.last == pytest.approx(3 / 5)


def test_accidents_are_scored_by_car_and_location(spark: SparkSession) -> None:
    found = scored(
        spark,
        accidents(),
        "timestamp long string",
        delivered=[(W1, 4, "1 2"), (W1, 5, "9")],
        accurate=[(W1, 4, "1 2 3"), (W1, 6, "9")],
    )
    assert found.first == pytest.approx(2 / 4)


def test_words_are_scored_as_a_whole_and_taken_back(spark: SparkSession) -> None:
    found = scored(
        spark,
        word_count(text=[__file__]),
        "timestamp string long",
        delivered=[(W1, "a", 2), (W1, "b", 1), (W1, "b", None), (W2, "a", 6), (W2, "a", 5)],
        accurate=[(W1, "a", 2), (W1, "b", 1), (W2, "a", 5)],
    )
    assert found.first == pytest.approx(2 / 3)
    assert found.last == pytest.approx(2 / 3)


@pytest.mark.parametrize("make", [world_cup, traffic_jams])
def test_without_results_there_is_no_accuracy(
    spark: SparkSession, make: Callable[[], Workload]
) -> None:
    found = scored(spark, make(), "timestamp string", [], [])
    assert (found.first, found.last) == (None, None)
