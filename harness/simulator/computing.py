"""Nodes run operators: at once, as far as the result goes, and in the time that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.hosting.answers import EFFECTS
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.operators import TaskOperator
from harness.protocol.scheme import Method
from harness.simulator.node import SimulatedNode
from harness.simulator.options import Options
from harness.simulator.synthetic import RAISES, SeriesOperator, WindowOperator


class Computing:
    """The cost of computing, by task, in microseconds of a node of speed 1."""

    def __init__(self, options: Options, operators: Sequence[TaskOperator]) -> None:
        self._costs = options.costs
        rules = options.scheme.tentative
        self._undo = rules is not None and rules.method is Method.UNDO
        self._operators = operators
        self._sources = frozenset(options.wiring.sources)
        self.compute_us = [0] * len(operators)
        self.copy_us = [0] * len(operators)
        """The part of that for copying state, or writing checkpoints."""

    def perform(
        self, node: SimulatedNode, effect: do.ProcessBatch | do.RebuildState
    ) -> tuple[told.NodeInput, int, int]:
        """Return the operator's answer, its cost, and the lane that it is computed on."""
        operator = self._operators[effect.task]
        lane = 0
        if isinstance(effect, do.ProcessBatch):
            cost = self._process_us(effect, operator)
            self.compute_us[effect.task] += cost
            lane = 1 if effect.run is told.TENTATIVE else 0
        else:
            cost = self._rebuild_us(effect, operator)
        do_it: Callable[..., told.NodeInput] | None = EFFECTS[type(effect)].perform
        assert do_it is not None
        return do_it(effect, RAISES if node.raises else operator), cost, lane

    @staticmethod
    def occupy(node: SimulatedNode, now: int, cost_us: int, lane: int) -> tuple[int, int]:
        """Return the start and end time of a computation of this cost, and occupy the lane."""
        if lane:
            lane = min(lane, len(node.free_at) - 1)
        begin = max(now, node.free_at[lane])
        done = node.free_at[lane] = begin + cost_us * node.slowness
        return begin, done

    def check(self, node: SimulatedNode, now: int, message: told.BatchArrived) -> None:
        """Spend the time that a node needs to recognize a batch that it had before."""
        count = self._operators[message.task].tuples((message.payload,))
        self.occupy(node, now, self._costs.check_us * count, 0)

    def write(self, node: SimulatedNode, now: int, checkpoint: told.Checkpoint) -> tuple[int, int]:
        """(tuples of state, when they are written): nothing else is computed meanwhile."""
        size = self._operators[checkpoint.task].state_tuples(checkpoint.state)
        cost = self._costs.store_us * size * node.slowness
        self.copy_us[checkpoint.task] += cost
        node.free_at[0] = max(now, node.free_at[0]) + cost
        return size, node.free_at[0]

    def _process_us(self, effect: do.ProcessBatch, operator: TaskOperator) -> int:
        costs = self._costs
        cost = costs.batch_us
        each = costs.tuple_us
        if costs.source_us is not None and effect.task in self._sources:
            each = costs.source_us
        if each:
            cost += each * operator.tuples(effect.inputs)
        if effect.copies_state:
            each = costs.compare_us if self._undo else costs.copy_us
            copying = each * operator.state_tuples(effect.state)
            self.copy_us[effect.task] += copying
            cost += copying
        return cost

    def _rebuild_us(self, effect: do.RebuildState, operator: TaskOperator) -> int:
        costs = self._costs
        cost = costs.copy_us * operator.state_tuples(effect.state)
        each = costs.tuple_us + (costs.compare_us if effect.method is Method.UNDO else 0)
        counts = [operator.tuples(inputs) for inputs in effect.inputs]
        if effect.method is Method.UNDO and isinstance(operator, WindowOperator | SeriesOperator):
            # Of the batches behind the marker as many tuples are needed as the window holds.
            behind = counts[: operator.memory]
            cost -= each * max(0, sum(behind) - operator.window)
        for offset, count in enumerate(counts):
            cost += each * count
            if effect.method is Method.UNDO and offset == len(effect.inputs) - 1:
                cost += costs.compare_us * count * effect.undone
        return cost
