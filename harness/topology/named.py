"""The topologies that the two PPA papers draw.

Where the drawing or a number is lost, what the papers say about it in words fixes the shape
(how many MC-trees, which units, which sub-topologies) and the rest is chosen; each docstring
says which is which. Sources take in ``rate`` tuples per second per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.topology.model import Edge, Operator, Query, Topology
from harness.topology.partitioning import Partitioning

ONE_TO_ONE, SPLIT, MERGE, FULL = Partitioning


def _source(name: str, parallelism: int, rate: float | Sequence[float] = 1.0) -> Operator:
    rates = (rate,) * parallelism if isinstance(rate, int | float) else tuple(rate)
    return Operator(name=name, parallelism=parallelism, rate=rates)


def _edge(upstream: str, downstream: str, partitioning: Partitioning) -> Edge:
    return Edge(upstream=upstream, downstream=downstream, partitioning=partitioning)


def figure_1a(*, join: bool) -> Topology:
    """Fig. 1(a): 16 MC-trees if O3 is an independent operator, 8 if its inputs are correlated.

    The degrees 4, 4, 4, 2 with one-to-one and full edges follow from those counts.
    """
    return Topology(
        operators=(
            _source("O1", 4),
            _source("O2", 4),
            Operator(name="O3", parallelism=4, join=join),
            Operator(name="O4", parallelism=2),
        ),
        edges=(
            _edge("O1", "O3", ONE_TO_ONE),
            _edge("O2", "O3", ONE_TO_ONE),
            _edge("O3", "O4", FULL),
        ),
    )


def figure_2(*, join: bool) -> Topology:
    """Fig. 2: with t22 failed, t31 loses 2/5 of its output as a join and 1/4 otherwise.

    The rates are lost; 3 from O1 and 3 + 2 from O2 give both of the paper's fractions.
    """
    return Topology(
        operators=(
            _source("O1", 2, (2, 1)),
            _source("O2", 2, (3, 2)),
            Operator(name="O3", parallelism=1, join=join),
        ),
        edges=(_edge("O1", "O3", MERGE), _edge("O2", "O3", MERGE)),
    )


def figure_3a() -> Topology:
    """Fig. 3(a): units {O1} and {O2, O3} with four MC-trees each."""
    return Topology(
        operators=(
            _source("O1", 4),
            Operator(name="O2", parallelism=1),
            Operator(name="O3", parallelism=4),
        ),
        edges=(_edge("O1", "O2", MERGE), _edge("O2", "O3", SPLIT)),
    )


def figure_3b() -> Topology:
    """Fig. 3(b): O3 joins; unit {O1} has four MC-trees, unit {O2, O3} two."""
    return Topology(
        operators=(
            _source("O1", 4),
            _source("O2", 1),
            Operator(name="O3", parallelism=2, join=True),
        ),
        edges=(_edge("O1", "O3", MERGE), _edge("O2", "O3", SPLIT)),
    )


def figure_4() -> Topology:
    """Fig. 4: sub-topologies {O1, O2, O3} and {O4, O5, O6}; the degrees are chosen."""
    return Topology(
        operators=(
            _source("O1", 4),
            _source("O2", 4),
            Operator(name="O3", parallelism=2),
            Operator(name="O4", parallelism=2),
            Operator(name="O5", parallelism=8),
            Operator(name="O6", parallelism=4),
        ),
        edges=(
            _edge("O1", "O3", MERGE),
            _edge("O2", "O3", MERGE),
            _edge("O3", "O4", FULL),
            _edge("O3", "O5", FULL),
            _edge("O4", "O6", SPLIT),
            _edge("O5", "O6", MERGE),
        ),
    )


def figure_5a(priorities: tuple[int, int, int] = (1, 1, 1)) -> Topology:
    """ppa TKDE Fig. 5(a): three queries on one chain, whose sinks are O1, O2 and O3; four MC-trees.

    The tree that the paper's text prints for Q2, <t11, t12, t21>, joins two tasks of one stream
    and is no MC-tree by its Definition 1; <t11, t21> is.
    """
    return Topology(
        operators=(
            _source("O1", 4),
            Operator(name="O2", parallelism=2),
            Operator(name="O3", parallelism=1),
        ),
        edges=(_edge("O1", "O2", MERGE), _edge("O2", "O3", MERGE)),
        queries=tuple(
            Query(name=f"Q{number}", sink=f"O{number}", priority=priority)
            for number, priority in enumerate(priorities, start=1)
        ),
    )


def recovery(rate: float = 1000.0, *, levels: int = 4) -> Topology:
    """ppa ICDE Fig. 6 = TKDE Fig. 11: 16 source tasks, then 8, 4, 2, 1, merged in pairs; with other
    ``levels`` the same tree over 2^``levels`` source tasks.

    Selectivity 0.5 (printed), so every synthetic task receives ``2 * rate`` tuples per second.
    The papers use 1000 and 2000 tuples per second per source task.
    """
    degrees = {f"O{level}": 2 ** (levels - level) for level in range(1, levels + 1)}
    names = ["source", *degrees]
    return Topology(
        operators=(
            _source("source", 2**levels, rate),
            *(
                Operator(name=name, parallelism=degree, selectivity=0.5)
                for name, degree in degrees.items()
            ),
        ),
        edges=tuple(_edge(upstream, downstream, MERGE) for upstream, downstream in pairwise(names)),
    )


def q1(rates: Sequence[float] | None = None) -> Topology:
    """Q1's shape with rates of one's choice (what runs is `workloads.worldcup.program`).

    The hottest entries: 20 tasks aggregate slices, some merge, one keeps the top 100.

    20 tasks in O1 follow from "20 MC-trees"; 4 in O2 is chosen. ``rates`` is per task of O1;
    without it 40,718 tuples per second (the paper's day replayed 48 times faster) are spread by
    Zipf with s = 0.5, because servers were not equally busy; that skew is chosen.
    """
    if rates is None:
        share = [(rank + 1) ** -0.5 for rank in range(20)]
        rates = [40_718 * each / sum(share) for each in share]
    return Topology(
        operators=(
            _source("O1", 20, rates),
            Operator(name="O2", parallelism=4),
            Operator(name="O3", parallelism=1),
        ),
        edges=(_edge("O1", "O2", MERGE), _edge("O2", "O3", MERGE)),
    )


def q2() -> Topology:
    """Q2's shape with merging edges (what runs is `workloads.traffic.program`).

    Incidents that jam the traffic: O3 joins segment speeds (O1) with incidents (O2).

    20,000 locations per second and 98 reports per second are the paper's; the degrees 8, 4, 4, 1
    are chosen. O1 gives a speed per segment and second (1,000/s), O2 an incident every 2 s. The
    tasks carry Zipf (s = 0.5) shares of the 1,000 segments, dealt out in contiguous ranges.
    """
    users = [(rank + 1) ** -0.5 for rank in range(1000)]
    total = sum(users)

    def shares(tasks: int) -> list[float]:
        size = 1000 // tasks
        return [sum(users[task * size : (task + 1) * size]) / total for task in range(tasks)]

    return Topology(
        operators=(
            Operator(
                name="O1",
                parallelism=8,
                rate=tuple(20_000 * share for share in shares(8)),
                selectivity=1000 / 20_000,
            ),
            Operator(
                name="O2",
                parallelism=4,
                rate=tuple(98 * share for share in shares(4)),
                selectivity=0.5 / 98,
            ),
            Operator(name="O3", parallelism=4, join=True),
            Operator(name="O4", parallelism=1),
        ),
        edges=(
            _edge("O1", "O3", MERGE),
            _edge("O2", "O3", ONE_TO_ONE),
            _edge("O3", "O4", MERGE),
        ),
    )
