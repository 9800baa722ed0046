"""Figure 12: equation 10 against simulation, by failure rate and critical path length.

The paper: simulation (250 runs) follows equation 10; for a constant failure rate utilization
falls with n and T* stays. All depths of one failure rate see the same simulated failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import Finding, every, paper
from harness.experiment import Experiment
from harness.figures.style import label_line_ends, stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES_PER_MIN = (0.01, 0.05)

DEPTHS = (5, 100, 400)

POINTS = [
    {
        "failures_per_min": rate,
        "cost_s": 30.0,
        "restart_s": 30.0,
        "depth": depth,
        "delay_s": 1.5,
    }
    for rate in RATES_PER_MIN
    for depth in DEPTHS
]

INTERVALS_MIN = np.array([0.7, 1.0, 1.5, 2.0, 3.0, 6.5, 15.0, 20.0, 30.0, 45.0, 60.0])


def run(point: Point, context: Context) -> Outcome:
    """Simulate one DAG at every interval and at T*."""
    best = float(_shared.system_of(point).optimal_interval_s()) / 60.0
    intervals = np.sort(np.append(INTERVALS_MIN, best))
    return _shared.simulate_curve(point, context, intervals, repr(point["failures_per_min"]))


MEASUREMENT = Measurement(
    id="intervals/dag-simulated",
    origin=Origin.SIMULATED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run={Profile.SMOKE: 0.05, Profile.QUICK: 0.1, Profile.PAPER: 0.6},
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per failure rate, depth and interval."""
    return _shared.simulated_table(results, "failures_per_min", "depth")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw a panel per failure rate, a curve per depth."""
    rates = sorted(table["failures_per_min"].unique())
    panels = figure.subplots(1, len(rates), sharey=True, squeeze=False)[0]
    colours = _shared.colours(sorted(table["depth"].unique()))
    for axes, rate in zip(panels, rates, strict=True):
        part = table[table["failures_per_min"] == rate]
        for (depth, curve), marker in zip(part.groupby("depth"), "osD", strict=False):
            _shared.draw_simulated(
                axes, curve, color=colours[depth], marker=marker, label=f"n = {depth}"
            )
        _shared.mark_optimum(axes, part["optimal_interval_min"].iloc[0])
        _shared.interval_axis(axes)
        axes.set_title(f"λ = {rate:g} per minute")
        axes.set_ylim(0.0, 1.0)
        label_line_ends(axes)
    for axes in panels[1:]:
        axes.set_ylabel("")
    runs, failures = int(table["runs"].min()), int(table["failures"].min() / table["runs"].min())
    stamp(
        figure,
        f"simulated: mean ± sd of {runs} runs of {failures:,} failures; lines: equation 10; "
        "chosen: λ, n, δ = 1.5 s, c = R = 30 s",
    )


def _simulated(table: pd.DataFrame) -> pd.DataFrame:
    return table.dropna(subset="utilization")


def _at_optimum(table: pd.DataFrame) -> pd.DataFrame:
    return table[np.isclose(table["interval_min"], table["optimal_interval_min"])]


@paper("falls-with-n", "For a constant failure rate, utilization decreases as n increases")
def falls_with_n(table: pd.DataFrame) -> Finding:
    heights = _at_optimum(_simulated(table)).pivot(
        index="failures_per_min", columns="depth", values="utilization"
    )
    steps = heights.diff(axis=1).iloc[:, 1:].stack()
    shown = {f"λ={rate}/min": heights.loc[rate].tolist() for rate in heights.index}
    return every(steps < 0, utilization=shown)


@paper("t-star-unchanged", "T* remains unchanged: no simulated interval beats it at any n")
def t_star_unchanged(table: pd.DataFrame) -> Finding:
    """Compare the best simulated point with the one at T*, in its own standard errors."""
    excess = {}
    for (rate, depth), curve in _simulated(table).groupby(["failures_per_min", "depth"]):
        best = _at_optimum(curve).iloc[0]
        above = curve["utilization"].max() - best["utilization"]
        excess[f"λ={rate:g}/min n={depth}"] = float(above / best["standard_error"])
    within = [value <= 3.0 for value in excess.values()]
    return every(within, excess_standard_errors=excess, tolerance_standard_errors=3.0)


CLAIMS = [*_shared.agreement_claims("equation 10"), falls_with_n, t_star_unchanged]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12",
    title="Equation 10 against a stochastic simulation",
    statement="Simulation follows equation 10; utilization falls with n while T* stays.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.01 and 0.05 per minute, n = 5, 100 "
        "and 400, δ = 1.5 s, c = R = 30 s.",
        _shared.RUN_LENGTH_NOTE,
    ),
    figure_size_in=(9.5, 4.5),
)
