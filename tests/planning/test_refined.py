"""The refined planner: never worse than SA, nearly always the optimum, also for drawn failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.exhaustive import Exhaustive
from harness.planning.expected import Expected, Failures
from harness.planning.refined import Refined
from harness.planning.structure_aware import StructureAware
from harness.seeds import generator
from harness.topology.fidelity import Evaluator
from harness.topology.generate import Specification, random_topology
from harness.topology.model import Topology
from tests.topology.strategies import SMALL


def small(seed: int, joins: float = 0.5) -> Topology:
    spec = Specification(operators=(2, 4), parallelism=(1, 4), join_fraction=joins, zipf=0.3)
    return random_topology(spec, generator(seed, "small"))


def test_nearly_always_the_optimum_and_never_behind_sa() -> None:
    optimal = cases = 0
    for seed in range(15):
        topology = small(seed)
        if topology.task_count > 12:
            continue
        for ratio in (0.3, 0.6):
            budget = int(ratio * topology.total_cost)
            found = Refined().plan(topology, budget).value
            assert found >= StructureAware().plan(topology, budget).value - 1e-12
            cases += 1
            optimal += found >= Exhaustive().plan(topology, budget).value - 1e-9
    assert cases >= 10
    assert optimal >= 0.95 * cases


def drawn(topology: Topology, seed: int, *, nodes: int = 5, samples: int = 40) -> Failures:
    failed = generator(seed, "failed").random((samples, nodes)) < 0.4
    tasks = range(topology.task_count)
    return Failures.of_nodes(
        failed,
        primary=[task % nodes for task in tasks],
        replica=[(task + 1) % nodes for task in tasks],
    )


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5]))
@SMALL
def test_what_to_expect_is_the_mean_over_the_failures(seed: int, joins: float) -> None:
    topology = small(seed, joins)
    failures = drawn(topology, seed)
    plan = generator(seed, "plan").random(topology.task_count) < 0.5
    evaluator = Evaluator(topology)
    by_hand = sum(
        weight * evaluator.value(~dead | (plan & ~gone))
        for dead, gone, weight in zip(
            failures.primaries, failures.replicas, failures.weights, strict=True
        )
    )
    judge = Expected(evaluator, failures)
    assert judge.value(plan) == pytest.approx(by_hand)
    if joins:
        return
    gains = judge.gains(plan)[0]
    for task in range(topology.task_count):
        with_it, without = plan.copy(), plan.copy()
        with_it[task], without[task] = True, False
        assert gains[task] == pytest.approx(judge.value(with_it) - judge.value(without), abs=1e-12)


def test_failures_without_probabilities_are_refused() -> None:
    every = np.ones((2, 3), dtype=bool)
    with pytest.raises(UsageError, match="add up to"):
        Failures(primaries=every, replicas=~every, weights=np.array([0.5, 0.4]))
    with pytest.raises(UsageError, match="shape"):
        Failures(primaries=every, replicas=every[:1], weights=np.array([0.5, 0.5]))
