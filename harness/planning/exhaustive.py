"""Every plan there is: the reference for small topologies."""

from __future__ import annotations

import numpy as np

from harness.errors import UsageError
from harness.planning.base import Planner
from harness.topology.fidelity import Booleans, Evaluator

MOST_TASKS = 20
_CHUNK = 1 << 14


class Exhaustive(Planner):
    """Tries all subsets of tasks; of equally good ones the cheapest, then the first."""

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
        best = np.zeros(count, dtype=np.bool_)
        best_key = (0.0, 0)
        for first in range(0, 1 << count, _CHUNK):
            numbers = np.arange(first, min(first + _CHUNK, 1 << count))
            plans = (numbers[:, None] >> np.arange(count)) & 1 > 0
            spent = plans @ topology.costs
            plans, spent = plans[spent <= budget], spent[spent <= budget]
            if not len(plans):
                continue
            values = evaluator.values(plans).round(12)
            top = int(np.lexsort((spent, -values))[0])
            key = (float(values[top]), -int(spent[top]))
            if key > best_key:
                best, best_key = plans[top], key
        return best, None
