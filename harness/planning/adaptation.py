"""Changing a running plan when rates drift (ppa ICDE, section V-C, which leaves it open).

Retiring a replica is free: it is stopped. Starting one costs: a checkpoint travels, buffers are
replayed. So the question is not which plan is best at the new rates but which change reaches a
plan that is good enough with the fewest new replicas.

The change goes from the running plan towards a target plan in steps that keep every budget: a
step starts the replicas that the target wants most per unit started, and retires running ones
that add least, no more than needed. Every prefix is a plan, so the operator may stop early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.planning.base import Planner, check_budget, flags, trimmed
from harness.planning.structure_aware import Search, StructureAware
from harness.topology.fidelity import Booleans, Evaluator, Objective
from harness.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """Which replicas to retire and which to start."""

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
    """The cheapest change found that brings ``running`` to ``good_enough`` of what ``planner``
    reaches from nothing at the rates of ``topology``.

    ``running`` may exceed ``budget``; then replicas are retired until it fits. Two ways are
    tried, growing the running plan where room is or can be made, and going over to the planner's
    plan step by step; the cheaper one that is good enough wins, else the better one.
    """
    check_budget(topology, budget)
    evaluator = Evaluator(topology, objective)
    before = flags(topology, tuple(running))
    target = (planner or StructureAware()).plan(topology, budget, objective).alive(topology)
    kept = _within(evaluator, before, budget)
    aim = good_enough * max(evaluator.value(target), evaluator.value(kept))
    ways = [_grown(evaluator, kept, budget), _towards(evaluator, kept, target, budget, aim), kept]
    after = min(ways, key=lambda plan: _merit(evaluator, before, plan, aim))
    return PlanChange(
        retire=_numbers(before & ~after),
        start=_numbers(after & ~before),
        cost=int(topology.costs[after & ~before].sum()),
        value_before=evaluator.value(before),
        value_after=evaluator.value(after),
    )


def _merit(
    evaluator: Evaluator, before: Booleans, plan: Booleans, aim: float
) -> tuple[float, float]:
    """Least is best: shortfall from the aim first, then what is started."""
    shortfall = max(0.0, aim - evaluator.value(plan))
    return round(shortfall, 12), float(evaluator.topology.costs[plan & ~before].sum())


def _within(evaluator: Evaluator, plan: Booleans, budget: int) -> Booleans:
    """``plan`` without the tasks that add nothing, and then without those that add least per
    unit, until it fits."""
    plan = trimmed(evaluator, plan)
    costs = evaluator.topology.costs
    while plan @ costs > budget:
        tasks = np.flatnonzero(plan)
        without = np.repeat(plan[None], len(tasks), axis=0)
        without[np.arange(len(tasks)), tasks] = False
        lost = (evaluator.value(plan) - evaluator.values(without)) / np.maximum(costs[tasks], 1)
        plan = plan.copy()
        plan[tasks[int(lost.round(12).argmin())]] = False
        plan = trimmed(evaluator, plan)
    return plan


def _grown(evaluator: Evaluator, plan: Booleans, budget: int) -> Booleans:
    """``plan`` extended with what the budget still allows; nothing but additions."""
    search = Search(evaluator, budget - int(plan @ evaluator.topology.costs), plan=plan)
    while steps := search.best_steps():
        for step in steps:
            search.take(step)
    return search.plan


def _towards(
    evaluator: Evaluator, plan: Booleans, target: Booleans, budget: int, aim: float
) -> Booleans:
    """The target with as many running replicas in the place of new ones as the aim allows."""
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
    """``plan`` with the tasks of ``pool`` that fit, those of the widest influence first."""
    costs = evaluator.topology.costs
    result = plan.copy()
    left = budget - int(plan @ costs)
    candidates = np.flatnonzero(pool & ~plan)
    for task in candidates[np.argsort(-evaluator.influence[candidates], kind="stable")]:
        if costs[task] <= left:
            result[task] = True
            left -= int(costs[task])
    return result


def _numbers(plan: Booleans) -> tuple[int, ...]:
    return tuple(int(task) for task in np.flatnonzero(plan))
