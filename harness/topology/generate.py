"""Random topologies in the manner of ppa TKDE, section 7.3: grown from the sink upstream.

The paper names the parameters (number of operators, degree of parallelization, distribution of
partitionings, fraction of joins, distribution of workload within an operator) but not the growth
of a topology. Chosen here: a new operator goes upstream of a random operator that has fewer
than two inputs; its partitioning is drawn among those for which some degree in the range fits,
then its degree is drawn. "Uniform" workload means equal tasks; Zipf weights go to the tasks in
random order. A join needs two inputs, so the fraction is of the operators that have two; its
rate is the product of theirs, as in the paper, and one pair of tuples in a thousand matches, which
keeps the rates of nested joins within the range of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from harness.errors import UsageError
from harness.topology.model import Edge, JoinRates, Operator, Query, Topology
from harness.topology.partitioning import Partitioning

STRUCTURED: Mapping[Partitioning, float] = {
    Partitioning.ONE_TO_ONE: 1,
    Partitioning.SPLIT: 1,
    Partitioning.MERGE: 1,
}
FULL: Mapping[Partitioning, float] = {Partitioning.FULL: 1}
GENERAL: Mapping[Partitioning, float] = {**STRUCTURED, **FULL}


PAIRS_THAT_MATCH = 0.001
"""The selectivity of a join whose rate is the product of its inputs'."""


