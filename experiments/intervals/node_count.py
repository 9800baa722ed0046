"""Figure 13: failure rate and gain over 30 minutes, by the number of nodes.

The paper: nodes that fail 0.0022 times per hour; T* gains 68.8 % at 1,000 nodes and 226.83 %
at 2,000, and less the more a checkpoint costs. Its c is lost; 5 s gives both percentages."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import Foregone, Rule, invariant, paper, rows
from harness.claims.cells import Cells, Printed
from harness.experiment import Context, Experiment, Outcome, Point, computed
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLACK
from harness.intervals.utilization import CheckpointedSystem, system_failure_rate_per_s
from harness.seeds import DEFAULT_SEED
from harness.text import format_duration

NODE_FAILURES_PER_HOUR = 0.0022

RECOVERED_COST_S = 5.0

POINTS: list[Point] = [
    {"node_failures_per_hour": NODE_FAILURES_PER_HOUR, "cost_s": cost}
    for cost in (1.0, RECOVERED_COST_S, 30.0, 60.0)
]

NODES = np.unique(np.concatenate([[1, 10, 100, 200], np.arange(50, 2001, 50)])).astype(float)


def run(point: Point, context: Context) -> Outcome:
    """T* and its gain for every number of nodes, at one checkpoint cost."""
    rate = system_failure_rate_per_s(NODES, 3600.0 / float(point["node_failures_per_hour"] or 0.0))
    system = CheckpointedSystem(cost_s=float(point["cost_s"] or 0.0), failure_rate_per_s=rate)
    best = system.optimal_interval_s()
    frame = pd.DataFrame(
        {
            "nodes": NODES,
            "failures_per_hour": 3600.0 * rate,
            "optimal_interval_min": best / 60.0,
            "increase_percent": 100.0 * system.increase(best, over_s=_shared.DEFAULT_INTERVAL_S),
        }
    )
    return Outcome(values={}, series={"nodes": frame})


MEASUREMENT = computed("intervals/node-count", POINTS, 0.02, run=run)

# Shown: no record depends on what follows.

PRINTED_PERCENT = {1000: 68.8, 2000: 226.83}
SIGNIFICANT = 2.0
"""Smallest ratio of the gain at the most nodes to that at 100. Version 1 of the rule counted any
growth; both hold."""


def _mark_printed(axes: Axes, _: pd.DataFrame) -> None:
    for nodes, percent in PRINTED_PERCENT.items():
        axes.plot(nodes, percent, "o", color=BLACK, label="_printed", zorder=5)
        axes.annotate(
            f"paper: {percent:g} %", xy=(nodes, percent), xytext=(-42, 4), fontsize=8, ha="right",
            textcoords="offset points",
        )  # fmt: skip


gain = rows.pivot(index="nodes", columns="cost_s", values="increase_percent")
recovered = gain[RECOVERED_COST_S]
large = recovered[recovered.index >= 100]
at_printed = gain.loc[list(PRINTED_PERCENT)]
ours = {nodes: recovered[nodes] for nodes in PRINTED_PERCENT}
one = rows[(rows["cost_s"] == RECOVERED_COST_S) & (rows["nodes"] == 1)].iloc[0]

CLAIMS = [
    paper(
        "printed",
        "T* gains 68.8 % at 1,000 nodes and 226.83 % at 2,000",
        foregone=Foregone.PARTLY,
        foregone_because="the cost, 5 s, was found from this paper's other gains",
    ).every(
        [abs(ours[nodes] - percent) <= 0.02 for nodes, percent in PRINTED_PERCENT.items()],
        ours_percent=ours,
        printed_percent=PRINTED_PERCENT,
        tolerance_percentage_points=0.02,
    ),
    paper(
        "grows",
        "The gain grows significantly with the number of nodes (from 100 on)",
        rule=Rule(version=2, since="2026-11-22", seen_seeds=(DEFAULT_SEED,)),
    ).every(
        [large.diff().iloc[1:] > 0, large.iloc[-1] >= SIGNIFICANT * large.iloc[0]],
        **{f"{nodes} nodes": large[nodes] for nodes in (100, 500, *PRINTED_PERCENT)},
    ),
    paper("falls-with-cost", "As the checkpoint cost increases, the gain is reduced").every(
        at_printed.diff(axis=1).iloc[:, 1:].stack() < 0,
        costs_s=gain.columns.tolist(),
        **{f"{nodes:g} nodes": gain.loc[nodes].round(2).tolist() for nodes in PRINTED_PERCENT},
    ),
    invariant(
        "single-node",
        "A single node is better off with more than 30 minutes: its small gain comes from "
        "checkpointing less often",
    ).every(
        [one["optimal_interval_min"] > 30.0, one["increase_percent"] > 0.0],
        optimal_interval_min=one["optimal_interval_min"],
        increase_percent=one["increase_percent"],
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 13",
    title="Failure rate and gain over 30 minutes, by the number of nodes",
    statement="T* instead of 30 minutes gains 68.8 % with 1,000 nodes and 226.83 % with 2,000.",
    table=_shared.stacked("nodes", ["cost_s"], ["cost_s", "nodes"]),
    draw=Chart(
        [
            Panel(
                [Line(x="nodes", y="failures_per_hour", style={"color": BLACK})],
                "nodes",
                "failures of the whole system per hour",
                x_range=(0, 2030),
                y_range=(0, None),
                where=rows["cost_s"] == rows["cost_s"].iloc[0],
            ),
            Panel(
                [
                    Line(
                        x="nodes",
                        y="increase_percent",
                        by="cost_s",
                        label=lambda c: f"c = {format_duration(c)}",
                    ),
                    _mark_printed,
                ],
                "nodes",
                "utilization gained by T* over T = 30 min, %",
                x_range=(0, 2030),
                y_range=(0, None),
                ends=True,
            ),
        ],
        layout={"width_ratios": (1, 1.6)},
        stamp="recovered: c = 5 s (lost in the paper); chosen: the other costs",
    ),
    printed=[
        Printed(
            what="gain of T* over 30 min",
            unit="%",
            place="Section 5.1, text",
            by=("nodes",),
            values={(nodes,): percent for nodes, percent in PRINTED_PERCENT.items()},
            ours=Cells("", "increase_percent", {"cost_s": RECOVERED_COST_S}),
            why="Its checkpoint cost is lost; 5 s gives both.",
        ),
    ],
    claims=CLAIMS,
    notes=(
        "Recovered, because the paper's c is lost: 5 s gives both printed percentages. R, n and "
        "δ cancel. The costs of 1, 30 and 60 s are chosen.",
    ),
    figure_size_in=(9.5, 4.5),
)
