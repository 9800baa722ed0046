"""The figure of `experiments.live.matrix`: bars per cell, and costs and benefits of schemes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live._judged import Tables, bar_of
from experiments.stock._workloads import WORKLOADS
from harness.claims.samples import FEWEST
from harness.figures.style import BLACK, GREY, Look, stamp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXPONENTIAL, CORRELATED = "exponential", "correlated"
FAILURES = (EXPONENTIAL, CORRELATED)
"""The two models of failure."""

# Shown: no record depends on what follows.

BRIEFLY_S = 1e-3
"""Begin of the axis of recoveries."""
HATCHES = {EXPONENTIAL: "", CORRELATED: "////"}


def draw_matrix(tables: Tables, figure: Figure, looks: Mapping[str, Look]) -> None:
    """Draw above the matrix: per workload, both recoveries and the accuracy of first versions.

    Below the trade: a scheme's cost without a failure against its loss in one, a point a scheme; a
    line joins those that no other scheme beats in both. ``looks`` has the schemes in their order.
    """
    table, kills = tables["cells"], tables["kills"]
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.5, 1))
    above, below = halves
    shown = {name: look for name, look in looks.items() if name in set(table["scheme"])}
    bars = above.subplots(3, len(WORKLOADS), sharey="row", squeeze=False)
    trade = below.subplots(2, len(WORKLOADS), sharey="row", sharex="col", squeeze=False)
    for column, (workload, scaled) in enumerate(WORKLOADS.items()):
        mine = table[table["workload"] == workload]
        hit = kills[kills["workload"] == workload]
        _bars(bars[0][column], hit, "paper_recovery_s", shown, least=BRIEFLY_S)
        _bars(bars[1][column], hit, "outside_s", shown, least=BRIEFLY_S)
        _bars(bars[2][column], mine, "paper_accuracy_first", shown)
        bars[0][column].set_title(scaled.label, loc="left")
        for row in (0, 1):
            bars[row][column].set_xticklabels([])
        points = trades(mine)
        _trade(trade[0][column], points, "lost", shown)
        _trade(trade[1][column], points, "back_s", shown)
        trade[1][column].set_xlabel("processor time, no failure (s)")
    for axes in (*bars[0], *bars[1], *trade[1]):
        axes.set_yscale("log")
    for row in (0, 1):
        bars[row][0].set_ylim(bottom=BRIEFLY_S)
    bars[0][0].set_ylabel("back as the engine\nreports it (s, log.)")
    bars[1][0].set_ylabel("back on time, seen\nfrom outside (s, log.)")
    bars[2][0].set_ylabel("accuracy of the first\nversions (share)")
    trade[0][0].set_ylabel("accuracy lost (share)")
    trade[1][0].set_ylabel("back as the engine\nreports it (s, log.)")
    _legends(above, below, shown)
    cells = table.groupby(["workload", "scheme", "failures"]).size()
    runs = int(cells.max()) if len(cells) else 0
    stamp(figure, f"{'1 run' if runs == 1 else f'{runs} runs'} a cell; 2 racks on one machine")


def _bars(
    axes: Axes,
    mine: pd.DataFrame,
    measure: str,
    shown: Mapping[str, Look],
    least: float = 0.0,
) -> None:
    """Draw a pair of bars per scheme, the median; instead of one a dash: not measured, or a 0.

    Intervals where there are samples for one, and otherwise a dot per sample."""
    at_the_foot: Any = {"xycoords": ("data", "axes fraction"), "ha": "center"}
    for number, (name, look) in enumerate(shown.items()):
        for offset, failures in zip((-0.2, 0.2), FAILURES, strict=True):
            rows = mine[(mine["scheme"] == name) & (mine["failures"] == failures)]
            values = pd.to_numeric(rows[measure]).dropna().astype(float).tolist()
            if not values:
                axes.annotate("–", (number + offset, 0.01), **at_the_foot, color=GREY)
                continue
            value = float(np.median(values))
            if value == 0:
                axes.annotate("0", (number + offset, 0.01), **at_the_foot, color=look.color)
            else:
                axes.bar(
                    number + offset, value, width=0.38, color=look.color,
                    hatch=HATCHES[failures], edgecolor="white",
                )  # fmt: skip
            if len(values) >= FEWEST:
                bar_of(axes, number + offset, values, color=BLACK, marker="", least=least)
            elif len(values) > 1:
                above = [each for each in values if each > least]
                axes.plot([number + offset] * len(above), above, ".", color=BLACK, markersize=2)
    labels = [name.replace(" ", "\n").replace("+", "\n+") for name in shown]
    axes.set_xticks(range(len(shown)), labels)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.tick_params(axis="x", labelsize=6)
    axes.grid(axis="x", visible=False)


def trades(mine: pd.DataFrame) -> pd.DataFrame:
    """Return by scheme, over both models of failure, ``spent``, ``lost`` and ``back_s``.

    Processor seconds of the twin; loss of accuracy of first versions; the papers' recovery latency,
    from a detection until all tasks are back. Each over the cells where it was measured."""
    numbers = mine.assign(
        spent=pd.to_numeric(mine["twin_cpu_s"]),
        lost=1 - pd.to_numeric(mine["paper_accuracy_first"]),
        back_s=pd.to_numeric(mine["paper_recovery_s"]),
    )
    return numbers.groupby("scheme", sort=False)[["spent", "lost", "back_s"]].mean()


def frontier(points: pd.DataFrame, measure: str) -> list[str]:
    """Return the schemes that no other beats in both ``spent`` and ``measure``, cheapest first."""
    known = points[["spent", measure]].dropna().sort_values(["spent", measure])
    best, chosen = np.inf, []
    for name, row in known.iterrows():
        if row[measure] < best:
            best = float(row[measure])
            chosen.append(str(name))
    return chosen


def _trade(axes: Axes, points: pd.DataFrame, measure: str, looks: Mapping[str, Look]) -> None:
    best = frontier(points, measure)
    line = points.loc[best]
    axes.plot(line["spent"], line[measure], color=BLACK, linewidth=0.8, zorder=1)
    for name, row in points[["spent", measure]].dropna().iterrows():
        look = looks[str(name)]
        axes.plot(
            [row["spent"]], [row[measure]], color=look.color, marker=look.marker, markersize=8,
            linestyle="none", markeredgecolor=BLACK if name in best else look.color,
        )  # fmt: skip
    axes.margins(x=0.15, y=0.1)


def _legends(above: Any, below: Any, shown: Mapping[str, Look]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    models = [
        Patch(facecolor="#999999", edgecolor="white", hatch=HATCHES[model], label=label)
        for model, label in (
            (EXPONENTIAL, "nodes fail at exponential times"),
            (CORRELATED, "all nodes of a rack at once"),
        )
    ]
    above.legend(handles=models, loc="outside upper center", ncols=2)
    marks = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="none", label=name)
        for name, look in shown.items()
    ]
    line = Line2D(
        [], [], color=BLACK, linewidth=0.8, marker="o", markerfacecolor="white",
        label="no other scheme beats these",
    )  # fmt: skip
    below.legend(handles=[*marks, line], loc="outside lower center", ncols=len(shown) + 1)
