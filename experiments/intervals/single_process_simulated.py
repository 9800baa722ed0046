"""Figure 5: equation 4 against a stochastic simulation, for several failure rates.

The paper draws means and standard deviations of 250 runs on the theoretical curves. Here the
deviation is also given in standard errors of the mean, which is what agreement means."""

from __future__ import annotations

import numpy as np

from experiments.intervals import _shared
from harness.experiment import Context, Experiment, Outcome, Point, simulated
from harness.figures.chart import Chart, Panel

POINTS = [
    {"failures_per_min": rate, "cost_s": 30.0, "restart_s": 30.0}
    for rate in (0.005, 0.01, 0.05, 0.1)
]

INTERVALS_MIN = np.array([0.7, 1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0])


def run(point: Point, context: Context) -> Outcome:
    """Simulate one failure rate at every interval."""
    rate = repr(point["failures_per_min"])
    return _shared.simulate_curve(point, context, INTERVALS_MIN, rate)


MEASUREMENT = simulated("intervals/single-process-simulated", POINTS, (0.05, 0.1, 0.5), run=run)

# Shown: no record depends on what follows.

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 5",
    title="Equation 4 against a stochastic simulation",
    statement="The simulated utilization lies on the theoretical curve for every failure rate.",
    table=_shared.simulated("failures_per_min"),
    draw=Chart(
        [
            Panel(
                [
                    *_shared.simulated_lines("failures_per_min", "λ = {:g}/min"),
                    _shared.interval_axis,
                ],
                y_range=(0.0, 1.0),
                ends=True,
            )
        ],
        stamp=_shared.run_stamp("equation 4; chosen: λ, c = 30 s, R = 30 s"),
    ),
    claims=_shared.agreement_claims("equation 4"),
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.005, 0.01, 0.05 and 0.1 per minute, "
        "c = 30 s, R = 30 s.",
        _shared.RUN_LENGTH_NOTE,
    ),
)
