"""The mixed-integer optimum: exact without joins, a bound with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.exhaustive import Exhaustive
from harness.planning.optimum import Optimum
from harness.topology import named
from harness.topology.fidelity import Objective
from tests.planning.contract import SMALL, PlannerContract
from tests.topology.strategies import topologies


class TestOptimum(PlannerContract):
    planner = Optimum()


@given(st.data())
@SMALL
def test_equals_exhaustive_search_without_joins_and_bounds_it_with_them(
    data: st.DataObject,
) -> None:
    joins = data.draw(st.booleans())
    topology = data.draw(
        topologies(max_operators=4, max_parallelism=3, joins=joins, max_cost=2, max_queries=2)
    )
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = data.draw(st.sampled_from(Objective))
    expected = Exhaustive().plan(topology, budget, objective).value
    plan = Optimum().plan(topology, budget, objective)
    assert plan.bound is not None
    assert plan.bound >= expected - 1e-6
    if not any(operator.join for operator in topology.operators) or objective is Objective.IC:
        assert plan.value == pytest.approx(expected, abs=1e-6)
        assert plan.bound == pytest.approx(expected, abs=1e-6)


def test_a_bound_of_nothing_has_no_sign() -> None:
    bound = Optimum().plan(named.q1(), 0).bound
    assert bound is not None
    assert f"{bound:.4f}" == "0.0000"


def test_out_of_time_there_is_still_a_plan_and_a_bound() -> None:
    plan = Optimum(time_limit_s=0.0).plan(named.q1(), 10)
    assert plan.bound is not None
    assert plan.bound >= plan.value > 0
