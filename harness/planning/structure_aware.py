"""The structure-aware planner, SA (ppa TKDE, Algorithms 1-3 and section 4.4).

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

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.planning.base import Planner
from harness.planning.parts import GAIN, Part, Step, parts_of
from harness.topology.fidelity import Booleans, Evaluator
from harness.topology.model import Topology

NEARLY = 0.9
"""A step at least this fraction as dense as the best one is taken in the same round."""


Ranking = Callable[[Part, Booleans], Callable[[Step], float]]
"""Given a part and the plan: how good a step of that part is."""


def _by_gain(_part: Part, _plan: Booleans) -> Callable[[Step], float]:
    """What a step gains, whatever it costs."""
    return lambda step: step.gain


class StructureAware(Planner):
    """Grows the plan by complete MC-trees, the densest first."""

    name = "sa"

    def __init__(self, *, nearly: float = NEARLY, by_gain: bool = False) -> None:
        """``nearly`` is how dense a step must be, relative to the best one of its round, to be
        taken with it; above 1 only the best one is, as the paper writes it. ``by_gain`` orders
        the steps within a part by what they gain, as Algorithm 1 writes it, not by gain per unit.
        """
        self.nearly, self.by_gain = nearly, by_gain

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        ranking = _by_gain if self.by_gain else None
        search = Search(evaluator, budget, ranking=ranking, nearly=self.nearly)
        while steps := search.best_steps():
            for step in steps:
                search.take(step)
        return search.plan, None


class Search:
    """A plan that grows by steps; remembers what the last step did not change."""

    def __init__(
        self,
        evaluator: Evaluator,
        budget: int,
        *,
        plan: Booleans | None = None,
        ranking: Ranking | None = None,
        nearly: float = NEARLY,
    ) -> None:
        """``plan`` is what is alive already; ``ranking`` orders a part's steps, by their density
        if None; ``nearly`` as in `StructureAware`."""
        topology = evaluator.topology
        nothing = np.zeros(topology.task_count, dtype=np.bool_)
        self.plan: Booleans = nothing if plan is None else plan
        self.budget = budget
        self._evaluator = evaluator
        self._ranking, self._nearly = ranking, nearly
        self._alive = {topology.place(int(task))[0] for task in np.flatnonzero(self.plan)}
        """The operators that the plan has a task of."""
        self._queries = _queries(evaluator)
        self._steps_of: dict[Part, tuple[int, list[Step]]] = {}
        """What a part proposed, and the budget then; forgotten when its plan changes."""
        self._completed_of: dict[tuple[_Query, Part], Step] = {}
        """A part's best step completed to a whole MC-tree, where alone it gains nothing."""

    def take(self, step: Step) -> None:
        """Replicate the tasks of ``step``."""
        self.plan = self.plan | step.tasks
        self.budget -= step.cost
        awoken = not step.operators <= self._alive
        self._alive |= step.operators
        self._steps_of = {
            part: known
            for part, known in self._steps_of.items()
            if step.operators.isdisjoint(part.operators)
        }
        self._completed_of = {
            key: known
            for key, known in self._completed_of.items()
            if not awoken and step.operators.isdisjoint(known.operators)
        }

    def best_steps(self) -> list[Step]:
        """The densest steps of different parts that fit the budget together, densest first;
        empty if nothing that fits gains."""
        steps = self._judged(self._proposals())
        if not steps:
            return []
        ranked = sorted(steps, key=lambda step: -round(step.density, 12))
        taken: list[Step] = []
        touched: set[str] = set()
        budget = self.budget
        for step in ranked:
            if taken and step.density < self._nearly * ranked[0].density:
                break
            if step.cost <= budget and step.operators.isdisjoint(touched):
                taken.append(step)
                touched |= step.operators
                budget -= step.cost
        return taken

    def _proposals(self) -> list[tuple[_Query, Part]]:
        """The parts that have a step within the budget; a part that queries share counts once,
        except for queries that give nothing yet and may each complete it their way."""
        seen: set[Part] = set()
        found = []
        for query in self._queries:
            for part in query.parts:
                new = part not in seen or query.sink not in self._alive
                if new and self._steps(part):
                    seen.add(part)
                    found.append((query, part))
        return found

    def _steps(self, part: Part) -> list[Step]:
        known = self._steps_of.get(part)
        if known:
            fitting = [step for step in known[1] if step.cost <= self.budget]
            if fitting or not known[1] or self.budget == known[0]:
                return fitting
        steps = part.steps(self.plan, self.budget)
        if self._ranking is not None:
            ranking = self._ranking(part, self.plan)
            steps = sorted(steps, key=lambda step: -round(ranking(step), 12))
        self._steps_of[part] = self.budget, steps
        return steps

    def _judged(self, proposals: Sequence[tuple[_Query, Part]]) -> list[Step]:
        """The parts' best steps with their gain for the whole topology; those that gain nothing
        alone completed, those that still gain nothing left out."""
        if not proposals:
            return []
        steps = [self._completed_of.get(key) or self._steps(key[1])[0] for key in proposals]
        gains = self._gains(steps)
        useless = np.flatnonzero(gains <= GAIN).tolist()
        if useless:
            for number in useless:
                steps[number] = self._completed(*proposals[number])
                self._completed_of[proposals[number]] = steps[number]
            gains[useless] = self._gains([steps[number] for number in useless])
        return [
            Step(step.tasks, step.operators, float(gain), step.cost)
            for step, gain in zip(steps, gains, strict=True)
            if gain > GAIN and step.cost <= self.budget
        ]

    def _gains(self, steps: Sequence[Step]) -> NDArray[np.float64]:
        plans = np.array([self.plan, *(step.tasks for step in steps)])
        values = self._evaluator.values(self.plan | plans)
        return np.asarray(values[1:] - values[0])

    def _completed(self, query: _Query, part: Part) -> Step:
        """The best step of ``part`` with steps of other parts of the query, until it is a whole
        MC-tree."""
        step = self._steps(part)[0]
        tasks, operators = step.tasks, step.operators
        pending = [(part, step)]
        while pending:
            for group in query.needed(*pending.pop(0)):
                if self._alive.isdisjoint(group) and operators.isdisjoint(group):
                    best = self._best_through(query, group)
                    if best is not None:
                        tasks = tasks | best[1].tasks
                        operators |= best[1].operators
                        pending.append(best)
        cost = int((tasks & ~self.plan) @ self._evaluator.topology.costs)
        return Step(tasks, operators, 0.0, cost)

    def _best_through(self, query: _Query, operators: Sequence[str]) -> tuple[Part, Step] | None:
        """The densest step of another part that includes one of ``operators``."""
        best: tuple[Part, Step] | None = None
        for name in operators:
            part = query.part_of[name]
            steps = self._steps(part)
            step = next((each for each in steps if name in each.operators), None)
            if step and (best is None or step.density > best[1].density + GAIN):
                best = part, step
        return best


