"""MC-trees: the papers' counts, and that each one gives output and is minimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from harness.errors import UsageError
from harness.topology import named
from harness.topology.fidelity import Evaluator
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from harness.topology.trees import count_mc_trees, mc_trees
from tests.levels import amount
from tests.topology.strategies import topologies


def test_figure_1a_has_16_trees_without_the_join_and_8_with_it() -> None:
    assert (
        count_mc_trees(named.figure_1a(join=False))
        == len(mc_trees(named.figure_1a(join=False)))
        == 16
    )
    assert count_mc_trees(named.figure_1a(join=True)) == 8
    assert sorted(len(tree) for tree in mc_trees(named.figure_1a(join=True))) == [4] * 8


def test_the_papers_example_trees() -> None:
    topology = named.figure_1a(join=False)
    first = frozenset(topology.task(name, 0) for name in ("O1", "O3", "O4"))
    assert first in mc_trees(topology)
    correlated = named.figure_1a(join=True)
    assert first not in mc_trees(correlated)
    assert first | {correlated.task("O2", 0)} in mc_trees(correlated)


def test_figure_5a_has_four_trees_of_the_whole_topology_and_one_per_task_and_query() -> None:
    topology = named.figure_5a()
    assert len(mc_trees(topology, "O3")) == 4
    assert frozenset({topology.task("O1", 0)}) in mc_trees(topology)


def test_q1_has_20_trees() -> None:
    assert count_mc_trees(named.q1()) == 20


def test_a_full_topology_multiplies_its_degrees() -> None:
    operators = (
        Operator(name="a", parallelism=3, rate=(1, 1, 1)),
        Operator(name="b", parallelism=4),
        Operator(name="c", parallelism=5),
    )
    edges = tuple(
        Edge(upstream=up, downstream=down, partitioning=Partitioning.FULL)
        for up, down in (("a", "b"), ("b", "c"))
    )
    assert count_mc_trees(Topology(operators=operators, edges=edges)) == 60


def test_too_many_are_refused_before_they_are_listed() -> None:
    operators = [Operator(name="o0", parallelism=20, rate=(1,) * 20)]
    operators += [Operator(name=f"o{number}", parallelism=20) for number in range(1, 6)]
    edges = tuple(
        Edge(upstream=f"o{i}", downstream=f"o{i + 1}", partitioning=Partitioning.FULL)
        for i in range(5)
    )
    topology = Topology(operators=tuple(operators), edges=edges)
    assert count_mc_trees(topology) == 20**6
    with pytest.raises(UsageError, match="64,000,000"):
        mc_trees(topology)


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
