"""MC-trees: the papers' counts, and that each one gives output and is minimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from harness.errors import UsageError
from harness.topology import named
from harness.topology.fidelity import Evaluator
from harness.topology.model import Topology
from harness.topology.partitioning import Partitioning
from harness.topology.trees import mc_trees
from tests.levels import amount
from tests.topology.strategies import in_a_row, topologies


@pytest.mark.parametrize(
    ("topology", "count"),
    [
        pytest.param(named.figure_1a(join=False), 16, id="figure 1(a)"),
        pytest.param(named.figure_1a(join=True), 8, id="figure 1(a) with a join"),
        pytest.param(named.q1(), 20, id="q1"),
        pytest.param(
            in_a_row(Partitioning.FULL, 3, 4, 5), 60, id="full: the product of its degrees"
        ),
    ],
)
def test_the_papers_counts(topology: Topology, count: int) -> None:
    assert len(mc_trees(topology)) == count


def test_the_papers_example_trees() -> None:
    topology = named.figure_1a(join=False)
    first = frozenset(topology.task(name, 0) for name in ("O1", "O3", "O4"))
    assert first in mc_trees(topology)
    correlated = named.figure_1a(join=True)
    assert first not in mc_trees(correlated)
    assert first | {correlated.task("O2", 0)} in mc_trees(correlated)
    assert {len(tree) for tree in mc_trees(correlated)} == {4}


def test_figure_5a_has_four_trees_of_the_whole_topology_and_one_per_task_and_query() -> None:
    topology = named.figure_5a()
    assert len(mc_trees(topology, "O3")) == 4
    assert frozenset({topology.task("O1", 0)}) in mc_trees(topology)


def test_too_many_are_refused_before_they_are_listed() -> None:
    with pytest.raises(UsageError, match="64,000,000"):
        mc_trees(in_a_row(Partitioning.FULL, *[20] * 6))


@given(topologies(max_operators=4, max_parallelism=3, idle=False))
@settings(max_examples=amount(60), deadline=None)
def test_a_tree_gives_output_and_each_of_its_tasks_takes_part(topology: Topology) -> None:
    evaluator = Evaluator(topology)
    for tree in mc_trees(topology):
        alive = np.zeros(topology.task_count, dtype=bool)
        alive[list(tree)] = True
        smaller = np.repeat(alive[None], len(tree), axis=0)
        smaller[np.arange(len(tree)), list(tree)] = False
        assert evaluator.value(alive) > 0
        assert (evaluator.values(smaller) < evaluator.value(alive)).all()
