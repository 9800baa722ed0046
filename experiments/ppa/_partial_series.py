"""The series of a correlated failure under PPA, and how its live figure draws them.

Beside the papers' four series there is the first tentative output of the run of PPA-0.5."""

from __future__ import annotations

import pandas as pd

from experiments.live._judged import Tables
from experiments.ppa import _topology
from experiments.ppa._recoveries import (
    LEAST_S,
    at_the_real_instants,
    draw_samples,
    fastest,
    measured_panels,
)
from experiments.ppa._recovery import RATES
from experiments.ppa._topology import PACED, SIMULATED
from harness.figures.chart import Axes, Figure
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    SKY,
    VERMILION,
    legend_below,
    not_measured,
    stamp,
)

TENTATIVE = "first tentative output"
ACTIVE_HALF = "PPA-0.5-active"

# Shown: no record depends on what follows.
LOOKS = {
    "PPA-1.0": (BLUE, "s", "-"), ACTIVE_HALF: (SKY, "^", "--"), "PPA-0.5": (GREEN, "D", "-"),
    "PPA-0": (VERMILION, "o", "-"),
}  # fmt: skip
FIRST = f"PPA-0.5, {TENTATIVE}"
SERIES = {**LOOKS, FIRST: (BLACK, "*", "-.")}


def draw_live(tables: Tables, figure: Figure) -> None:
    """Draw (a) and (b), one rate each: above as the engine reports it, below from outside."""
    latencies = tables["latencies"]
    panels = measured_panels(figure, len(RATES), fastest(latencies))
    for column, (rate, letter) in enumerate(zip(RATES, "ab", strict=True)):
        mine = latencies[latencies["rate"] == rate]
        for axes, measure in zip(panels[:, column], ("latency_s", "outside_s"), strict=True):
            _lines(axes, tables["samples"], mine, measure)
            if not len(mine):
                not_measured(axes)
        if len(mine):
            panels[0][0].set_yscale("log")
        panels[0][column].set_title(f"({letter}) {rate:,} tuples/s per source task", loc="left")
        panels[1][column].set_xlabel("checkpoint interval in the papers (s)")
    legend_below(figure, panels[0][0], columns=3)
    stamp(
        figure,
        "34 processes of one machine, 15 killed at once; speed of a node chosen: "
        f"{_topology.TUPLES_PER_S:,.0f} tuples/s",
    )


def _lines(axes: Axes, samples: pd.DataFrame, mine: pd.DataFrame, measure: str) -> None:
    """Draw one measure of each series, with intervals; dotted: the simulated ones."""
    for name, (colour, marker, line) in SERIES.items():
        for engine in (PACED, SIMULATED) if measure == "latency_s" else (PACED,):
            rows = mine[(mine["series"] == name) & (mine["engine"] == engine)]
            rows = rows.sort_values("interval_s")
            live = engine == PACED
            axes.plot(
                rows["interval_s"], rows[measure].clip(lower=LEAST_S), color=colour,
                marker=marker, linestyle=line if live else ":", label=name if live else None,
                markerfacecolor=colour if live else "none",
            )  # fmt: skip
            of_series = samples[samples["series"] == name]
            cells = at_the_real_instants(of_series, engine, ["rate", "interval_s"])
            for interval_s in rows["interval_s"]:
                here = cells[cells["interval_s"].eq(interval_s) & cells["rate"].isin(rows["rate"])]
                draw_samples(axes, interval_s, here, measure, color=colour, marker="")
    axes.plot([], [], color=BLACK, linestyle=":", marker="o", markerfacecolor="none",
              label="the same, simulated")  # fmt: skip
