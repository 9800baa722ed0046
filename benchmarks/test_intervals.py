"""Failures per second of the vectorized simulator against plain Python loops, in one run.

`ratio` in each benchmark's extra info is the speed of the simulator as a multiple of the loop's.
The first loop is the process as in the paper, checkpoint by checkpoint; the second counts
checkpoints by one division."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.intervals.failure_models import Exponential
from harness.intervals.simulator import simulate
from harness.intervals.utilization import CheckpointedSystem

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

# Row 1 of the paper's Table 1, at its T*: about 19 checkpoints between two failures.
SYSTEM = CheckpointedSystem(
    cost_s=1.6, failure_rate_per_s=0.05 / 60.0, restart_s=23.1, depth=5, delay_s=0.027353
)
COST_S, RATE_PER_S, RESTART_S, STAGGER_S = 1.6, 0.05 / 60.0, 23.1, 4 * 0.027353
INTERVAL_S = float(SYSTEM.optimal_interval_s())
RUNS, FAILURES_PER_RUN = 250, 8000


def checkpoint_by_checkpoint(failures: int) -> float:
    """Return the utilization, one event after the other."""
    draw = random.Random(5).expovariate
    useful = elapsed = 0.0
    for _ in range(failures):
        gap = draw(RATE_PER_S)
        elapsed += gap
        clock, needed = RESTART_S, INTERVAL_S + STAGGER_S
        while clock + needed <= gap:
            clock += needed
            useful += INTERVAL_S - COST_S
            needed = INTERVAL_S
    return useful / elapsed


def one_division_per_failure(failures: int) -> float:
    """Return the utilization with the simulator's own shortcut but without numpy."""
    draw = random.Random(5).expovariate
    completed, elapsed = 0, 0.0
    for _ in range(failures):
        gap = draw(RATE_PER_S)
        elapsed += gap
        completed += max(0, math.floor((gap - RESTART_S - STAGGER_S) / INTERVAL_S))
    return completed * (INTERVAL_S - COST_S) / elapsed


def vectorized() -> float:
    result = simulate(
        SYSTEM,
        INTERVAL_S,
        failures=Exponential(mttf_s=1.0 / RATE_PER_S),
        generator=np.random.default_rng(5),
        runs=RUNS,
        failures_per_run=FAILURES_PER_RUN,
    )
    return float(result.utilization[0])


def best_rate(call: Callable[[int], float], failures: int) -> float:
    """Return failures per second in the fastest of three runs."""
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        found = call(failures)
        best = min(best, time.perf_counter() - start)
        assert found == pytest.approx(float(SYSTEM.utilization(INTERVAL_S)), abs=0.01)
    return failures / best


@pytest.mark.parametrize(
    ("loop", "at_least"), [(checkpoint_by_checkpoint, 100.0), (one_division_per_failure, 20.0)]
)
def test_simulator_against_a_plain_loop(
    benchmark: BenchmarkFixture, loop: Callable[[int], float], at_least: float
) -> None:
    pedantic: Any = benchmark.pedantic
    found = pedantic(vectorized, rounds=5, warmup_rounds=1)
    assert found == pytest.approx(float(SYSTEM.utilization(INTERVAL_S)), abs=0.002)
    assert benchmark.stats is not None
    rate = RUNS * FAILURES_PER_RUN / benchmark.stats.stats.min
    plain = best_rate(loop, 200_000)
    benchmark.extra_info["failures_per_s"] = round(rate)
    benchmark.extra_info["plain_failures_per_s"] = round(plain)
    benchmark.extra_info["ratio"] = round(rate / plain, 1)
    assert rate / plain >= at_least
