"""The structure-aware planner, SA (paper 003, Algorithms 1-3 and section 4.4).

Queries are cut into sub-topologies that only full edges connect; each proposes the step that
gains most per unit as if the rest of the topology were alive, and the one with the highest
density for the whole topology is taken, until nothing useful fits the budget.

Readings of the printed algorithms, whose pseudo-code has gaps:

* Gains between sub-topologies are of the whole objective, as section 4.4 says for many queries.
* Algorithm 3 starts with one tree of every sub-topology. Where an independent operator has
  several inputs only one of them is needed, so a step that gains nothing alone is completed to an
  MC-tree of the whole query instead. With a small budget that is what can still be afforded.
* The budget left is ``R - usage`` (line 14 of Algorithm 1 prints ``usage``).
* With several queries every query is decomposed on its own, up to the virtual sink. Its one task
  costs nothing and its fidelity is the priority-weighted sum, so here it is the objective itself.
* The objective is supermodular: a step gains more, never less, once other steps are taken. So
  steps of other sub-topologies that are nearly as good as the best one are taken with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.planning.base import Planner
from harness.planning.parts import GAIN, Part, Step, parts_of
from harness.topology.fidelity import Booleans, Evaluator
from harness.topology.model import Edge, Topology

NEARLY = 0.95
"""A step at least this fraction as dense as the best one is taken in the same round."""


class StructureAware(Planner):
    """Grows the plan by complete MC-trees, the densest first."""

    name = "sa"

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        plan = np.zeros(evaluator.topology.task_count, dtype=np.bool_)
        search = Search(evaluator)
        while round_ := search.best_steps(plan, budget):
            for step in round_:
                plan = plan | step.tasks
                budget -= step.cost
        return plan, None


class Search:
    """Proposes how to extend a plan of one topology; remembers what did not change."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._queries = _queries(evaluator)
        self._memory: dict[Part, tuple[bytes, int, list[Step]]] = {}
        topology = evaluator.topology
        self._tasks = {
            part: np.concatenate([np.r_[topology.tasks(name)] for name in part.operators])
            for query in self._queries
            for part in query.parts
        }

    def best_steps(self, plan: Booleans, budget: int) -> list[Step]:
        """The densest steps of different parts that fit ``budget`` together, densest first;
        empty if nothing that fits gains."""
        steps = self._judged(plan, self._proposals(plan, budget), budget)
        if not steps:
            return []
        ranked = sorted(steps, key=lambda step: -round(step.density, 12))
        taken: list[Step] = []
        touched: set[str] = set()
        for step in ranked:
            if step.density < NEARLY * ranked[0].density:
                break
            operators = self._operators(step.tasks & ~plan)
            if step.cost <= budget and not operators & touched:
                taken.append(step)
                touched |= operators
                budget -= step.cost
        return taken

    def _operators(self, tasks: Booleans) -> set[str]:
        return {self._evaluator.topology.place(int(task))[0] for task in np.flatnonzero(tasks)}

    def _proposals(self, plan: Booleans, budget: int) -> list[tuple[_Query, Part, Step]]:
        seen: set[Part] = set()
        found = []
        for query in self._queries:
            for part in query.parts:
                steps = self._steps(part, plan, budget)
                if steps and (part not in seen or not query.gives(plan)):
                    seen.add(part)
                    found.append((query, part, steps[0]))
        return found

    def _steps(self, part: Part, plan: Booleans, budget: int) -> list[Step]:
        key = plan[self._tasks[part]].tobytes()
        known = self._memory.get(part)
        if known and known[0] == key:
            fitting = [step for step in known[2] if step.cost <= budget]
            if fitting or not known[2] or budget == known[1]:
                return fitting
        steps = part.steps(plan, budget)
        self._memory[part] = (key, budget, steps)
        return steps

    def _judged(
        self, plan: Booleans, proposals: Sequence[tuple[_Query, Part, Step]], budget: int
    ) -> list[Step]:
        """The proposals with their gain for the whole topology; those that gain nothing alone
        completed, those that still gain nothing left out."""
        if not proposals:
            return []
        rows = [step.tasks for _, _, step in proposals]
        values = self._evaluator.values(np.vstack([plan, *(plan | row for row in rows)]))
        gains = values[1:] - values[0]
        for number in np.flatnonzero(gains <= GAIN).tolist():
            rows[number] = self._completed(*proposals[number], plan, budget)
        if (gains <= GAIN).any():
            values[1:] = self._evaluator.values(plan | np.vstack(rows))
            gains = values[1:] - values[0]
        costs = [int((row & ~plan) @ self._evaluator.topology.costs) for row in rows]
        return [
            Step(row, float(gain), cost)
            for row, gain, cost in zip(rows, gains, costs, strict=True)
            if gain > GAIN and cost <= budget
        ]

    def _completed(
        self, query: _Query, part: Part, step: Step, plan: Booleans, budget: int
    ) -> Booleans:
        """``step`` with steps of other parts of the query, until it is a whole MC-tree."""
        chosen = step.tasks.copy()
        pending = [(part, step.tasks)]
        while pending:
            part, tasks = pending.pop(0)
            for readers in query.missing(part, tasks, plan | chosen):
                best = self._best_through(query, readers, plan, budget)
                if best is not None:
                    chosen |= best[1].tasks
                    pending.append((best[0], best[1].tasks))
        return chosen

    def _best_through(
        self, query: _Query, operators: Iterable[str], plan: Booleans, budget: int
    ) -> tuple[Part, Step] | None:
        best: tuple[Part, Step] | None = None
        for name in operators:
            own = self._evaluator.topology.tasks(name)
            part = query.part_of[name]
            for step in self._steps(part, plan, budget):
                if step.tasks[own].any():
                    if best is None or step.density > best[1].density + GAIN:
                        best = part, step
                    break
        return best


