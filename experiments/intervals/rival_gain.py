"""Figure 16: by how many percent T* raises utilization over the other models' intervals.

The paper: the gain becomes more significant as λ increases; its two example percentages are
lost. What it leaves out: over Daly's *higher-order* interval of 2006 there is nothing to gain."""

from __future__ import annotations

import pandas as pd

from experiments.intervals import _rivals, _shared, rival_utilization
from harness.claims import invariant, paper, rows
from harness.experiment import Experiment, Point, Results, computed
from harness.figures.chart import Chart, Panel

POINTS: list[Point] = [{"cost_s": 10.0}, {"cost_s": 30.0}]

MEASUREMENT = computed("intervals/rival-gain", POINTS, 0.02, run=rival_utilization.run)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per cost, rival and failure rate."""
    frame = rival_utilization.table(results)
    return frame[frame["model"] != "ours"].reset_index(drop=True)


COST_S = 30.0
gain = rows.pivot_table(
    index=["cost_s", "failures_per_min"], columns="model", values="gain_percent"
)
steps = gain[["daly-first", "zhuang"]].groupby("cost_s").diff().stack()


examples = {
    f"c={COST_S:g}s λ={rate:g}/min, percent": gain.loc[COST_S, rate].round(3).to_dict()
    for rate in (0.05, 0.5, 1.0, 2.0)
}

CLAIMS = [
    paper(
        "grows-with-rate",
        "The gain over Daly's first order and Zhuang et al. becomes more significant as λ "
        "increases",
    ).every(steps > 0, **examples),
    invariant(
        "daly-2006",
        "Over Daly's higher-order interval the gain stays below 0.1 %: the paper's lead is over "
        "the first-order form alone",
    ).every(gain["daly"] <= 0.1, largest_percent=gain["daly"].max(), tolerance_percent=0.1),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 16",
    title="What T* gains over the other models' intervals",
    statement="The gain over Daly's first order and Zhuang et al. grows with the failure rate.",
    table=table,
    draw=Chart(
        [
            Panel(
                [_rivals.models("failures_per_min", "gain_percent")],
                "failures per minute, λ",
                "" if number else "utilization gained by T*, %",
                title=f"c = {point['cost_s']:g} s",
                title_style={},
                y_range=(0, None),
                legend=None if number else {},
                where=rows["cost_s"] == point["cost_s"],
            )
            for number, point in enumerate(POINTS)
        ],
        stamp="chosen: c, R = 30 s, n = 5, δ = 27 ms; Zhuang et al.: a reconstruction",
    ),
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: c = 10 and 30 s, R = 30 s, n = 5, "
        "δ = 27 ms, λ from 0.05 to 2 per minute. Its two example percentages are lost too.",
        *_rivals.NOTES,
    ),
    figure_size_in=(9.5, 4.2),
)
