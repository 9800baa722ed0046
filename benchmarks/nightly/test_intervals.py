"""Random failures of a checkpointed system, many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure


def test_interval_simulation(measure: Measure) -> None:
    import numpy as np

    from harness.intervals.failure_models import Exponential
    from harness.intervals.simulator import simulate
    from harness.intervals.utilization import CheckpointedSystem

    system = CheckpointedSystem(
        cost_s=1.6, failure_rate_per_s=0.05 / 60, restart_s=23.1, depth=5, delay_s=0.027353
    )
    interval_s = float(system.optimal_interval_s())
    measure(
        lambda: simulate(
            system,
            interval_s,
            failures=Exponential(mttf_s=20 * 60),
            generator=np.random.default_rng(5),
            runs=200,
            failures_per_run=10_000,
        )
    )
