"""The two kinds of part that a structure-aware plan grows in, and the steps each proposes.

A step is a set of tasks that are worth replicating together: a segment that completes an MC-tree
of a structured sub-topology (ppa TKDE, Algorithm 1), or the next task of an operator that only full
edges touch (Algorithm 2). Its local gain is its gain of the objective if every task outside the
part were alive.

Tests: ``tests/planning/test_structure_aware.py``, ``tests/planning/test_decomposition.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from harness.planning.base import flags
from harness.planning.decomposition import SubTopology, Unit, decompose, units
from harness.planning.readings import PRINTED, Readings
from harness.topology.fidelity import Booleans, Evaluator
from harness.topology.model import Edge, Topology
from harness.topology.trees import Tree

ROUNDING = 1e-14
"""Gain, as a share of the present value, below which it is rounding. It must be a share: behind a
few joins a whole MC-tree can be worth as little as 1e-13, and is still the way to all others."""


def significant(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to some 12 digits, so that equal values tie whatever the order of summation."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(mantissa.round(12), exponent))


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks to replicate together."""

    tasks: Booleans
    """Flags over all tasks; may include replicated ones."""
    operators: frozenset[str]
    """The operators of ``tasks``."""
    gain: float
    """Gain of the objective, by the measure of the proposer."""
    cost: int
    """Cost of those not replicated yet."""

    def __post_init__(self) -> None:
        assert self.cost >= 0
        assert self.gain >= 0, "no step makes a plan worse"

    @property
    def density(self) -> float:
        """Gain per resource unit, the rank of a step."""
        return self.gain / self.cost if self.cost else 0.0


class Ranked(Sequence[Step]):
    """Steps of one part, best first; a `Step` is built when it is first read."""

    def __init__(
        self,
        part: Part,
        *,
        tasks: NDArray[np.object_],
        gains: NDArray[np.float64],
        costs: NDArray[np.float64],
    ) -> None:
        """Keep the steps as arrays, one row each; ``tasks`` has arrays of the part's tasks."""
        assert len(tasks) == len(gains) == len(costs), "a row for each step"
        self._part, self._tasks, self._gains, self._costs = part, tasks, gains, costs
        self._made: dict[int, Step] = {}
        self.most = float(costs.max(initial=0.0))
        """Cost of the most expensive step."""

    def __len__(self) -> int:
        return len(self._gains)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if index not in self._made:
            row = self._tasks[index]
            tasks = flags(self._part.topology, self._part.places[row])
            touched = [mask[row].any() for mask in self._part.masks]
            operators = frozenset(compress(self._part.operators, touched))
            cost = round(float(self._costs[index]))
            self._made[index] = Step(tasks, operators, float(self._gains[index]), cost)
        return self._made[index]

    def within(self, budget: int) -> Ranked:
        """Return the steps that cost no more."""
        return self.chosen(np.flatnonzero(self._costs <= budget))

    def through(self, name: str) -> Step | None:
        """Return the first step with a task of operator ``name``."""
        mask = self._part.masks[self._part.operators.index(name)]
        rows = (row for row, tasks in enumerate(self._tasks) if mask[tasks].any())
        return next((self[row] for row in rows), None)

    def reordered(self, worth: NDArray[np.float64]) -> Ranked:
        """Return the steps by falling ``worth``, one number for each."""
        return self.chosen(np.argsort(-worth, kind="stable"))

    def chosen(self, rows: NDArray[np.int64]) -> Ranked:
        """Return the steps ``rows``, in that order."""
        tasks, gains, costs = self._tasks[rows], self._gains[rows], self._costs[rows]
        return Ranked(self._part, tasks=tasks, gains=gains, costs=costs)


class Part(ABC):
    """Operators whose replication is decided together, for one query."""

    def __init__(self, topology: Topology, operators: Sequence[str]) -> None:
        self.topology, self.operators = topology, tuple(operators)
        own = [topology.tasks(name) for name in operators]
        self.places: NDArray[np.int64] = np.concatenate([np.r_[tasks] for tasks in own])
        """Numbers of the operators' tasks in the whole topology."""
        self.masks = [(self.places >= tasks.start) & (self.places < tasks.stop) for tasks in own]
        """Flags of each operator's tasks among ``places``."""
        self.costs = topology.costs[self.places].astype(float)
        """Cost of each of ``places``."""

    @abstractmethod
    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """Return possible additions to ``plan`` within ``budget`` units, best density first.

        None of them contains a ``barred`` task."""


