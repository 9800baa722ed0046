"""Section 5: five real systems, and the default interval of 30 minutes.

The paper: T* instead of 30 minutes raises the utilization of five systems with 0.8475 to
0.0606 failures per hour by 18.91 to 0.5 %; 30 minutes itself is optimal at 0.0022 failures
per hour, one in 19 days. Its c is lost; R, n and δ cancel. c = 5 s is the whole number of
seconds that gives all five percentages within 0.02 points, c = 1 s the one that gives 0.0022 per
hour."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import Foregone, paper, rows
from harness.claims.cells import Cells, Printed
from harness.experiment import Context, Experiment, Outcome, Point, Results, computed
from harness.figures.chart import Axes, Chart, Panel
from harness.figures.style import BLUE, VERMILION

COST_S = 5.0

DEFAULT_IS_OPTIMAL_PER_HOUR, DEFAULT_COST_S = 0.0022, 1.0

PRINTED = {0.8475: 18.91, 0.1701: 2.4, 0.135: 1.73, 0.1161: 1.4, 0.0606: 0.5}

POINTS: list[Point] = [
    *(
        {"failures_per_hour": rate, "cost_s": COST_S, "printed_percent": percent}
        for rate, percent in PRINTED.items()
    ),
    {
        "failures_per_hour": DEFAULT_IS_OPTIMAL_PER_HOUR,
        "cost_s": DEFAULT_COST_S,
        "printed_percent": None,
    },
]


def run(point: Point, context: Context) -> Outcome:
    """T* of one system and what it gains over 30 minutes."""
    rate = float(point["failures_per_hour"] or 0.0) / 60.0
    system = _shared.system_of({**point, "failures_per_min": rate})
    best = system.optimal_interval_s()
    gain = system.increase(best, over_s=_shared.DEFAULT_INTERVAL_S)
    return Outcome(
        values={
            "optimal_interval_min": float(best) / 60.0,
            "increase_percent": 100.0 * float(gain),
            "mttf_h": float(system.mttf_s) / 3600.0,
        }
    )


MEASUREMENT = computed("intervals/real-systems", POINTS, 0.02, run=run)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per system, most failures first; the last is the one 30 minutes suits."""
    frame = results.frame.drop(columns=["repeat", "run"])
    frame["printed_percent"] = frame["printed_percent"].astype(float)
    return frame.sort_values("failures_per_hour", ascending=False, ignore_index=True)


def _draw_gains(axes: Axes, systems: pd.DataFrame) -> None:
    at = np.arange(len(systems))
    for shift, column, color, label in (
        (-0.2, "printed_percent", VERMILION, "paper"),
        (0.2, "increase_percent", BLUE, "ours"),
    ):
        bars = axes.bar(at + shift, systems[column], 0.38, color=color, label=label)
        axes.bar_label(bars, fmt="%.2f", fontsize=7.5, padding=2)
    pairs = zip(systems["failures_per_hour"], systems["optimal_interval_min"], strict=True)
    axes.set_xticks(at, [f"{rate:g}/h\nT* = {best:.2f} min" for rate, best in pairs])


systems = rows[rows["printed_percent"].notna()]
default = rows[rows["printed_percent"].isna()].iloc[0]

CLAIMS = [
    paper(
        "gains",
        "T* gains 18.91, 2.4, 1.73, 1.4 and 0.5 % over 30 minutes on the five systems",
        foregone=Foregone.PARTLY,
        foregone_because="the one cost that is behind all five, 5 s, was found from them",
    ).every(
        (systems["increase_percent"] - systems["printed_percent"]).abs() <= 0.02,
        ours_percent=systems["increase_percent"].round(3).tolist(),
        printed_percent=systems["printed_percent"].tolist(),
        tolerance_percentage_points=0.02,
    ),
    paper(
        "default-30-min",
        "The default of 30 minutes is optimal at 0.0022 failures per hour, roughly one in 19 days",
        foregone=Foregone.CIRCULAR,
        foregone_because="the cost, 1 s, was chosen by it",
    ).every(
        [abs(default["optimal_interval_min"] - 30.0) <= 0.2],
        optimal_interval_min=default["optimal_interval_min"],
        mttf_days=default["mttf_h"] / 24.0,
        tolerance_min=0.2,
        cost_s=default["cost_s"],
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Section 5, five systems",
    title="What T* gains over 30 minutes on five real systems",
    statement=(
        "T* raises the utilization of five real systems by 0.5 to 18.91 %; 30 minutes is "
        "optimal only for one failure in 19 days."
    ),
    table=table,
    draw=Chart(
        [
            Panel(
                [_draw_gains],
                "failure rate of the system, and its optimal interval",
                "utilization gained over T = 30 min, %",
                legend={},
                where=rows["printed_percent"].notna(),
            )
        ],
        stamp=f"recovered: c = {COST_S:g} s (lost in the paper; R, n, δ cancel)",
    ),
    printed=[
        Printed(
            what="gain of T* over 30 min",
            unit="%",
            place="Section 5, text",
            by=("failures_per_hour",),
            values={(rate,): percent for rate, percent in PRINTED.items()},
            ours=Cells("", "increase_percent"),
            why="Its checkpoint cost is lost; 5 s gives all five.",
        ),
        Printed(
            what="T* at 0.0022 failures per hour",
            unit="min",
            place="Section 5, text",
            values={(): 30.0},
            ours=Cells(
                "", "optimal_interval_min", {"failures_per_hour": DEFAULT_IS_OPTIMAL_PER_HOUR}
            ),
            why="Its checkpoint cost is lost; 1 s gives it.",
        ),
    ],
    claims=CLAIMS,
    notes=(
        "Recovered, because the paper's c is lost: 5 s gives all five percentages within 0.02 "
        "points (4 s would give 19.47 % and 6 s 18.42 % for the first), 1 s gives the 0.0022 per "
        "hour.",
    ),
)
