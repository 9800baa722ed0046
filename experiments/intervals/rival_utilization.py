"""Figure 15(b): utilization at the interval that each model calls optimal.

The paper: with c fixed, the utilization at its T* against that at Daly's first-order and
Zhuang et al.'s intervals, evaluated by equation 10, over the failure rate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.intervals import _rivals, _shared
from harness.claims import invariant, rows
from harness.experiment import Context, Experiment, Outcome, Point, computed
from harness.figures.chart import Chart, Panel
from harness.intervals.rivals import RIVALS
from harness.intervals.utilization import CheckpointedSystem

RATES_PER_MIN = np.round(np.linspace(0.05, 2.0, 40), 10)

POINTS: list[Point] = [{"cost_s": 30.0}]


def run(point: Point, context: Context) -> Outcome:
    """Every model's interval and its utilization at every failure rate, for one cost."""
    system = CheckpointedSystem(
        cost_s=float(point["cost_s"] or 0.0),
        failure_rate_per_s=RATES_PER_MIN / 60.0,
        restart_s=_rivals.RESTART_S,
        depth=_rivals.DEPTH,
        delay_s=_rivals.DELAY_S,
    )
    frame = _rivals.intervals(system).drop(columns="cost_s")
    return Outcome(values={}, series={"utilization": frame})


MEASUREMENT = computed("intervals/rival-utilization", POINTS, 0.02, run=run)

# Shown: no record depends on what follows.

table = _shared.stacked("utilization", ["cost_s"], ["cost_s", "model", "failures_per_min"])
by_model = rows.pivot_table(
    index=["cost_s", "failures_per_min"], columns="model", values="utilization"
)
lead = by_model.drop(columns="ours").rsub(by_model["ours"], axis=0)


def _with_lost(table: pd.DataFrame) -> pd.DataFrame:
    best = table[table["model"] == "ours"].set_index("failures_per_min")["utilization"]
    possible = best.reindex(table["failures_per_min"]).to_numpy()
    return table.assign(lost=possible - table["utilization"])


CLAIMS = [
    invariant(
        "never-below", "Utilization at our T* is at least that at any other model's interval"
    ).every(
        lead.stack() >= -1e-12,
        **{f"least_lead_{name}": lead[name].min() for name in RIVALS},
        **{f"largest_lead_{name}": lead[name].max() for name in RIVALS},
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 15(b)",
    title="Utilization at the interval that each model calls optimal",
    statement="No other model's interval gives a higher utilization than T*.",
    table=table,
    draw=Chart(
        [
            Panel(
                [_rivals.models("failures_per_min", "utilization")],
                "failures per minute, λ",
                "utilization U",
                y_range=(0, None),
                legend={},
            ),
            Panel(
                [_rivals.models("failures_per_min", "lost")],
                "failures per minute, λ",
                "utilization lost against T*",
                y_range=(0, None),
                where=rows["model"] != "ours",
            ),
        ],
        prepare=_with_lost,
        stamp="chosen: c = 30 s, R = 30 s, n = 5, δ = 27 ms; Zhuang et al.: a reconstruction",
    ),
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: c = 30 s, R = 30 s, n = 5, δ = 27 ms, λ "
        "from 0.05 to 2 per minute.",
        *_rivals.NOTES,
    ),
    figure_size_in=(9.5, 4.2),
)
