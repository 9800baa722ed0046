"""The optimal planner of ppa ICDE, Algorithm 1: dynamic programming over MC-trees.

A plan is worth something only for the MC-trees that it completes, so an optimal plan is a union
of MC-trees. The printed algorithm grows the set of such unions by rising cost. Here it grows
tree by tree: after tree k it holds every distinct union of the first k trees within the budget.
Both hold the same unions in the end, exponentially many in the number of trees; this order needs
no search for duplicates beyond one sort per tree, over plans packed into machine words.

Under internal completeness a task counts without its descendants, and joins do not matter, so
the trees are those that end in any task, joins ignored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.planning.base import Best, Planner
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.trees import Tree, TreeBuilder, mc_trees

Words = NDArray[np.uint64]
"""Plans packed 64 tasks to a word, shape ``(plans, words)``."""

_AT_ONCE = 1 << 14


class DynamicProgramming(Planner):
    """The optimum for topologies with few MC-trees; ``most_plans`` bounds its memory."""

    name = "dp"
    proves_optimum = True

    def __init__(self, *, most_plans: int = 4_000_000, most_trees: int = 5_000) -> None:
        self._most_plans = most_plans
        self._most_trees = most_trees

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, None]:
        topology = evaluator.topology
        trees = self._trees(evaluator)
        rows = np.zeros((len(trees), topology.task_count), dtype=np.bool_)
        for row, tree in enumerate(trees):
            rows[row, list(tree)] = True
        rows = rows[rows @ topology.costs <= budget]
        plans = _pack(np.zeros((1, topology.task_count), dtype=np.bool_))
        for tree in _pack(rows):
            grown = np.setdiff1d(_as_items(plans | tree), _as_items(plans))
            words = grown.view(np.uint64).reshape(len(grown), plans.shape[1])
            fits = _unpack(words, topology.task_count) @ topology.costs <= budget
            plans = np.vstack([plans, words[fits]])
            assert not plans[0].any(), "the empty plan stays the first"
            if len(plans) > self._most_plans:
                raise UsageError(
                    f"dynamic programming holds more than {self._most_plans:,} plans after "
                    f"{len(trees)} MC-trees at a budget of {budget}",
                    remedy="use the planner optimum or sa, or a smaller budget",
                )
        best = Best(evaluator)
        for first in range(0, len(plans), _AT_ONCE):
            best.see(_unpack(plans[first : first + _AT_ONCE], topology.task_count))
        return best.plan, None

    def _trees(self, evaluator: Evaluator) -> list[Tree]:
        topology = evaluator.topology
        if evaluator.objective is Objective.OF:
            return mc_trees(topology, limit=self._most_trees)
        builder = TreeBuilder(topology, topology.order, topology.edges, joins=False)
        count = sum(builder.count(name) for name in topology.order)
        if count > self._most_trees:
            raise UsageError(
                f"the topology has {count:,} partial trees, more than {self._most_trees:,}",
                remedy="use the planner optimum or sa",
            )
        return [tree for name in topology.order for tree in builder.trees(name)]


def _pack(plans: Booleans) -> Words:
    width = -(-plans.shape[1] // 64) * 64
    padded = np.zeros((len(plans), width), dtype=np.bool_)
    padded[:, : plans.shape[1]] = plans
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _unpack(words: Words, count: int) -> Booleans:
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little", count=count)
    return bits.astype(np.bool_)


def _as_items(words: Words) -> NDArray[np.void] | Words:
    """Return each plan as one sortable item."""
    words = np.ascontiguousarray(words)
    if words.shape[1] == 1:
        return words[:, 0]
    return words.view(np.dtype((np.void, words.shape[1] * 8)))[:, 0]
