"""Rates, substreams, numbering, and refused topologies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.topology import named
from harness.topology.model import Edge, JoinRates, Operator, Query, Topology
from harness.topology.partitioning import Partitioning, routes


def source(name: str = "a", parallelism: int = 2, rate: float = 1.0) -> Operator:
    return Operator(name=name, parallelism=parallelism, rate=(rate,) * parallelism)


def chain(up: int, down: int, kind: str, **options: object) -> Topology:
    return Topology(
        operators=(
            source("a", up),
            Operator(name="b", parallelism=down, **options),  # type: ignore[arg-type]
        ),
        edges=(Edge(upstream="a", downstream="b", partitioning=Partitioning(kind)),),
    )


@pytest.mark.parametrize(
    ("kind", "up", "down", "expected"),
    [
        ("one-to-one", 3, 3, [(0, 0), (1, 1), (2, 2)]),
        ("split", 2, 4, [(0, 0), (0, 1), (1, 2), (1, 3)]),
        ("merge", 4, 2, [(0, 0), (1, 0), (2, 1), (3, 1)]),
        ("full", 2, 2, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("merge", 5, 2, [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]),
    ],
)
def test_routes_join_contiguous_blocks(
    kind: str, up: int, down: int, expected: list[tuple[int, int]]
) -> None:
    rows, columns = routes(Partitioning(kind), up, down)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == expected


def test_substreams_carry_the_rate_from_task_to_task() -> None:
    topology = Topology(
        operators=(
            Operator(name="a", parallelism=2, rate=(30, 10)),
            Operator(name="b", parallelism=3, weights=(2, 1, 1)),
        ),
        edges=(Edge(upstream="a", downstream="b", partitioning=Partitioning.FULL),),
    )
    rates = topology.substreams(topology.edges[0]).toarray()
    assert rates.tolist() == [[15, 7.5, 7.5], [5, 2.5, 2.5]]
    assert topology.input_rates("b").tolist() == [20, 10, 10]


def test_tasks_are_numbered_operator_by_operator() -> None:
    topology = named.figure_1a(join=False)
    assert topology.tasks("O3") == slice(8, 12)
    assert topology.task("O4", 1) == 13
    assert topology.place(13) == ("O4", 1)
    assert topology.order.index("O3") > topology.order.index("O2")
    assert topology.upstream("O3") == ("O1", "O2")
    assert topology.downstream("O3") == ("O4",)
    assert topology.ancestors("O3") == {"O1", "O2", "O3"}
    assert topology.sources == ("O1", "O2")


EDGE = Edge(upstream="a", downstream="b", partitioning=Partitioning.FULL)
BACK = Edge(upstream="b", downstream="a", partitioning=Partitioning.FULL)
B = Operator(name="b", parallelism=2)

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "cycle": (
        lambda: Topology(operators=(Operator(name="a", parallelism=2), B), edges=(EDGE, BACK)),
        "cycle: ",
    ),
    "no input": (lambda: Topology(operators=(source(), B)), "'b' has no input"),
    "rate inside": (
        lambda: Topology(operators=(source(), source("b")), edges=(EDGE,)),
        "'b' has a rate and an edge from 'a'",
    ),
    "unknown operator": (lambda: Topology(operators=(source(),), edges=(EDGE,)), "'b'"),
    "one-to-one": (lambda: chain(3, 2, "one-to-one"), "a -> b"),
    "merge": (lambda: chain(3, 2, "merge"), "merge does not fit 3 upstream"),
    "split": (lambda: chain(4, 2, "split"), "split does not fit"),
    "twice": (lambda: Topology(operators=(source(), source())), "'a' is given twice"),
    "edge twice": (
        lambda: Topology(operators=(source(), B), edges=(EDGE, EDGE)),
        "'a -> b' is given twice",
    ),
    "negative rate": (lambda: Operator(name="a", parallelism=2, rate=(1, -1)), "rate -1 at task 1"),
    "rates": (lambda: Operator(name="a", parallelism=2, rate=(1,)), "1 rates for 2 tasks"),
    "no rate": (lambda: Operator(name="a", parallelism=1, rate=(0,)), "no rate above 0"),
    "nan": (lambda: Operator(name="a", parallelism=1, rate=(float("nan"),)), "rate nan"),
    "weights": (lambda: Operator(name="a", parallelism=1, weights=(0,)), "weight 0"),
    "parallelism": (lambda: Operator(name="a", parallelism=0), "parallelism 0"),
    "selectivity": (lambda: Operator(name="a", parallelism=1, selectivity=0), "selectivity 0"),
    "cost": (lambda: Operator(name="a", parallelism=1, cost=-1), "cost -1"),
    "no operators": (lambda: Topology(operators=()), "no operators"),
    "sink": (
        lambda: Topology(operators=(source(),), queries=(Query(name="q", sink="x"),)),
        "sink 'x'",
    ),
    "priority": (lambda: Query(name="q", sink="x", priority=-1), "priority -1"),
    "priorities": (
        lambda: Topology(operators=(source(),), queries=(Query(name="q", sink="a", priority=0),)),
        "every query",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_run_is_refused_by_name(case: str) -> None:
    build, names = REFUSED[case]
    with pytest.raises(UsageError, match=names) as error:
        build()
    assert error.value.remedy


def test_a_join_gives_the_product_of_its_streams_where_the_topology_says_so() -> None:
    summed = named.figure_2(join=True)
    product = replace(summed, join_rates=JoinRates.PRODUCT)
    first, second = (
        summed.output_rates(edge.upstream).sum() for edge in summed.inputs(summed.queries[0].sink)
    )
    assert summed.output_rates(summed.queries[0].sink).tolist() == [first + second]
    assert product.output_rates(summed.queries[0].sink).tolist() == [first * second]
    assert product.task_input_rates.tolist() == summed.task_input_rates.tolist()
