"""What the experiments of the utilization paper share: systems of points, curves, drawings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from harness.claims import Claim, Rule, applied, invariant, paper, quantity, rows
from harness.experiment import Context, Outcome, Point, Profile, Results
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.intervals.failure_models import Exponential
from harness.intervals.simulator import simulate
from harness.intervals.utilization import Array, CheckpointedSystem
from harness.seeds import DEFAULT_SEED
from harness.text import format_duration

PAPER = "Jayasekara, Harwood, Karunasekera, FGCS 2020"
DEFAULT_INTERVAL_S = 1800.0
"""The 30 minutes that the paper compares with."""

RUNS: Mapping[Profile, int] = {Profile.SMOKE: 50, Profile.QUICK: 250, Profile.PAPER: 250}
"""Simulated runs per point; the paper has 250."""
FAILURES_PER_RUN: Mapping[Profile, int] = {
    Profile.SMOKE: 100, Profile.QUICK: 400, Profile.PAPER: 4000,
}  # fmt: skip
"""The paper's runs last some minutes, how many is lost; ours last so many failures."""

RUN_LENGTH_NOTE = (
    "Chosen: a simulated run lasts 400 failures (paper profile 4,000); how long the paper's "
    "runs last is lost. Error bars are ± one standard deviation between runs, as in the paper."
)


def system_of(point: Mapping[str, Any]) -> CheckpointedSystem:
    """Return a point's system.

    A point has ``cost_s, failures_per_min, restart_s, depth, delay_s``; the last three are
    optional."""
    return CheckpointedSystem(
        cost_s=float(point["cost_s"]),
        failure_rate_per_s=float(point["failures_per_min"]) / 60.0,
        restart_s=float(point.get("restart_s", 0.0)),
        depth=float(point.get("depth", 1.0)),
        delay_s=float(point.get("delay_s", 0.0)),
    )


def run_curve(point: Point, context: Context) -> Outcome:
    """Utilization over 400 intervals from just above c to an hour, T* among them."""
    system = system_of(point)
    best = float(system.optimal_interval_s())
    grid = np.geomspace(1.02 * float(system.cost_s), 3600.0, 400)
    intervals = np.sort(np.append(grid, best))
    curve = pd.DataFrame(
        {"interval_min": intervals / 60.0, "utilization": system.utilization(intervals)}
    )
    values = {
        "optimal_interval_min": best / 60.0,
        "utilization_at_optimum": float(system.utilization(best)),
    }
    return Outcome(values=values, series={"curve": curve})


def simulate_curve(
    point: Point, context: Context, intervals_min: Array, *seed_names: str | int
) -> Outcome:
    """Simulate the utilization at each interval with exponential failures.

    The exact one (where ``utilization`` is NaN) has enough intervals between them for a smooth
    curve."""
    system = system_of(point)
    frame = simulate(
        system,
        60.0 * intervals_min,
        failures=Exponential(mttf_s=float(system.mttf_s)),
        generator=np.random.default_rng(context.seed("failures", *seed_names)),
        runs=RUNS[context.profile],
        failures_per_run=FAILURES_PER_RUN[context.profile],
    ).frame()
    ends_s = 60.0 * float(intervals_min[0]), 60.0 * float(intervals_min[-1])
    between = pd.DataFrame({"interval_s": np.geomspace(*ends_s, 120)})
    frame = pd.concat([frame, between], ignore_index=True)
    frame["exact"] = system.utilization(frame["interval_s"].to_numpy())
    frame["interval_min"] = frame.pop("interval_s") / 60.0
    values = {"optimal_interval_min": float(system.optimal_interval_s()) / 60.0}
    return Outcome(values=values, series={"simulated": frame})


# What follows shows; no record depends on it.


def stacked(
    series: str, columns: Sequence[str], order: Sequence[str]
) -> Callable[[Results], pd.DataFrame]:
    """Return the table of a series, with columns of its runs, in the order of some columns."""

    def table(results: Results) -> pd.DataFrame:
        frame = results.series(series, columns).drop(columns="run")
        return frame.sort_values([*order], ignore_index=True)

    return table


def curves(*by: str) -> Callable[[Results], pd.DataFrame]:
    """Return the table of curves: a row per interval, with the columns ``by`` and the optimum."""
    columns = (*by, "optimal_interval_min", "utilization_at_optimum")
    return stacked("curve", columns, (*by, "interval_min"))


def simulated(*by: str) -> Callable[[Results], pd.DataFrame]:
    """Return the table of simulated points, with their deviation in standard errors."""

    def table(results: Results) -> pd.DataFrame:
        frame = results.series("simulated", (*by, "optimal_interval_min")).drop(columns="run")
        frame["deviation"] = (frame["utilization"] - frame["exact"]) / frame["standard_error"]
        return frame.sort_values([*by, "interval_min"], ignore_index=True)

    return table