@dataclass(frozen=True, slots=True)
class _Query:
    """One query's parts, and what connects them."""

    topology: Topology
    sink: str
    members: frozenset[str]
    joins: bool
    parts: list[Part]
    part_of: dict[str, Part]

    def gives(self, plan: Booleans) -> bool:
        """Whether the plan has a task of the sink; a plan that SA grew then has a whole tree."""
        return bool(plan[self.topology.tasks(self.sink)].any())

    def missing(self, part: Part, tasks: Booleans, chosen: Booleans) -> list[list[str]]:
        """Groups of operators of other parts; of each group ``tasks`` needs one that is alive
        and none is."""
        groups: list[list[str]] = []
        for name in part.operators:
            if tasks[self.topology.tasks(name)].any():
                groups += self._needed(part, name)
        return [
            group
            for group in groups
            if not any(chosen[self.topology.tasks(name)].any() for name in group)
        ]

    def _needed(self, part: Part, name: str) -> list[list[str]]:
        inputs = self.topology.inputs(name)
        outer = [edge.upstream for edge in inputs if edge.upstream not in part.operators]
        if self.joins and self.topology.operator(name).join:
            groups = [[upstream] for upstream in outer]
        else:
            groups = [outer] if outer and len(outer) == len(inputs) else []
        outputs = [edge for edge in self.topology.outputs(name) if edge.downstream in self.members]
        if name != self.sink and not self._stays_inside(part, outputs):
            groups.append([edge.downstream for edge in outputs])
        return groups

    def _stays_inside(self, part: Part, outputs: Sequence[Edge]) -> bool:
        return any(edge.downstream in part.operators for edge in outputs)


def _queries(evaluator: Evaluator) -> list[_Query]:
    topology = evaluator.topology
    shared: dict[tuple[str, ...], Part] = {}
    queries = []
    for sink in dict.fromkeys(query.sink for query in topology.queries if query.priority > 0):
        parts = [shared.setdefault(part.operators, part) for part in parts_of(evaluator, sink)]
        queries.append(
            _Query(
                topology=topology,
                sink=sink,
                members=topology.ancestors(sink),
                joins=evaluator.joins,
                parts=parts,
                part_of={name: part for part in parts for name in part.operators},
            )
        )
    return queries
