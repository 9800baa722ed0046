"""Planners by live accuracy: shared passes, and claims that can hold and can fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import query_accuracy
from experiments.live.query_fidelity import EXPERIMENT
from tests.experiments.live.judging import all_hold, held, panels, passes

SHARES = {"dp": 0.6, "sa": 0.55, "greedy": 0.2}


def made_up() -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = [
        {"query": name, "planner": who, "ratio": 0.3, "value": share, "measured": share,
         "computed": share}
        for name in query_accuracy.QUERIES
        for who, share in SHARES.items()
    ]  # fmt: skip
    return {"plans": pd.DataFrame(rows), "passes": passes(query="Q1", variant="dp-0.3")}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["plans"]["measured"] = 0.9 - table["plans"]["measured"]
    table["plans"].loc[table["plans"]["planner"] == "dp", "measured"] = 0.8
    table["passes"]["kills_done"] = 0
    assert set(held(EXPERIMENT, table).values()) == {False}


def test_nothing_measured_nothing_judged() -> None:
    table = made_up()
    table["plans"]["measured"] = None
    assert list(held(EXPERIMENT, table).values()) == [True, None, None]


@pytest.mark.parametrize("name", query_accuracy.QUERIES)
def test_plans_fit_into_their_budget_and_differ(name: str) -> None:
    topology = query_accuracy.topology_of(query_accuracy.query(name, 1))
    plans = query_accuracy.by_planner(topology, (0.3,))
    assert all(len(plan.tasks) <= 7 for plan in plans.values())
    assert plans["greedy", 0.3].tasks != plans["sa", 0.3].tasks


def test_each_figure_shows_its_own_plans_of_the_shared_runs() -> None:
    runs = pd.DataFrame(
        [
            {"query": "Q1", "ratio": 0.3, "objective": objective, "planner": who, "value": share,
             "measured": share, "computed": share}
            for objective, who, share in (
                ("of", None, 0.5), ("of", None, 0.7), (None, "sa", 0.4), (None, "dp", 0.9)
            )
        ]
    )  # fmt: skip
    assert query_accuracy.means_by(runs, "objective")["value"].tolist() == [0.6]
    planners = query_accuracy.means_by(runs, "planner")
    assert dict(zip(planners["planner"], planners["value"], strict=True)) == {"sa": 0.4, "dp": 0.9}


def test_runs_without_plans_of_planners_leave_an_empty_figure() -> None:
    """As in the smoke profile."""
    runs = pd.DataFrame(
        [{"query": "Q1", "ratio": 0.6, "objective": "of", "planner": None, "value": 0.5,
          "measured": 0.5, "computed": 0.5}]
    )  # fmt: skip
    table = {**made_up(), "plans": query_accuracy.means_by(runs, "planner")}
    assert list(held(EXPERIMENT, table).values()) == [True, None, None]
    assert len(panels(EXPERIMENT, table)) == 4
