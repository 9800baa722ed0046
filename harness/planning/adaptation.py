"""Changing a running plan when rates drift (ppa ICDE, section V-C, which leaves it open).

Retiring a replica is free: it is stopped. Starting one costs: a checkpoint travels, buffers are
replayed. The best change is therefore the one with the fewest new replicas that reaches a good
enough plan, rather than the change to the best plan at the new rates.

The change goes from the running plan towards a target plan in steps that keep every budget: a
step starts the replicas that the target wants most per unit started, and retires running ones
that add least, no more than needed. Every prefix is a plan, so the operator may stop early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.planning.base import Planner, check_budget, flags, task_numbers, trimmed, without_each
from harness.planning.structure_aware import Search, StructureAware
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """The replicas to retire and to start."""

    retire: tuple[int, ...]
    """Task numbers, ascending."""
    start: tuple[int, ...]
    cost: int
    """Resource units of replicas that are started."""
    value_before: float
    """The objective of the running plan at the new rates."""
    value_after: float


def adapt(
    topology: Topology,
    running: Sequence[int],
    budget: int,
    *,
    objective: Objective = Objective.OF,
    planner: Planner | None = None,
    good_enough: float = 0.99,
) -> PlanChange:
    """Return the cheapest change found that brings ``running`` close to a new plan.

    Close is ``good_enough`` times the value that ``planner`` reaches from nothing at the rates of
    ``topology``. ``running`` may exceed ``budget``; then replicas are retired until it fits. Two
    ways are tried, growing the running plan where room is or can be made, and going over to the
    planner's plan step by step; the cheaper one that is good enough wins, else the better one."""
    check_budget(topology, budget)
    evaluator = Evaluator(topology, objective)
    before = flags(topology, tuple(running))
    target = (planner or StructureAware()).plan(topology, budget, objective).alive(topology)
    kept = _within(evaluator, before, budget)
    aim = good_enough * max(evaluator.value(target), evaluator.value(kept))
    ways = [_grown(evaluator, kept, budget), _towards(evaluator, kept, target, budget, aim), kept]
    after = min(ways, key=lambda plan: _merit(evaluator, before, plan, aim))
    assert after @ topology.costs <= budget, "the plan after the change fits the budget"
    return PlanChange(
        retire=task_numbers(before & ~after),
        start=task_numbers(after & ~before),
        cost=int(topology.costs[after & ~before].sum()),
        value_before=evaluator.value(before),
        value_after=evaluator.value(after),
    )


def _merit(
    evaluator: Evaluator, before: Booleans, plan: Booleans, aim: float
) -> tuple[float, float]:
    """Return the shortfall from the aim, then the cost of new replicas; the least is best."""
    shortfall = max(0.0, aim - evaluator.value(plan))
    return round(shortfall, 12), float(evaluator.topology.costs[plan & ~before].sum())


def _within(evaluator: Evaluator, plan: Booleans, budget: int) -> Booleans:
    """Remove the tasks that add nothing, then those that add least per unit, until it fits."""
    plan = trimmed(evaluator, plan)
    costs = evaluator.topology.costs
    while plan @ costs > budget:
        tasks = np.flatnonzero(plan)
        lost = evaluator.value(plan) - evaluator.values(without_each(plan, tasks))
        worst = tasks[int((lost / np.maximum(costs[tasks], 1)).round(12).argmin())]
        plan = plan.copy()
        plan[worst] = False
        plan = trimmed(evaluator, plan)
    return plan


def _grown(evaluator: Evaluator, plan: Booleans, budget: int) -> Booleans:
    """Extend ``plan`` with what the budget still allows; nothing is removed."""
    search = Search(evaluator, budget - int(plan @ evaluator.topology.costs), plan=plan)
    search.grow()
    assert not (plan & ~search.plan).any(), "nothing is removed"
    return search.plan


def _towards(
    evaluator: Evaluator, plan: Booleans, target: Booleans, budget: int, aim: float
) -> Booleans:
    """Return the target, with running replicas in place of new ones where the aim allows it."""
    costs = evaluator.topology.costs
    current = target.copy()
    for task in np.flatnonzero(target & ~plan):
        attempt = current.copy()
        attempt[task] = False
        attempt = _grown_from(evaluator, attempt, plan, budget)
        if evaluator.value(attempt) >= aim and attempt @ costs <= budget:
            current = attempt
    return trimmed(evaluator, current)


def _grown_from(evaluator: Evaluator, plan: Booleans, pool: Booleans, budget: int) -> Booleans:
    """Add the tasks of ``pool`` that fit to ``plan``, those of the widest influence first."""
    costs = evaluator.topology.costs
    result = plan.copy()
    left = budget - int(plan @ costs)
    candidates = np.flatnonzero(pool & ~plan)
    for task in candidates[np.argsort(-evaluator.influence[candidates], kind="stable")]:
        if costs[task] <= left:
            result[task] = True
            left -= int(costs[task])
    return result
