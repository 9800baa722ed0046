"""Dynamic programming equals exhaustive search; it refuses too many trees with a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.dynamic_programming import DynamicProgramming
from harness.planning.exhaustive import Exhaustive
from harness.topology import named
from harness.topology.fidelity import Objective
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from tests.planning.contract import SMALL, PlannerContract
from tests.topology.strategies import topologies


class TestDynamicProgramming(PlannerContract):
    planner = DynamicProgramming()


@given(st.data())
@SMALL
def test_equals_exhaustive_search(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_operators=4, max_parallelism=3, max_cost=2, max_queries=2))
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = data.draw(st.sampled_from(Objective))
    expected = Exhaustive().plan(topology, budget, objective)
    plan = DynamicProgramming().plan(topology, budget, objective)
    assert plan.value == pytest.approx(expected.value)
    assert plan.bound == plan.value


def test_more_than_64_tasks_fit() -> None:
    topology = Topology(
        operators=(
            Operator(name="a", parallelism=70, rate=(1.0,) * 69 + (31.0,)),
            Operator(name="b", parallelism=1),
        ),
        edges=(Edge(upstream="a", downstream="b", partitioning=Partitioning.MERGE),),
    )
    plan = DynamicProgramming().plan(topology, 3)
    assert plan.value == pytest.approx(0.32)
    assert {69, 70} < set(plan.tasks)


def test_too_many_plans_are_refused() -> None:
    with pytest.raises(UsageError, match="holds more than 1,000 plans"):
        DynamicProgramming(most_plans=1000).plan(named.q1(), 20)