class _Query:
    """One query's parts, and what connects them."""

    def __init__(self, topology: Topology, sink: str, parts: list[Part], *, joins: bool) -> None:
        self.parts = parts
        self.part_of = {name: part for part in parts for name in part.operators}
        self.sink = sink
        self._groups = {
            name: _needed(topology, sink, part, name, joins=joins)
            for name, part in self.part_of.items()
        }

    def needed(self, part: Part, step: Step) -> list[list[str]]:
        """Groups of operators of other parts; of each group ``step`` needs one."""
        return [
            group
            for name in part.operators
            if name in step.operators
            for group in self._groups[name]
        ]


def _needed(
    topology: Topology, sink: str, part: Part, name: str, *, joins: bool
) -> list[list[str]]:
    inputs = topology.upstream(name)
    outer = [upstream for upstream in inputs if upstream not in part.operators]
    if joins and topology.operator(name).join:
        groups = [[upstream] for upstream in outer]
    else:
        groups = [outer] if outer and len(outer) == len(inputs) else []
    members = topology.ancestors(sink)
    readers = [reader for reader in topology.downstream(name) if reader in members]
    if name != sink and not any(reader in part.operators for reader in readers):
        groups.append(readers)
    return groups


def _queries(evaluator: Evaluator) -> list[_Query]:
    topology = evaluator.topology
    shared: dict[tuple[str, ...], Part] = {}
    queries = []
    for sink in dict.fromkeys(query.sink for query in topology.queries if query.priority > 0):
        parts = [shared.setdefault(part.operators, part) for part in parts_of(evaluator, sink)]
        queries.append(_Query(topology, sink, parts, joins=evaluator.joins))
    return queries
