"""The simulator against an event-by-event loop, and against the closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.errors import UsageError
from harness.intervals.failure_models import (
    Exponential,
    FailureModel,
    LognormalRepair,
    Trace,
    Weibull,
)
from harness.intervals.renewal import best_interval_s, renewal_utilization
from harness.intervals.simulator import Simulation, simulate
from harness.intervals.utilization import CheckpointedSystem
from harness.seeds import DEFAULT_SEED, generator

# λ/min, T min, c min, R min, n, δ min: the ranges of every figure of the paper.
GRID = [
    (rate, interval, cost, restart, depth, delay)
    for rate in (0.001, 0.005, 0.05, 0.5)
    for interval in (0.6, 3.0, 30.0)
    for cost, restart, depth, delay in (
        (0.05, 0.0, 1, 0.0),
        (0.5, 0.4, 5, 0.0005),
        (0.5, 1.0, 100, 0.025),
    )
]


def build(cost: float, rate: float, restart: float, depth: int, delay: float) -> CheckpointedSystem:
    """Return a system with these parameters in minutes."""
    return CheckpointedSystem(
        cost_s=60.0 * cost,
        failure_rate_per_s=rate / 60.0,
        restart_s=60.0 * restart,
        depth=depth,
        delay_s=60.0 * delay,
    )


def run(
    system: CheckpointedSystem,
    interval_s: float | np.ndarray,
    failures: FailureModel,
    *seed: str | int,
    runs: int,
    gaps: int,
) -> Simulation:
    """Simulate with a separate generator for each ``seed``."""
    return simulate(
        system,
        interval_s,
        failures=failures,
        generator=generator(DEFAULT_SEED, *seed),
        runs=runs,
        failures_per_run=gaps,
    )


def useful_work_event_by_event(
    gaps: list[float], interval: float, cost: float, restart: float, depth: int, delay: float
) -> float:
    """Follow the paper's text: every operator of the chain, every checkpoint, every restart."""
    useful = 0.0
    for gap in gaps:
        clock = restart
        if clock > gap:
            continue  # the restart failed and starts again
        emitted = clock  # all operators were restored together and the source starts a period
        while True:
            emitted += interval
            completed = emitted
            for _ in range(depth - 1):
                completed += delay
            if completed > gap:
                break
            useful += interval - cost
    return useful


@pytest.mark.parametrize("parameters", [(3.0, 0.5, 0.4, 5, 0.2), (0.7, 0.1, 2.0, 30, 0.05)])
def test_every_gap_gives_what_the_event_loop_gives(
    parameters: tuple[float, float, float, int, float],
) -> None:
    interval, cost, restart, depth, delay = parameters
    gaps = generator(DEFAULT_SEED, "literal").exponential(8.0, size=400)
    system = CheckpointedSystem(
        cost_s=cost, failure_rate_per_s=1 / 8, restart_s=restart, depth=depth, delay_s=delay
    )
    result = run(system, interval, Recorded(gaps), runs=2, gaps=len(gaps))
    expected = useful_work_event_by_event(gaps.tolist(), interval, cost, restart, depth, delay)
    assert result.useful_s[0, 0] == pytest.approx(expected, rel=1e-9)
    assert result.elapsed_s[0] == pytest.approx(gaps.sum())


class Recorded(FailureModel):
    """The same gaps in every run."""

    def __init__(self, gaps: np.ndarray) -> None:
        self.gaps = gaps

    @property
    def mean_s(self) -> float:
        return float(self.gaps.mean())

    def gaps_s(self, generator: np.random.Generator, runs: int, failures: int) -> np.ndarray:
        return np.tile(self.gaps[:failures], (runs, 1))


