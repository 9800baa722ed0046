"""The figure of `experiments.live.matrix`: the numbers of every cell, and cost against benefit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.live._judged import Tables
from experiments.live._matrix_failures import CORRELATED, EXPONENTIAL, FAILURES
from experiments.live._matrix_table import (
    BY_NAME,
    COLUMNS,
    LOOKS,
    OURS,
    PASSES,
    Column,
    of_cell,
    of_scheme,
)
from experiments.stock._workloads import WORKLOADS
from harness.claims.samples import Sample
from harness.figures.chart import Axes, Figure
from harness.figures.style import GREY, not_measured, plain_ticks, stamp

# Shown: no record depends on what follows.

WORDS = {EXPONENTIAL: "nodes fail one by one", CORRELATED: "racks fail, one stays away"}
FILLED = {EXPONENTIAL: True, CORRELATED: False}
LINES = {EXPONENTIAL: "-", CORRELATED: "--"}
BEST, WORST = "#b8d5e8", "#f8e0b3"
"""Tints of the best and the worst cell of a column."""
LEAST_S = 0.01
"""Least begin of the logarithmic axes: what is less is drawn there."""
COST = BY_NAME["cores"]
LOSSES = {
    "inside_s": "until all tasks are back (s, logarithmic)",
    "outside_s": "until output is on time, from outside (s, log.)",
    "accuracy_after": "wrong in first versions after a failure (%)",
}
"""The title of a panel by the column with what is lost in a failure."""


def draw_matrix(tables: Tables, figure: Figure) -> None:
    """Draw above a table: rows are cells, columns the measures, the best and the worst tinted.

    Below the frontier: processor time against what a failure costs, a mark per scheme and model; a
    line joins the schemes that no other one beats in both."""
    table = tables[PASSES]
    workloads = [name for name in WORKLOADS if name in set(table["workload"])]
    schemes = [name for name in LOOKS if name in set(table["scheme"])]
    heights = (max(1, len(workloads)) * 2.6, 5.0)
    halves: Any = figure.subfigures(2, 1, height_ratios=heights)
    above: Any = halves[0].subplots()
    if workloads:
        _matrix(above, tables, workloads, schemes)
    else:
        not_measured(above)
    panels = halves[1].subplots(1, len(LOSSES), sharex=True)
    for axes, (name, title) in zip(panels, LOSSES.items(), strict=True):
        _frontier(axes, tables, name)
        axes.set_title(title, loc="left", fontsize=8.5)
    panels[0].set_ylabel("lost in a failure (less is better)")
    _legend(halves[1])
    runs = table.groupby(["workload", "scheme", "failures"]).size()
    most = int(runs.max()) if len(runs) else 0
    stamp(
        figure,
        f"{'1 pass' if most == 1 else f'{most} passes'} a cell; 20 processes of one machine with "
        "declared delays between them",
    )


def _matrix(axes: Axes, tables: Tables, workloads: Sequence[str], schemes: Sequence[str]) -> None:
    """Write the mean of each column in each cell, the best and the worst tinted."""
    from matplotlib.colors import ListedColormap

    cells = [(workload, failures) for workload in workloads for failures in FAILURES]
    names = [f"{WORKLOADS[w].label}, {f}, {name}" for w, f in cells for name in schemes]
    tints = np.zeros((len(names), len(COLUMNS)))
    for place, column in enumerate(COLUMNS):
        for number, (workload, failures) in enumerate(cells):
            cell = {"workload": workload, "failures": failures}
            found = {name: of_cell(tables, column, **cell, scheme=name) for name in schemes}
            tinted = _tints(found, column)
            for row, name in enumerate(schemes, number * len(schemes)):
                tints[row, place] = tinted.get(name, 0)
                text = written(found[name], column)
                axes.text(place, row, text, ha="center", va="center", fontsize=6.5)
    axes.imshow(tints, ListedColormap(["white", BEST, WORST]), vmin=0, vmax=2, aspect="auto")
    axes.set_xticks(range(len(COLUMNS)), [column.label for column in COLUMNS], fontsize=6.5)
    axes.set_yticks(range(len(names)), names, fontsize=6.5)
    axes.xaxis.tick_top()
    axes.grid(visible=False)


def _tints(found: Mapping[str, Sample | None], column: Column) -> dict[str, int]:
    """Return 1 for the best value and 2 for the worst, where values differ as they are shown."""
    known = {name: one.value for name, one in found.items() if one is not None}
    shown = {name: f"{value:,.{column.decimals}f}" for name, value in known.items()}
    if len(set(shown.values())) < 2 or not column.decides:
        return {}
    ends = shown[min(known, key=known.__getitem__)], shown[max(known, key=known.__getitem__)]
    best = ends[1] if column.more_is_better else ends[0]
    return {name: 1 if text == best else 2 for name, text in shown.items() if text in ends}


def written(sample: Sample | None, column: Column) -> str:
    """Return a mean with half of its interval, where there are samples for one; else a dash."""
    if sample is None:
        return "–"
    text = f"{sample.value:,.{column.decimals}f}"
    if sample.low is None or sample.high is None or sample.low == sample.high:
        return text
    half = (sample.high - sample.low) / 2
    return f"{text} ±{half:,.{column.decimals}f}" if math.isfinite(half) else f"{text} ±∞"


def lost(tables: Tables, name: str, scheme: str, failures: str) -> Sample | None:
    """Return what a failure costs under a scheme: a time, or the wrong share in percent."""
    column = BY_NAME[name]
    one = of_scheme(tables, column, scheme, (failures,))
    if one is None or not column.more_is_better:
        return one
    low, high = (None if end is None else 100 - end for end in (one.high, one.low))
    return Sample(value=100 - one.value, low=low, high=high, n=one.n)


def frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the schemes that no other beats in cost and in loss, cheapest first."""
    best, chosen = np.inf, []
    for name, (_, loss) in sorted(points.items(), key=lambda each: each[1]):
        if loss < best:
            best = loss
            chosen.append(name)
    return chosen


