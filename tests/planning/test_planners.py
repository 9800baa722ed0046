"""Every replication planner: the contract, proofs of the optimum, and what each is known for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.base import Planner
from harness.planning.dynamic_programming import DynamicProgramming
from harness.planning.exhaustive import Exhaustive
from harness.planning.optimum import Optimum
from harness.planning.planners import Decides, names
from harness.planning.planners import planner as planner_named
from harness.planning.printed_dp import PrintedDynamicProgramming
from harness.planning.structure_aware import StructureAware
from harness.topology import named
from harness.topology.fidelity import Evaluator, Objective
from harness.topology.model import Topology
from harness.topology.partitioning import Partitioning
from tests.topology.strategies import SMALL, in_a_row, topologies

EVERY = [planner_named(name) for name in names(Decides.REPLICATION) if name != "dp-printed"]
every = pytest.mark.parametrize("planner", EVERY, ids=lambda planner: str(planner.name))
FEW = PrintedDynamicProgramming(most_plans=5_000)
"""The printed algorithm is for few candidates alone, and gives up beyond."""


@every
@given(data=st.data())
@SMALL
def test_stays_within_the_budget_and_reports_what_it_chose(
    planner: Planner, data: st.DataObject
) -> None:
    topology = data.draw(topologies(max_operators=4, max_cost=3, max_queries=3))
    if isinstance(planner, Exhaustive) and topology.task_count > 12:
        return
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = data.draw(st.sampled_from(Objective))
    plan = planner.plan(topology, budget, objective)
    assert plan.cost == sum(int(topology.costs[task]) for task in plan.tasks) <= budget
    assert list(plan.tasks) == sorted(set(plan.tasks))
    evaluator = Evaluator(topology, objective)
    assert plan.value == pytest.approx(evaluator.value(plan.alive(topology)))
    if plan.bound is not None:
        assert plan.bound >= plan.value - 1e-9
        other = StructureAware().plan(topology, budget, objective)
        assert plan.bound >= other.value - 1e-6


@every
@pytest.mark.parametrize("budget", [-1, 15])
def test_a_budget_that_no_plan_can_use_is_refused(planner: Planner, budget: int) -> None:
    with pytest.raises(UsageError, match="budget") as error:
        planner.plan(named.figure_1a(join=True), budget)
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


@given(st.data())
@SMALL
def test_exhaustive_search_finds_what_a_loop_finds(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_operators=3, max_parallelism=2, max_cost=2))
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = data.draw(st.sampled_from(Objective))
    best = best_by_hand(Evaluator(topology, objective), budget)
    assert Exhaustive().plan(topology, budget, objective).value == pytest.approx(best)


@pytest.mark.parametrize(
    "exact", [DynamicProgramming(), Optimum(), FEW], ids=lambda exact: str(exact.name)
)
@given(data=st.data())
@SMALL
def test_what_proves_its_optimum_equals_exhaustive_search(
    exact: Planner, data: st.DataObject
) -> None:
    """Mixed-integer programming does so without joins; with them it gives a bound."""
    joins = data.draw(st.booleans())
    topology = data.draw(
        topologies(max_operators=4, max_parallelism=3, joins=joins, max_cost=2, max_queries=2)
    )
    budget = data.draw(st.integers(0, topology.total_cost))
    objective = Objective.OF if exact is FEW else data.draw(st.sampled_from(Objective))
    best = Exhaustive().plan(topology, budget, objective).value
    try:
        plan = exact.plan(topology, budget, objective)
    except UsageError:
        assert exact is FEW
        return
    assert plan.bound is not None
    assert plan.bound >= best - 1e-6
    joined = any(operator.join for operator in topology.operators)
    if exact.proves_optimum or not joined or objective is Objective.IC:
        assert plan.value == pytest.approx(best, abs=1e-6)
        assert plan.bound == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "topology", "budget", "words"),
    [
        (Exhaustive(), named.recovery(), 3, "31 tasks"),
        (DynamicProgramming(most_plans=1000), named.q1(), 20, "holds more than 1,000 plans"),
        (PrintedDynamicProgramming(most_plans=20), named.q1(), 12, "holds more than 20 plans"),
    ],
)
def test_what_would_take_days_is_refused(
    given: Planner, topology: Topology, budget: int, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        given.plan(topology, budget)


def test_dynamic_programming_of_more_than_64_tasks() -> None:
    topology = in_a_row(Partitioning.MERGE, 70, 1, rates=(1.0,) * 69 + (31.0,))
    plan = DynamicProgramming().plan(topology, 3)
    assert plan.value == pytest.approx(0.32)
    assert {69, 70} < set(plan.tasks)


def test_the_bound_of_the_optimum_has_no_sign_and_is_there_when_time_is_up() -> None:
    assert f"{Optimum().plan(named.q1(), 0).bound:.4f}" == "0.0000"
    plan = Optimum(time_limit_s=0.0).plan(named.q1(), 10)
    assert plan.bound is not None
    assert plan.bound >= plan.value > 0


def test_greedy_takes_the_tasks_whose_failure_alone_hurts_most_and_sees_no_trees() -> None:
    topology = named.figure_2(join=False)
    plan = planner_named("greedy").plan(topology, 2)
    assert [topology.place(task) for task in plan.tasks] == [("O2", 0), ("O3", 0)]
    topology = named.recovery()
    plan = planner_named("greedy").plan(topology, 7)
    assert {topology.place(task)[0] for task in plan.tasks} == {"O2", "O3", "O4"}
    assert plan.value == 0


@every
def test_the_whole_budget_gives_everything_and_none_gives_nothing(planner: Planner) -> None:
    topology = named.figure_3b() if isinstance(planner, Exhaustive) else named.q2()
    assert planner.plan(topology, topology.total_cost).value == pytest.approx(1)
    assert planner.plan(topology, 0).tasks == ()


@every
def test_the_same_input_gives_the_same_plan(planner: Planner) -> None:
    topology = named.figure_1a(join=True)
    assert planner.plan(topology, 7) == planner.plan(topology, 7)
