"""The contract of every replication planner.

A planner chooses the tasks that get an active replica, at most ``budget`` resource units of them,
for the worst case of a correlated failure: every task outside the plan fails at once.

Tests: ``tests/planning/test_planners.py``, for every planner of the list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.model import Topology

_AT_ONCE = 1 << 14
"""Plans that are compared together: bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPlan:
    """The tasks that get an active replica, and the value of that choice."""

    tasks: tuple[int, ...]
    """Task numbers, ascending."""
    cost: int
    """Resource units of the replicas."""
    objective: Objective
    value: float
    """The objective when every task outside the plan has failed, in [0, 1]."""
    bound: float | None = None
    """A proven upper bound of ``value`` for all plans within the budget, if there is one."""

    def __post_init__(self) -> None:
        assert list(self.tasks) == sorted(set(self.tasks)), "each task once, ascending"
        assert self.cost >= 0, f"a plan of {self.cost} units"
        assert -1e-9 <= self.value <= 1 + 1e-9, f"a value of {self.value}"
        assert self.bound is None or self.value - 1e-9 <= self.bound <= 1 + 1e-9

    def alive(self, topology: Topology) -> Booleans:
        """Return the plan as flags, shape ``(tasks,)``."""
        return flags(topology, self.tasks)


def flags(topology: Topology, tasks: tuple[int, ...] | NDArray[np.int64]) -> Booleans:
    """Return ``tasks`` as a boolean array over all tasks."""
    alive = np.zeros(topology.task_count, dtype=np.bool_)
    alive[np.asarray(tasks, dtype=np.int64)] = True
    return alive


def task_numbers(alive: Booleans) -> tuple[int, ...]:
    """Return the tasks that ``alive`` flags, ascending."""
    assert alive.ndim == 1, "one plan"
    return tuple(np.flatnonzero(alive).tolist())


def without_each(plan: Booleans, tasks: NDArray[np.int64]) -> Booleans:
    """Return copies of ``plan``, each without one of ``tasks``; shape ``(tasks, all tasks)``."""
    plans = np.repeat(plan[None], len(tasks), axis=0)
    plans[np.arange(len(tasks)), tasks] = False
    return plans


class Planner(ABC):
    """One way to choose; the same input always gives the same plan."""

    name: ClassVar[str]
    proves_optimum: ClassVar[bool] = False
    """True if no plan within the budget can be better than the returned one."""

    def plan(
        self, topology: Topology, budget: int, objective: Objective = Objective.OF
    ) -> ReplicationPlan:
        """Return a plan that costs at most ``budget`` units.

        Raises `UsageError` if the budget is negative or beyond the total cost, or if the topology
        is too large for this planner."""
        check_budget(topology, budget)
        evaluator = Evaluator(topology, objective)
        alive, bound = self._choose(evaluator, budget)
        assert alive.shape == (topology.task_count,), "one flag per task"
        assert alive.dtype == np.bool_
        cost = int(topology.costs[alive].sum())
        assert cost <= budget, f"{self.name} spent {cost} of {budget}"
        value = evaluator.value(alive)
        return ReplicationPlan(
            tasks=task_numbers(alive),
            cost=cost,
            objective=objective,
            value=value,
            bound=value if self.proves_optimum else bound,
        )

    @abstractmethod
    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, float | None]:
        """Return the plan as flags over all tasks, and a proven bound if there is one."""


def budget_of(topology: Topology, share: float) -> int:
    """Return this share of the cost of replicating everything, in whole units, rounded down.

    A product such as 0.29 * 100, which is a little below 29 in floating point, is 29."""
    return int(share * topology.total_cost + 1e-9)


def check_budget(topology: Topology, budget: int) -> None:
    """Refuse a budget that no plan can use."""
    if budget < 0:
        raise UsageError(f"the budget is {budget}", remedy="give 0 or more resource units")
    if budget > topology.total_cost:
        raise UsageError(
            f"the budget is {budget} units, but replicating every task takes {topology.total_cost}",
            remedy=f"give at most {topology.total_cost}, or a fraction such as 0.5",
        )


def trimmed(evaluator: Evaluator, alive: Booleans) -> Booleans:
    """Return ``alive`` without tasks that add nothing, the last numbered removed first."""
    kept = alive.copy()
    value = evaluator.value(kept)
    tasks = np.flatnonzero(kept)[::-1]
    if not len(tasks):
        return kept
    for task in tasks[evaluator.values(without_each(kept, tasks)) >= value - 1e-12]:
        kept[task] = False
        if evaluator.value(kept) < value - 1e-12:
            kept[task] = True
    assert not (kept & ~alive).any(), "nothing is added"
    return kept


class Best:
    """The best of the plans seen; of equally good ones the cheapest, then the first."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.plan: Booleans = np.zeros(evaluator.topology.task_count, dtype=np.bool_)
        self._key = (0.0, 0)

    def see(self, plans: Booleans) -> None:
        """Compare ``plans``, shape ``(plans, tasks)``, with the best one."""
        for first in range(0, len(plans), _AT_ONCE):
            some = plans[first : first + _AT_ONCE]
            values = self._evaluator.values(some).round(12)
            spent = some @ self._evaluator.topology.costs
            top = int(np.lexsort((spent, -values))[0])
            key = (float(values[top]), -int(spent[top]))
            if key > self._key:
                self.plan, self._key = some[top], key
