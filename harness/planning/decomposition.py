"""Sub-topologies and units of the structure-aware planner (ppa TKDE, sections 4.1 and 4.3).

* A query falls into **sub-topologies**, which only full edges connect: operators that other edges
  connect are a structured sub-topology; the operators that only full edges touch form the full
  ones. These are the fewest sub-topologies with full edges between them, as the paper requires.
* A structured sub-topology falls into **units**, so that a unit has about as many MC-trees as
  its widest operator has input substreams. A unit's MC-trees are **segments**.

Unit boundaries lie on the input edges of an operator whose trees would multiply: a join's merge
edges (Fig. 3b), and every input edge of an independent operator that chooses among several
substreams and whose own output is chosen from again, by a split or by several readers (Fig. 3a).
These two rules of the paper do not cover every way in which trees multiply; `Readings` has the
limits above which a unit is cut further, into single operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from harness.planning.readings import MOST_SEGMENTS, PRINTED, Readings
from harness.topology.model import Edge, Topology
from harness.topology.partitioning import Partitioning
from harness.topology.trees import Tree, TreeBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTopology:
    """Operators of one query that are planned together."""

    full: bool
    """True if only full edges connect its operators."""
    operators: tuple[str, ...]
    """In topological order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A part of a structured sub-topology with few MC-trees."""

    operators: tuple[str, ...]
    edges: tuple[Edge, ...]
    segments: tuple[Tree, ...]
    """Its MC-trees, as task numbers."""


def decompose(topology: Topology, sink: str) -> list[SubTopology]:
    """Return the sub-topologies of the query that ends in ``sink``, upstream first."""
    members = topology.ancestors(sink)
    edges = [edge for edge in topology.edges if edge.downstream in members]
    tight = [edge for edge in edges if edge.partitioning is not Partitioning.FULL]
    groups = _connected([name for name in topology.order if name in members], tight)
    alone = {group[0] for group in groups if len(group) == 1}
    loose = [edge for edge in edges if edge.upstream in alone and edge.downstream in alone]
    found = [SubTopology(full=False, operators=group) for group in groups if len(group) > 1]
    found += [
        SubTopology(full=True, operators=group)
        for group in _connected([name for name in topology.order if name in alone], loose)
    ]
    covered = [name for each in found for name in each.operators]
    assert len(covered) == len(members), "every operator of the query is in one sub-topology"
    assert members == set(covered)
    return sorted(found, key=lambda each: topology.order.index(each.operators[0]))


def units(
    topology: Topology, sub: SubTopology, *, joins: bool = True, readings: Readings = PRINTED
) -> list[Unit]:
    """Return the units of a structured sub-topology, upstream before downstream."""
    assert not sub.full, "only a structured sub-topology has units"
    inside = [
        edge
        for edge in topology.edges
        if edge.upstream in sub.operators and edge.downstream in sub.operators
    ]
    kept = [edge for edge in inside if not _is_boundary(topology, edge, inside, joins=joins)]
    found: list[Unit] = []
    for group in _connected(sub.operators, kept):
        found += _segmented(topology, group, kept, joins=joins, readings=readings)
    assert sorted(name for unit in found for name in unit.operators) == sorted(sub.operators)
    return found


def _is_boundary(topology: Topology, edge: Edge, inside: list[Edge], *, joins: bool) -> bool:
    name = edge.downstream
    if edge.partitioning is Partitioning.FULL:
        return True
    inputs = [each for each in inside if each.downstream == name]
    merges = [each for each in inputs if each.partitioning is Partitioning.MERGE]
    if joins and topology.operator(name).join and len(inputs) > 1:
        return edge in merges
    outputs = [each for each in inside if each.upstream == name]
    chosen_again = len(outputs) > 1 or any(
        each.partitioning is Partitioning.SPLIT for each in outputs
    )
    return chosen_again and (bool(merges) or len(inputs) > 1)


def _segmented(
    topology: Topology,
    group: tuple[str, ...],
    kept: Collection[Edge],
    *,
    joins: bool,
    readings: Readings,
) -> list[Unit]:
    edges = tuple(edge for edge in kept if edge.upstream in group and edge.downstream in group)
    builder = TreeBuilder(topology, group, edges, joins=joins)
    sinks = [name for name in group if all(edge.upstream != name for edge in edges)]
    most = MOST_SEGMENTS
    if readings.segments_per_task is not None:
        tasks = sum(topology.operator(name).parallelism for name in group)
        most = min(most, readings.segments_per_task * tasks)
    if len(group) > 1 and sum(builder.count(sink) for sink in sinks) > most:
        return [
            unit
            for name in group
            for unit in _segmented(topology, (name,), (), joins=joins, readings=readings)
        ]
    segments = dict.fromkeys(tree for sink in sinks for tree in builder.trees(sink))
    return [Unit(operators=group, edges=edges, segments=tuple(segments))]


def _connected(names: Iterable[str], edges: Collection[Edge]) -> list[tuple[str, ...]]:
    """Group ``names`` by the ``edges`` between them, in the order of each group's first name."""
    group = {name: [name] for name in names}
    order = {name: position for position, name in enumerate(group)}
    for edge in edges:
        if edge.upstream not in group or edge.downstream not in group:
            continue
        one, other = group[edge.upstream], group[edge.downstream]
        if one is not other:
            one += other
            group.update(dict.fromkeys(other, one))
    found = {id(members): members for members in group.values()}
    groups = [tuple(sorted(members, key=order.__getitem__)) for members in found.values()]
    return sorted(groups, key=lambda members: order[members[0]])
