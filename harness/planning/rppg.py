"""Resilient physical plan generation (edge, sections III-C and IV).

It selects the tasks of an edge application that get an active replica, and the number of ackers.

A task's risk is its recovery time without a replica (equation 1) times the probability that it
fails. Algorithm 1 takes tasks by falling risk while they fit what is left of the budget after
the checkpoint store and the ackers are paid; one that does not fit is passed over.

Tests: ``tests/planning/test_tiers.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from harness.errors import UsageError
from harness.planning.tiers import (
    PlacedTask,
    Placement,
    RecoveryModel,
    TieredNetwork,
    failure_probability,
    recovery_time_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultToleranceCosts:
    """Costs of the fixed parts of fault tolerance, in units of the budget."""

    store: float = 0.1
    acker: float = 0.1
    tuples_per_s_per_acker: float = 10_000.0
    """o_acker: tuples that one acker can track."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResilientPlan:
    """The result of RPPG."""

    replicated: tuple[str, ...]
    """Task names, riskiest first."""
    ackers: int
    risks: dict[str, float]
    """Expected seconds of recovery per task in the time slot, a_i(t, X)."""
    spent: float
    """Budget used by replicas, store and ackers together."""


def acker_count(tasks: Sequence[PlacedTask], costs: FaultToleranceCosts) -> int:
    """Return |V_acker|, the sum of the input rates / o_acker, rounded up."""
    return ceil(sum(task.input_rate for task in tasks) / costs.tuples_per_s_per_acker)


def rppg(
    tasks: Sequence[PlacedTask],
    *,
    budget: float,
    placement: Placement,
    network: TieredNetwork,
    store: str,
    monitor: str,
    model: RecoveryModel | None = None,
    costs: FaultToleranceCosts | None = None,
) -> ResilientPlan:
    """Select the replicated tasks (Algorithm 1, lines 1-6) for a preliminary placement X_0.

    ``budget`` is C, for all of fault tolerance; `UsageError` if the store and the ackers alone
    exceed it."""
    model, costs = model or RecoveryModel(), costs or FaultToleranceCosts()
    ackers = acker_count(tasks, costs)
    fixed = costs.store + ackers * costs.acker
    left = budget - fixed
    if left < 0:
        raise UsageError(
            f"a budget of {budget:g} does not pay for the checkpoint store and {ackers} ackers, "
            f"which take {fixed:g}",
            remedy=f"give a budget of {fixed:g} or more",
        )
    risks = {
        task.name: failure_probability(task, network.node(placement[task.name]))
        * recovery_time_s(
            task, placement=placement, network=network, store=store, monitor=monitor, model=model
        )
        for task in tasks
    }
    replicated = []
    for task in sorted(tasks, key=lambda each: -risks[each.name]):
        if task.demand <= left:
            replicated.append(task.name)
            left -= task.demand
    assert left >= 0, "only tasks that fit are replicated"
    assert all(risk >= 0 for risk in risks.values())
    return ResilientPlan(
        replicated=tuple(replicated), ackers=ackers, risks=risks, spent=budget - left
    )