def test_simulation_and_closed_form_agree_within_three_standard_errors() -> None:
    worst, total = 0.0, 0
    for rate, interval, cost, restart, depth, delay in GRID:
        if interval * rate > 6.0 or interval <= cost:
            continue  # a checkpoint would complete once in thousands of failures
        system = build(cost, rate, restart, depth, delay)
        seed = "grid", repr((rate, interval, cost, depth))
        model = Exponential(mttf_s=60.0 / rate)
        result = run(system, 60.0 * interval, model, *seed, runs=100, gaps=400)
        exact = float(system.utilization(60.0 * interval))
        deviation = abs(float(result.utilization[0]) - exact) / float(result.standard_error[0])
        assert deviation < 4.5, f"seed {DEFAULT_SEED}: {rate, interval, cost, restart, depth}"
        worst, total = max(worst, deviation), total + (deviation > 3.0)
    # One of 30 points beyond three standard errors is 8 % likely by chance; two are not.
    assert total <= 1, f"seed {DEFAULT_SEED}: worst {worst:.2f} standard errors"


@pytest.mark.parametrize("interval", [0.7, 3.0, 30.0, 200.0])
def test_the_renewal_sum_is_equation_10_for_exponential_gaps(interval: float) -> None:
    system = build(0.5, 0.05, 1.0, 50, 0.05)
    exact = renewal_utilization(system, 60.0 * interval, Exponential(mttf_s=1200.0))
    assert exact == pytest.approx(float(system.utilization(60.0 * interval)), rel=1e-10)


def test_the_best_interval_for_exponential_gaps_is_t_star() -> None:
    system = build(0.5, 0.05, 1.0, 1, 0.0)
    best = best_interval_s(system, Exponential(mttf_s=1200.0))
    assert best == pytest.approx(float(system.optimal_interval_s()), rel=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exponential(mttf_s=-1.0), "mttf_s is -1"),
        (lambda: Weibull(mttf_s=1.0, shape=0.0), "shape is 0"),
        (lambda: LognormalRepair(median_s=0.0, sigma=1.0), "median_s is 0"),
        (lambda: Trace(np.array([3.0])), "at least two finite gaps"),
        (lambda: Trace(np.array([3.0, -1.0])), "a gap of -1 s"),
    ],
)
def test_a_model_of_nothing_is_an_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_one_run_has_no_error_bar() -> None:
    with pytest.raises(UsageError, match="1 runs of 10 failures"):
        run(build(0.1, 0.05, 0.0, 1, 0.0), 60.0, Exponential(mttf_s=1200.0), runs=1, gaps=10)


def test_the_confidence_interval_covers_the_truth_as_often_as_it_says() -> None:
    system = build(0.5, 0.05, 0.4, 5, 0.01)
    exact, covered = float(system.utilization(240.0)), 0
    for attempt in range(200):
        model = Exponential(mttf_s=1200.0)
        result = run(system, 240.0, model, "coverage", attempt, runs=25, gaps=40)
        low, high = result.confidence()
        covered += bool(low[0] <= exact <= high[0])
    assert 178 <= covered <= 199, f"seed {DEFAULT_SEED}: {covered} of 200"


@pytest.mark.parametrize("shape", [0.6, 0.7, 1.5])
def test_the_renewal_sum_is_what_the_simulator_finds_for_weibull_gaps(shape: float) -> None:
    system, model = build(0.1, 0.05, 0.4, 5, 0.01), Weibull(mttf_s=1200.0, shape=shape)
    intervals = np.array([60.0, 600.0])
    result = run(system, intervals, model, "weibull", repr(shape), runs=200, gaps=500)
    exact = renewal_utilization(system, intervals, model)
    assert (abs(result.utilization - exact) < 3.5 * result.standard_error).all()


@pytest.mark.parametrize(
    "model",
    [Exponential(mttf_s=700.0), Weibull(mttf_s=700.0, shape=0.7), Weibull(mttf_s=700.0, shape=2)],
    ids=str,
)
def test_a_model_draws_what_its_survival_function_says(model: FailureModel) -> None:
    gaps = model.gaps_s(generator(DEFAULT_SEED, str(model)), 100, 2000)
    assert gaps.shape == (100, 2000)
    assert gaps.mean() == pytest.approx(model.mean_s, rel=0.02)
    for elapsed in (70.0, 700.0, 2000.0):
        seen = float((gaps > elapsed).mean())
        assert seen == pytest.approx(float(model.survival(np.array(elapsed))), abs=0.005)
