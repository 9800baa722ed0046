"""Minimal complete trees: the task sets that give output alone (ppa TKDE, Definition 1).

A task needs, as an independent operator's, one of its substreams; as a join's, one of each input
stream's. An MC-tree is a sink task with what it needs, back to the sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product
from math import prod

from harness.errors import UsageError
from harness.topology.model import Edge, Topology

Tree = frozenset[int]
"""Task numbers."""


class TreeBuilder:
    """MC-trees of one part of a topology, its ``operators`` and ``edges``.

    An operator without an input edge in the part counts as a source of it. Without
    ``joins`` every operator is treated as an independent one."""

    def __init__(
        self,
        topology: Topology,
        operators: Collection[str],
        edges: Collection[Edge],
        *,
        joins: bool = True,
    ) -> None:
        self._topology = topology
        self._joins = frozenset(
            operator.name for operator in topology.operators if joins and operator.join
        )
        self._inputs = {
            name: [edge for edge in topology.inputs(name) if edge in edges] for name in operators
        }
        self._order = [name for name in topology.order if name in self._inputs]
        self.substreams: dict[int, list[list[int]]] = {}
        """For each task and input stream the upstream tasks that feed it."""
        for name in self._order:
            self._find_substreams(name)

    def _find_substreams(self, name: str) -> None:
        own = self._topology.tasks(name)
        for task in range(own.start, own.stop):
            self.substreams[task] = [[] for _ in self._inputs[name]]
        for number, edge in enumerate(self._inputs[name]):
            senders, receivers = self._topology.substream_tasks(edge)
            for sender, receiver in zip(senders.tolist(), receivers.tolist(), strict=True):
                self.substreams[receiver][number].append(sender)

    def count(self, sink: str) -> int:
        """Return the number of MC-trees that end in ``sink``, without listing them.

        Exact if every operator of the part feeds one operator only, or if none joins; otherwise an
        upper bound, because two branches of a tree may meet again upstream."""
        counts: dict[int, int] = {}
        for name in self._order:
            join = name in self._joins
            own = self._topology.tasks(name)
            for task in range(own.start, own.stop):
                per_stream = [sum(counts[up] for up in fed) for fed in self.substreams[task]]
                counts[task] = _combined(per_stream, join=join)
        own = self._topology.tasks(sink)
        return sum(counts[task] for task in range(own.start, own.stop))

    def trees(self, sink: str) -> list[Tree]:
        """Return all MC-trees that end in ``sink``, each once, sink tasks in order.

        Where branches meet again upstream of a join, a task may be in a tree with one substream
        for each branch."""
        own = self._topology.tasks(sink)
        memory: dict[int, list[Tree]] = {}
        found: dict[Tree, None] = {}
        for task in range(own.start, own.stop):
            found.update(dict.fromkeys(self._ending_in(task, memory)))
        return list(found)

    def _ending_in(self, task: int, memory: dict[int, list[Tree]]) -> list[Tree]:
        if task not in memory:
            streams = self.substreams[task]
            join = self._topology.place(task)[0] in self._joins
            memory[task] = [
                frozenset({task}).union(*parts)
                for parts in _choices(streams, join, lambda up: self._ending_in(up, memory))
            ]
        return memory[task]


def _combined(per_stream: list[int], *, join: bool) -> int:
    if not per_stream:
        return 1
    return prod(per_stream) if join else sum(per_stream)


def _choices(
    streams: list[list[int]], join: bool, below: Callable[[int], list[Tree]]
) -> Iterator[tuple[Tree, ...]]:
    if not streams:
        yield ()
        return
    per_stream = [[tree for up in fed for tree in below(up)] for fed in streams]
    if join:
        yield from product(*per_stream)
    else:
        for options in per_stream:
            yield from ((tree,) for tree in options)


def _query_part(topology: Topology, sink: str) -> TreeBuilder:
    operators = topology.ancestors(sink)
    edges = [edge for edge in topology.edges if edge.downstream in operators]
    return TreeBuilder(topology, operators, edges)


def mc_trees(topology: Topology, sink: str | None = None, *, limit: int = 100_000) -> list[Tree]:
    """Return every MC-tree of the query that ends in ``sink``, or of all queries.

    Raises `UsageError` if there are more than ``limit``, before listing them."""
    sinks = [sink] if sink else sorted({query.sink for query in topology.queries})
    found: dict[Tree, None] = {}
    for name in sinks:
        builder = _query_part(topology, name)
        count = builder.count(name)
        if count > limit:
            raise UsageError(
                f"the query that ends in {name!r} has {count:,} MC-trees, more than {limit:,}",
                remedy="use a planner that does not list them: sa, greedy or optimum",
            )
        found.update(dict.fromkeys(builder.trees(name)))
    return list(found)
