"""The structure-agnostic greedy planner (ppa ICDE, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.planning.base import Planner, without_each
from harness.topology.fidelity import Booleans, Evaluator

_FLAGS_AT_ONCE = 1 << 22
"""Plans times tasks that are judged together: bounds the memory."""


class Greedy(Planner):
    """The tasks whose failure alone hurts most.

    Tasks are ranked once, by the objective when only that task fails; a task that no longer fits
    the budget is passed over. Ties go to the task with the lower number."""

    name = "greedy"

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        costs = evaluator.topology.costs
        alive = np.zeros(len(costs), dtype=np.bool_)
        for task in np.argsort(single_failure_values(evaluator), kind="stable"):
            if costs[task] <= budget:
                alive[task] = True
                budget -= int(costs[task])
        assert budget >= 0, "only tasks that fit are taken"
        return alive, None


def single_failure_values(evaluator: Evaluator) -> NDArray[np.float64]:
    """Return the objective when only that task fails, for each task.

    The values are rounded to 12 digits so that equal tasks tie whatever the order of summation."""
    count = evaluator.topology.task_count
    every = np.ones(count, dtype=np.bool_)
    step = max(1, _FLAGS_AT_ONCE // count)
    found = [
        evaluator.values(without_each(every, np.arange(first, min(first + step, count))))
        for first in range(0, count, step)
    ]
    values = np.concatenate(found).round(12)
    assert values.shape == (count,)
    return values
