"""Output fidelity and internal completeness of many plans at once.

Both are linear readings of one thing, the fraction of its failure-free output that each task
still gives (``1 - IL_out`` of ppa TKDE, equations 1-3) while the tasks outside the plan have
failed. One pass over the operators in topological order carries that fraction for all plans
together; inside are arrays of shape ``(tasks, plans)``, so that a row is one task.

* Output fidelity (equation 4): of a query, the sink tasks' fractions weighted by output rate.
* Internal completeness (Bellavista et al., EDBT'14, for one configuration and the worst case):
  tuples that alive tasks still take in over tuples that all tasks take in without failure. It
  ignores joins: a join passes on whatever arrives.

A stream that carries nothing without failure counts its substreams equally."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from harness.topology.model import Edge, Topology
from harness.topology.partitioning import Partitioning

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

Stream = Callable[[Floats], Floats]
"""Upstream fractions ``(upstream tasks, plans)`` to an input stream's fractions, of shape
``(downstream tasks, plans)`` or, where all tasks get the same, ``(plans,)``."""

_Backward = tuple[slice, list[tuple[slice, Stream, Floats, csr_array | Floats]], bool]
_DENSE = 1 << 14
"""Size up to which a matrix of substreams is multiplied faster with its zeros."""


class Objective(StrEnum):
    """The measure of a plan."""

    OF = "of"
    """Output fidelity, of several queries their mean weighted by priority."""
    IC = "ic"
    """Internal completeness."""


class Evaluator:
    """One topology, prepared to judge plans by one objective.

    A plan is a boolean array of length ``tasks``: True where a task is alive, because it did not
    fail or because an active replica took over. All methods take ``(plans, tasks)`` or one plan
    ``(tasks,)``."""

    def __init__(self, topology: Topology, objective: Objective = Objective.OF) -> None:
        self.topology = topology
        self.objective = objective
        self.joins = objective is Objective.OF
        self._steps = [
            _step(topology, name, joins=self.joins, place=topology.tasks) for name in topology.order
        ]
        self.reading = _reading(topology, objective)
        """Weight of each task's fraction in the objective, shape ``(tasks,)``."""
        assert (self.reading >= 0).all(), "no output makes the objective worse"
        self._readers = np.flatnonzero(self.reading)
        self._by_query = _query_readings(topology)

    def values(self, alive: ArrayLike) -> Floats:
        """Return the objective of every plan, in [0, 1]; shape ``(plans,)``."""
        fractions = self._fractions(alive)
        read: Floats = self.reading[self._readers] @ fractions[self._readers]
        assert read.max(initial=0.0) <= 1 + 1e-9, "a fraction of the failure-free output"
        return np.clip(read, 0.0, 1.0)

    def value(self, alive: ArrayLike) -> float:
        """Return the objective of one plan."""
        return float(self.values(alive)[0])

    def by_query(self, alive: ArrayLike) -> Floats:
        """Return output fidelity of every plan for every query, shape ``(plans, queries)``."""
        assert self.objective is Objective.OF
        read: Floats = (self._by_query @ self._fractions(alive)).T
        return np.clip(read, 0.0, 1.0)

    def _fractions(self, alive: ArrayLike) -> Floats:
        plans = np.atleast_2d(np.asarray(alive, dtype=np.bool_))
        assert plans.shape[1] == self.topology.task_count, "one flag per task"
        fractions = np.ascontiguousarray(plans.T, dtype=np.float64)
        for step in self._steps:
            step(fractions)
        return fractions

    def gains(self, alive: ArrayLike) -> Floats:
        """Return the change of the objective by every task alone; shape ``(plans, tasks)``.

        It is the gain of one task more, or the loss of one less where the plan has it; never
        negative. Exact unless branches of the task meet again in a join, where it is the
        derivative. A task of the plan whose gain is 0 gives nothing."""
        plans = np.atleast_2d(np.asarray(alive, dtype=np.bool_))
        flags = np.ascontiguousarray(plans.T, dtype=np.float64)
        into, fractions = np.ones_like(flags), np.empty_like(flags)
        streams_of = {}
        for own, edges, correlated in self._backward:
            streams = [
                np.broadcast_to(surviving(fractions[upstream]), flags[own].shape)
                for upstream, surviving, _, _ in edges
            ]
            if correlated:
                into[own] = np.prod(streams, axis=0)
            elif edges:
                into[own] = sum(
                    weight * each for each, (_, _, weight, _) in zip(streams, edges, strict=True)
                )
            fractions[own] = flags[own] * into[own]
            streams_of[own.start] = streams
        worth = np.repeat(self.reading[:, None], flags.shape[1], axis=1)
        for own, edges, correlated in reversed(self._backward):
            read, streams = worth[own] * flags[own], streams_of[own.start]
            for position, (upstream, _, weight, back) in enumerate(edges):
                if correlated:
                    others = streams[:position] + streams[position + 1 :]
                    share = np.prod(others, axis=0) if others else 1.0
                else:
                    share = weight
                worth[upstream] += back @ (read * share)
        return np.asarray((worth * into).T)

    @cached_property
    def _backward(self) -> Sequence[_Backward]:
        """Each operator, upstream first: its tasks, its input edges, and True if it joins.

        An input edge is its upstream tasks, the function from their fractions to the stream's, the
        weight of the stream for each task, and the weights of the substreams as a matrix."""
        topology = self.topology
        found: list[_Backward] = []
        for name in topology.order:
            edges = []
            shares = input_weights(topology, name) if topology.inputs(name) else ()
            for edge, share in zip(topology.inputs(name), shares, strict=True):
                upstream = topology.tasks(edge.upstream)
                edges.append((
                    upstream, stream(topology, edge), share[:, None], _matrix(topology, edge)
                ))  # fmt: skip
            correlated = self.joins and topology.operator(name).join
            found.append((topology.tasks(name), edges, correlated))
        return found

    def local(self, operators: Collection[str]) -> Local:
        """Return the objective with every other task alive, up to a constant."""
        edges = [
            self._edge_influence[edge]
            for edge in self.topology.edges
            if edge.upstream in operators and edge.downstream not in operators
        ]
        return Local(self, operators, np.asarray(self.reading + sum(edges)))

    @cached_property
    def influence(self) -> Floats:
        """Loss of the objective per lost fraction of each task's output, shape ``(tasks,)``.

        All other tasks are alive. Exact unless branches meet again in a join."""
        return np.asarray(self.reading + sum(self._edge_influence.values()))

    @cached_property
    def _edge_influence(self) -> Mapping[Edge, Floats]:
        """The influence through one edge alone, by edge; zero for tasks not upstream of it."""
        topology = self.topology
        total = self.reading.copy()
        found = {}
        for name in reversed(topology.order):
            own = total[topology.tasks(name)]
            correlated = self.joins and topology.operator(name).join
            edges = topology.inputs(name)
            shares = None if correlated or not edges else input_weights(topology, name)
            for position, edge in enumerate(edges):
                into = own if shares is None else own * shares[position]
                rows, columns = topology.routes(edge)
                sent = np.zeros(topology.task_count)
                upstream = topology.tasks(edge.upstream)
                sent[upstream] = np.bincount(
                    rows,
                    weights=substream_weights(topology, edge) * into[columns],
                    minlength=upstream.stop - upstream.start,
                )
                found[edge] = sent
                total += sent
        return found