def _frontier(axes: Axes, tables: Tables, name: str) -> None:
    """Draw one panel. Costs are shares of the mean scheme's, so that workloads can be joined."""
    in_seconds = name.endswith("_s")
    seen: list[float] = []
    for failures in FAILURES:
        points: dict[str, tuple[float, float]] = {}
        for scheme in OURS:
            cost = of_scheme(tables, COST, scheme, (failures,))
            loss = lost(tables, name, scheme, failures)
            if cost is None or loss is None:
                continue
            least = LEAST_S if in_seconds else 0.0
            points[scheme] = 100 * cost.value, max(loss.value, least)
            seen += _mark(axes, scheme, failures, cost, loss, least)
        chosen = frontier(points)
        axes.step(
            [points[each][0] for each in chosen], [points[each][1] for each in chosen],
            where="post", color=GREY, linewidth=0.9, linestyle=LINES[failures], zorder=1,
        )  # fmt: skip
    if not seen:
        not_measured(axes)
        return
    if in_seconds:
        axes.set_yscale("log")
        axes.set_ylim(min(seen) / 1.6, max(seen) * 1.6)
        plain_ticks(axes.yaxis)
    else:
        reach = max(*seen, 1.0)
        axes.set_ylim(-0.05 * reach, 1.1 * reach)
    axes.margins(x=0.12)
    axes.set_xlabel("processor time (% of the mean scheme's)")


def _mark(
    axes: Axes, scheme: str, failures: str, cost: Sample, loss: Sample, least: float
) -> Sequence[float]:
    """Draw a scheme's mark with its intervals, where there are samples; return its heights."""
    look = LOOKS[scheme]
    x, y = 100 * cost.value, max(loss.value, least)
    heights = [y]
    ends: dict[str, Any] = {}
    if costs := _ends(cost):
        ends["xerr"] = [[x - 100 * costs[0]], [100 * costs[1] - x]]
    if losses := _ends(loss):
        heights += [min(y, max(losses[0], least)), max(losses[1], y)]
        ends["yerr"] = [[y - heights[1]], [heights[2] - y]]
    axes.errorbar(
        [x], [y], **ends, color=look.color, marker=look.marker, markersize=7, linestyle="none",
        markerfacecolor=look.color if FILLED[failures] else "none", elinewidth=0.8, capsize=2,
    )  # fmt: skip
    return heights


def _ends(sample: Sample) -> tuple[float, float] | None:
    """Return both ends of the interval; None without one that can be drawn."""
    if sample.low is None or sample.high is None or math.isinf(sample.high - sample.low):
        return None
    return sample.low, sample.high


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=LOOKS[name].color, marker=LOOKS[name].marker, linestyle="none",
               label=name)
        for name in OURS
    ]  # fmt: skip
    lines = [
        Line2D(
            [], [], color=GREY, marker="o", linestyle=LINES[failures],  # type: ignore[arg-type]
            markerfacecolor=GREY if FILLED[failures] else "none",
            label=f"{WORDS[failures]}: no scheme beats those on the line",
        )
        for failures in FAILURES
    ]  # fmt: skip
    figure.legend(handles=[*marks, *lines], loc="outside lower center", ncols=4)
