"""The planners' topologies as wirings."""

from __future__ import annotations

import pytest

from harness.protocol.planned import wiring_of
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from workloads.toolkit.local import downstream, upstream


def split_in_two(*order: str) -> Topology:
    """Return a source that sends to B and A, whose tasks are numbered in the other order."""
    return Topology(
        operators=(
            Operator(name="source", parallelism=1, rate=(1.0,)),
            Operator(name="A", parallelism=2),
            Operator(name="B", parallelism=1),
            Operator(name="sink", parallelism=1),
        ),
        edges=(
            *(Edge(upstream="source", downstream=name, partitioning=KIND[name]) for name in order),
            Edge(upstream="A", downstream="sink", partitioning=Partitioning.MERGE),
            Edge(upstream="B", downstream="sink", partitioning=Partitioning.ONE_TO_ONE),
        ),
    )


KIND = {"A": Partitioning.SPLIT, "B": Partitioning.ONE_TO_ONE}


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_outputs_go_where_the_edges_are_listed_in_every_engine(order: tuple[str, str]) -> None:
    topology = split_in_two(*order)
    wiring = wiring_of(topology, {})
    expected = [n for name in order for n in {"A": ["A.0", "A.1"], "B": ["B.0"]}[name]]
    assert [wiring.names[task] for task in wiring.downstream[0]] == expected
    places = downstream(topology, ("source", 0))
    assert [f"{name}.{index}" for name, index in places] == expected
    above = [f"{name}.{index}" for name, index in upstream(topology, ("sink", 0))]
    assert above == [wiring.names[task] for task in wiring.upstream[wiring.sinks[0]]]