class Local:
    """The objective of a few operators of an evaluator's topology, all others alive.

    Where branches meet again in a join outside, it is a first-order estimate."""

    def __init__(self, evaluator: Evaluator, operators: Collection[str], reading: Floats) -> None:
        topology = evaluator.topology
        names = [name for name in topology.order if name in operators]
        places: dict[str, slice] = {}
        first = 0
        for name in names:
            last = first + topology.operator(name).parallelism
            places[name] = slice(first, last)
            first = last
        self.tasks = np.concatenate([np.r_[topology.tasks(name)] for name in names])
        """The numbers of the operators' tasks in the whole topology."""
        self._steps = [
            _step(topology, name, joins=evaluator.joins, place=places.get) for name in names
        ]
        self._reading = reading[self.tasks]
        self._readers = np.flatnonzero(self._reading)

    def values(self, alive: Booleans) -> Floats:
        """Return the objective of plans, ``(plans, len(tasks)) -> (plans,)``."""
        fractions = np.ascontiguousarray(alive.T, dtype=np.float64)
        for step in self._steps:
            step(fractions)
        return np.asarray(self._reading[self._readers] @ fractions[self._readers])


def output_fidelity(topology: Topology, alive: ArrayLike) -> Floats:
    """Return the output fidelity for every query: ``(plans, tasks) -> (plans, queries)``."""
    return Evaluator(topology).by_query(alive)


def internal_completeness(topology: Topology, alive: ArrayLike) -> Floats:
    """Return the internal completeness: ``(plans, tasks) -> (plans,)``."""
    return Evaluator(topology, Objective.IC).values(alive)


def _query_readings(topology: Topology) -> Floats:
    readings = np.zeros((len(topology.queries), topology.task_count))
    for row, query in enumerate(topology.queries):
        rates = topology.output_rates(query.sink)
        readings[row, topology.tasks(query.sink)] = rates / rates.sum()
    return readings


def _reading(topology: Topology, objective: Objective) -> Floats:
    if objective is Objective.IC:
        rates = topology.task_input_rates
        return np.asarray(rates / rates.sum())
    priorities = np.array([query.priority for query in topology.queries], dtype=float)
    reading: Floats = (priorities / priorities.sum()) @ _query_readings(topology)
    return reading


