"""The printed dynamic programming finds the same plans as the other one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.dynamic_programming import DynamicProgramming
from harness.planning.printed_dp import PrintedDynamicProgramming
from harness.topology import named
from harness.topology.fidelity import Objective
from harness.topology.model import Operator, Query, Topology
from tests.planning.contract import SMALL
from tests.topology.strategies import topologies


@given(st.data())
@SMALL
def test_as_good_as_the_other_order(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_operators=4, max_parallelism=3, max_cost=2, max_queries=2))
    budget = data.draw(st.integers(0, topology.total_cost))
    try:
        printed = PrintedDynamicProgramming(most_plans=5_000).plan(topology, budget)
    except UsageError:
        return
    other = DynamicProgramming().plan(topology, budget)
    assert printed.value == pytest.approx(other.value)
    assert printed.cost <= budget


def test_a_budget_beyond_all_trees_buys_all_trees() -> None:
    operators = tuple(Operator(name=name, parallelism=2, rate=(1, 1)) for name in "ab")
    topology = Topology(operators=operators, queries=(Query(name="q", sink="a"),))
    plan = PrintedDynamicProgramming().plan(topology, topology.total_cost)
    assert (plan.tasks, plan.value) == ((0, 1), 1)


def test_too_many_candidates_are_refused() -> None:
    with pytest.raises(UsageError, match="holds more than 20 plans"):
        PrintedDynamicProgramming(most_plans=20).plan(named.q1(), 12)


def test_internal_completeness_is_refused() -> None:
    with pytest.raises(UsageError, match="complete MC-trees"):
        PrintedDynamicProgramming().plan(named.q1(), 5, Objective.IC)
