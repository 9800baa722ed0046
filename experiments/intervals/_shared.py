"""What the experiments of the utilization paper share: systems from points, curves, drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.claims import Claim, Finding, Rule, every, invariant, paper
from harness.figures.style import CYCLE
from harness.intervals.failure_models import Exponential
from harness.intervals.simulator import simulate
from harness.intervals.utilization import Array, CheckpointedSystem
from harness.measurement import Context
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED
from harness.text import format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "Jayasekara, Harwood, Karunasekera, FGCS 2020"
DEFAULT_INTERVAL_S = 1800.0
"""The 30 minutes that the paper compares with."""

ONCE: Mapping[Profile, int] = dict.fromkeys(Profile, 1)

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


def everywhere(points: Sequence[Point]) -> Mapping[Profile, Sequence[Point]]:
    """Return the same grid for every profile: nothing in it takes time."""
    return dict.fromkeys(Profile, points)


def seconds(each: float) -> Mapping[Profile, float]:
    """Return the same estimate for every profile."""
    return dict.fromkeys(Profile, each)


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


def curve_table(results: Results, *by: str) -> pd.DataFrame:
    """Return the curves, a row per interval, with the columns ``by`` and the optimum."""
    columns = (*by, "optimal_interval_min", "utilization_at_optimum")
    table = results.series("curve", columns).drop(columns="run")
    return table.sort_values([*by, "interval_min"], ignore_index=True)


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


def simulated_table(results: Results, *by: str) -> pd.DataFrame:
    """Return simulated points, with the deviation from the closed form in standard errors."""
    table = results.series("simulated", (*by, "optimal_interval_min")).drop(columns="run")
    table["deviation"] = (table["utilization"] - table["exact"]) / table["standard_error"]
    return table.sort_values([*by, "interval_min"], ignore_index=True)


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
    return [
        paper(
            "agree",
            f"Simulation and {equation} agree at every point, as far as chance allows: within "
            "three standard errors at one point, and as rarely beyond at all of them together",
            rule=TOGETHER,
        )(lambda table: _agree(together(len(table.dropna(subset="utilization"))), table)),
        invariant(
            "exact",
            f"{equation} is exact for this process: nowhere five standard errors away",
        )(partial(_agree, 5.0)),
    ]


def _agree(tolerance: float, table: pd.DataFrame) -> Finding:
    table = table.dropna(subset="utilization")
    away = table["deviation"].abs()
    return every(
        away <= tolerance,
        worst_deviation_standard_errors=float(away.max()),
        mean_deviation_standard_errors=float(table["deviation"].mean()),
        worst_difference=float((table["utilization"] - table["exact"]).abs().max()),
        points=len(table),
        runs_per_point=int(table["runs"].min()),
        failures_per_point=int(table["failures"].min()),
        tolerance_standard_errors=tolerance,
    )


def draw_simulated(axes: Axes, table: pd.DataFrame, *, color: str, marker: str, label: str) -> None:
    """Draw the closed form as a line through simulated means with ± one standard deviation."""
    axes.plot(table["interval_min"], table["exact"], color=color, label=label)
    points = table.dropna(subset="utilization")
    axes.errorbar(
        points["interval_min"], points["utilization"], yerr=points["sd"], color=color, fmt=marker,
        markersize=3.5, capsize=2, linewidth=0.9, label="_simulated",
    )  # fmt: skip


def draw_curves(
    figure: Figure, table: pd.DataFrame, by: str, label: Callable[[float], str]
) -> Axes:
    """Draw utilization over the interval, a curve for each value of the column ``by``.

    Their common T* is marked. The caller labels the ends of the lines."""
    axes = figure.subplots()
    colour_of = colours(sorted(table[by].unique()))
    for value, curve in table.groupby(by):
        axes.plot(
            curve["interval_min"],
            curve["utilization"],
            color=colour_of[value],
            label=label(float(str(value))),
        )
    mark_optimum(axes, table["optimal_interval_min"].iloc[0])
    interval_axis(axes)
    axes.set_ylim(0.0, 1.0)
    return axes


def mark_optimum(axes: Axes, interval_min: float, *, text: str | None = None) -> None:
    """Draw a dotted vertical line at T*, with its value next to it."""
    label = text or f"T* = {format_duration(60.0 * interval_min)}"
    axes.axvline(interval_min, color="#444444", linestyle=":", linewidth=1.1, label="_optimum")
    axes.annotate(
        label, xy=(interval_min, 0.02), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", fontsize=8, color="#444444",
    )  # fmt: skip


def interval_axis(axes: Axes) -> None:
    """Logarithmic minutes on x, written as plain numbers; utilization on y."""
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 5, 10, 20, 30, 60]
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("checkpoint interval T, minutes (logarithmic)")
    axes.set_ylabel("utilization U")


def colours(keys: Sequence[Any]) -> Mapping[Any, str]:
    """Return a fixed colour per curve, in the order of ``keys``."""
    return {key: CYCLE[index % len(CYCLE)] for index, key in enumerate(keys)}
