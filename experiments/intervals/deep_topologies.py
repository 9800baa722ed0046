"""Figure 14: utilization of very deep topologies.

The paper: at large n utilization comes close to 0; its example is U = 0.0018, at an n that is
lost. With row 1 of its Table 1 (λ = 0.05 per minute, c = 1.6 s, R = 23.1 s), T* and a delay of
1.5 s, 5,000 operators give that number."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import Foregone, invariant, rows
from harness.claims.cells import Cells, Printed
from harness.experiment import Context, Experiment, Outcome, Point, computed
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLACK

DEPTHS = np.unique(np.concatenate([[1.0], np.linspace(100.0, 6000.0, 60)]))

POINTS: list[Point] = [
    {"failures_per_min": rate, "cost_s": 1.6, "restart_s": 23.1, "delay_s": 1.5}
    for rate in (0.005, 0.01, 0.05)
]


def run(point: Point, context: Context) -> Outcome:
    """Utilization at T* for every depth."""
    system = _shared.system_of({**point, "depth": 1})
    best = float(system.optimal_interval_s())
    utilization = [
        float(_shared.system_of({**point, "depth": depth}).utilization(best)) for depth in DEPTHS
    ]
    frame = pd.DataFrame({"depth": DEPTHS, "utilization": utilization})
    return Outcome(values={"optimal_interval_min": best / 60.0}, series={"depths": frame})


MEASUREMENT = computed("intervals/deep-topologies", POINTS, 0.02, run=run)

# Shown: no record depends on what follows.

PRINTED_UTILIZATION, CHOSEN_DEPTH = 0.0018, 5000


def _mark_printed(axes: Axes, _: pd.DataFrame) -> None:
    axes.plot(CHOSEN_DEPTH, PRINTED_UTILIZATION, "o", color=BLACK, label="_printed")
    axes.annotate(
        f"paper: U = {PRINTED_UTILIZATION:g}", xy=(CHOSEN_DEPTH, PRINTED_UTILIZATION),
        xytext=(0, 14), textcoords="offset points", ha="center", fontsize=8,
    )  # fmt: skip


curves = rows.pivot(index="depth", columns="failures_per_min", values="utilization")

CLAIMS = [
    invariant("falls-with-n", "Utilization decreases with n").every(
        curves.diff().iloc[1:].stack() < 0,
        first_and_last=curves.iloc[[0, -1]].rename(columns="λ={:g}/min".format).to_dict("list"),
    ),
    invariant(
        "printed",
        "Our reading: with n chosen as 5,000, since it is lost, utilization is the printed 0.0018",
        foregone=Foregone.CIRCULAR,
        foregone_because="n was chosen by it",
    ).near(curves[0.05][float(CHOSEN_DEPTH)], PRINTED_UTILIZATION, 5e-5),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 14",
    title="Utilization of very deep topologies",
    statement="Utilization falls with the critical path's length, to 0.0018 in the example.",
    table=_shared.stacked("depths", ["failures_per_min"], ["failures_per_min", "depth"]),
    draw=Chart(
        [
            Panel(
                [
                    Line(x="depth", y="utilization", by="failures_per_min", label="λ = {:g}/min"),
                    _mark_printed,
                ],
                "operators on the critical path, n",
                "utilization U at T*",
                x_range=(0, 6000),
                y_range=(0, 1),
                ends=True,
            )
        ],
        stamp="chosen: λ, δ = 1.5 s, n (the paper's are lost); c = 1.6 s, R = 23.1 s (Table 1)",
    ),
    printed=[
        Printed(
            what="utilization of a very deep topology",
            unit="",
            place="Section 5.1, text",
            values={(): PRINTED_UTILIZATION},
            ours=Cells("", "utilization", {"depth": CHOSEN_DEPTH, "failures_per_min": 0.05}),
            why="Its depth is lost, and was chosen by it.",
        ),
    ],
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: δ = 1.5 s and n = 5,000 for the printed "
        "0.0018; only λ(n-1)δ matters, so that other pairs print it too. c = 1.6 s and "
        "R = 23.1 s are row 1 of the paper's Table 1.",
    ),
)
