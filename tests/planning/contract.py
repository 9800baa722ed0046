"""The contract of every replication planner; each planner's tests inherit it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.base import Planner
from harness.planning.exhaustive import Exhaustive
from harness.planning.structure_aware import StructureAware
from harness.topology import named
from harness.topology.fidelity import Evaluator, Objective
from tests.levels import amount
from tests.topology.strategies import topologies

SMALL = settings(
    max_examples=amount(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)


class PlannerContract:
    """Inherit, set `planner`."""

    planner: Planner

    @given(st.data())
    @SMALL
    def test_stays_within_the_budget_and_reports_what_it_chose(self, data: st.DataObject) -> None:
        topology = data.draw(topologies(max_operators=4, max_cost=3, max_queries=3))
        if isinstance(self.planner, Exhaustive) and topology.task_count > 12:
            return
        budget = data.draw(st.integers(0, topology.total_cost))
        objective = data.draw(st.sampled_from(Objective))
        plan = self.planner.plan(topology, budget, objective)
        assert plan.cost == sum(int(topology.costs[task]) for task in plan.tasks) <= budget
        assert list(plan.tasks) == sorted(set(plan.tasks))
        evaluator = Evaluator(topology, objective)
        assert plan.value == pytest.approx(evaluator.value(plan.alive(topology)))
        if plan.bound is not None:
            assert plan.bound >= plan.value - 1e-9
            other = StructureAware().plan(topology, budget, objective)
            assert plan.bound >= other.value - 1e-6

    def test_the_whole_budget_gives_everything(self) -> None:
        topology = named.q2()
        if isinstance(self.planner, Exhaustive):
            topology = named.figure_3b()
        plan = self.planner.plan(topology, topology.total_cost)
        assert plan.value == pytest.approx(1)
        assert self.planner.plan(topology, 0).tasks == ()

    def test_the_same_input_gives_the_same_plan(self) -> None:
        topology = named.figure_1a(join=True)
        assert self.planner.plan(topology, 7) == self.planner.plan(topology, 7)

    @pytest.mark.parametrize("budget", [-1, 15])
    def test_a_budget_that_no_plan_can_use_is_refused(self, budget: int) -> None:
        with pytest.raises(UsageError, match="budget") as error:
            self.planner.plan(named.figure_1a(join=True), budget)
        assert error.value.remedy


def best_by_hand(evaluator: Evaluator, budget: int) -> float:
    """Return the best value of any plan within ``budget``, trying them one by one."""
    count = evaluator.topology.task_count
    best = 0.0
    for number in range(1 << count):
        plan = np.array([number >> task & 1 for task in range(count)], dtype=bool)
        if plan @ evaluator.topology.costs <= budget:
            best = max(best, evaluator.value(plan))
    return best
