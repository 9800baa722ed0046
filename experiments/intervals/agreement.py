"""Simulation against the closed form at the parameters of every figure.

Figures 5 and 12 compare the two where the paper does; here they are compared at the extremes
of all the others too: the table, the real systems, thousands of nodes, thousands of operators
and checkpoints as long as the mean time to failure. Each point has failures of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.intervals import (
    _rivals,
    _shared,
    dag_delay,
    dag_depth,
    deep_topologies,
    flink,
    node_count,
    real_systems,
    single_process,
)
from harness.claims import applied, invariant, rows
from harness.experiment import Context, Experiment, Outcome, Point, Results, simulated
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLUE, GREY, VERMILION
from harness.intervals.failure_models import Exponential
from harness.intervals.rivals import daly_first_order_interval_s
from harness.intervals.simulator import simulate

Parameters = dict[str, Any]

FIGURES = (
    "Figure 4", "Figure 10", "Figure 11", "Table 1", "five systems", "Figure 13", "Figure 14",
    "Figures 15, 16",
)  # fmt: skip

POINTS: list[Point] = [{"figure": name} for name in FIGURES]


def parameters(figure: str) -> Iterator[Parameters]:
    """Systems of a figure, each with the intervals it is looked at (minutes; None is T*)."""
    if figure in ("Figure 4", "Figure 10"):
        module = single_process if figure == "Figure 4" else dag_delay
        yield from ({**point, "at": (1.0, None, 30.0)} for point in module.POINTS)
    elif figure == "Figure 11":
        yield from ({**point, "at": (None,)} for point in dag_depth.POINTS)
    elif figure == "Table 1":
        yield from ({**point, "at": (None, 30.0)} for point in flink.POINTS)
    elif figure == "five systems":
        for rate in real_systems.PRINTED:
            yield {"failures_per_min": rate / 60.0, "cost_s": 5.0, "at": (None, 30.0)}
    elif figure == "Figure 13":
        for nodes in (100, 1000, 2000):
            rate = nodes * node_count.NODE_FAILURES_PER_HOUR / 60.0
            for cost in (5.0, 60.0):
                yield {"failures_per_min": rate, "cost_s": cost, "at": (None, 30.0)}
    elif figure == "Figure 14":
        for point in deep_topologies.POINTS:
            yield from ({**point, "depth": depth, "at": (None,)} for depth in (1, 1000, 5000))
    else:
        for rate in (0.05, 0.5, 1.0, 2.0):
            for cost in (10.0, 30.0):
                yield {
                    "failures_per_min": rate,
                    "cost_s": cost,
                    "restart_s": _rivals.RESTART_S,
                    "depth": _rivals.DEPTH,
                    "delay_s": _rivals.DELAY_S,
                    "at": (None, "Daly, first order"),
                }


def run(point: Point, context: Context) -> Outcome:
    """Every system of one figure at its intervals."""
    figure = str(point["figure"])
    frames = [
        _compare(wanted, context, f"{figure} {place}")
        for place, wanted in enumerate(parameters(figure))
    ]
    return Outcome(values={}, series={"compared": pd.concat(frames, ignore_index=True)})


def _compare(wanted: Parameters, context: Context, name: str) -> pd.DataFrame:
    system = _shared.system_of(wanted)
    rows = []
    for at in wanted["at"]:
        if at is None:
            interval = float(system.optimal_interval_s())
        elif isinstance(at, str):
            interval = float(daly_first_order_interval_s(system))
        else:
            interval = 60.0 * at
        seed = context.seed("failures", name, str(at))
        frame = simulate(
            system,
            interval,
            failures=Exponential(mttf_s=float(system.mttf_s)),
            generator=np.random.default_rng(seed),
            runs=_shared.RUNS[context.profile],
            failures_per_run=_shared.FAILURES_PER_RUN[context.profile],
        ).frame()
        rows.append(frame.assign(exact=float(system.utilization(interval)), at=str(at)))
    return pd.concat(rows, ignore_index=True).assign(
        failures_per_min=wanted["failures_per_min"], cost_s=wanted["cost_s"]
    )


MEASUREMENT = simulated("intervals/agreement", POINTS, (0.1, 0.2, 0.5), run=run)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per comparison, with its deviation in standard errors."""
    frame = results.series("compared", ("figure",)).drop(columns="run")
    frame["deviation"] = (frame["utilization"] - frame["exact"]) / frame["standard_error"]
    return _shared.in_order(frame, "figure", FIGURES)


def _draw_deviations(axes: Axes, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["figure"]))
    for place, name in enumerate(names):
        deviations = table.loc[table["figure"] == name, "deviation"].to_numpy()
        spread = np.linspace(-0.25, 0.25, len(deviations))
        axes.plot(place + spread, deviations, "o", color=BLUE, markersize=3.5)
    for limit in (-3.0, 3.0):
        axes.axhline(limit, color=VERMILION, linestyle="--", linewidth=1)
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])


margin = 1.96 * rows["standard_error"]
spread = (rows["deviation"] ** 2).mean() ** 0.5

CLAIMS = [
    *_shared.agreement_claims("the closed form"),
    invariant(
        "chance", "The deviations are chance: their root mean square is one standard error"
    ).holds(
        (spread >= 0.6) & (spread <= 1.4),
        root_mean_square=spread,
        tolerance=[0.6, 1.4],
        expected_beyond_three=_shared.BEYOND_THREE * applied(len, rows),
        beyond_three=(rows["deviation"].abs() > 3.0).sum(),
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    sentences={"agree": "intervals/dag-simulated/agree"},
    paper=_shared.PAPER,
    figure="Sections 3.5 and 4.4, at the parameters of every figure",
    title="Simulation against the closed form, wherever a figure looks",
    statement="The stochastic simulation supports the model.",
    table=table,
    draw=Chart(
        [
            Panel(
                [
                    Line(
                        x="exact",
                        y="utilization",
                        ends=(rows["utilization"] - margin, rows["utilization"] + margin),
                        style={"marker": ".", "linestyle": "none", "color": BLUE},
                        bars_style={},
                    ),
                    Line(x=(0, 1), y=(0, 1), style={"color": GREY, "linewidth": 0.8, "zorder": 0}),
                ],
                "utilization by the closed form",
                "utilization, simulated",
            ),
            Panel(
                [_draw_deviations],
                "where the parameters come from",
                "simulated minus closed form, standard errors",
                y_range=(-4.5, 4.5),
            ),
        ],
        layout={"width_ratios": (1, 1.5)},
        stamp=lambda table: (
            f"simulated: {_shared.runs_of(table)} at each of {len(table)} points, 95 % interval; "
            "recovered or chosen: lost parameters, as in the figures"
        ),
    ),
    claims=CLAIMS,
    notes=(
        "The parameters are those of the other figures here, recovered or chosen where the "
        "paper's are lost.",
        _shared.RUN_LENGTH_NOTE,
    ),
    figure_size_in=(10.5, 4.5),
)
