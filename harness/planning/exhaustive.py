"""Exhaustive search: the reference for small topologies."""

from __future__ import annotations

import numpy as np

from harness.errors import UsageError
from harness.planning.base import Best, Planner
from harness.topology.fidelity import Booleans, Evaluator

MOST_TASKS = 20
_CHUNK = 1 << 14


class Exhaustive(Planner):
    """All subsets of tasks; of equally good ones the cheapest, then the first."""

    name = "exhaustive"
    proves_optimum = True

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        topology = evaluator.topology
        count = topology.task_count
        if count > MOST_TASKS:
            raise UsageError(
                f"the topology has {count} tasks; exhaustive search stops at {MOST_TASKS}",
                remedy="use the planner dp, optimum or sa",
            )
        best = Best(evaluator)
        for first in range(0, 1 << count, _CHUNK):
            numbers = np.arange(first, min(first + _CHUNK, 1 << count))
            plans = (numbers[:, None] >> np.arange(count)) & 1 > 0
            best.see(plans[plans @ topology.costs <= budget])
        return best.plan, None