def _step(
    topology: Topology, name: str, *, joins: bool, place: Callable[[str], slice | None]
) -> Callable[[Floats], None]:
    """Return a function that multiplies the rows of operator ``name`` by its surviving input.

    The rows contain 1 or 0 for alive or failed. ``place`` returns the rows of an operator; one
    without rows is alive."""
    own = place(name)
    edges = topology.inputs(name)
    streams = [(place(edge.upstream), stream(topology, edge)) for edge in edges]
    correlated = joins and topology.operator(name).join
    present = [(upstream, surviving) for upstream, surviving in streams if upstream is not None]
    if not present:
        return lambda fractions: None
    if len(streams) == 1 or correlated:

        def multiply(fractions: Floats) -> None:
            for upstream, surviving in present:
                fractions[own] *= surviving(fractions[upstream])

        return multiply
    weights = [
        float(weight[0]) if np.ptp(weight) == 0 else weight
        for weight in input_weights(topology, name)
    ]
    outside = sum(
        weight if isinstance(weight, float) else weight[:, None]
        for weight, (upstream, _) in zip(weights, streams, strict=True)
        if upstream is None
    )
    inside = [
        (upstream, stream(topology, edge, weight=weight))
        for weight, edge, (upstream, _) in zip(weights, edges, streams, strict=True)
        if upstream is not None
    ]
    (first, from_first), *others = inside
    alone = isinstance(outside, int)  # the sum of nothing

    def add(fractions: Floats) -> None:
        total = from_first(fractions[first])
        for upstream, surviving in others:
            total = total + surviving(fractions[upstream])
        fractions[own] *= total if alone else total + outside

    return add


def input_weights(topology: Topology, name: str) -> Floats:
    """Return the weight of each input stream for each task of an independent operator.

    The shape is ``(input edges, tasks)``; every column sums to 1."""
    tasks = topology.operator(name).parallelism
    edges = topology.inputs(name)
    if len(edges) == 1:
        return np.ones((1, tasks))
    rates = np.array([
        np.bincount(topology.routes(edge)[1], weights=_rates(topology, edge), minlength=tasks)
        for edge in edges
    ])  # fmt: skip
    total = rates.sum(axis=0)
    return np.where(total > 0, rates / np.where(total > 0, total, 1.0), 1.0 / len(rates))


def _rates(topology: Topology, edge: Edge) -> Floats:
    """Return the failure-free rate of every substream, in the order of `routes`."""
    rows, _ = topology.routes(edge)
    return np.asarray(topology.output_rates(edge.upstream)[rows] * topology.shares(edge).data)


def substream_weights(topology: Topology, edge: Edge) -> Floats:
    """Return the weight of each substream in its input stream, in the order of `routes`.

    The weights of the substreams of one downstream task sum to 1."""
    _, columns = topology.routes(edge)
    into = topology.operator(edge.downstream).parallelism
    rates = _rates(topology, edge)
    total = np.bincount(columns, weights=rates, minlength=into)[columns]
    evenly = 1.0 / np.bincount(columns, minlength=into)[columns]
    return np.where(total > 0, rates / np.where(total > 0, total, 1.0), evenly)


def stream(topology: Topology, edge: Edge, *, weight: Floats | float = 1.0) -> Stream:
    """Return the function from fractions upstream of ``edge`` to those of its input stream.

    The result is multiplied by ``weight``, one for all downstream tasks or one for each."""
    rows, columns = topology.routes(edge)
    scale = weight if isinstance(weight, float) else weight[:, None]
    plain = isinstance(weight, float) and weight == 1.0
    match edge.partitioning:
        case Partitioning.ONE_TO_ONE:
            return (lambda upstream: upstream) if plain else (lambda upstream: scale * upstream)
        case Partitioning.SPLIT:
            if plain:
                return lambda upstream: upstream[rows]
            return lambda upstream: scale * upstream[rows]
        case Partitioning.MERGE:
            shares = substream_weights(topology, edge)
            shares *= weight if isinstance(weight, float) else weight[columns]
            size = topology.operator(edge.downstream).parallelism
            if len(rows) * size <= _DENSE:
                matrix = np.zeros((size, len(rows)))
                matrix[columns, rows] = shares
                return lambda upstream: matrix @ upstream
            starts = np.flatnonzero(np.diff(columns, prepend=-1))
            return lambda upstream: np.add.reduceat(shares[:, None] * upstream, starts, axis=0)
        case Partitioning.FULL:
            rates = topology.output_rates(edge.upstream)
            total = rates.sum()
            mix = rates / total if total > 0 else np.full(len(rates), 1.0 / len(rates))
            if isinstance(weight, float):
                mixed = weight * mix
                return lambda upstream: mixed @ upstream
            return lambda upstream: scale * (mix @ upstream)


def _matrix(topology: Topology, edge: Edge) -> csr_array | Floats:
    """Return `substream_weights` as a matrix ``(upstream, downstream tasks)``, dense if small."""
    weights, (rows, columns) = substream_weights(topology, edge), topology.routes(edge)
    shape = (
        topology.operator(edge.upstream).parallelism,
        topology.operator(edge.downstream).parallelism,
    )
    if shape[0] * shape[1] > _DENSE:
        return csr_array((weights, (rows, columns)), shape=shape)
    dense = np.zeros(shape)
    dense[rows, columns] = weights
    return dense