class Priorities(StrEnum):
    """Relation of a query's priority to the resources of its operators."""

    PROPORTIONAL = "proportional"
    UNIFORM = "uniform"
    """Drawn from 1 to 10, independent of the resources."""
    INVERSE = "inverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """The kind of a random topology. Ranges are inclusive."""

    operators: tuple[int, int] = (5, 10)
    parallelism: tuple[int, int] = (4, 16)
    partitionings: Mapping[Partitioning, float] = field(default_factory=lambda: GENERAL)
    """Frequency of each partitioning, relative to the others."""
    join_fraction: float = 0.0
    """Fraction of the operators with two inputs that join."""
    zipf: float = 0.0
    """The exponent s of the workload of tasks within an operator; 0 for equal tasks."""
    queries: tuple[int, int] = (1, 1)
    priorities: Priorities = Priorities.UNIFORM
    join_rates: JoinRates = JoinRates.PRODUCT

    def __post_init__(self) -> None:
        for name in ("operators", "parallelism", "queries"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise UsageError(
                    f"{name} is {low} to {high}", remedy="give a range that starts at 1 or above"
                )
        if not 0 <= self.join_fraction <= 1:
            raise UsageError(
                f"join_fraction is {self.join_fraction}", remedy="give a number from 0 to 1"
            )
        if self.zipf < 0 or not any(weight > 0 for weight in self.partitionings.values()):
            raise UsageError(
                "zipf is negative or no partitioning has a weight",
                remedy="give an exponent of 0 or more, and one partitioning a weight above 0",
            )


def random_topology(specification: Specification, generator: np.random.Generator) -> Topology:
    """Draw a topology of that kind.

    The shape, the workloads, the joins and the priorities have generators of their own, so
    topologies that differ in one of them share the rest."""
    shape, workload, joins, queries = generator.spawn(4)
    grown = _Growth(specification, shape)
    operators = grown.operators(workload, joins)
    topology = Topology(
        operators=operators, edges=tuple(grown.edges), join_rates=specification.join_rates
    )
    if specification.queries == (1, 1):
        return topology
    return _with_queries(topology, grown, specification, queries)


class _Growth:
    """A growing topology: degrees and edges, no workloads yet."""

    def __init__(self, specification: Specification, generator: np.random.Generator) -> None:
        self._specification = specification
        self._generator = generator
        self.degrees: dict[str, int] = {"O1": self._drawn(specification.parallelism)}
        self.edges: list[Edge] = []
        self.query_count = self._drawn(specification.queries)
        count = self._drawn(specification.operators)
        self.query_count = min(self.query_count, count)
        own_sinks = (self.query_count + 1) // 2
        for number in range(2, count + 1):
            if count - number < own_sinks - 1:
                self._add_consumer(f"O{number}")
            else:
                self._add_producer(f"O{number}")

    def _drawn(self, limits: tuple[int, int]) -> int:
        return int(self._generator.integers(*limits, endpoint=True))

    def _add_producer(self, name: str) -> None:
        fed = [edge.downstream for edge in self.edges]
        consumers = {edge.upstream for edge in self.edges}
        open_to_more = [
            known
            for known in self.degrees
            if fed.count(known) < 2 and (known in consumers or known == "O1")
        ]
        downstream = str(self._generator.choice(open_to_more))
        self._add(name, name, downstream, lambda kind: self._upstream_range(kind, downstream))

    def _add_consumer(self, name: str) -> None:
        upstream = str(self._generator.choice(list(self.degrees)))
        self._add(name, upstream, name, lambda kind: self._downstream_range(kind, upstream))

    def _add(
        self,
        name: str,
        upstream: str,
        downstream: str,
        limits: Callable[[Partitioning], tuple[int, int]],
    ) -> None:
        kind, self.degrees[name] = self._fitting(limits)
        self.edges.append(Edge(upstream=upstream, downstream=downstream, partitioning=kind))

    def _fitting(
        self, degrees: Callable[[Partitioning], tuple[int, int]]
    ) -> tuple[Partitioning, int]:
        ranges = {
            kind: degrees(kind)
            for kind, weight in self._specification.partitionings.items()
            if weight > 0
        }
        ranges = {kind: (low, high) for kind, (low, high) in ranges.items() if low <= high}
        if not ranges:  # merge and split alone have a weight, and neither fits the range
            ranges = {Partitioning.ONE_TO_ONE: degrees(Partitioning.ONE_TO_ONE)}
        kinds = list(ranges)
        weights = np.array([self._specification.partitionings.get(kind, 1.0) for kind in kinds])
        kind = kinds[int(self._generator.choice(len(kinds), p=weights / weights.sum()))]
        return kind, self._drawn(ranges[kind])

    def _upstream_range(self, kind: Partitioning, downstream: str) -> tuple[int, int]:
        low, high = self._specification.parallelism
        degree = self.degrees[downstream]
        match kind:
            case Partitioning.ONE_TO_ONE:
                return degree, degree
            case Partitioning.SPLIT:
                return low, degree // 2
            case Partitioning.MERGE:
                return max(low, 2 * degree), high
            case Partitioning.FULL:
                return low, high

    def _downstream_range(self, kind: Partitioning, upstream: str) -> tuple[int, int]:
        opposite = {Partitioning.SPLIT: Partitioning.MERGE, Partitioning.MERGE: Partitioning.SPLIT}
        return self._upstream_range(opposite.get(kind, kind), upstream)

    def operators(
        self, workload: np.random.Generator, joins: np.random.Generator
    ) -> tuple[Operator, ...]:
        specification = self._specification
        fed = [edge.downstream for edge in self.edges]
        two_inputs = [name for name in self.degrees if fed.count(name) > 1]
        count = round(specification.join_fraction * len(two_inputs))
        joining = set(joins.permutation(two_inputs)[:count].tolist()) if two_inputs else set()
        product = specification.join_rates is JoinRates.PRODUCT
        result = []
        for name, degree in self.degrees.items():
            weights = workload.permutation(np.arange(1, degree + 1) ** -specification.zipf)
            given = tuple((weights / weights.mean()).tolist())
            result.append(
                Operator(
                    name=name,
                    parallelism=degree,
                    join=name in joining,
                    selectivity=PAIRS_THAT_MATCH if name in joining and product else 1.0,
                    weights=given if name in fed else None,
                    rate=None if name in fed else tuple(1000 * each for each in given),
                )
            )
        return tuple(result)


def _with_queries(
    topology: Topology, grown: _Growth, specification: Specification, generator: np.random.Generator
) -> Topology:
    sinks = [query.sink for query in topology.queries]
    inside = [name for name in grown.degrees if name not in sinks]
    missing = max(0, min(grown.query_count - len(sinks), len(inside)))
    sinks += generator.choice(inside, size=missing, replace=False).tolist() if missing else []
    taken = [
        sum(topology.costs[topology.tasks(name)].sum() for name in topology.ancestors(sink))
        for sink in sinks
    ]
    match specification.priorities:
        case Priorities.PROPORTIONAL:
            priorities = [max(1, round(10 * each / max(taken))) for each in taken]
        case Priorities.INVERSE:
            priorities = [max(1, round(10 * min(taken) / each)) for each in taken]
        case Priorities.UNIFORM:
            priorities = generator.integers(1, 10, endpoint=True, size=len(taken)).tolist()
    queries = tuple(
        Query(name=f"Q{number}", sink=sink, priority=priority)
        for number, (sink, priority) in enumerate(zip(sinks, priorities, strict=True), start=1)
    )
    return replace(topology, queries=queries)
