"""A proven optimum by mixed-integer programming.

With x_t = 1 if task t is replicated and y_t the fraction of its output that it still gives,

* y_t <= x_t, and for an independent operator y_t <= sum over its substreams of weight * y;
* maximize the reading of y, subject to the cost of x within the budget.

Maximization drives y_t to x_t times that sum, so without joins this is exact. A join gives the
product of its streams; the program has y_t <= each stream, which is never less, so with joins its
optimum is an upper bound on every plan, and the plan it finds is judged by the real objective.

For drawn failures instead of the worst case (`expected`), every failure has its own y: y_t <= x_t
where a replica would save t, y_t <= 1 where its primary lives, y_t = 0 where both copies die."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array, csr_array

from harness.errors import EnvironmentFailure
from harness.planning.base import Planner, trimmed
from harness.planning.expected import Failures
from harness.planning.structure_aware import StructureAware
from harness.topology.fidelity import Booleans, Evaluator, input_weights, substream_weights
from harness.topology.model import Edge, Topology

Row = tuple[list[int], list[float]]
"""Variables and coefficients of one constraint ``coefficients @ variables <= 0``."""


class Optimum(Planner):
    """Branch and bound on the whole topology, stopped after ``time_limit_s``.

    ``plan(...).bound`` is proven in every case; the plan reaches it unless there are joins or the
    time ran out. Then the structure-aware plan is returned if it is better."""

    name = "optimum"

    def __init__(self, *, time_limit_s: float = 60.0) -> None:
        self._time_limit_s = time_limit_s

    def _choose(self, evaluator: Evaluator, budget: int) -> tuple[Booleans, float | None]:
        topology = evaluator.topology
        worst = Failures.worst_case(topology)
        found, bound, _ = _solve(evaluator, budget, worst, time_limit_s=self._time_limit_s)
        known, _ = StructureAware()._choose(evaluator, budget)
        plans = known[None] if found is None else np.vstack([found, known])
        plans = plans[plans @ topology.costs <= budget]
        values = evaluator.values(plans)
        best = int(values.argmax())
        return trimmed(evaluator, plans[best]), min(1.0, max(bound, float(values[best])))


def expected_bound(
    topology: Topology, budget: int, failures: Failures, *, time_limit_s: float = 60.0
) -> tuple[float, bool]:
    """Return an upper bound, in [0, 1], of every plan of ``budget`` units for ``failures``.

    The second value is True if the solver finished: without joins a plan then reaches the bound."""
    _, bound, finished = _solve(Evaluator(topology), budget, failures, time_limit_s=time_limit_s)
    assert bound >= 0, "no plan is worth less than nothing"
    return min(1.0, bound), finished


def _solve(
    evaluator: Evaluator, budget: int, failures: Failures, *, time_limit_s: float
) -> tuple[Booleans | None, float, bool]:
    """Return the best plan found, if any, a bound on every plan, and True if it finished."""
    # Here, because it is slow to import and every other planner does without.
    from scipy.optimize import Bounds, LinearConstraint, milp

    topology = evaluator.topology
    tasks, worlds = topology.task_count, len(failures.weights)
    every = np.repeat([evaluator.reading], worlds, axis=0) * failures.weights[:, None]
    saved = failures.primaries & ~failures.replicas
    most = np.where(failures.primaries & failures.replicas, 0.0, 1.0)
    result = milp(
        c=np.concatenate([np.zeros(tasks), -every.ravel()]),
        integrality=np.concatenate([np.ones(tasks), np.zeros(tasks * worlds)]),
        bounds=Bounds(0, np.concatenate([np.ones(tasks), most.ravel()])),
        constraints=[
            LinearConstraint(_constraints(evaluator, saved), ub=0),
            LinearConstraint(
                np.concatenate([topology.costs, np.zeros(tasks * worlds)])[None], ub=budget
            ),
        ],
        options={"time_limit": time_limit_s, "mip_rel_gap": 1e-9},
    )
    if result.status not in (0, 1):
        raise EnvironmentFailure(
            f"the solver gave up on {tasks} tasks: {result.message}",
            remedy="use the planner sa, and report this topology",
        )
    # The solver's bound may be below zero by its tolerance, and 0.0 negated is -0.0.
    bound = 1.0 if result.mip_dual_bound is None else max(0.0, -float(result.mip_dual_bound))
    found = None if result.x is None else result.x[:tasks] > 0.5
    assert found is None or found.shape == (tasks,)
    return found, bound, result.status == 0


def _constraints(evaluator: Evaluator, saved: Booleans) -> csr_array:
    """Return all rows; the columns are x, then y of one failure after the other."""
    worlds, tasks = saved.shape
    base = list(_rows(evaluator.topology, joins=evaluator.joins))
    lengths = [len(columns) for columns, _ in base]
    row = np.repeat(np.arange(len(base)), lengths)
    column = np.concatenate([np.array(columns) for columns, _ in base] or [np.zeros(0, int)])
    value = np.concatenate([np.array(values) for _, values in base] or [np.zeros(0)])
    world, task = np.nonzero(saved)
    kept = np.arange(len(world))
    rows = [np.tile(row, worlds) + np.repeat(np.arange(worlds), len(row)) * len(base)]
    columns = [tasks + np.tile(column, worlds) + np.repeat(np.arange(worlds), len(row)) * tasks]
    values = [np.tile(value, worlds)]
    first = worlds * len(base)
    rows += [first + kept, first + kept]
    columns += [tasks + world * tasks + task, task]
    values += [np.ones(len(kept)), -np.ones(len(kept))]
    shape = (first + len(kept), tasks * (1 + worlds))
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return coo_array(entries, shape=shape).tocsr()


def _rows(topology: Topology, *, joins: bool) -> Iterator[Row]:
    """Yield the constraints of every task's output by its inputs, for one failure.

    The columns are its y. An operator has one row per task, a join one per task and input edge."""
    for name in topology.order:
        inputs = topology.inputs(name)
        own = topology.tasks(name)
        shares = input_weights(topology, name) if inputs else np.zeros(0)
        separate = joins and topology.operator(name).join
        rows: list[Row] = []
        for share, edge in zip(shares, inputs, strict=True):
            if separate or not rows:
                rows = [([task], [1.0]) for task in range(own.start, own.stop)]
            for up, down, weight in _weighted(topology, edge):
                rows[down][0].append(up)
                rows[down][1].append(-weight if separate else -weight * float(share[down]))
            if separate:
                yield from rows
        if not separate:
            yield from rows


def _weighted(topology: Topology, edge: Edge) -> Iterator[tuple[int, int, float]]:
    """Yield for each substream the upstream task, the downstream index, and its weight.

    The weight is its share of the input stream."""
    first = topology.tasks(edge.upstream).start
    weights = substream_weights(topology, edge)
    for upstream, downstream, weight in zip(*topology.routes(edge), weights, strict=True):
        yield first + int(upstream), int(downstream), float(weight)
