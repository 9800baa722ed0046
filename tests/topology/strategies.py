"""Small topologies: operators in a row, and random DAGs for Hypothesis with all partitionings."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from harness.topology.model import Edge, Operator, Query, Topology
from harness.topology.partitioning import Partitioning, why_unfit
from tests.levels import amount

SMALL = settings(
    max_examples=amount(25), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""Some small topologies."""


def in_a_row(kind: Partitioning, *sizes: int, rates: Sequence[float] = ()) -> Topology:
    """Return operators o0, o1, ... of these parallelisms, each one reading that before it.

    The tasks of the first have rate 1, or ``rates``."""
    first = Operator(name="o0", parallelism=sizes[0], rate=tuple(rates) or (1.0,) * sizes[0])
    rest = [Operator(name=f"o{n}", parallelism=size) for n, size in enumerate(sizes) if n]
    edges = [
        Edge(upstream=f"o{n}", downstream=f"o{n + 1}", partitioning=kind) for n in range(len(rest))
    ]
    return Topology(operators=(first, *rest), edges=tuple(edges))


@st.composite
def topologies(
    draw: st.DrawFn,
    *,
    max_operators: int = 5,
    max_parallelism: int = 4,
    joins: bool = True,
    max_cost: int = 1,
    max_queries: int = 1,
    idle: bool = True,
) -> Topology:
    """Draw a valid topology: every operator but the first may read up to two earlier ones.

    Fan-out, diamonds and several sinks occur. With ``idle``, source tasks may have rate 0."""
    count = draw(st.integers(1, max_operators))
    operators: list[Operator] = []
    edges: list[Edge] = []
    for number in range(count):
        parallelism = draw(st.integers(1, max_parallelism))
        upstream = draw(
            st.lists(st.integers(0, number - 1), max_size=2, unique=True) if number else st.just([])
        )
        name = f"o{number}"
        for index in upstream:
            fitting = [
                kind
                for kind in Partitioning
                if not why_unfit(kind, operators[index].parallelism, parallelism)
            ]
            edges.append(
                Edge(
                    upstream=f"o{index}",
                    downstream=name,
                    partitioning=draw(st.sampled_from(fitting)),
                )
            )
        least = 0 if idle else 1
        per_task = st.lists(st.integers(least, 5), min_size=parallelism, max_size=parallelism)
        rates = draw(per_task.filter(lambda values: sum(values) > 0))
        operators.append(
            Operator(
                name=name,
                parallelism=parallelism,
                join=bool(len(upstream) > 1 and joins and draw(st.booleans())),
                selectivity=draw(st.sampled_from([0.5, 1.0, 2.0])),
                rate=None if upstream else tuple(map(float, rates)),
                weights=tuple(rate + 1.0 for rate in rates) if upstream else None,
                cost=draw(st.integers(1, max_cost)),
            )
        )
    plain = Topology(operators=tuple(operators), edges=tuple(edges))
    extra = draw(
        st.lists(
            st.sampled_from([operator.name for operator in operators]),
            max_size=max_queries - 1,
            unique=True,
        )
    )
    sinks = dict.fromkeys([query.sink for query in plain.queries[:max_queries]] + extra)
    queries = [
        Query(name=f"q{sink}", sink=sink, priority=draw(st.integers(1, 3)))
        for sink in sinks
        if plain.output_rates(sink).sum() > 0
    ][:max_queries]
    return Topology(operators=plain.operators, edges=plain.edges, queries=tuple(queries))
