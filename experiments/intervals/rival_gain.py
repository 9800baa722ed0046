"""Figure 16: by how many percent T* raises utilization over the other models' intervals.

The paper: the gain becomes more significant as λ increases; its two example percentages are
lost. What it leaves out: over Daly's *higher-order* interval of 2006 there is nothing to gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.intervals import _rivals, _shared, rival_utilization
from harness.claims import Finding, every, invariant, paper
from harness.experiment import Experiment
from harness.figures.style import stamp
from harness.measurement import Measurement, Origin
from harness.results.record import Point
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS: list[Point] = [{"cost_s": 10.0}, {"cost_s": 30.0}]

MEASUREMENT = Measurement(
    id="intervals/rival-gain",
    origin=Origin.COMPUTED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run=_shared.seconds(0.02),
    run=rival_utilization.run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per cost, rival and failure rate."""
    frame = rival_utilization.table(results)
    return frame[frame["model"] != "ours"].reset_index(drop=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw a panel per cost, a curve per rival."""
    costs = sorted(table["cost_s"].unique())
    panels = figure.subplots(1, len(costs), squeeze=False)[0]
    for axes, cost in zip(panels, costs, strict=True):
        _rivals.draw_models(
            axes, table[table["cost_s"] == cost], "failures_per_min", "gain_percent"
        )
        axes.set_title(f"c = {cost:g} s")
        axes.set_xlabel("failures per minute, λ")
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("utilization gained by T*, %")
    panels[0].legend()
    stamp(figure, "chosen: c, R = 30 s, n = 5, δ = 27 ms; Zhuang et al.: a reconstruction")


def _gain(table: pd.DataFrame) -> pd.DataFrame:
    return table.pivot_table(
        index=["cost_s", "failures_per_min"], columns="model", values="gain_percent"
    )


@paper(
    "grows-with-rate",
    "The gain over Daly's first order and Zhuang et al. becomes more significant as λ increases",
)
def grows_with_rate(table: pd.DataFrame) -> Finding:
    gain = _gain(table)
    steps = gain[["daly-first", "zhuang"]].groupby("cost_s").diff().stack()
    cost = gain.index.get_level_values("cost_s").max()
    shown: dict[str, Any] = {
        f"c={cost:g}s λ={rate:g}/min, percent": gain.loc[cost, rate].round(3).to_dict()
        for rate in (0.05, 0.5, 1.0, 2.0)
    }
    return every(steps > 0, **shown)


@invariant(
    "daly-2006",
    "Over Daly's higher-order interval the gain stays below 0.1 %: the paper's lead is over the "
    "first-order form alone",
)
def daly_2006(table: pd.DataFrame) -> Finding:
    gain = _gain(table)["daly"]
    return every(gain <= 0.1, largest_percent=float(gain.max()), tolerance_percent=0.1)


CLAIMS = [grows_with_rate, daly_2006]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 16",
    title="What T* gains over the other models' intervals",
    statement="The gain over Daly's first order and Zhuang et al. grows with the failure rate.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: c = 10 and 30 s, R = 30 s, n = 5, "
        "δ = 27 ms, λ from 0.05 to 2 per minute. Its two example percentages are lost too.",
        _rivals.PERIOD_NOTE,
        _rivals.ZHUANG_NOTE,
        "Dashed: models that the paper does not compare with.",
    ),
    figure_size_in=(9.5, 4.2),
)
