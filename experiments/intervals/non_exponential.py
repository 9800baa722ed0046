"""How far the closed form is off when failures are not exponential.

The paper's equations assume exponential failures. Real systems fail in clusters: the gaps of
LANL's systems are Weibull with shapes of 0.54 to 0.89. Between two failures X apart exactly
floor((X-R-D)/T) checkpoints complete, so the renewal-reward theorem gives the utilization for
any distribution; the simulator, which shares no formula with it, stands beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import applied, hypothesis, invariant, rows
from harness.experiment import Context, Experiment, Outcome, Point, Results, simulated
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLACK, CYCLE, GREY
from harness.intervals.failure_models import Weibull
from harness.intervals.renewal import best_interval_s, renewal_utilization
from harness.intervals.simulator import simulate

SHAPES = (0.5, 0.6, 0.7, 0.85, 1.0, 1.5, 2.0)

POINTS: list[Point] = [
    {
        "shape": shape,
        "failures_per_min": 0.05,
        "cost_s": 1.6,
        "restart_s": 23.1,
        "depth": 5,
        "delay_s": 0.027353,
    }
    for shape in SHAPES
]

INTERVALS_MIN = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0])


def run(point: Point, context: Context) -> Outcome:
    """Exact, simulated and closed-form utilization for one shape of the gaps."""
    system = _shared.system_of(point)
    model = Weibull(mttf_s=float(system.mttf_s), shape=float(point["shape"] or 0.0))
    simulated = simulate(
        system,
        60.0 * INTERVALS_MIN,
        failures=model,
        generator=np.random.default_rng(context.seed("failures", repr(point["shape"]))),
        runs=_shared.RUNS[context.profile],
        failures_per_run=_shared.FAILURES_PER_RUN[context.profile],
    ).frame()
    between = pd.DataFrame({"interval_s": np.geomspace(6.0, 3600.0, 80)})
    curve = pd.concat([simulated, between], ignore_index=True)
    intervals = curve["interval_s"].to_numpy()
    curve["exact"] = renewal_utilization(system, intervals, model)
    curve["closed_form"] = system.utilization(intervals)
    curve["interval_min"] = curve.pop("interval_s") / 60.0
    star, best = float(system.optimal_interval_s()), best_interval_s(system, model)
    at_star, at_best = renewal_utilization(system, np.array([star, best]), model)
    values = {
        "t_star_min": star / 60.0,
        "best_interval_min": best / 60.0,
        "exact_at_t_star": float(at_star),
        "closed_form_at_t_star": float(system.utilization(star)),
        "lost_percent": 100.0 * float(1.0 - at_star / at_best),
    }
    return Outcome(values=values, series={"curve": curve})


MEASUREMENT = simulated("intervals/non-exponential", POINTS, (0.1, 0.1, 0.3), run=run)

# Shown: no record depends on what follows.

LOOKS = {shape: {"color": CYCLE[place]} for place, shape in enumerate((0.5, 0.7, 1.0, 2.0))}
LONG_MIN = 30.0
"""From here on an interval is a long one: Flink's, in the paper."""
TOLERATED_LOSS_PERCENT = 0.1


def table(results: Results) -> pd.DataFrame:
    """Return a row per shape and interval; ``off`` is closed form minus exact."""
    columns = (
        "shape", "t_star_min", "best_interval_min", "exact_at_t_star", "closed_form_at_t_star",
        "lost_percent",
    )  # fmt: skip
    frame = results.series("curve", columns).drop(columns="run")
    frame["off"] = frame["closed_form"] - frame["exact"]
    frame["deviation"] = (frame["utilization"] - frame["exact"]) / frame["standard_error"]
    return frame.sort_values(["shape", "interval_min"], ignore_index=True)


def _shape(shape: float) -> str:
    return f"shape {shape:g}" + (" (exponential)" if shape == 1.0 else "")


def _axis(axes: Axes, _: pd.DataFrame) -> None:
    _shared.interval_axis(axes)
    ticks = (0.1, 0.3, 1, 3, 10, 30, 60)
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.annotate("dashed: the closed form", xy=(0.03, 0.05), xycoords="axes fraction", fontsize=8)


