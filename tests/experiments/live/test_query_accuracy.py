"""Accuracy of live tentative output: places, windows that count, claims that can fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import query_accuracy
from experiments.live._six_nodes import SPEC
from experiments.live.query_accuracy import EXPERIMENT, HERE, THERE
from harness.engines.tasks.parameters import TaskParameters
from harness.results.record import Outcome
from tests.experiments.live.judging import all_hold, failing, held, passes


def made_up() -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = [
        {"query": name, "objective": objective, "ratio": ratio, "value": ratio,
         "measured": 0.1 if (name, objective) == ("Q2", "ic") else ratio + 0.05,
         "computed": 0.1 if (name, objective) == ("Q2", "ic") else ratio + 0.02}
        for name in query_accuracy.QUERIES
        for objective in ("of", "ic")
        for ratio in (0.3, 0.6, 0.9)
    ]  # fmt: skip
    one = passes(query="Q1", variant="of-0.3", tentative=9, uncorrected=0)
    return {"plans": pd.DataFrame(rows), "passes": one}


def test_all_claims_hold_where_all_is_well() -> None:
    assert all_hold(EXPERIMENT, made_up())


@pytest.mark.parametrize(
    ("name", "claim"),
    [("Q1", "q1-predicted"), ("Q2", "q2-close-to-of"), ("Q2", "live-as-computed")],
)
def test_every_claim_can_fail(name: str, claim: str) -> None:
    table = made_up()
    rows = table["plans"]
    rows.loc[rows["query"] == name, "measured"] -= 0.4
    assert claim in failing(EXPERIMENT, table)


def test_a_direction_can_be_the_other_one() -> None:
    table = made_up()
    rows = table["plans"]
    rows["measured"] = 1 - rows["ratio"]
    assert "q1-rises" in failing(EXPERIMENT, table)
    rows["measured"] = rows["ratio"]
    assert "q2-not-with-ic" in failing(EXPERIMENT, table)


def test_nothing_measured_nothing_judged() -> None:
    table = made_up()
    table["plans"]["measured"] = None
    verdicts = held(EXPERIMENT, table)
    assert verdicts.pop("equal-output") is True
    assert set(verdicts.values()) == {None}


@pytest.mark.parametrize("name", query_accuracy.QUERIES)
def test_only_what_has_a_replica_finds_room_while_the_rack_is_away(name: str) -> None:
    chosen = query_accuracy.query(name, 1)
    tasks = query_accuracy.topology_of(chosen).task_count
    assert tasks == 25
    plan = list(range(0, tasks, 2))
    given = query_accuracy.setup(tasks, plan, 9.0).parameters
    assert isinstance(given, TaskParameters)
    assert given.restart_s == pytest.approx(9.0 + query_accuracy.LATE_S), "what counts has come"
    slots = given.slots
    assert isinstance(slots, tuple)
    assert set(given.placement) == set(HERE)
    assert len(slots) == len(SPEC.node_names)
    assert sum(slots[node] for node in THERE) == len(plan)
    assert [slots[node] for node in HERE] == [tasks] * len(HERE), "the last to die takes all"


def outcome(begins: list[float], arrivals: list[float]) -> Outcome:
    windows = pd.DataFrame({"window_start_s": begins, "members": 10, "first": [10, 4, 6, 10]})
    results = pd.DataFrame({"pass": "failed", "window_start_s": begins, "arrival_s": arrivals})
    return Outcome(series={"accuracy": windows, "results": results})


def test_only_windows_within_the_failure_count() -> None:
    chosen = query_accuracy.query("Q1", 1)  # windows of 4 s, the rack away from 4 to 13 s
    found = outcome([3.0, 4.0, 9.0, 10.0], [7.1, 8.1, 13.1, 14.1])
    assert query_accuracy.measured_accuracy(found, chosen) == pytest.approx(0.5)
    outside = outcome([0.0, 1.0, 2.0, 3.0], [4.1, 5.1, 6.1, 7.1])
    assert query_accuracy.measured_accuracy(outside, chosen) is None


def test_what_came_when_the_rack_was_back_is_missing() -> None:
    chosen = query_accuracy.query("Q1", 1)
    late = outcome([3.0, 4.0, 9.0, 10.0], [7.1, 8.1, 14.0, 14.1])
    assert query_accuracy.measured_accuracy(late, chosen) == pytest.approx(0.2)
