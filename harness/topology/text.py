"""User topologies in YAML.

::

    operators:
      - {name: vehicles, parallelism: 4, rate: [100, 100, 50, 50]}  # a source: tuples/s per task
      - {name: speed, parallelism: 2, selectivity: 0.5, cost: 2}
      - {name: jam, parallelism: 2, join: true}                     # correlated inputs
    edges:
      - {from: vehicles, to: speed, partitioning: merge}
      - {from: speed, to: jam, partitioning: one-to-one}
    queries:                                                        # optional
      - {name: alarms, sink: jam, priority: 1}

An operator may also have ``weights``, a share per task for the full and split streams into it.
A ``rate`` that is one number is the rate of every task."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, structs

from harness.errors import UsageError
from harness.topology.model import Edge, Operator, Query, Topology
from harness.topology.partitioning import Partitioning
from harness.yaml_files import Entry, Word, decode, parse_yaml

MOST_TASKS = 2_000
"""Limit per operator. A full edge has the product of its operators' tasks as substreams, and no
plan of the papers has more than dozens."""
MOST_UNITS = 1_000_000
_EXAMPLE = "see `./faultline plan --help` for the format"


class _Operator(Entry):
    name: Word
    parallelism: Annotated[int, Meta(ge=1, le=MOST_TASKS)] = 1
    join: bool = False
    selectivity: float = 1.0
    weights: float | list[float] | None = None
    rate: float | list[float] | None = None
    cost: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 1

    def operator(self) -> Operator:
        return Operator(
            **structs.asdict(self)
            | {"weights": self._per_task(self.weights), "rate": self._per_task(self.rate)}
        )

    def _per_task(self, given: float | list[float] | None) -> tuple[float, ...] | None:
        if given is None:
            return None
        return tuple(given) if isinstance(given, list) else (given,) * self.parallelism


class _Edge(Entry, rename={"upstream": "from", "downstream": "to"}):
    upstream: Word
    downstream: Word
    partitioning: Partitioning


class _Query(Entry):
    sink: Word
    name: Word | None = None
    priority: Annotated[int, Meta(ge=0, le=MOST_UNITS)] = 1


class _Document(Entry):
    operators: list[_Operator]
    edges: list[_Edge] | None = None
    queries: list[_Query] | None = None


def from_yaml_text(text: str, *, name: str = "the topology") -> Topology:
    """Return the topology in ``text``; ``name`` is its name in errors (the file).

    Raises `UsageError` that names the line, operator, edge or query at fault."""
    document = parse_yaml(text, name=name, remedy=_EXAMPLE)
    if not isinstance(document, dict) or "operators" not in document:
        raise UsageError(f"{name} is not a topology: it has no list of operators", remedy=_EXAMPLE)
    given = decode(_Document, document, name=name, remedy=_EXAMPLE)
    try:
        return Topology(
            operators=tuple(each.operator() for each in given.operators),
            edges=tuple(Edge(**structs.asdict(each)) for each in given.edges or ()),
            queries=tuple(
                Query(name=each.name or each.sink, sink=each.sink, priority=each.priority)
                for each in given.queries or ()
            ),
        )
    except UsageError as error:
        raise UsageError(f"{name}: {error.what}", remedy=error.remedy) from None
