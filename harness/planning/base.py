"""What every replication planner promises.

A planner chooses which tasks get an active replica, at most ``budget`` resource units of them,
for the worst case of a correlated failure: every task outside the plan fails at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPlan:
    """The tasks that get an active replica, and what that is worth."""

    tasks: tuple[int, ...]
    """Task numbers, ascending."""
    cost: int
    """Resource units that the replicas take."""
    objective: Objective
    value: float
    """The objective when every task outside the plan has failed, in [0, 1]."""
    bound: float | None = None
    """No plan within the budget can be worth more than this, where that is proven."""

    def alive(self, topology: Topology) -> Booleans:
        """The plan as flags, shape ``(tasks,)``."""
        return flags(topology, self.tasks)


def flags(topology: Topology, tasks: tuple[int, ...] | NDArray[np.int64]) -> Booleans:
    """``tasks`` as a boolean array over all tasks."""
    alive = np.zeros(topology.task_count, dtype=np.bool_)
    alive[np.asarray(tasks, dtype=np.int64)] = True
    return alive


class Planner(ABC):
    """One way to choose; the same input always gives the same plan."""

    name: ClassVar[str]
    proves_optimum: ClassVar[bool] = False
    """Whether no plan within the budget can be better than the one it returns."""

    def plan(
        self, topology: Topology, budget: int, objective: Objective = Objective.OF
    ) -> ReplicationPlan:
        """A plan that costs at most ``budget`` units.

        Raises `UsageError` if the budget is negative or beyond the total cost, or if the topology
        is too large for this planner.
        """
        check_budget(topology, budget)
        evaluator = Evaluator(topology, objective)
        alive, bound = self._choose(evaluator, budget)
        cost = int(topology.costs[alive].sum())
        assert cost <= budget, f"{self.name} spent {cost} of {budget}"
        value = evaluator.value(alive)
        return ReplicationPlan(
            tasks=tuple(int(task) for task in np.flatnonzero(alive)),
            cost=cost,
            objective=objective,
            value=value,
            bound=value if self.proves_optimum else bound,
        )

    @abstractmethod
    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, float | None]:
        """The plan as flags over all tasks, and a proven bound if there is one."""


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
    """``alive`` without the tasks that add nothing to the objective, the last numbered first."""
    kept = alive.copy()
    value = evaluator.value(kept)
    tasks = np.flatnonzero(kept)[::-1]
    without = np.repeat(kept[None], len(tasks), axis=0)
    without[np.arange(len(tasks)), tasks] = False
    for task in tasks[evaluator.values(without) >= value - 1e-12] if len(tasks) else []:
        kept[task] = False
        if evaluator.value(kept) < value - 1e-12:
            kept[task] = True
    return kept
