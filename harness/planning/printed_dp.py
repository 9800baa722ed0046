"""Algorithm 1 of ppa ICDE as it is printed: candidate plans by rising cost.

`dynamic_programming` finds the same plans in another order, without scanning every candidate at
every step. This one is kept for its running time, which the papers report for theirs. Symbols
that the printed copy lost are restored from its prose."""

from __future__ import annotations

import numpy as np

from harness.errors import UsageError
from harness.planning.base import Planner
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.trees import mc_trees


class PrintedDynamicProgramming(Planner):
    """The optimum for OF, slowly; gives up (`UsageError`) beyond ``most_plans`` candidates."""

    name = "dp-printed"
    proves_optimum = True

    def __init__(self, *, most_plans: int = 1_000_000) -> None:
        self._most_plans = most_plans

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        if evaluator.objective is not Objective.OF:
            raise UsageError(
                "Algorithm 1 plans by complete MC-trees, which internal completeness does not need",
                remedy="use the planner dp",
            )
        costs = [int(cost) for cost in evaluator.topology.costs]
        trees = [sum(1 << task for task in tree) for tree in mc_trees(evaluator.topology)]

        def cost(plan: int) -> int:
            return sum(costs[task] for task in range(len(costs)) if plan >> task & 1)

        open_ = {0: 0}
        """The cost of every candidate with expansions that were not considered yet."""
        every = {0}
        for usage in range(budget + 1):  # line 2
            for plan, spent in list(open_.items()):  # line 3
                left = usage - spent  # line 4
                assert left >= 0, "candidates come by rising cost"
                missing = [(tree, cost(tree & ~plan)) for tree in trees if tree & ~plan]  # line 5-6
                if not missing or max(each for _, each in missing) < left:
                    del open_[plan]  # line 13
                    continue
                for tree, needed in missing:  # line 7-8
                    grown = plan | tree
                    if needed == left and grown not in every:  # line 9-10
                        every.add(grown)
                        open_[grown] = spent + needed  # line 11
            if len(every) > self._most_plans:
                raise UsageError(
                    f"the printed algorithm holds more than {self._most_plans:,} plans at a usage "
                    f"of {usage}",
                    remedy="use the planner dp, optimum or sa, or a smaller budget",
                )
        count = evaluator.topology.task_count
        plans = np.array([[plan >> task & 1 for task in range(count)] for plan in sorted(every)])
        values = evaluator.values(plans.astype(np.bool_)).round(12)
        return plans[int(values.argmax())].astype(np.bool_), None  # line 15
