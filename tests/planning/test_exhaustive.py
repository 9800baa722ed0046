"""Exhaustive search against a loop over all plans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.exhaustive import Exhaustive
from harness.topology import named
from harness.topology.fidelity import Evaluator, Objective
from tests.planning.contract import SMALL, PlannerContract, best_by_hand
from tests.topology.strategies import topologies


class TestExhaustive(PlannerContract):
    planner = Exhaustive()


@given(st.data())
@SMALL
def test_finds_what_a_loop_finds(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_operators=3, max_parallelism=2, max_cost=2))
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = data.draw(st.sampled_from(Objective))
    best = best_by_hand(Evaluator(topology, objective), budget)
    assert Exhaustive().plan(topology, budget, objective).value == pytest.approx(best)


def test_refuses_what_would_take_days() -> None:
    with pytest.raises(UsageError, match="31 tasks"):
        Exhaustive().plan(named.recovery(), 3)
