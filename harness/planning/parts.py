"""The two kinds of part that a structure-aware plan grows in, and the steps each proposes.

A step is a set of tasks that are worth replicating together: a segment that completes an MC-tree
of a structured sub-topology (ppa TKDE, Algorithm 1), or the next task of an operator that only full
edges touch (Algorithm 2). Its local gain is what it adds to the objective if every task outside
the part were alive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import overload

import numpy as np
from numpy.typing import NDArray

from harness.planning.decomposition import SubTopology, Unit, decompose, units
from harness.planning.readings import PRINTED, Readings
from harness.topology.fidelity import Booleans, Evaluator
from harness.topology.model import Edge, Topology
from harness.topology.partitioning import routes
from harness.topology.trees import Tree

ROUNDING = 1e-14
"""A gain that is a smaller share of what there is already is rounding. It must be a share: behind
a few joins a whole MC-tree can be worth as little as 1e-13, and is still the way to all others."""


def significant(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``values`` to some 12 digits, so that equal ones tie whatever the order of summation."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(mantissa.round(12), exponent))


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


class Ranked(Sequence[Step]):
    """Steps of one part, best first, made into `Step` values only when one is looked at."""

    def __init__(
        self,
        topology: Topology,
        operators: tuple[str, ...],
        masks: Sequence[Booleans],
        *,
        places: NDArray[np.int64],
        tasks: Booleans,
        gains: NDArray[np.float64],
        costs: NDArray[np.float64],
    ) -> None:
        """``tasks`` are rows of flags over the part's tasks, whose numbers are ``places``;
        ``masks`` say which of them each operator has."""
        self._topology, self._operators, self._masks = topology, operators, masks
        self._places, self._tasks, self._gains, self._costs = places, tasks, gains, costs
        self._made: dict[int, Step] = {}
        self.most = float(costs.max(initial=0.0))
        """What the dearest costs."""

    def __len__(self) -> int:
        return len(self._gains)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        step = self._made.get(index)
        if step is None:
            step = self._made[index] = self._step(index)
        return step

    def _step(self, index: int) -> Step:
        row = self._tasks[index]
        tasks = np.zeros(self._topology.task_count, dtype=np.bool_)
        tasks[self._places] = row
        touched = [(row & mask).any() for mask in self._masks]
        operators = frozenset(compress(self._operators, touched))
        return Step(tasks, operators, float(self._gains[index]), round(float(self._costs[index])))

    def within(self, budget: int) -> Ranked:
        """Those that cost no more."""
        return self._some(np.flatnonzero(self._costs <= budget))

    def through(self, name: str) -> Step | None:
        """The first with a task of operator ``name``."""
        rows = np.flatnonzero(self._tasks[:, self._masks[self._operators.index(name)]].any(axis=1))
        return self[int(rows[0])] if len(rows) else None

    def reordered(self, worth: NDArray[np.float64]) -> Ranked:
        """By falling ``worth``, one number for each."""
        return self._some(np.argsort(-worth, kind="stable"))

    def _some(self, rows: NDArray[np.int64]) -> Ranked:
        return Ranked(
            self._topology,
            self._operators,
            self._masks,
            places=self._places,
            tasks=self._tasks[rows],
            gains=self._gains[rows],
            costs=self._costs[rows],
        )


class Part(ABC):
    """Operators whose replication is decided together, for one query."""

    operators: tuple[str, ...]

    @abstractmethod
    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """What could be added to ``plan`` within ``budget`` units, best density first; nothing
        that contains a ``barred`` task."""


class FullOperator(Part):
    """One operator of a full sub-topology: its tasks, in the order of what each is worth."""

    def __init__(self, evaluator: Evaluator, name: str) -> None:
        self.operators = (name,)
        self._topology = evaluator.topology
        own = evaluator.topology.tasks(name)
        self._places = np.arange(own.start, own.stop)
        self._worth = significant(evaluator.influence[own])
        self._order = np.argsort(-self._worth, kind="stable")
        self._cost = evaluator.topology.operator(name).cost
        self._mask = [np.ones(len(self._places), dtype=np.bool_)]

    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """The most valuable task that is not replicated yet."""
        taken = plan if barred is None else plan | barred
        left = self._order[~taken[self._places[self._order]]][: int(self._cost <= budget)]
        tasks = np.zeros((len(left), len(self._places)), dtype=np.bool_)
        tasks[np.arange(len(left)), left] = True
        return Ranked(
            self._topology,
            self.operators,
            self._mask,
            places=self._places,
            tasks=tasks,
            gains=self._worth[left],
            costs=np.full(len(left), float(self._cost)),
        )


class FullSubTopology(Part):
    """The operators of a full sub-topology together: one task of each, then the task whose own
    increase of the objective is largest, whatever the plan (`Readings.by_increase`)."""

    def __init__(self, evaluator: Evaluator, sub: SubTopology) -> None:
        topology = evaluator.topology
        self.operators, self._topology = sub.operators, topology
        own = [topology.tasks(name) for name in sub.operators]
        self._places = np.concatenate([np.arange(tasks.start, tasks.stop) for tasks in own])
        self._worth = significant(evaluator.influence[self._places])
        self._costs = topology.costs[self._places].astype(float)
        self._masks = [(self._places >= tasks.start) & (self._places < tasks.stop) for tasks in own]

    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """One step: the best task of every operator that has none, else the best task."""
        taken = plan[self._places]
        free = ~taken if barred is None else ~taken & ~barred[self._places]
        missing = [mask for mask in self._masks if not (mask & taken).any()]
        tasks = np.zeros_like(taken)
        for mask in missing or [np.ones_like(taken)]:
            worth = np.where(mask & free, self._worth, -1.0)
            tasks[int(worth.argmax())] = bool(worth.max() >= 0)
        cost = float(self._costs[tasks].sum())
        some = [0] if tasks.any() and cost <= budget else []
        return Ranked(
            self._topology,
            self.operators,
            self._masks,
            places=self._places,
            tasks=tasks[None][some],
            gains=np.array([float(self._worth[tasks].sum())])[some],
            costs=np.array([cost])[some],
        )


class Structured(Part):
    """A structured sub-topology: its segments, completed to MC-trees where they need others.

    Works on the tasks of the sub-topology alone, numbered by position in ``_local.tasks``.
    """

    def __init__(
        self, evaluator: Evaluator, sub: SubTopology, *, readings: Readings = PRINTED
    ) -> None:
        topology = evaluator.topology
        self.operators = sub.operators
        self._topology, self._readings = topology, readings
        self._local = evaluator.local(sub.operators)
        cut = units(topology, sub, joins=evaluator.joins, readings=readings)
        self._units = len(cut)
        position = {int(task): number for number, task in enumerate(self._local.tasks)}
        self._tasks_of = [
            frozenset(position[task] for task in segment)
            for unit in cut
            for segment in unit.segments
        ]
        self._segments = np.zeros((len(self._tasks_of), len(position)), dtype=np.bool_)
        for row, tasks in enumerate(self._tasks_of):
            self._segments[row, list(tasks)] = True
        self._costs = topology.costs[self._local.tasks].astype(float)
        self._segment_costs = self._segments * self._costs
        self._weights = np.concatenate([_unit_weights(evaluator, unit) for unit in cut])
        self._masks = [
            (self._local.tasks >= own.start) & (self._local.tasks < own.stop)
            for own in (topology.tasks(name) for name in self.operators)
        ]
        self._whole = np.zeros_like(self._segments)
        """Each segment with what completes it, where that does not depend on the plan: the rows
        that are `_known`."""
        self._known = np.zeros(len(self._segments), dtype=np.bool_)
        self._prepare_needs(_needs(topology, sub, cut, position, joins=evaluator.joins))

    def _prepare_needs(self, needs: Needs) -> None:
        self._needs_of = [
            list(dict.fromkeys(far for task in sorted(segment) for far in needs.get(task, ())))
            for segment in self._tasks_of
        ]
        self._rows_through = {
            far: np.flatnonzero(self._segments[:, sorted(far)].any(axis=1))
            for far in dict.fromkeys(far for fars in self._needs_of for far in fars)
        }

    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """Every segment that is not replicated yet, alone if that adds to the objective and
        otherwise with the segments that it needs; none that exceeds the budget."""
        own = plan[self._local.tasks]
        costs = self._segment_costs @ ~own
        if barred is not None and barred.any():
            costs[(self._segments & barred[self._local.tasks]).any(axis=1)] = np.inf
        open_ = np.flatnonzero((costs > 0) & (costs <= budget))
        candidates = self._segments[open_]
        values = self._local.values(np.vstack([own, own | candidates]))
        least = ROUNDING * abs(values[0])
        useless = np.flatnonzero(values[1:] <= values[0] + least)
        candidate_costs = costs[open_]
        if len(useless) and self._units > 1:
            self._complete(candidates, useless, open_, costs)
            values[1:][useless] = self._local.values(own | candidates[useless])
            candidate_costs = (candidates & ~own) @ self._costs
        gains = values[1:] - values[0]
        gains[gains <= least] = 0.0
        return self._ranked(candidates, gains, candidate_costs, budget)

    def _complete(
        self,
        candidates: Booleans,
        rows: NDArray[np.int64],
        segments: NDArray[np.int64],
        costs: NDArray[np.float64],
    ) -> None:
        """Complete ``candidates[rows]``, which are the segments ``segments[rows]``."""
        wanted = segments[rows]
        if self._readings.per_unit or not (costs < np.inf).all():
            choice = self._chosen(costs)
            for row, segment in zip(rows.tolist(), wanted.tolist(), strict=True):
                candidates[row, list(self._completed(segment, choice))] = True
            return
        for segment in wanted[~self._known[wanted]].tolist():
            self._whole[segment, list(self._completed(segment, self._choice))] = True
            self._known[segment] = True
        candidates[rows] = self._whole[wanted]

    @cached_property
    def _choice(self) -> Mapping[Tree, int]:
        """For tasks of which one is needed, the segment with one of them that gives most."""
        return self._chosen(np.zeros(len(self._weights)))

    def _chosen(self, costs: NDArray[np.float64]) -> Mapping[Tree, int]:
        worth = np.where(costs < np.inf, self._weights, -1.0)
        if self._readings.per_unit:
            worth = worth / np.maximum(costs, 1e-9)
        return {
            far: int(through[worth[through].argmax()])
            for far, through in self._rows_through.items()
            if len(through) and worth[through].max() >= 0
        }

    def segments_per_task(self, plan: Booleans | None = None) -> NDArray[np.int64]:
        """In how many segments each task is, shape ``(tasks,)``; with a ``plan`` only those count
        of which a task is still missing."""
        segments = self._segments
        if plan is not None:
            segments = segments[(segments & ~plan[self._local.tasks]).any(axis=1)]
        counts = np.zeros(self._topology.task_count, dtype=np.int64)
        counts[self._local.tasks] = segments.sum(axis=0)
        return counts

    def _completed(self, segment: int, choice: Mapping[Tree, int]) -> set[int]:
        """The tasks of ``segment`` and of connected segments in other units, until nothing is
        missing: the paper's breadth-first search over units. ``choice`` is, for tasks of which
        one is needed, the best segment with one of them (line 13 of Algorithm 1)."""
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
        candidates: Booleans,
        gains: NDArray[np.float64],
        costs: NDArray[np.float64],
        budget: int,
    ) -> Ranked:
        """Steps with a gain and within the budget, best density first, ties in their order."""
        useful = np.flatnonzero((gains > 0) & (costs > 0) & (costs <= budget))
        order = useful[np.argsort(-significant(gains[useful] / costs[useful]), kind="stable")]
        return Ranked(
            self._topology,
            self.operators,
            self._masks,
            places=self._local.tasks,
            tasks=candidates[order],
            gains=gains[order],
            costs=costs[order],
        )


def parts_of(evaluator: Evaluator, sink: str, *, readings: Readings = PRINTED) -> list[Part]:
    """The parts of the query that ends in ``sink``."""
    parts: list[Part] = []
    for sub in decompose(evaluator.topology, sink):
        if sub.full and readings.by_increase:
            parts.append(FullSubTopology(evaluator, sub))
        elif sub.full:
            parts += [FullOperator(evaluator, name) for name in sub.operators]
        else:
            parts.append(Structured(evaluator, sub, readings=readings))
    return parts


def _unit_weights(evaluator: Evaluator, unit: Unit) -> NDArray[np.float64]:
    """What each segment gives with its unit treated as an independent topology."""
    local = evaluator.local(unit.operators)
    segments = np.zeros((len(unit.segments), evaluator.topology.task_count), dtype=np.bool_)
    for row, segment in enumerate(unit.segments):
        segments[row, list(segment)] = True
    return local.values(segments[:, local.tasks])


Needs = Mapping[int, Sequence[Tree]]
"""Per task on a unit boundary: sets of tasks beyond it, of each of which it needs one. Tasks are
numbered within the part."""


def _needs(
    topology: Topology,
    sub: SubTopology,
    cut: Sequence[Unit],
    position: Mapping[int, int],
    *,
    joins: bool,
) -> Needs:
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
    return {
        position[near]: [frozenset(position[task] for task in far) for far in fars]
        for near, fars in needs.items()
    }


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
