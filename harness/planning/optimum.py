"""A proven optimum by mixed-integer programming.

With x_t = 1 if task t is replicated and y_t the fraction of its output that it still gives,

* y_t <= x_t, and for an independent operator y_t <= sum over its substreams of weight * y;
* maximize the reading of y, subject to the cost of x within the budget.

Maximization drives y_t to x_t times that sum, so without joins this is exact. A join gives the
product of its streams; the program has y_t <= each stream, which is never less, so with joins its
optimum is an upper bound on every plan, and the plan it finds is judged by the real objective.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array

from harness.errors import EnvironmentFailure
from harness.planning.base import Planner, trimmed
from harness.planning.structure_aware import StructureAware
from harness.topology.fidelity import Booleans, Evaluator, input_weights, substream_weights
from harness.topology.model import Edge, Topology
from harness.topology.partitioning import routes

Row = tuple[list[int], list[float]]
"""Variables and coefficients of one constraint ``coefficients @ variables <= 0``."""


class Optimum(Planner):
    """Branch and bound on the whole topology, given up after ``time_limit_s``.

    ``plan(...).bound`` is proven in every case; the plan reaches it unless there are joins or the
    time ran out. Then the structure-aware plan is returned if it is better.
    """

    name = "optimum"

    def __init__(self, *, time_limit_s: float = 60.0) -> None:
        self._time_limit_s = time_limit_s

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, float | None]:
        # here: it is slow to import, and every other planner does without
        from scipy.optimize import Bounds, LinearConstraint, milp

        topology = evaluator.topology
        tasks = topology.task_count
        rows = list(_rows(topology, joins=evaluator.joins))
        lengths = [len(columns) for columns, _ in rows]
        matrix = coo_array(
            (
                np.concatenate([values for _, values in rows]),
                (np.repeat(np.arange(len(rows)), lengths), np.concatenate([c for c, _ in rows])),
            ),
            shape=(len(rows), 2 * tasks),
        )
        spending = np.concatenate([topology.costs, np.zeros(tasks)])[None]
        result = milp(
            c=np.concatenate([np.zeros(tasks), -evaluator.reading]),
            integrality=np.concatenate([np.ones(tasks), np.zeros(tasks)]),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(matrix.tocsr(), ub=0),
                LinearConstraint(spending, ub=budget),
            ],
            options={"time_limit": self._time_limit_s, "mip_rel_gap": 1e-9},
        )
        if result.status not in (0, 1):
            raise EnvironmentFailure(
                f"the solver gave up on {tasks} tasks: {result.message}",
                remedy="use the planner sa, and report this topology",
            )
        known, _ = StructureAware()._choose(evaluator, budget)
        plans = known[None]
        if result.x is not None:
            plans = np.vstack([result.x[:tasks] > 0.5, known])
        plans = plans[plans @ topology.costs <= budget]
        values = evaluator.values(plans)
        bound = 1.0 if result.mip_dual_bound is None else -float(result.mip_dual_bound)
        best = int(values.argmax())
        return trimmed(evaluator, plans[best]), min(1.0, max(bound, float(values[best])))


def _rows(topology: Topology, *, joins: bool) -> Iterator[Row]:
    tasks = topology.task_count
    for task in range(tasks):
        yield [tasks + task, task], [1.0, -1.0]
    for name in topology.order:
        if topology.inputs(name):
            separate = joins and topology.operator(name).join
            yield from _join_rows(topology, name) if separate else _sum_rows(topology, name)


def _sum_rows(topology: Topology, name: str) -> Iterator[Row]:
    own = topology.tasks(name)
    rows: list[Row] = [([topology.task_count + t], [1.0]) for t in range(own.start, own.stop)]
    for share, edge in zip(input_weights(topology, name), topology.inputs(name), strict=True):
        for up, down, weight in _weighted(topology, edge):
            rows[down][0].append(up)
            rows[down][1].append(-weight * float(share[down]))
    yield from rows


def _join_rows(topology: Topology, name: str) -> Iterator[Row]:
    own = topology.tasks(name)
    for edge in topology.inputs(name):
        rows: list[Row] = [([topology.task_count + t], [1.0]) for t in range(own.start, own.stop)]
        for up, down, weight in _weighted(topology, edge):
            rows[down][0].append(up)
            rows[down][1].append(-weight)
        yield from rows


def _weighted(topology: Topology, edge: Edge) -> Iterator[tuple[int, int, float]]:
    """Each substream: the y variable of its upstream task, its downstream task index, and its
    weight in its input stream."""
    up = topology.operator(edge.upstream).parallelism
    down = topology.operator(edge.downstream).parallelism
    first = topology.task_count + topology.tasks(edge.upstream).start
    rows, columns = routes(edge.partitioning, up, down)
    weights = substream_weights(topology, edge)
    for upstream, downstream, weight in zip(rows, columns, weights, strict=True):
        yield first + int(upstream), int(downstream), float(weight)
