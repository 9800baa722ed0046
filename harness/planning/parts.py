"""The two kinds of part that a structure-aware plan grows in, and the steps each proposes.

A step is a set of tasks that are worth replicating together: a segment that completes an MC-tree
of a structured sub-topology (003, Algorithm 1), or the next task of an operator that only full
edges touch (Algorithm 2). Its local gain is what it adds to the objective if every task outside
the part were alive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from harness.planning.decomposition import SubTopology, Unit, decompose, units
from harness.topology.fidelity import Booleans, Evaluator
from harness.topology.model import Edge, Topology
from harness.topology.partitioning import routes
from harness.topology.trees import Tree

GAIN = 1e-12
"""Less than this is rounding."""


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks to replicate together."""

    tasks: Booleans
    """Flags over all tasks; may include replicated ones."""
    operators: frozenset[str]
    """Those that ``tasks`` belong to."""
    gain: float
    """Of the objective, by whatever measure the proposer has."""
    cost: int
    """Of those not replicated yet."""

    @property
    def density(self) -> float:
        """Gain per resource unit, what steps are ranked by."""
        return self.gain / self.cost if self.cost else 0.0


class Part(ABC):
    """Operators whose replication is decided together, for one query."""

    operators: tuple[str, ...]

    @abstractmethod
    def steps(self, plan: Booleans, budget: int) -> list[Step]:
        """What could be added to ``plan`` within ``budget`` units, best density first."""


class FullOperator(Part):
    """One operator of a full sub-topology: its tasks, in the order of what each is worth."""

    def __init__(self, evaluator: Evaluator, name: str) -> None:
        self.operators = (name,)
        own = evaluator.topology.tasks(name)
        self._worth = evaluator.influence[own].round(12)
        self._tasks = own.start + np.argsort(-self._worth, kind="stable")
        self._cost = evaluator.topology.operator(name).cost
        self._first = own.start

    def steps(self, plan: Booleans, budget: int) -> list[Step]:
        """The most valuable task that is not replicated yet."""
        left = self._tasks[~plan[self._tasks]]
        if not len(left) or self._cost > budget:
            return []
        tasks = np.zeros(len(plan), dtype=np.bool_)
        tasks[left[0]] = True
        worth = float(self._worth[left[0] - self._first])
        return [Step(tasks, frozenset(self.operators), worth, self._cost)]


class Structured(Part):
    """A structured sub-topology: its segments, completed to MC-trees where they need others."""

    def __init__(self, evaluator: Evaluator, sub: SubTopology) -> None:
        topology = evaluator.topology
        self.operators = sub.operators
        self._topology = topology
        self._values = evaluator.local(sub.operators)
        self._units = units(topology, sub, joins=evaluator.joins)
        self._segments = _as_flags(self._units, topology.task_count)
        self._unit_of = np.repeat(
            np.arange(len(self._units)), [len(unit.segments) for unit in self._units]
        )
        self._weights = self._unit_weights(evaluator)
        needs = _needs(topology, sub, self._units, joins=evaluator.joins)
        self._tasks_of = [segment for unit in self._units for segment in unit.segments]
        self._needs_of = [
            list(dict.fromkeys(far for task in sorted(segment) for far in needs.get(task, ())))
            for segment in self._tasks_of
        ]
        self._rows_through = {
            far: np.flatnonzero(self._segments[:, sorted(far)].any(axis=1))
            for far in dict.fromkeys(far for fars in self._needs_of for far in fars)
        }

    def _unit_weights(self, evaluator: Evaluator) -> NDArray[np.float64]:
        """What each segment gives with its unit treated as an independent topology."""
        found = [
            evaluator.local(unit.operators)(self._segments[self._unit_of == number])
            for number, unit in enumerate(self._units)
        ]
        return np.concatenate(found)

    def steps(self, plan: Booleans, budget: int) -> list[Step]:
        """Every segment that is not replicated yet, alone if that adds to the objective and
        otherwise with the segments that it needs; none that exceeds the budget."""
        new = self._segments & ~plan
        costs = new @ self._topology.costs
        open_ = np.flatnonzero((costs > 0) & (costs <= budget))
        if not len(open_):
            return []
        candidates = self._segments[open_].copy()
        values = self._values(np.vstack([plan, plan | candidates]))
        useless = np.flatnonzero(values[1:] <= values[0] + GAIN)
        if len(useless) and len(self._units) > 1:
            worth = self._weights / np.maximum(new @ self._topology.costs, 1e-9)
            choice = {
                far: int(rows[worth[rows].argmax()])
                for far, rows in self._rows_through.items()
                if len(rows)
            }
            for row in useless:
                candidates[row, sorted(self._completed(int(open_[row]), choice))] = True
            values[1:][useless] = self._values(plan | candidates[useless])
        gains = values[1:] - values[0]
        costs = (candidates & ~plan) @ self._topology.costs
        return self._ranked(candidates, gains, costs, budget)

    def segments_per_task(self) -> NDArray[np.int64]:
        """In how many segments each task is, shape ``(tasks,)``."""
        return np.asarray(self._segments.sum(axis=0))

    def _completed(self, segment: int, choice: Mapping[Tree, int]) -> set[int]:
        """The tasks of ``segment`` and of connected segments in other units, until nothing is
        missing: the paper's breadth-first search over units. ``choice`` is, for tasks of which
        one is needed, the segment with one of them that gives most per unit it still costs."""
        chosen = set(self._tasks_of[segment])
        pending = [segment]
        while pending:
            for far in self._needs_of[pending.pop(0)]:
                if chosen.isdisjoint(far) and far in choice:
                    chosen |= self._tasks_of[choice[far]]
                    pending.append(choice[far])
        return chosen

    def _ranked(
        self,
        tasks: Booleans,
        gains: NDArray[np.float64],
        costs: NDArray[np.int64],
        budget: int,
    ) -> list[Step]:
        """Steps with a gain and within the budget, best density first, ties in their order."""
        useful = np.flatnonzero((gains > GAIN) & (costs > 0) & (costs <= budget))
        density = (gains[useful] / costs[useful]).round(12)
        order = useful[np.argsort(-density, kind="stable")]
        kept = tasks[order]
        touched = np.array(
            [kept[:, self._topology.tasks(name)].any(axis=1) for name in self.operators]
        ).T
        return [
            Step(
                tasks[row],
                frozenset(compress(self.operators, flags)),
                float(gains[row]),
                int(costs[row]),
            )
            for row, flags in zip(order, touched.tolist(), strict=True)
        ]


