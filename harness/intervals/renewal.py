"""The exact utilization when the gaps between failures follow any distribution.

Between two failures X apart, floor((X-R-D)/T) checkpoints complete, so by the renewal-reward
theorem

    U = (T-c)/E[X] · Σ_{j≥1} P(X > R + D + jT).

With exponential gaps the sum is geometric and this is equation 10 of the utilization paper;
with any other it gives the error of equation 10, without the noise of a simulation.

Tests: ``tests/intervals/test_simulator.py``."""

from __future__ import annotations

import numpy as np

from harness.intervals.failure_models import FailureModel
from harness.intervals.utilization import Array, CheckpointedSystem, Numbers

_TERMS_AT_ONCE = 1 << 12
_NEGLIGIBLE = 1e-15


def renewal_utilization(
    system: CheckpointedSystem, interval_s: Numbers, failures: FailureModel
) -> Array:
    """Return U at each interval for one system (scalar fields, its failure rate unused)."""
    intervals = system.checked_interval(interval_s)
    offset = float(np.asarray(system.restart_s + system.stagger_s))
    expected = np.array([_expected_checkpoints(offset, t, failures) for t in intervals.ravel()])
    useful = (intervals - system.cost_s) * expected.reshape(intervals.shape)
    return np.asarray(useful / failures.mean_s)


def best_interval_s(system: CheckpointedSystem, failures: FailureModel) -> float:
    """Return the interval that maximizes `renewal_utilization`.

    The search is on a logarithmic scale within a factor of 30 of the closed form's interval."""
    from scipy.optimize import minimize_scalar  # here, because it is slow to import and rarely used

    cost = float(np.asarray(system.cost_s))
    start = float(system.optimal_interval_s())
    low, high = np.log(max(cost * (1 + 1e-9), start / 30.0)), np.log(start * 30.0)
    scan = np.linspace(low, high, 120)
    values = renewal_utilization(system, np.exp(scan), failures)
    best = int(values.argmax())
    found = minimize_scalar(
        lambda log_t: -float(renewal_utilization(system, float(np.exp(log_t)), failures)),
        bounds=(scan[max(best - 1, 0)], scan[min(best + 1, len(scan) - 1)]),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return float(np.exp(found.x))


def _expected_checkpoints(offset_s: float, interval_s: float, failures: FailureModel) -> float:
    """Sum P(X > offset + j T) over j ≥ 1 until a block of terms adds nothing."""
    total, first = 0.0, 1
    while True:
        elapsed = offset_s + interval_s * np.arange(first, first + _TERMS_AT_ONCE, dtype=float)
        block = float(failures.survival(np.asarray(elapsed)).sum())
        total += block
        if block <= _NEGLIGIBLE * total or block == 0.0:
            return total
        first += _TERMS_AT_ONCE