def in_order(frame: pd.DataFrame, column: str, order: Iterable[str]) -> pd.DataFrame:
    """Return the rows in an order of a column's values."""
    places = {name: place for place, name in enumerate(order)}
    return frame.sort_values(
        column, key=lambda values: values.map(places), kind="stable", ignore_index=True
    )


@quantity
def peaks(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the highest point of each curve."""
    return table.loc[table.groupby(by)["utilization"].idxmax()].set_index(by)


TOGETHER = Rule(version=2, since="2026-11-25", seen_seeds=(DEFAULT_SEED, 71701))
"""Version 1 had three standard errors at each of up to 82 points: one of five seeds would refute a
simulation that is right."""
BEYOND_THREE = 0.0027
"""How often a normal deviate is beyond three standard deviations."""


def together(points: int) -> float:
    """Return the standard errors beyond which one of ``points`` is as rarely as one beyond three.

    Bonferroni's bound; 3 for a single point."""
    return NormalDist().inv_cdf(1.0 - BEYOND_THREE / (2 * max(1, points)))


def agreement_claims(equation: str) -> list[Claim]:
    """Return the paper's claim that simulation and ``equation`` agree, and a stricter guard."""
    points = rows[rows["utilization"].notna()]
    away, number = points["deviation"].abs(), applied(len, points)
    shown = {
        "worst_deviation_standard_errors": away.max(),
        "mean_deviation_standard_errors": points["deviation"].mean(),
        "worst_difference": (points["utilization"] - points["exact"]).abs().max(),
        "points": number,
        "runs_per_point": applied(int, points["runs"].min()),
        "failures_per_point": applied(int, points["failures"].min()),
    }
    limit = applied(together, number)
    return [
        paper(
            "agree",
            f"Simulation and {equation} agree at every point, as far as chance allows: within "
            "three standard errors at one point, and as rarely beyond at all of them together",
            rule=TOGETHER,
        ).every(away <= limit, **shown, tolerance_standard_errors=limit),
        invariant(
            "exact",
            f"{equation} is exact for this process: nowhere five standard errors away",
        ).every(away <= 5.0, **shown, tolerance_standard_errors=5.0),
    ]


def simulated_lines(by: str, label: str) -> tuple[Line, Line]:
    """Draw the closed form as lines through simulated means with ± one standard deviation."""
    exact = Line(x="interval_min", y="exact", by=by, label=label)
    measured = Line(
        x="interval_min",
        y="utilization",
        by=by,
        markers="osD^",
        where=rows["utilization"].notna(),
        ends=(rows["utilization"] - rows["sd"], rows["utilization"] + rows["sd"]),
        style={"linestyle": "none", "label": "_simulated", "linewidth": 0.9, "markersize": 3.5},
    )
    return exact, measured


def runs_of(table: pd.DataFrame) -> str:
    """Return the number of simulated runs and their failures in words."""
    runs = int(table["runs"].min())
    return f"{runs} runs of {int(table['failures'].min()) // runs:,} failures"


def run_stamp(lines: str) -> Callable[[pd.DataFrame], str]:
    """Return the stamp of simulated points, with their number of runs and failures."""
    return lambda table: f"simulated: mean ± sd of {runs_of(table)}; lines: {lines}"


def curve_chart(
    by: str,
    label: str | Callable[[Any], str],
    stamp: str,
    finish: Callable[[Sequence[Axes], pd.DataFrame], object] | None = None,
) -> Chart:
    """Draw utilization over the interval, a curve for each value of a column, and their T*."""
    curve = Line(x="interval_min", y="utilization", by=by, label=label)
    panel = Panel([curve, mark_optimum, interval_axis], y_range=(0.0, 1.0), ends=True)
    return Chart([panel], stamp=stamp, finish=finish)


def mark_optimum(axes: Axes, table: pd.DataFrame) -> None:
    """Draw a dotted vertical line at T*, with its value next to it."""
    if table.empty:
        return
    best = table["optimal_interval_min"].iloc[0]
    axes.axvline(best, color="#444444", linestyle=":", linewidth=1.1, label="_optimum")
    axes.annotate(
        f"T* = {format_duration(60.0 * best)}", xy=(best, 0.02),
        xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points",
        fontsize=8, color="#444444",
    )  # fmt: skip


def interval_axis(axes: Axes, _: pd.DataFrame | None = None) -> None:
    """Logarithmic minutes on x, written as plain numbers; utilization on y."""
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 5, 10, 20, 30, 60]
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("checkpoint interval T, minutes (logarithmic)")
    axes.set_ylabel("utilization U")
