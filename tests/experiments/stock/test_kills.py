"""The two experiments that kill: what of a run their table shows, on runs made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.stock._kills import catches_up, tabulate
from harness.cluster.base import ClusterSpec
from harness.errors import UsageError
from harness.failures.generators import in_turn, one_target
from harness.failures.schedule import Schedule
from harness.judging.outcome import judge
from harness.results.kills import Unrecovered
from harness.results.record import Point, Profile
from harness.stock_kills.measure import roomy
from harness.stock_kills.scale import check_options, spark_conf
from tests.experiments.smoke import results_of
from tests.judging.constructed import WORKLOAD, deliveries, injected, record, truth


def row_of(
    schedule: Schedule, late: dict[int, float], directory: Path, *, scope: str
) -> dict[str, Any]:
    """Return the row of a run with two failures, as the figure of that scope shows it."""
    outcome = judge(
        record(name="twin"),
        record(deliveries(late), failures=injected(schedule)),
        truth(),
        workload=WORKLOAD,
        schedule=schedule,
        trigger_s=1.0,
        settle_s=3,
    )
    point: Point = {"scheme": "checkpoint", "interval_s": 1.0}
    runs = tabulate(results_of([(point, outcome)], directory), scope=scope)["runs"]
    (row,) = runs.to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_each_figure_shows_its_own_failure_of_a_pass_with_two(tmp_path: Path) -> None:
    worker, rack = (
        one_target(target, at_s=at_s, restart_after_s=3)
        for target, at_s in (("r1n1", 8), ("r1", 20))
    )
    late = dict.fromkeys(range(5, 9), 4.0) | dict.fromkeys(range(17, 24), 6.0)
    runs = {
        scope: row_of(in_turn(worker, rack), late, tmp_path / scope, scope=scope)
        for scope in ("node", "rack")
    }
    assert runs["node"]["killed_at_s"] == pytest.approx(8.1)
    assert runs["rack"]["killed_at_s"] == pytest.approx(20.1)
    assert runs["rack"]["restarted_at_s"] == pytest.approx(23.1)
    assert runs["node"]["alone_until_s"] == pytest.approx(20.1), "the other kill is not drawn"
    assert runs["rack"]["alone_from_s"] == pytest.approx(11.1)
    assert runs["node"]["recovery_s"] == pytest.approx(8 + 3 + 4 - 8.1)
    assert runs["rack"]["recovery_s"] == pytest.approx(23 + 3 + 6 - 20.1)
    assert runs["node"]["output_gap_s"] != runs["rack"]["output_gap_s"]


def test_two_failures_that_cannot_be_told_apart_give_no_recovery(tmp_path: Path) -> None:
    worker, rack = (one_target(target, at_s=at_s) for target, at_s in (("r1n1", 8), ("r1", 12)))
    late = dict.fromkeys(range(5, 14), 6.0)
    run = row_of(in_turn(worker, rack), late, tmp_path, scope="rack")
    assert pd.isna(run["recovery_s"])
    assert run["recovery_why_not"] == Unrecovered.OVERLAPPED.value


@pytest.mark.parametrize(
    ("why_not", "at_least_s", "expected"),
    [
        (Unrecovered.NOT_BY_END, 5.0, None),
        (Unrecovered.NOT_BY_END, 20.0, False),
        (Unrecovered.DIED, None, False),
        (Unrecovered.STALLED, None, False),
        (Unrecovered.TWIN_BEHIND, None, None),
    ],
)
def test_an_output_that_is_not_back_says_something_only_after_enough_load(
    why_not: Unrecovered, at_least_s: float | None, expected: bool | None
) -> None:
    """Results of an engine that ended with the kill need not be waited for."""
    row = {"recovery_s": None, "recovery_at_least_s": at_least_s, "recovery_why_not": why_not.value}
    (run,) = pd.DataFrame([row]).itertuples()
    assert catches_up(run) is expected


def test_settings_of_spark_are_taken_as_they_are_and_others_refused() -> None:
    conf = ["spark.locality.wait=0s", "spark.x=a=b"]
    assert spark_conf({"conf": conf}) == {"spark.locality.wait": "0s", "spark.x": "a=b"}
    assert spark_conf({}) == {}
    for wrong in ("locality=0s", "spark.locality.wait"):
        with pytest.raises(UsageError, match="no setting of Spark's"):
            check_options(Profile.QUICK, {"conf": [wrong]})


@pytest.mark.parametrize("sources", [1, 2, 4, 9])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_query_in_real_time_mode_starts_without_a_rack(sources: int, workers: int) -> None:
    spec, spare = roomy(ClusterSpec(racks=2, workers_per_rack=workers), sources)
    query = spec.task_slots - spare
    assert query >= sources + 1, "its sources and one task with state"
    assert query < spec.task_slots - spec.task_slots // spec.racks, "a slot is left then, too"
