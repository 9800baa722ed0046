"""The structure-aware planner: whole trees only, near the optimum, better than greedy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.dynamic_programming import DynamicProgramming
from harness.planning.exhaustive import Exhaustive
from harness.planning.parts import parts_of
from harness.planning.readings import PRINTED, QUICK, Readings
from harness.planning.structure_aware import StructureAware
from harness.seeds import generator
from harness.topology import named
from harness.topology.fidelity import Booleans, Evaluator, Floats, Local
from harness.topology.generate import STRUCTURED, Specification, random_topology
from harness.topology.partitioning import Partitioning
from harness.topology.trees import mc_trees
from tests.topology.strategies import SMALL, in_a_row


@given(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))
@SMALL
def test_every_replicated_task_is_in_a_whole_tree(seed: int, ratio: float, joins: float) -> None:
    spec = Specification(operators=(2, 5), parallelism=(1, 4), join_fraction=joins, zipf=0.3)
    topology = random_topology(spec, generator(seed, "whole"))
    plan = set(StructureAware().plan(topology, int(ratio * topology.total_cost)).tasks)
    in_trees = [tree for tree in mc_trees(topology) if tree <= plan]
    assert plan == set().union(*in_trees)


@given(st.integers(0, 10**6), st.sampled_from([PRINTED, QUICK]), st.data())
@SMALL
def test_what_a_part_remembers_is_what_it_would_find_anew(
    seed: int, readings: Readings, data: st.DataObject
) -> None:
    spec = Specification(
        operators=(2, 5), parallelism=(1, 6), join_fraction=0.3, partitionings=STRUCTURED
    )
    topology = random_topology(spec, generator(seed, "remembered"))
    evaluator = Evaluator(topology)
    sink = topology.queries[0].sink
    kept = parts_of(evaluator, sink, readings=readings)
    flags = st.lists(st.booleans(), min_size=topology.task_count, max_size=topology.task_count)
    for _ in range(4):
        plan, barred = np.array(data.draw(flags)), np.array(data.draw(flags))
        budget = data.draw(st.integers(0, topology.total_cost))
        bar = data.draw(st.sampled_from([None, barred & ~plan]))
        for old, new in zip(kept, parts_of(evaluator, sink, readings=readings), strict=True):
            steps = [part.steps(plan, budget, barred=bar) for part in (old, new)]
            found = [[(set(np.flatnonzero(s.tasks)), s.cost) for s in some] for some in steps]
            gains = [[step.gain for step in some] for some in steps]
            assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
            assert gains[0] == pytest.approx(gains[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("budget", [3, 6, 9, 12])
def test_q1_is_planned_nearly_as_well_as_by_dynamic_programming(budget: int) -> None:
    topology = named.q1()
    best = DynamicProgramming().plan(topology, budget).value
    assert best > 0
    assert StructureAware().plan(topology, budget).value >= 0.95 * best


@pytest.mark.parametrize(
    ("seed", "joins", "queries", "ratio"),
    [
        (57, 0.0, 2, 0.5),  # a step of one query completes an operator of the other's
        (3, 0.0, 2, 0.7),  # a part needs a tree of what is above it
        (23, 0.0, 1, 0.35),  # ... and of what is below it
        (43, 0.5, 1, 0.5),
    ],
)
def test_parts_that_need_each_other_are_taken_together(
    seed: int, joins: float, queries: int, ratio: float
) -> None:
    """SA finds the optimum of these topologies.

    It no longer does if it ignores the needs of one part in another, or keeps tasks that a step
    has made worthless."""
    spec = Specification(
        operators=(3, 7), parallelism=(1, 3), join_fraction=joins, zipf=0.0,
        queries=(queries, queries),
    )  # fmt: skip
    topology = random_topology(spec, generator(seed, "found"))
    budget = int(ratio * topology.total_cost)
    best = Exhaustive().plan(topology, budget).value
    assert best > 0
    assert StructureAware().plan(topology, budget).value == pytest.approx(best)


def test_a_step_is_judged_again_only_where_the_plan_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = 30
    topology = in_a_row(Partitioning.ONE_TO_ONE, *[tasks] * 3, rates=range(1, tasks + 1))
    (part,) = parts_of(Evaluator(topology), "o2")
    judged: list[int] = []
    values = Local.values

    def counted(self: Local, plans: Booleans) -> Floats:
        judged.append(len(plans))
        return values(self, plans)

    monkeypatch.setattr(Local, "values", counted)
    plan = np.zeros(topology.task_count, dtype=np.bool_)
    best = part.steps(plan, 6)[0]
    assert set(np.flatnonzero(best.tasks)) == {29, 59, 89}
    second = part.steps(plan | best.tasks, 3)[0]
    assert set(np.flatnonzero(second.tasks)) == {28, 58, 88}
    assert judged == [1 + tasks, 1], "the plan, and each chain once"
