"""Random topologies: as specified, valid, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import UsageError
from harness.seeds import generator
from harness.topology.generate import STRUCTURED, Priorities, Specification, random_topology
from harness.topology.partitioning import Partitioning


@pytest.mark.parametrize("seed", range(5))
def test_within_the_specification(seed: int) -> None:
    spec = Specification(
        operators=(5, 10), parallelism=(2, 8), partitionings=STRUCTURED, join_fraction=1.0
    )
    topology = random_topology(spec, generator(seed, "test"))
    assert 5 <= len(topology.operators) <= 10
    assert all(2 <= operator.parallelism <= 8 for operator in topology.operators)
    assert all(edge.partitioning is not Partitioning.FULL for edge in topology.edges)
    assert [query.sink for query in topology.queries] == ["O1"]
    for operator in topology.operators:
        assert operator.join == (len(topology.inputs(operator.name)) == 2)


@pytest.mark.parametrize("priorities", list(Priorities))
@pytest.mark.parametrize("seed", range(5))
def test_many_queries(priorities: Priorities, seed: int) -> None:
    spec = Specification(operators=(10, 20), queries=(2, 10), priorities=priorities)
    topology = random_topology(spec, generator(seed, "queries"))
    assert 2 <= len(topology.queries) <= 10
    assert 10 <= len(topology.operators) <= 20
    taken = [
        sum(topology.operator(name).parallelism for name in topology.ancestors(query.sink))
        for query in topology.queries
    ]
    largest = int(np.argmax(taken))
    given = [query.priority for query in topology.queries]
    if priorities is Priorities.PROPORTIONAL:
        assert given[largest] == max(given)
    if priorities is Priorities.INVERSE:
        assert given[largest] == min(given)


@pytest.mark.parametrize(
    "bad", [{"operators": (0, 3)}, {"parallelism": (5, 4)}, {"join_fraction": 2.0}, {"zipf": -1.0}]
)
def test_a_specification_that_cannot_be_met_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Specification(**bad)  # type: ignore[arg-type]
