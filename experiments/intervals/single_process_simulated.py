"""Figure 5: equation 4 against a stochastic simulation, for several failure rates.

The paper draws means and standard deviations of 250 runs on the theoretical curves. Here the
deviation is also given in standard errors of the mean, which is what agreement means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.experiment import Experiment
from harness.figures.style import label_line_ends, stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = [
    {"failures_per_min": rate, "cost_s": 30.0, "restart_s": 30.0}
    for rate in (0.005, 0.01, 0.05, 0.1)
]

INTERVALS_MIN = np.array([0.7, 1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0])


def run(point: Point, context: Context) -> Outcome:
    """Simulate one failure rate at every interval."""
    rate = repr(point["failures_per_min"])
    return _shared.simulate_curve(point, context, INTERVALS_MIN, rate)


MEASUREMENT = Measurement(
    id="intervals/single-process-simulated",
    origin=Origin.SIMULATED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run={Profile.SMOKE: 0.05, Profile.QUICK: 0.1, Profile.PAPER: 0.5},
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per failure rate and interval."""
    return _shared.simulated_table(results, "failures_per_min")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw a curve per failure rate with the simulated points on it."""
    axes = figure.subplots()
    rates = sorted(table["failures_per_min"].unique())
    for rate, color, marker in zip(rates, _shared.colours(rates).values(), "osD^", strict=False):
        part = table[table["failures_per_min"] == rate]
        _shared.draw_simulated(axes, part, color=color, marker=marker, label=f"λ = {rate:g}/min")
    _shared.interval_axis(axes)
    axes.set_ylim(0.0, 1.0)
    label_line_ends(axes)
    runs, failures = int(table["runs"].min()), int(table["failures"].min() / table["runs"].min())
    stamp(
        figure,
        f"simulated: mean ± sd of {runs} runs of {failures:,} failures; lines: equation 4; "
        "chosen: λ, c = 30 s, R = 30 s",
    )


CLAIMS = _shared.agreement_claims("equation 4")


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 5",
    title="Equation 4 against a stochastic simulation",
    statement="The simulated utilization lies on the theoretical curve for every failure rate.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.005, 0.01, 0.05 and 0.1 per minute, "
        "c = 30 s, R = 30 s.",
        _shared.RUN_LENGTH_NOTE,
    ),
)
