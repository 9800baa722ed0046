"""The greedy planner ranks tasks by the cost of their failure alone."""

from __future__ import annotations

from harness.planning.greedy import Greedy
from harness.topology import named
from tests.planning.contract import PlannerContract


class TestGreedy(PlannerContract):
    planner = Greedy()


def test_takes_the_tasks_whose_failure_alone_hurts_most() -> None:
    topology = named.figure_2(join=False)
    plan = Greedy().plan(topology, 2)
    assert [topology.place(task) for task in plan.tasks] == [("O2", 0), ("O3", 0)]


def test_does_not_look_at_trees() -> None:
    topology = named.recovery()
    plan = Greedy().plan(topology, 7)
    assert {topology.place(task)[0] for task in plan.tasks} == {"O2", "O3", "O4"}
    assert plan.value == 0
