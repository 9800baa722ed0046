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
* Everything else that the wording leaves open is a switch (`readings`); the default is the paper's.

The objective is supermodular: a step gains more, never less, once other steps are taken. Steps of
other parts that are nearly as good as the best one may therefore be taken in the same round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.planning.base import Planner
from harness.planning.parts import ROUNDING, Part, Ranked, Step, parts_of, significant
from harness.planning.readings import PRINTED, Readings
from harness.topology.fidelity import Booleans, Evaluator, Floats
from harness.topology.model import Topology

Ranking = Callable[[Part, Booleans], Callable[[Step], float]]
"""A function of a part and the plan that returns a measure of that part's steps."""


class Valuation(Protocol):
    """The value of plans: `Evaluator` (worst case) or `expected.Expected` (drawn failures)."""

    def values(self, plans: ArrayLike, /) -> Floats:
        """Return the value of every plan, shape ``(plans,)``."""

    def gains(self, plans: ArrayLike, /) -> Floats:
        """Return the change by one task more or less, shape ``(plans, tasks)``."""


class StructureAware(Planner):
    """A plan that grows by complete MC-trees, the densest first."""

    name = "sa"

    def __init__(self, readings: Readings = PRINTED) -> None:
        self._readings = readings

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        search = Search(evaluator, budget, readings=self._readings)
        if not self._readings.virtual_sink:
            ends = _ends(evaluator)
            search = Search(ends, budget, readings=self._readings, valuation=evaluator)
        while True:
            search.grow()
            if not search.drop_useless():
                return search.plan, None


def _ends(evaluator: Evaluator) -> Evaluator:
    """Return the same topology with only those queries whose sink has no reader."""
    topology = evaluator.topology
    last = tuple(query for query in topology.queries if not topology.outputs(query.sink))
    if sum(query.priority for query in last) == 0:
        return evaluator
    return Evaluator(replace(topology, queries=last), evaluator.objective)


