"""A planner that improves on SA: many starts, each grown by SA's steps, then exchanged.

SA takes the densest step and never takes one back, so with a small budget its first MC-tree
decides, and with a large one the last units are spent on whatever fits. Here SA's growth begins
once from every task, as if that task were replicated already; the best of the resulting plans is
improved until none of these changes helps any more:

* a replicated task and the tasks that give nothing without it are removed, and the plan is grown
  again without that task;
* one replicated task is exchanged for another that is not.

It draws no random number and reads no clock: rounds of growth bound its work. It takes any
objective that can judge plans, so it also plans for expected fidelity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.planning.base import Planner, ReplicationPlan, check_budget, flags, task_numbers
from harness.planning.expected import Expected, Failures
from harness.planning.greedy import Greedy
from harness.planning.parts import Step
from harness.planning.structure_aware import Search, Valuation
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.model import Topology

ROUNDS = 3_000
"""Upper limit of the rounds of growth; ``ppa/optimum-gap`` measures their time."""
FEWEST_ROUNDS = 80
EXCHANGES = 48
"""Number of tasks on either side to try in exchanges, those that lose least and gain most first;
a sixth of it for drawn failures, where single gains determine nearly everything."""
BETTER = 1 + 1e-9


class Refined(Planner):
    """SA from many starts, improved by exchanges; ``rounds`` bounds its time."""

    name = "refined"

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        return _Refinement(evaluator, evaluator, budget, ROUNDS).best(), None


def refined_for(topology: Topology, budget: int, failures: Failures) -> ReplicationPlan:
    """Return the best plan found for ``failures`` within ``budget`` units.

    Its ``value`` is the expected output fidelity. Every round judges by all failures, so the
    number of rounds falls with the number of failures. This loses little: most drawn failures take
    few tasks, and then gains are nearly additive."""
    check_budget(topology, budget)
    evaluator = Evaluator(topology)
    valuation = Expected(evaluator, failures)
    fewer = max(FEWEST_ROUNDS, ROUNDS // (1 + len(failures.weights) // 4))
    chosen = _Refinement(evaluator, valuation, budget, fewer).best()
    assert chosen @ topology.costs <= budget, "the plan fits the budget"
    return ReplicationPlan(
        tasks=task_numbers(chosen),
        cost=int(topology.costs[chosen].sum()),
        objective=Objective.OF,
        value=valuation.value(chosen),
    )


class _Refinement:
    """One run, with the rounds that are left."""

    def __init__(
        self, evaluator: Evaluator, valuation: Valuation, budget: int, rounds: int
    ) -> None:
        self._topology, self._valuation, self._budget = evaluator.topology, valuation, budget
        self._evaluator, self._left = evaluator, rounds
        self._costs = evaluator.topology.costs
        self._worst_case = valuation is evaluator
        self._search = Search(evaluator, budget, valuation=None if self._worst_case else valuation)

    def best(self) -> Booleans:
        """Return the best plan found."""
        best = max(self._starts(), key=self._value)
        while self._left > 0:
            better = next(
                (plan for plan in self._neighbours(best) if self._is_better(plan, best)), None
            )
            if better is None:
                return best
            best = better
        return best

    def _value(self, plan: Booleans) -> float:
        return float(self._valuation.values(plan)[0])

    def _is_better(self, plan: Booleans, than: Booleans) -> bool:
        values = self._valuation.values(np.array([plan, than]))
        return bool(values[0] > values[1] * BETTER)

    def _starts(self) -> Iterator[Booleans]:
        yield self._exchanged(self._grown(flags(self._topology, ())))
        greedy, _ = Greedy()._choose(self._evaluator, self._budget)
        yield self._exchanged(self._grown(self._useful(greedy)))
        worth = self._evaluator.influence / np.maximum(self._costs, 1)
        share = self._left * 2 // 3
        for task in np.argsort(-worth, kind="stable"):
            if self._left < share // 3:
                return
            if self._costs[task] <= self._budget:
                yield self._exchanged(self._grown(flags(self._topology, (int(task),))))

    def _neighbours(self, plan: Booleans) -> Iterator[Booleans]:
        tasks = np.flatnonzero(plan)
        loss = self._valuation.gains(plan)[0][tasks] / np.maximum(self._costs[tasks], 1)
        for task in tasks[np.argsort(loss, kind="stable")]:
            if self._left <= 0:
                return
            kept = plan.copy()
            kept[task] = False
            yield self._exchanged(self._grown(self._useful(kept), without=int(task)))

    def _useful(self, plan: Booleans) -> Booleans:
        """Remove the tasks that give nothing from ``plan``."""
        while (useless := plan & (self._valuation.gains(plan)[0] <= 0)).any():
            plan = plan & ~useless
        return plan

    def _grown(self, plan: Booleans, *, without: int | None = None) -> Booleans:
        """Add what still fits, by SA's steps and single tasks, the densest first."""
        barred = flags(self._topology, () if without is None else (without,))
        while True:
            self._search.restart(plan, self._budget - int(plan @ self._costs), barred=barred)
            while step := self._next():
                self._search.take(step)
            assert self._search.budget >= 0, "steps fit the budget"
            assert not (self._search.plan & barred).any(), "barred tasks stay out"
            plan = self._useful(self._search.plan)
            if (plan == self._search.plan).all():
                return plan

    def _next(self) -> Step | None:
        self._left -= 1
        search = self._search
        steps = search.best_steps()
        step = steps[0] if steps else None
        if self._worst_case:
            return step
        open_ = ~search.plan & ~search.barred & (self._costs <= search.budget)
        gains = self._valuation.gains(search.plan)[0]
        density = gains / np.maximum(self._costs, 1)
        density[~open_] = 0.0
        task = int(density.argmax())
        if density[task] <= (step.density if step else 0.0):
            return step
        operators = frozenset({self._topology.place(task)[0]})
        tasks, cost = flags(self._topology, (task,)), int(self._costs[task])
        return Step(tasks, operators, float(gains[task]), cost)

    def _exchanged(self, plan: Booleans) -> Booleans:
        """Make the best exchange of two tasks in ``plan`` until none helps."""
        value = self._valuation.values(plan)[0]
        while True:
            plans = self._exchanges(plan)
            if not len(plans):
                return plan
            values = self._valuation.values(plans)
            best = int(values.argmax())
            if values[best] <= value * BETTER:
                return plan
            plan, value = plans[best], values[best]

    def _exchanges(self, plan: Booleans) -> Booleans:
        """Return plans with one task exchanged for another, within the budget."""
        gains = self._valuation.gains(plan)[0] / np.maximum(self._costs, 1)
        inside, outside = np.flatnonzero(plan), np.flatnonzero(~plan)
        most = EXCHANGES if self._worst_case else EXCHANGES // 6
        inside = inside[np.argsort(gains[inside], kind="stable")][:most]
        outside = outside[np.argsort(-gains[outside], kind="stable")][:most]
        given = np.repeat(inside, len(outside))
        taken = np.tile(outside, len(inside))
        left = self._budget - int(plan @ self._costs)
        fits = self._costs[taken] - self._costs[given] <= left
        given, taken = given[fits], taken[fits]
        plans = np.repeat(plan[None], len(given), axis=0)
        rows = np.arange(len(given))
        plans[rows, given], plans[rows, taken] = False, True
        return plans