class Full(Part):
    """One operator of a full sub-topology, or all of them together (`Readings.by_increase`).

    One task of each operator comes first, then the task whose own increase of the objective is
    largest, whatever the plan."""

    def __init__(self, evaluator: Evaluator, operators: Sequence[str]) -> None:
        super().__init__(evaluator.topology, operators)
        self._worth = significant(evaluator.influence[self.places])

    def steps(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> Ranked:
        """Return one step: the best task of every operator that has none, else the best task."""
        taken = plan[self.places]
        free = ~taken if barred is None else ~taken & ~barred[self.places]
        missing = [mask for mask in self.masks if not (mask & taken).any()]
        tasks = np.zeros_like(taken)
        for mask in missing or [np.ones_like(taken)]:
            worth = np.where(mask & free, self._worth, -1.0)
            best = int(worth.argmax())
            tasks[best] = worth[best] >= 0
        cost = float(self.costs[tasks].sum())
        some = [0] if tasks.any() and cost <= budget else []
        return Ranked(
            self,
            tasks=_rows([np.flatnonzero(tasks)])[some],
            gains=np.array([float(self._worth[tasks].sum())])[some],
            costs=np.array([cost])[some],
        )


class Structured(Part):
    """A structured sub-topology: its segments, completed to MC-trees where they need others.

    Works on the tasks of the sub-topology alone, numbered by position in ``places``. A segment is
    judged again only if the plan changed among the tasks that are connected with it."""

    def __init__(
        self, evaluator: Evaluator, sub: SubTopology, *, readings: Readings = PRINTED
    ) -> None:
        topology = evaluator.topology
        self._local = evaluator.local(sub.operators)
        super().__init__(topology, sub.operators)
        assert (self.places == self._local.tasks).all(), "both number tasks in the same order"
        self._readings = readings
        cut = units(topology, sub, joins=evaluator.joins, readings=readings)
        self._units = len(cut)
        position = {int(task): number for number, task in enumerate(self.places)}
        self._tasks_of = [
            frozenset(position[task] for task in segment)
            for unit in cut
            for segment in unit.segments
        ]
        self._segments = np.zeros((len(self._tasks_of), len(position)), dtype=np.bool_)
        for row, tasks in enumerate(self._tasks_of):
            self._segments[row, list(tasks)] = True
        self._members = csr_array(self._segments, dtype=np.float64)
        self._weights = np.concatenate([_unit_weights(evaluator, unit) for unit in cut])
        self._whole = np.zeros_like(self._segments)
        """Each segment with its completion, where that does not depend on the plan: the rows that
        are `_known`."""
        self._known = np.zeros(len(self._segments), dtype=np.bool_)
        self._group_of = _connected(topology, sub, position)
        """For each task, the group of connected tasks that contains it."""
        self._group = self._group_of[[min(tasks) for tasks in self._tasks_of]]
        """That of each segment."""
        self._judged = _Judged(len(self._segments), len(position))
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
        """Return the segments that are not replicated yet and fit the budget.

        A segment is alone if that adds to the objective, otherwise with the segments it needs."""
        own = plan[self.places]
        banned = np.zeros_like(own) if barred is None else barred[self.places]
        costs = self._members @ np.where(own, 0.0, self.costs)
        if banned.any():
            costs[self._members @ banned > 0] = np.inf
        open_ = np.flatnonzero((costs > 0) & (costs <= budget))
        self._judged.forget(self._changed(own, banned), own, banned)
        least = ROUNDING * abs(self._judge(open_[self._judged.stale[open_]], own, costs))
        gains = self._judged.gains[open_]
        gains[gains <= least] = 0.0
        return self._ranked(open_, gains, budget)

    def _changed(self, own: Booleans, banned: Booleans) -> Booleans:
        """Return True for each segment whose gain may differ from the last one."""
        tasks = (own != self._judged.own) | (banned != self._judged.banned)
        return np.isin(self._group, self._group_of[tasks])

    def _judge(
        self, segments: NDArray[np.int64], own: Booleans, costs: NDArray[np.float64]
    ) -> float:
        """Judge these segments as additions to ``own``; return the value of ``own``."""
        candidates = self._segments[segments]
        values = self._local.values(np.vstack([own, own | candidates]))
        least = ROUNDING * abs(values[0])
        useless = np.flatnonzero(values[1:] <= values[0] + least)
        if len(useless) and self._units > 1:
            self._complete(candidates, useless, segments, costs)
            values[1:][useless] = self._local.values(own | candidates[useless])
        self._judged.keep(
            segments, candidates, values[1:] - values[0], (candidates & ~own) @ self.costs
        )
        return float(values[0])

    def _complete(
        self,
        candidates: Booleans,
        rows: NDArray[np.int64],
        segments: NDArray[np.int64],
        costs: NDArray[np.float64],
    ) -> None:
        """Complete ``candidates[rows]``, which are the segments ``segments[rows]``, in place."""
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
        """Return the number of segments that contain each task, shape ``(tasks,)``.

        With a ``plan`` only segments count that still lack a task."""
        segments = self._segments
        if plan is not None:
            segments = segments[(segments & ~plan[self.places]).any(axis=1)]
        counts = np.zeros(self.topology.task_count, dtype=np.int64)
        counts[self.places] = segments.sum(axis=0)
        assert counts.max(initial=0) <= len(self._segments)
        return counts

    def _completed(self, segment: int, choice: Mapping[Tree, int]) -> set[int]:
        """Return the tasks of ``segment`` and of the segments in other units that it needs.

        This is the paper's breadth-first search over units. ``choice`` is, for tasks of which one
        is needed, the best segment with one of them (line 13 of Algorithm 1)."""
        chosen = set(self._tasks_of[segment])
        pending = [segment]
        while pending:
            for far in self._needs_of[pending.pop(0)]:
                if chosen.isdisjoint(far) and far in choice:
                    chosen |= self._tasks_of[choice[far]]
                    pending.append(choice[far])
        return chosen

    def _ranked(
        self, segments: NDArray[np.int64], gains: NDArray[np.float64], budget: int
    ) -> Ranked:
        """Return the steps with a gain and within the budget, best density first."""
        costs = self._judged.costs[segments]
        useful = np.flatnonzero((gains > 0) & (costs > 0) & (costs <= budget))
        order = useful[np.argsort(-significant(gains[useful] / costs[useful]), kind="stable")]
        tasks = self._judged.tasks[segments[order]]
        return Ranked(self, tasks=tasks, gains=gains[order], costs=costs[order])


class _Judged:
    """What is known of the segments of a part: the step of each, its gain and its cost."""

    def __init__(self, segments: int, tasks: int) -> None:
        self.own: Booleans = np.zeros(tasks, dtype=np.bool_)
        """The plan at that time."""
        self.banned: Booleans = np.zeros(tasks, dtype=np.bool_)
        self.stale: Booleans = np.ones(segments, dtype=np.bool_)
        """Segments of which nothing is known, or no longer."""
        self.gains, self.costs = np.zeros(segments), np.zeros(segments)
        self.tasks = np.empty(segments, dtype=np.object_)
        """Numbers of the tasks of each step."""

    def forget(self, segments: Booleans, own: Booleans, banned: Booleans) -> None:
        """Forget some segments, for another plan."""
        self.stale |= segments
        self.own, self.banned = own, banned

    def keep(
        self,
        segments: NDArray[np.int64],
        steps: Booleans,
        gains: NDArray[np.float64],
        costs: NDArray[np.float64],
    ) -> None:
        """Keep the step, the gain and the cost of each of these segments."""
        self.gains[segments], self.costs[segments] = gains, costs
        self.tasks[segments] = _rows([np.flatnonzero(step) for step in steps])
        self.stale[segments] = False


def _rows(tasks: Sequence[NDArray[np.int64]]) -> NDArray[np.object_]:
    """Return arrays of task numbers as an array of objects, one a row."""
    rows = np.empty(len(tasks), dtype=np.object_)
    for row, each in enumerate(tasks):
        rows[row] = each
    return rows


def _connected(
    topology: Topology, sub: SubTopology, position: Mapping[int, int]
) -> NDArray[np.int64]:
    """Return the number of the group of each task; streams in ``sub`` connect only within one."""
    ends = [
        topology.substream_tasks(edge)
        for edge in topology.edges
        if edge.upstream in sub.operators and edge.downstream in sub.operators
    ]
    up, down = (
        [position[int(task)] for each in side for task in each] for side in zip(*ends, strict=True)
    )
    streams = csr_array((np.ones(len(up)), (up, down)), shape=(len(position), len(position)))
    return np.asarray(connected_components(streams, directed=False)[1], dtype=np.int64)


def parts_of(evaluator: Evaluator, sink: str, *, readings: Readings = PRINTED) -> list[Part]:
    """Return the parts of the query that ends in ``sink``."""
    parts: list[Part] = []
    for sub in decompose(evaluator.topology, sink):
        if sub.full:
            together = [sub.operators] if readings.by_increase else [(n,) for n in sub.operators]
            parts += [Full(evaluator, operators) for operators in together]
        else:
            parts.append(Structured(evaluator, sub, readings=readings))
    return parts


def _unit_weights(evaluator: Evaluator, unit: Unit) -> NDArray[np.float64]:
    """Return the value of each segment with its unit treated as an independent topology."""
    local = evaluator.local(unit.operators)
    topology = evaluator.topology
    segments = np.array([flags(topology, tuple(segment)) for segment in unit.segments])
    return local.values(segments[:, local.tasks])


Needs = Mapping[int, Sequence[Tree]]
"""For each task on a unit boundary the sets of tasks beyond it; it needs one of each set. Tasks
are numbered within the part."""


def _needs(
    topology: Topology,
    sub: SubTopology,
    cut: Sequence[Unit],
    position: Mapping[int, int],
    *,
    joins: bool,
) -> Needs:
    """Return the needs across unit boundaries.

    Upstream, a join needs every boundary edge, and an independent operator without input in its
    own unit any one of them; downstream, the last operator of a unit needs one reader."""
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
        senders, receivers = (tasks.tolist() for tasks in topology.substream_tasks(edge))
        ends = (receivers, senders) if upward else (senders, receivers)
        for near, beyond in zip(*ends, strict=True):
            far.setdefault(near, []).append(beyond)
    for near, tasks in far.items():
        needs.setdefault(near, []).append(frozenset(tasks))
