"""The online tuner: convergence, forgetting, and gain in utilization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.intervals.adaptive import Drift, Fixed, IntervalTuner, simulate_policies
from harness.intervals.utilization import CheckpointedSystem
from harness.seeds import DEFAULT_SEED, generator
from tests.levels import amount


@given(quiet_s=st.floats(1.0, 1e12), memory_s=st.floats(10.0, 1e7))
@settings(max_examples=amount(60), deadline=None)
def test_a_long_quiet_never_makes_the_interval_endless(quiet_s: float, memory_s: float) -> None:
    tuner = IntervalTuner(cost_s=1.0, mttf_s=100.0, memory_s=memory_s)
    before = float(tuner.interval_s())
    tuner.observe(quiet_s, failed=False)
    assert tuner.failure_rate_per_s >= 0.5 / memory_s * (1 - 1e-9)
    assert np.isfinite(tuner.interval_s())
    if quiet_s >= 1e3 and memory_s >= 1e3:
        assert tuner.interval_s() > before


@pytest.mark.parametrize("name", ["cost_s", "mttf_s", "memory_s", "prior_failures", "cost_weight"])
def test_a_value_that_means_nothing_is_named(name: str) -> None:
    good: dict[str, Any] = {"cost_s": 1.0, "mttf_s": 9.0, "memory_s": 5.0}
    with pytest.raises(UsageError, match=f"{name} is 0"):
        IntervalTuner(**{**good, name: 0.0})


def test_a_fixed_interval_without_drift_is_the_closed_form() -> None:
    system = CheckpointedSystem(
        cost_s=2.0, failure_rate_per_s=1 / 600.0, restart_s=20.0, depth=2, delay_s=1.0
    )
    result = simulate_policies(
        Drift(
            failure_rate_per_s=lambda now_s: np.full(np.shape(now_s), 1 / 600.0),
            cost_s=lambda now_s: np.full(np.shape(now_s), 2.0),
            horizon_s=40 * 3600.0,
        ),
        {"fixed": Fixed(60.0)},
        restart_s=20.0,
        stagger_s=1.0,
        runs=200,
        generator=generator(DEFAULT_SEED, "steady"),
    )["fixed"]
    error = result.std(ddof=1) / np.sqrt(len(result))
    # Runs start without a failure: worth at most one restart in 240 of the mean.
    assert result.mean() == pytest.approx(float(system.utilization(60.0)), abs=3 * error + 2e-4)


def test_it_forgets_a_wrong_first_guess_and_finds_the_rate() -> None:
    memory_s, mttf_s = 50 * 1200.0, 1200.0
    tuner = IntervalTuner(cost_s=60.0, mttf_s=86400.0, memory_s=memory_s, shape=(400,))
    drawn = generator(DEFAULT_SEED, "rate")
    for _ in range(400):
        tuner.observe(drawn.exponential(mttf_s, size=400), failed=np.ones(400, dtype=bool))
    # A half failure of the prior remains, in a memory of fifty, and the state is seen just
    # after a failure, which adds a half more.
    assert tuner.failure_rate_per_s.mean() * mttf_s == pytest.approx(1.02, abs=0.02)
    assert tuner.failure_rate_per_s.std() * mttf_s < 2.0 / np.sqrt(2 * 50)


def test_it_follows_the_cost_of_completed_checkpoints_only() -> None:
    tuner = IntervalTuner(cost_s=1.0, mttf_s=1200.0, memory_s=24000.0, shape=(2,))
    for _ in range(40):
        tuner.observe(60.0, failed=np.array([False, True]), cost_s=np.array([5.0, 5.0]))
    assert tuner.cost_s == pytest.approx([5.0, 1.0], rel=1e-5)


def test_an_estimate_of_how_long_is_the_same_in_one_step_or_many() -> None:
    one = IntervalTuner(cost_s=1.0, mttf_s=100.0, memory_s=500.0)
    many = IntervalTuner(cost_s=1.0, mttf_s=100.0, memory_s=500.0)
    one.observe(300.0, failed=False)
    for _ in range(300):
        many.observe(1.0, failed=False)
    assert one.failure_rate_per_s == pytest.approx(float(many.failure_rate_per_s))
