"""Sub-topologies and units, as the papers' figures draw them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.planning.decomposition import decompose, units
from harness.seeds import generator
from harness.topology import named
from harness.topology.generate import Specification, random_topology
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning


def cut(topology: Topology) -> list[tuple[tuple[str, ...], int]]:
    (sub,) = decompose(topology, topology.queries[0].sink)
    return [(unit.operators, len(unit.segments)) for unit in units(topology, sub)]


def test_figure_3a_has_units_o1_and_o2_o3_with_four_trees_each() -> None:
    assert cut(named.figure_3a()) == [(("O1",), 4), (("O2", "O3"), 4)]


def test_figure_3b_has_units_o1_with_four_trees_and_o2_o3_with_two() -> None:
    assert sorted(cut(named.figure_3b())) == [(("O1",), 4), (("O2", "O3"), 2)]


def test_figure_4_has_two_structured_sub_topologies() -> None:
    topology = named.figure_4()
    subs = decompose(topology, "O6")
    assert [(sub.full, set(sub.operators)) for sub in subs] == [
        (False, {"O1", "O2", "O3"}),
        (False, {"O4", "O5", "O6"}),
    ]


def test_a_chain_of_merges_is_one_unit() -> None:
    assert [count for _, count in cut(named.recovery())] == [16]
    assert [count for _, count in cut(named.q1())] == [20]


def test_only_full_edges_connect_sub_topologies() -> None:
    for seed in range(20):
        topology = random_topology(Specification(operators=(10, 20)), generator(seed, "cut"))
        subs = decompose(topology, "O1")
        where = {name: number for number, sub in enumerate(subs) for name in sub.operators}
        assert set(where) == {operator.name for operator in topology.operators}
        for edge in topology.edges:
            if where[edge.upstream] != where[edge.downstream]:
                assert edge.partitioning is Partitioning.FULL


@pytest.mark.parametrize(
    ("other", "expected"), [("full", [("a", "j")]), ("merge", [("a",), ("b",), ("j",)])]
)
def test_a_join_is_a_boundary_only_where_two_of_its_streams_are_in_the_sub_topology(
    other: str, expected: list[tuple[str, ...]]
) -> None:
    source = Operator(name="a", parallelism=4, rate=(1,) * 4)
    topology = Topology(
        operators=(source, replace(source, name="b"), Operator(name="j", parallelism=2, join=True)),
        edges=(
            Edge(upstream="a", downstream="j", partitioning=Partitioning.MERGE),
            Edge(upstream="b", downstream="j", partitioning=Partitioning(other)),
        ),
    )
    sub = next(sub for sub in decompose(topology, "j") if not sub.full)
    assert sorted(unit.operators for unit in units(topology, sub)) == expected
