"""Figure 12: equation 10 against simulation, by failure rate and critical path length.

The paper: simulation (250 runs) follows equation 10; for a constant failure rate utilization
falls with n and T* stays. All depths of one failure rate see the same simulated failures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import applied, paper, quantity, rows
from harness.experiment import Context, Experiment, Outcome, Point, simulated
from harness.figures.chart import Chart, Panel

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


MEASUREMENT = simulated("intervals/dag-simulated", POINTS, (0.05, 0.1, 0.6), run=run)

# Shown: no record depends on what follows.


@quantity
def _at_optimum(table: pd.DataFrame) -> pd.DataFrame:
    """Return the utilization simulated at T*, by rate and depth."""
    best = table[np.isclose(table["interval_min"], table["optimal_interval_min"])]
    simulated = best.dropna(subset="utilization")
    return simulated.pivot(index="failures_per_min", columns="depth", values="utilization")


@quantity
def _excess(table: pd.DataFrame) -> dict[str, float]:
    """Return by how many standard errors the best simulated point is above the one at T*."""
    excess = {}
    simulated = table.dropna(subset="utilization")
    for (rate, depth), curve in simulated.groupby(["failures_per_min", "depth"]):
        near = np.isclose(curve["interval_min"], curve["optimal_interval_min"])
        best = curve[near].iloc[0]
        above = curve["utilization"].max() - best["utilization"]
        excess[f"λ={rate:g}/min n={depth}"] = float(above / best["standard_error"])
    return excess


CLAIMS = [
    *_shared.agreement_claims("equation 10"),
    paper(
        "falls-with-n", "For a constant failure rate, utilization decreases as n increases"
    ).every(
        _at_optimum().diff(axis=1).iloc[:, 1:].stack() < 0,
        utilization=_at_optimum().rename(index="λ={}/min".format).T.to_dict("list"),
    ),
    paper(
        "t-star-unchanged", "T* remains unchanged: no simulated interval beats it at any n"
    ).every(
        applied(pd.Series, _excess()) <= 3.0,
        excess_standard_errors=_excess(),
        tolerance_standard_errors=3.0,
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12",
    title="Equation 10 against a stochastic simulation",
    statement="Simulation follows equation 10; utilization falls with n while T* stays.",
    table=_shared.simulated("failures_per_min", "depth"),
    draw=Chart(
        [
            Panel(
                [
                    *_shared.simulated_lines("depth", "n = {}"),
                    _shared.mark_optimum,
                    _shared.interval_axis,
                ],
                title=f"λ = {rate:g} per minute",
                title_style={},
                y_range=(0.0, 1.0),
                ends=True,
                where=rows["failures_per_min"] == rate,
            )
            for rate in RATES_PER_MIN
        ],
        layout={"sharey": True},
        finish=lambda panels, _: panels[1].set_ylabel(""),
        stamp=_shared.run_stamp("equation 10; chosen: λ, n, δ = 1.5 s, c = R = 30 s"),
    ),
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.01 and 0.05 per minute, n = 5, 100 "
        "and 400, δ = 1.5 s, c = R = 30 s.",
        _shared.RUN_LENGTH_NOTE,
    ),
    figure_size_in=(9.5, 4.5),
)