class Search:
    """A plan that grows by steps, with a memory of what the last step did not change."""

    def __init__(
        self,
        evaluator: Evaluator,
        budget: int,
        *,
        plan: Booleans | None = None,
        ranking: Ranking | None = None,
        readings: Readings = PRINTED,
        valuation: Valuation | None = None,
    ) -> None:
        """Start from ``plan``, the tasks that are alive already.

        ``ranking`` orders a part's steps, by their density if None; the gain of whole MC-trees
        counts by ``valuation``, else by ``evaluator``."""
        assert budget >= 0, f"{budget} units are left"
        topology = evaluator.topology
        nothing = np.zeros(topology.task_count, dtype=np.bool_)
        self.plan: Booleans = nothing if plan is None else plan
        self.budget = budget
        self.barred: Booleans = nothing
        """Tasks that no step may contain."""
        self._evaluator = evaluator
        self._ranking, self._readings, self._valuation = ranking, readings, valuation
        self._alive = {topology.place(int(task))[0] for task in np.flatnonzero(self.plan)}
        """Operators with a task in the plan."""
        self._queries = _queries(evaluator, readings)
        self._steps_of: dict[Part, tuple[int, Ranked]] = {}
        """The last proposal of a part, with the budget then; forgotten when its plan changes."""
        self._completed_of: dict[tuple[_Query, Part], Step] = {}
        """A part's best step completed to a whole MC-tree, where alone it gains nothing."""
        self._hopeless: set[tuple[_Query, Part]] = set()
        """Parts without a completed step that fits the budget."""

    def take(self, step: Step) -> None:
        """Replicate the tasks of ``step``."""
        assert step.cost <= self.budget, f"a step of {step.cost} units for {self.budget}"
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
        self._hopeless &= self._completed_of.keys()

    def grow(self) -> None:
        """Take the best steps until nothing useful fits the budget."""
        while steps := self.best_steps():
            for step in steps:
                self.take(step)

    def drop_useless(self) -> bool:
        """Remove tasks that are in no whole MC-tree of the plan; return True if there were any.

        A segment adds to the objective as soon as one of its tasks has another input, even if the
        rest of it is not connected, so a step may contain tasks that give nothing."""
        useless = self.plan & (self._evaluator.gains(self.plan)[0] <= 0)
        if not useless.any():
            return False
        self.plan = self.plan & ~useless
        self.budget += int(self._evaluator.topology.costs[useless].sum())
        self.restart(self.plan, self.budget)
        return True

    def restart(self, plan: Booleans, budget: int, *, barred: Booleans | None = None) -> None:
        """Continue from ``plan`` with ``budget`` units left and without the ``barred`` tasks."""
        assert budget >= 0, f"{budget} units are left"
        place = self._evaluator.topology.place
        self.plan, self.budget = plan, budget
        if barred is not None:
            self.barred = barred
        self._alive = {place(int(task))[0] for task in np.flatnonzero(plan)}
        self._steps_of.clear()
        self._completed_of.clear()
        self._hopeless.clear()

    def best_steps(self) -> list[Step]:
        """Return the steps of one round: the densest one that fits the budget.

        If the readings allow it, steps of other parts that are nearly as dense come with it. The
        list is empty if nothing that fits gains."""
        steps, gains = self._judged(self._proposals())
        if not steps:
            return []
        costs = np.array([step.cost for step in steps])
        density = significant(gains / costs)
        nearly = self._readings.nearly
        order = np.argsort(-density, kind="stable").tolist() if nearly else [int(density.argmax())]
        ranked = []
        for number in order:
            step, gain, cost = steps[number], float(gains[number]), int(costs[number])
            ranked.append(Step(step.tasks, step.operators, gain, cost))
        if nearly is None:
            return ranked
        taken: list[Step] = []
        touched: set[str] = set()
        budget = self.budget
        for step in ranked:
            if taken and step.density < nearly * ranked[0].density:
                break
            if step.cost <= budget and step.operators.isdisjoint(touched):
                taken.append(step)
                touched |= step.operators
                budget -= step.cost
        return taken

    def _proposals(self) -> list[tuple[_Query, Part]]:
        """Return the parts with a step within the budget.

        A part that queries share counts once, except for queries that give nothing yet and may
        each complete it their way."""
        seen: set[Part] = set()
        found = []
        for query in self._queries:
            for part in query.parts:
                new = part not in seen or query.sink not in self._alive
                if new and self._steps(part):
                    seen.add(part)
                    found.append((query, part))
        return found

    def _steps(self, part: Part) -> Ranked:
        known = self._steps_of.get(part)
        if known:
            budget, steps = known
            fitting = steps if steps.most <= self.budget else steps.within(self.budget)
            if fitting or not steps or self.budget == budget:
                return fitting
        steps = part.steps(self.plan, self.budget, barred=self.barred)
        if self._ranking is not None:
            ranking = self._ranking(part, self.plan)
            steps = steps.reordered(significant(np.array([ranking(step) for step in steps])))
        self._steps_of[part] = self.budget, steps
        return steps

    def _judged(
        self, proposals: Sequence[tuple[_Query, Part]]
    ) -> tuple[list[Step], NDArray[np.float64]]:
        """Return the parts' best steps and their gain for the whole topology.

        Steps that gain nothing alone are completed; those that still gain nothing are left out."""
        if not proposals:
            return [], np.zeros(0)
        steps = [self._completed_of.get(key) or self._steps(key[1])[0] for key in proposals]
        gains = self._gains(steps)
        useless = np.flatnonzero(gains <= 0).tolist()
        changed = []
        for number in useless:
            completed = self._complete(*proposals[number])
            if completed is not steps[number]:  # else it is known already that it gains nothing
                steps[number] = completed
                changed.append(number)
        if changed:
            gains[changed] = self._gains([steps[number] for number in changed])
        useful = [
            number
            for number, gain in enumerate(gains.tolist())
            if gain > 0 and steps[number].cost <= self.budget
        ]
        return [steps[number] for number in useful], gains[useful]

    def _gains(self, steps: Sequence[Step]) -> NDArray[np.float64]:
        plans = self.plan | np.array([np.zeros_like(self.plan), *(step.tasks for step in steps)])
        values = self._evaluator.values(plans)
        gains = values[1:] - values[0]
        useful = gains > ROUNDING * values[0]
        if self._valuation is not None:
            values = self._valuation.values(plans)
            gains = values[1:] - values[0]
        return np.where(useful, gains, 0.0)

    def _complete(self, query: _Query, part: Part) -> Step:
        """Return the best step of ``part`` completed to a whole MC-tree of the query.

        If it does not fit and the readings require it, the densest of the next ones that fits is
        returned instead."""
        key = query, part
        known = self._completed_of.get(key)
        if known is None or (known.cost > self.budget and key not in self._hopeless):
            steps = self._steps(part)
            known = self._completed(query, part, steps[:1])[0]
            if known.cost > self.budget and self._readings.cheaper:
                fitting = [
                    step
                    for step in self._completed(query, part, steps[1:])
                    if step.cost <= self.budget
                ]
                gains = self._gains(fitting)
                if len(gains) and gains.max() > 0:
                    costs = np.array([step.cost for step in fitting])
                    known = fitting[int(significant(gains / costs).argmax())]
            if known.cost > self.budget:
                self._hopeless.add(key)
            self._completed_of[key] = known
        return known

    def _completed(self, query: _Query, part: Part, steps: Sequence[Step]) -> list[Step]:
        """Return ``steps`` of ``part``, each with the tasks it needs of other parts."""
        rest_of: dict[frozenset[str], tuple[Booleans, frozenset[str]]] = {}
        found = []
        for step in steps:
            if step.operators not in rest_of:
                rest_of[step.operators] = self._rest(query, part, step)
            rest, operators = rest_of[step.operators]
            tasks = step.tasks | rest
            cost = int((tasks & ~self.plan) @ self._evaluator.topology.costs)
            found.append(Step(tasks, operators, 0.0, cost))
        return found

    def _rest(self, query: _Query, part: Part, step: Step) -> tuple[Booleans, frozenset[str]]:
        """Return the tasks of other parts that make a whole MC-tree with ``step``.

        The operators are those of all these steps and of ``step``. Both depend on the operators of
        ``step`` alone."""
        tasks, operators = np.zeros_like(self.plan), step.operators
        pending = [(part, step)]
        while pending:
            for group in query.needed(*pending.pop(0)):
                if self._alive.isdisjoint(group) and operators.isdisjoint(group):
                    best = self._best_through(query, group)
                    if best is not None:
                        tasks = tasks | best[1].tasks
                        operators |= best[1].operators
                        pending.append(best)
        return tasks, operators

    def _best_through(self, query: _Query, operators: Sequence[str]) -> tuple[Part, Step] | None:
        """Return the densest step of another part that includes one of ``operators``."""
        best: tuple[Part, Step] | None = None
        for name in operators:
            part = query.part_of[name]
            step = self._steps(part).through(name)
            if step and (best is None or step.density > best[1].density * (1 + 1e-12)):
                best = part, step
        return best


