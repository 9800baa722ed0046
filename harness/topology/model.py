"""The query topology: operators cut into tasks, edges cut into substreams, queries.

Everything here is a value, validated on construction and never changed. Tasks are
numbered over the whole topology, operator by operator in the order given, so a plan is a
boolean array of length `Topology.task_count`.

The failure-free rates follow from the sources by propagation (ppa TKDE, section 2.1): a task's
output rate is its operator's selectivity times the rate of its effective input, and every operator
that subscribes to an output gets all of it. The effective input of a join is, "without further
semantic information", the Cartesian product of its streams in that paper, their sum where a
topology says so (`JoinRates`): the joins of the workloads match keys and give no product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harness.errors import UsageError
from harness.text import did_you_mean
from harness.topology.partitioning import Partitioning, Routes, routes, why_unfit

Floats = NDArray[np.float64]


class JoinRates(StrEnum):
    """The effective input rate of a join."""

    SUM = "sum"
    PRODUCT = "product"
    """The paper's. Rates then have no unit, and only their ratios are meaningful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A node of the query topology; its tasks run the same code on different keys."""

    name: str
    parallelism: int
    join: bool = False
    """True if the inputs are correlated: no output survives without every one of them."""
    selectivity: float = 1.0
    """Output tuples per input tuple; for a source, per tuple of `rate`."""
    weights: tuple[float, ...] | None = None
    """The share of a full or split stream that each task receives, above 0; equal if None."""
    rate: tuple[float, ...] | None = None
    """Tuples per second that each task of a source takes in; None unless it is a source."""
    cost: int = 1
    """Resource units of one task, and so of one replica of it. 0 is for virtual tasks."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("an operator has no name", remedy="give every operator a name")
        if self.parallelism < 1:
            self._refuse(f"has parallelism {self.parallelism}", "give it at least one task")
        if not (isfinite(self.selectivity) and self.selectivity > 0):
            self._refuse(f"has selectivity {self.selectivity}", "give a number above 0")
        if self.cost < 0:
            self._refuse(f"has cost {self.cost}", "give a whole number of units, 1 or more")
        self._check_per_task("weight", self.weights)
        self._check_per_task("rate", self.rate)

    def _check_per_task(self, what: str, values: tuple[float, ...] | None) -> None:
        if values is None:
            return
        if len(values) != self.parallelism:
            self._refuse(
                f"has {len(values)} {what}s for {self.parallelism} tasks",
                f"give one {what} for each task",
            )
        for task, value in enumerate(values):
            if not (isfinite(value) and (value > 0 or (value == 0 and what == "rate"))):
                least = "0 or above" if what == "rate" else "above 0"
                self._refuse(f"has {what} {value} at task {task}", f"give a {what} that is {least}")
        if sum(values) <= 0:
            self._refuse(f"has no {what} above 0", f"give at least one task a {what} above 0")

    def _refuse(self, what: str, remedy: str) -> None:
        raise UsageError(f"operator {self.name!r} {what}", remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A partitioned stream between two operators."""

    upstream: str
    downstream: str
    partitioning: Partitioning

    def __str__(self) -> str:
        return f"{self.upstream} -> {self.downstream} ({self.partitioning})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One user's question: everything upstream of a sink operator."""

    name: str
    sink: str
    priority: int = 1
    """Weight of this query's output fidelity against the others'; 0 or more."""

    def __post_init__(self) -> None:
        if self.priority < 0:
            raise UsageError(
                f"query {self.name!r} has priority {self.priority}",
                remedy="give a whole number, 0 or more",
            )


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Operators, the edges between them, and the queries that read their output.

    Without queries every operator without output becomes one of priority 1 with its own name.
    Raises `UsageError`, naming the operator, edge or query, for a topology that cannot run: a
    cycle, an operator without input, a partitioning that does not fit the degrees, a query whose
    sink produces nothing."""

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...] = ()
    queries: tuple[Query, ...] = ()
    join_rates: JoinRates = JoinRates.SUM
    order: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Operator names, upstream before downstream; ties in the order given."""

    def __post_init__(self) -> None:
        _check_names("operator", [operator.name for operator in self.operators])
        if not self.operators:
            raise UsageError("the topology has no operators", remedy="give at least one operator")
        for edge in self.edges:
            self._check_edge(edge)
        _check_names("edge", [f"{edge.upstream} -> {edge.downstream}" for edge in self.edges])
        object.__setattr__(self, "order", self._sorted())
        if not self.queries:
            object.__setattr__(self, "queries", self._default_queries())
        _check_names("query", [query.name for query in self.queries])
        self._check_inputs()
        self._check_queries()

    # Lookup

    @cached_property
    def _by_name(self) -> Mapping[str, Operator]:
        return {operator.name: operator for operator in self.operators}

    def operator(self, name: str) -> Operator:
        """Return the operator of that name; `UsageError` if there is none."""
        if name not in self._by_name:
            raise UsageError(
                f"the topology has no operator {name!r}", remedy=did_you_mean(name, self._by_name)
            )
        return self._by_name[name]

    @cached_property
    def _ends(self) -> Mapping[str, tuple[tuple[Edge, ...], tuple[Edge, ...]]]:
        """The edges into and out of every operator."""
        return {
            name: (
                tuple(edge for edge in self.edges if edge.downstream == name),
                tuple(edge for edge in self.edges if edge.upstream == name),
            )
            for name in self._by_name
        }

    def inputs(self, operator: str) -> tuple[Edge, ...]:
        """Return the edges into ``operator``; none for a source."""
        return self._ends[operator][0]

    def outputs(self, operator: str) -> tuple[Edge, ...]:
        """Return the edges out of ``operator``."""
        return self._ends[operator][1]

    def upstream(self, operator: str) -> tuple[str, ...]:
        """Return the operators that ``operator`` reads from."""
        return tuple(edge.upstream for edge in self.inputs(operator))

    def downstream(self, operator: str) -> tuple[str, ...]:
        """Return the operators that read from ``operator``."""
        return tuple(edge.downstream for edge in self.outputs(operator))

    def ancestors(self, operator: str) -> frozenset[str]:
        """Return ``operator`` and everything upstream of it: a query with that sink."""
        reached: set[str] = set()
        pending = [operator]
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending.extend(self.upstream(name))
        return frozenset(reached)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The operators without input, in the order given."""
        return tuple(operator.name for operator in self.operators if not self.inputs(operator.name))

    # Tasks

    @cached_property
    def _first_task(self) -> Mapping[str, int]:
        starts = np.cumsum([0, *(operator.parallelism for operator in self.operators)])
        return {
            operator.name: int(start)
            for operator, start in zip(self.operators, starts[:-1], strict=True)
        }

    @cached_property
    def task_count(self) -> int:
        """Number of tasks of all operators together."""
        return sum(operator.parallelism for operator in self.operators)

    def tasks(self, operator: str) -> slice:
        """Return the numbers of the tasks of ``operator``."""
        first = self._first_task[operator]
        return slice(first, first + self._by_name[operator].parallelism)

    def task(self, operator: str, index: int) -> int:
        """Return the number of task ``index`` of ``operator``."""
        parallelism = self.operator(operator).parallelism
        if not 0 <= index < parallelism:
            raise UsageError(
                f"operator {operator!r} has no task {index}",
                remedy=f"its tasks are 0 to {parallelism - 1}",
            )
        return self._first_task[operator] + index

    @cached_property
    def _places(self) -> tuple[tuple[str, int], ...]:
        return tuple(
            (operator.name, index)
            for operator in self.operators
            for index in range(operator.parallelism)
        )

    def place(self, task: int) -> tuple[str, int]:
        """Return the operator of task number ``task``, and its index there."""
        return self._places[task]

    @cached_property
    def costs(self) -> NDArray[np.int64]:
        """Resource units per task, shape ``(tasks,)``."""
        parallelism = [operator.parallelism for operator in self.operators]
        return np.repeat([operator.cost for operator in self.operators], parallelism)

    @cached_property
    def total_cost(self) -> int:
        """Cost of replicating every task, in resource units."""
        return int(self.costs.sum())

    # Substreams and rates

    def routes(self, edge: Edge) -> Routes:
        """Return the upstream and the downstream task index of every substream of ``edge``."""
        return self._routes[edge]

    @cached_property
    def _routes(self) -> Mapping[Edge, Routes]:
        degree = {operator.name: operator.parallelism for operator in self.operators}
        return {
            edge: routes(edge.partitioning, degree[edge.upstream], degree[edge.downstream])
            for edge in self.edges
        }

    def substream_tasks(self, edge: Edge) -> Routes:
        """Return the task numbers at both ends of every substream, in the order of `routes`."""
        senders, receivers = self.routes(edge)
        return senders + self._first_task[edge.upstream], (
            receivers + self._first_task[edge.downstream]
        )

    def shares(self, edge: Edge) -> csr_array:
        """Return the fraction of each upstream task's output for each downstream task.

        Shape ``(upstream tasks, downstream tasks)``; every row sums to 1."""
        return self._shares[edge]

    @cached_property
    def _shares(self) -> Mapping[Edge, csr_array]:
        return {edge: self._divided(edge) for edge in self.edges}

    def _divided(self, edge: Edge) -> csr_array:
        upstream, downstream = self.operator(edge.upstream), self.operator(edge.downstream)
        rows, columns = self.routes(edge)
        weights = np.asarray(downstream.weights or np.ones(downstream.parallelism), dtype=float)
        sent = np.bincount(rows, weights=weights[columns], minlength=upstream.parallelism)
        share = weights[columns] / sent[rows]
        return csr_array(
            (share, (rows, columns)), shape=(upstream.parallelism, downstream.parallelism)
        )

    def substreams(self, edge: Edge) -> csr_array:
        """Return the failure-free rate of every substream of ``edge``, in tuples per second.

        Shape ``(upstream tasks, downstream tasks)``."""
        return self._substreams[edge]

    def input_rates(self, operator: str) -> Floats:
        """Return the failure-free tuples per second into each task of ``operator``."""
        return self.task_input_rates[self.tasks(operator)]

    def output_rates(self, operator: str) -> Floats:
        """Return the failure-free tuples per second out of each task of ``operator``."""
        return self.task_output_rates[self.tasks(operator)]

    @property
    def task_input_rates(self) -> Floats:
        """Failure-free tuples per second into each task, shape ``(tasks,)``."""
        return self._rates[0]

    @property
    def task_output_rates(self) -> Floats:
        """Failure-free tuples per second out of each task, shape ``(tasks,)``."""
        return self._rates[1]

    @cached_property
    def _substreams(self) -> Mapping[Edge, csr_array]:
        found = {}
        for edge in self.edges:
            shares = self.shares(edge)
            per_route = np.repeat(self.output_rates(edge.upstream), np.diff(shares.indptr))
            found[edge] = csr_array(
                (shares.data * per_route, shares.indices, shares.indptr), shape=shares.shape
            )
        return found

    @cached_property
    def _rates(self) -> tuple[Floats, Floats]:
        into, out = np.zeros(self.task_count), np.zeros(self.task_count)
        for name in self.order:
            operator, tasks = self._by_name[name], self.tasks(name)
            if operator.rate is not None:
                into[tasks] = operator.rate
            streams = [
                out[self.tasks(edge.upstream)] @ self.shares(edge) for edge in self.inputs(name)
            ]
            for stream in streams:
                into[tasks] += stream
            product = operator.join and self.join_rates is JoinRates.PRODUCT
            with np.errstate(over="ignore"):  # `_check_queries` names the sink
                effective = np.prod(streams, axis=0) if product else into[tasks]
                out[tasks] = operator.selectivity * effective
        assert (into >= 0).all(), "no rate is negative"
        into.setflags(write=False)
        out.setflags(write=False)
        return into, out

    # Validation

    def _check_edge(self, edge: Edge) -> None:
        for name in (edge.upstream, edge.downstream):
            if name not in self._by_name:
                raise UsageError(
                    f"edge {edge} names an operator {name!r} that is not there",
                    remedy=did_you_mean(name, self._by_name),
                )
        unfit = why_unfit(
            edge.partitioning,
            self._by_name[edge.upstream].parallelism,
            self._by_name[edge.downstream].parallelism,
        )
        if unfit:
            raise UsageError(f"edge {edge}: {unfit[0]}", remedy=unfit[1])

    def _sorted(self) -> tuple[str, ...]:
        graph = TopologicalSorter({name: list(self.upstream(name)) for name in self._by_name})
        try:
            return tuple(graph.static_order())
        except CycleError as error:
            cycle = " -> ".join(reversed(error.args[1]))
            raise UsageError(
                f"the edges form a cycle: {cycle}",
                remedy="take one of these edges away; a topology is acyclic",
            ) from None

    def _default_queries(self) -> tuple[Query, ...]:
        return tuple(
            Query(name=operator.name, sink=operator.name)
            for operator in self.operators
            if not self.outputs(operator.name)
        )

    def _check_inputs(self) -> None:
        for operator in self.operators:
            edges = self.inputs(operator.name)
            if not edges and operator.rate is None:
                raise UsageError(
                    f"operator {operator.name!r} has no input",
                    remedy="give it an edge from another operator, or a rate if it is a source",
                )
            if edges and operator.rate is not None:
                raise UsageError(
                    f"operator {operator.name!r} has a rate and an edge from {edges[0].upstream!r}",
                    remedy="only sources have a rate: take the rate or the edge away",
                )

    def _check_queries(self) -> None:
        for query in self.queries:
            if query.sink not in self._by_name:
                raise UsageError(
                    f"query {query.name!r} has a sink {query.sink!r} that is no operator",
                    remedy=did_you_mean(query.sink, self._by_name),
                )
            if not isfinite(self.output_rates(query.sink).sum()):
                raise UsageError(
                    f"the rate of {query.sink!r}, the sink of query {query.name!r}, is beyond all "
                    "numbers",
                    remedy="give smaller rates or selectivities upstream of it",
                )
            if self.output_rates(query.sink).sum() <= 0:
                raise UsageError(
                    f"no tuple reaches {query.sink!r}, the sink of query {query.name!r}",
                    remedy="give a source upstream of it a rate above 0",
                )
        if sum(query.priority for query in self.queries) == 0:
            raise UsageError(
                "every query has priority 0", remedy="give at least one query a priority above 0"
            )


def _check_names(kind: str, names: list[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise UsageError(f"{kind} {name!r} is given twice", remedy="take one of them away")
