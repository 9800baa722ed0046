"""The topologies that the two PPA papers draw.

Where the drawing or a number is lost, the papers' text fixes the shape (the number of MC-trees,
the units, the sub-topologies) and the rest is chosen; each docstring separates the two. Sources
take in ``rate`` tuples per second per task.

Tests: ``tests/topology/test_model.py``, ``tests/topology/test_trees.py``,
``tests/planning/test_decomposition.py``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.topology.model import Edge, Operator, Query, Topology
from harness.topology.partitioning import Partitioning

ONE_TO_ONE, SPLIT, MERGE, FULL = Partitioning


def _source(
    name: str, parallelism: int, rate: float | Sequence[float] = 1.0, selectivity: float = 1.0
) -> Operator:
    rates = (rate,) * parallelism if isinstance(rate, int | float) else tuple(rate)
    return Operator(name=name, parallelism=parallelism, rate=rates, selectivity=selectivity)


def _inner(
    name: str, parallelism: int, *, join: bool = False, selectivity: float = 1.0
) -> Operator:
    return Operator(name=name, parallelism=parallelism, join=join, selectivity=selectivity)


def _drawn(
    operators: Sequence[Operator],
    edges: Sequence[tuple[str, str, Partitioning]],
    queries: Sequence[Query] = (),
) -> Topology:
    return Topology(
        operators=tuple(operators),
        edges=tuple(
            Edge(upstream=up, downstream=down, partitioning=how) for up, down, how in edges
        ),
        queries=tuple(queries),
    )


def figure_1a(*, join: bool) -> Topology:
    """Return Fig. 1(a): 16 MC-trees if O3 is an independent operator, 8 if it joins.

    The degrees 4, 4, 4, 2 with one-to-one and full edges follow from those counts."""
    return _drawn(
        [_source("O1", 4), _source("O2", 4), _inner("O3", 4, join=join), _inner("O4", 2)],
        [("O1", "O3", ONE_TO_ONE), ("O2", "O3", ONE_TO_ONE), ("O3", "O4", FULL)],
    )


def figure_2(*, join: bool) -> Topology:
    """Return Fig. 2: with t22 failed, t31 loses 2/5 of its output as a join and 1/4 otherwise.

    The rates are lost; 3 from O1 and 3 + 2 from O2 give both of the paper's fractions."""
    return _drawn(
        [_source("O1", 2, (2, 1)), _source("O2", 2, (3, 2)), _inner("O3", 1, join=join)],
        [("O1", "O3", MERGE), ("O2", "O3", MERGE)],
    )


def figure_3a() -> Topology:
    """Return Fig. 3(a): units {O1} and {O2, O3} with four MC-trees each."""
    return _drawn(
        [_source("O1", 4), _inner("O2", 1), _inner("O3", 4)],
        [("O1", "O2", MERGE), ("O2", "O3", SPLIT)],
    )


def figure_3b() -> Topology:
    """Return Fig. 3(b): O3 joins; unit {O1} has four MC-trees, unit {O2, O3} two."""
    return _drawn(
        [_source("O1", 4), _source("O2", 1), _inner("O3", 2, join=True)],
        [("O1", "O3", MERGE), ("O2", "O3", SPLIT)],
    )


def figure_4() -> Topology:
    """Return Fig. 4: sub-topologies {O1, O2, O3} and {O4, O5, O6}; the degrees are chosen."""
    inner = [_inner("O3", 2), _inner("O4", 2), _inner("O5", 8), _inner("O6", 4)]
    return _drawn(
        [_source("O1", 4), _source("O2", 4), *inner],
        [
            ("O1", "O3", MERGE),
            ("O2", "O3", MERGE),
            ("O3", "O4", FULL),
            ("O3", "O5", FULL),
            ("O4", "O6", SPLIT),
            ("O5", "O6", MERGE),
        ],
    )


def figure_5a(priorities: tuple[int, int, int] = (1, 1, 1)) -> Topology:
    """Return ppa TKDE Fig. 5(a): queries on one chain with sinks O1, O2 and O3; four MC-trees.

    The tree that the paper's text prints for Q2, <t11, t12, t21>, joins two tasks of one stream
    and is not an MC-tree by its Definition 1; <t11, t21> is."""
    return _drawn(
        [_source("O1", 4), _inner("O2", 2), _inner("O3", 1)],
        [("O1", "O2", MERGE), ("O2", "O3", MERGE)],
        [
            Query(name=f"Q{number}", sink=f"O{number}", priority=priority)
            for number, priority in enumerate(priorities, start=1)
        ],
    )


def recovery(rate: float = 1000.0, *, levels: int = 4) -> Topology:
    """Return ppa ICDE Fig. 6 = TKDE Fig. 11: a tree of merges in pairs over 2^``levels`` sources.

    The paper's has 16 source tasks, then 8, 4, 2, 1. Selectivity 0.5 (printed), so every synthetic
    task receives ``2 * rate`` tuples per second. The papers use 1000 and 2000 tuples per second
    per source task."""
    degrees = {f"O{level}": 2 ** (levels - level) for level in range(1, levels + 1)}
    inner = [_inner(name, degree, selectivity=0.5) for name, degree in degrees.items()]
    return _drawn(
        [_source("source", 2**levels, rate), *inner],
        [(upstream, downstream, MERGE) for upstream, downstream in pairwise(["source", *degrees])],
    )


def q1(rates: Sequence[float] | None = None) -> Topology:
    """Return the shape of Q1 with chosen rates (`workloads.worldcup.program` runs it).

    The hottest entries: 20 tasks aggregate slices, some merge, one keeps the top 100.

    20 tasks in O1 follow from "20 MC-trees"; 4 in O2 is chosen. ``rates`` is per task of O1;
    without it 40,718 tuples per second (the paper's day replayed 48 times faster) are spread by
    Zipf with s = 0.5, because servers were not equally busy; that skew is chosen."""
    if rates is None:
        share = [(rank + 1) ** -0.5 for rank in range(20)]
        rates = [40_718 * each / sum(share) for each in share]
    return _drawn(
        [_source("O1", 20, rates), _inner("O2", 4), _inner("O3", 1)],
        [("O1", "O2", MERGE), ("O2", "O3", MERGE)],
    )


def q2() -> Topology:
    """Return the shape of Q2 with merging edges (`workloads.traffic.program` runs it).

    Incidents that jam the traffic: O3 joins segment speeds (O1) with incidents (O2).

    20,000 locations per second and 98 reports per second are the paper's; the degrees 8, 4, 4, 1
    are chosen. O1 gives a speed per segment and second (1,000/s), O2 an incident every 2 s. The
    tasks carry Zipf (s = 0.5) shares of the 1,000 segments, dealt out in contiguous ranges."""
    users = [(rank + 1) ** -0.5 for rank in range(1000)]
    total = sum(users)

    def rates(tasks: int, together: float) -> list[float]:
        size = 1000 // tasks
        return [
            together * (sum(users[task * size : (task + 1) * size]) / total)
            for task in range(tasks)
        ]

    return _drawn(
        [
            _source("O1", 8, rates(8, 20_000), selectivity=1000 / 20_000),
            _source("O2", 4, rates(4, 98), selectivity=0.5 / 98),
            _inner("O3", 4, join=True),
            _inner("O4", 1),
        ],
        [("O1", "O3", MERGE), ("O2", "O3", ONE_TO_ONE), ("O3", "O4", MERGE)],
    )