sampled = rows[rows["utilization"].notna()]
by_shape = rows.groupby("shape").first()
deviation = sampled["deviation"].abs()
exponential = rows[rows["shape"] == 1.0]["off"].abs()
clustered = rows[rows["shape"] < 1.0]
at_long = clustered[clustered["interval_min"] >= LONG_MIN].groupby("shape")["off"].max()
at_short = clustered[clustered["interval_min"] < LONG_MIN].groupby("shape")["off"].min()
at_30 = sampled[sampled["interval_min"] == LONG_MIN].set_index("shape")["off"]
at_t_star = by_shape["closed_form_at_t_star"] - by_shape["exact_at_t_star"]

CLAIMS = [
    invariant("exponential-exact", "With exponential gaps the closed form is exact").every(
        exponential <= 1e-10, largest_difference=exponential.max(), tolerance=1e-10
    ),
    invariant(
        "renewal-sum", "Simulation and the renewal sum agree within four standard errors everywhere"
    ).every(
        deviation <= 4.0, worst_standard_errors=deviation.max(), points=applied(len, deviation)
    ),
    hypothesis(
        "clustered-too-low",
        "With clustered failures (shape below 1) the closed form says too little utilization at "
        "every interval, most at long ones",
    ).every(
        [clustered["off"] < 0, at_long < at_short],
        least_beyond_30_min=at_long.round(4).to_dict(),
        most_below_30_min=at_short.round(4).to_dict(),
        closed_form_minus_exact_at_30_min=at_30.round(4).to_dict(),
        closed_form_minus_exact_at_t_star=at_t_star.round(5).to_dict(),
    ),
    hypothesis(
        "t-star-nearly-best",
        f"T* stays nearly best: it loses at most {TOLERATED_LOSS_PERCENT:g} % of utilization for "
        "any shape from 0.5 to 2",
    ).every(
        by_shape["lost_percent"] <= TOLERATED_LOSS_PERCENT,
        lost_percent=by_shape["lost_percent"].round(5).to_dict(),
        best_interval_min=by_shape["best_interval_min"].round(3).to_dict(),
        t_star_min=by_shape["t_star_min"].iloc[0],
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="beyond the paper: failures that are not exponential",
    title="How far the closed form is off when failures are not exponential",
    statement=(
        "The paper assumes exponential failures; with Weibull gaps of the same mean the "
        "closed form is off at long intervals, and T* is still nearly the best interval."
    ),
    table=table,
    draw=Chart(
        [
            Panel(
                [
                    Line(x="interval_min", y="exact", by="shape", looks=LOOKS, label=_shape),
                    Line(
                        x="interval_min",
                        y="utilization",
                        by="shape",
                        looks=LOOKS,
                        where=rows["utilization"].notna(),
                        ends=(2 * rows["utilization"] - rows["high"], rows["high"]),
                        style={"marker": ".", "linestyle": "none", "label": "_simulated"},
                    ),
                    Line(
                        x="interval_min",
                        y="closed_form",
                        where=rows["shape"] == rows["shape"].min(),
                        style={"color": BLACK, "linestyle": "--", "linewidth": 1, "label": "_"},
                    ),
                    _axis,
                ],
                y_range=(0, 1),
                ends=True,
            ),
            Panel(
                [
                    Line(
                        x="shape",
                        y="lost_percent",
                        where=~rows["shape"].duplicated(),
                        style={"color": GREY, "marker": "o"},
                    )
                ],
                "Weibull shape of the gaps between failures",
                "utilization lost by T* against the best interval, %",
                y_range=(0, None),
            ),
        ],
        layout={"width_ratios": (1.7, 1)},
        stamp=lambda table: (
            f"points: simulated, 95 % interval of {_shared.runs_of(table)}; "
            "λ, c, R, n, δ of Table 1's first row; chosen: shapes"
        ),
    ),
    claims=CLAIMS,
    notes=(
        "λ, c, R, n and δ are those of row 1 of the paper's Table 1; the shapes are chosen around "
        "those of LANL's systems.",
        "The lines are exact (a renewal sum), the points simulated by code that does not use it.",
    ),
    figure_size_in=(10.0, 4.5),
)