def parts_of(evaluator: Evaluator, sink: str) -> list[Part]:
    """The parts of the query that ends in ``sink``."""
    parts: list[Part] = []
    for sub in decompose(evaluator.topology, sink):
        if sub.full:
            parts += [FullOperator(evaluator, name) for name in sub.operators]
        else:
            parts.append(Structured(evaluator, sub))
    return parts


def _as_flags(cut: Sequence[Unit], count: int) -> Booleans:
    segments = [segment for unit in cut for segment in unit.segments]
    flags = np.zeros((len(segments), count), dtype=np.bool_)
    for row, segment in enumerate(segments):
        flags[row, list(segment)] = True
    return flags


Needs = Mapping[int, Sequence[Tree]]
"""Per task on a unit boundary: sets of tasks beyond it, of each of which it needs one."""


def _needs(topology: Topology, sub: SubTopology, cut: Sequence[Unit], *, joins: bool) -> Needs:
    """Upstream, a join needs every boundary edge, and an independent operator without input in
    its own unit any one of them; downstream, the last operator of a unit needs one reader."""
    kept = {edge for unit in cut for edge in unit.edges}
    needs: dict[int, list[Tree]] = {}
    for name in sub.operators:
        inputs = [edge for edge in topology.inputs(name) if edge.upstream in sub.operators]
        boundary = [edge for edge in inputs if edge not in kept]
        if joins and topology.operator(name).join:
            groups = [[edge] for edge in boundary]
        else:
            groups = [boundary] if len(boundary) == len(inputs) else []
        for group in groups:
            _add_needs(topology, needs, group, upward=True)
        outputs = [edge for edge in topology.outputs(name) if edge.downstream in sub.operators]
        if not any(edge in kept for edge in outputs):
            _add_needs(topology, needs, outputs, upward=False)
    return needs


def _add_needs(
    topology: Topology, needs: dict[int, list[Tree]], edges: list[Edge], *, upward: bool
) -> None:
    far: dict[int, list[int]] = {}
    for edge in edges:
        up, down = topology.tasks(edge.upstream), topology.tasks(edge.downstream)
        rows, columns = routes(edge.partitioning, up.stop - up.start, down.stop - down.start)
        senders, receivers = (rows + up.start).tolist(), (columns + down.start).tolist()
        for sender, receiver in zip(senders, receivers, strict=True):
            near, beyond = (receiver, sender) if upward else (sender, receiver)
            far.setdefault(near, []).append(beyond)
    for near, tasks in far.items():
        needs.setdefault(near, []).append(frozenset(tasks))