class _Query:
    """One query's parts and their connections."""

    def __init__(self, topology: Topology, sink: str, parts: list[Part], *, joins: bool) -> None:
        self.parts = parts
        self.part_of = {name: part for part in parts for name in part.operators}
        self.sink = sink
        members = topology.ancestors(sink)
        self._groups = {
            name: _needed(topology, members, part, name, joins=joins)
            for name, part in self.part_of.items()
        }

    def needed(self, part: Part, step: Step) -> list[list[str]]:
        """Return groups of operators of other parts; ``step`` needs one of each group."""
        return [
            group
            for name in part.operators
            if name in step.operators
            for group in self._groups[name]
        ]


def _needed(
    topology: Topology, members: frozenset[str], part: Part, name: str, *, joins: bool
) -> list[list[str]]:
    """Return groups of operators of other parts; operator ``name`` needs one of each group.

    ``members`` are the operators of its query, whose sink has no reader among them."""
    inputs = topology.upstream(name)
    outer = [upstream for upstream in inputs if upstream not in part.operators]
    if joins and topology.operator(name).join:
        groups = [[upstream] for upstream in outer]
    else:
        groups = [outer] if outer and len(outer) == len(inputs) else []
    readers = [reader for reader in topology.downstream(name) if reader in members]
    if readers and not any(reader in part.operators for reader in readers):
        groups.append(readers)
    return groups


def _queries(evaluator: Evaluator, readings: Readings) -> list[_Query]:
    topology = evaluator.topology
    shared: dict[tuple[str, ...], Part] = {}
    queries = []
    for sink in dict.fromkeys(query.sink for query in topology.queries if query.priority > 0):
        found = parts_of(evaluator, sink, readings=readings)
        parts = [shared.setdefault(part.operators, part) for part in found]
        queries.append(_Query(topology, sink, parts, joins=evaluator.joins))
    return queries
