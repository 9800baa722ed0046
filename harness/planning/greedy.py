"""The structure-agnostic greedy planner (ppa ICDE, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.planning.base import Planner
from harness.topology.fidelity import Booleans, Evaluator

_FLAGS_AT_ONCE = 1 << 22
"""Plans times tasks that are judged together: bounds the memory."""


class Greedy(Planner):
    """Replicates the tasks whose failure alone hurts most.

    Tasks are ranked once, by the objective when only that task fails; a task that no longer fits
    the budget is passed over. Ties go to the task with the lower number.
    """

    name = "greedy"

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        costs = evaluator.topology.costs
        alive = np.zeros(len(costs), dtype=np.bool_)
        for task in np.argsort(single_failure_values(evaluator), kind="stable"):
            if costs[task] <= budget:
                alive[task] = True
                budget -= int(costs[task])
        return alive, None


def single_failure_values(evaluator: Evaluator) -> NDArray[np.float64]:
    """The objective when only that task fails, for each task; rounded to 12 digits so that equal
    tasks tie whatever the order of summation."""
    count = evaluator.topology.task_count
    found = np.empty(count)
    step = max(1, _FLAGS_AT_ONCE // count)
    for first in range(0, count, step):
        tasks = np.arange(first, min(first + step, count))
        alive = np.ones((len(tasks), count), dtype=np.bool_)
        alive[np.arange(len(tasks)), tasks] = False
        found[tasks] = evaluator.values(alive)
    return found.round(12)
