"""The figure of `experiments.live.recovery`: a mark per contender, engine, window and rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live import _topology
from experiments.live._judged import at_the_real_instants, bar_of, fastest, in_time, points_of
from experiments.live._topology import LIVE, PACED, SIMULATED
from harness.figures.style import BLUE, GREY, stamp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE, CORRELATED = "single node", "all 15 nodes"
FAILURES = (SINGLE, CORRELATED)

# Shown: no record depends on what follows.

CELL = ["window_s", "rate"]
LEAST_S = 1e-3
"""Begin of the logarithmic axis: a recovery that was seen by nobody is drawn there."""

LOOKS = {
    "Active-5s": (BLUE, "s"), "CKP-5s": ("#E08A5B", "v"), "CKP-30s": ("#8C3D00", "^"),
    "Storm": (GREY, "X"),
}  # fmt: skip
"""Colour and marker by contender, in the order of the legend."""
ENGINES = {SIMULATED: 0.0, PACED: 0.5, LIVE: 1.0}
"""Filled part of each engine's marker."""


def draw_latencies(samples: pd.DataFrame, figure: Figure) -> None:
    """Draw a column per failure: groups of (window, rate), marks of contenders.

    Above as the engine reports it, below seen from outside: medians with intervals, all samples."""
    groups = list(dict.fromkeys(zip(samples["window_s"], samples["rate"], strict=True)))
    panels: Any = figure.subplots(2, 2, sharey=True, sharex=True)
    for column, failure in enumerate(FAILURES):
        mine = samples[samples["failure"] == failure]
        for axes, measure in zip(panels[:, column], ("latency_s", "outside_s"), strict=True):
            _panel(axes, mine, groups, measure)
        panels[0][column].set_title(failure, loc="left")
        panels[1][column].set_xlabel("window length in the papers and rate of each source task")
    panels[0][0].set_ylabel("as the engine reports it\n(s, logarithmic)")
    panels[1][0].set_ylabel("seen from outside\n(s, logarithmic)" + in_time(fastest(samples)))
    _legend(figure, samples)
    stamp(
        figure,
        "34 processes of one machine, killed for real, and the same in virtual time; speed of a "
        f"node chosen: {_topology.TUPLES_PER_S:,.0f} tuples/s",
    )


def _panel(
    axes: Axes, rows: pd.DataFrame, groups: Sequence[tuple[float, int]], measure: str
) -> None:
    width = 0.8 / len(LOOKS)
    for number, contender in enumerate(LOOKS):
        for engine in ENGINES:
            mine = at_the_real_instants(rows[rows["contender"] == contender], engine, CELL)
            colour, marker = LOOKS[contender]
            shift = (list(ENGINES).index(engine) - 1) * width / 4
            for cell, cells in mine.groupby(CELL, sort=False):
                x = groups.index(cell) + (number - (len(LOOKS) - 1) / 2) * width + shift
                unknown = cells[measure].isna()
                if unknown.all() or (unknown.any() and measure == "latency_s"):
                    continue  # nothing is seen of a simulation, or one never came back
                values = cells[measure].astype(float).tolist()
                points_of(axes, x, cells, measure, color=colour, least=LEAST_S)
                bar_of(
                    axes, x, values, color=colour, marker=marker, least=LEAST_S,
                    **_filling(engine, colour),
                )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), [f"window {w:g} s\n{r:,} tuples/s" for w, r in groups])
    axes.set_xlim(-0.5, len(groups) - 0.5)


def _filling(engine: str, colour: str) -> dict[str, Any]:
    if engine == SIMULATED:
        return {"markerfacecolor": "none"}
    if engine == LIVE:
        return {"markerfacecolor": colour, "fillstyle": "full"}
    return {"fillstyle": "left", "markerfacecoloralt": "white"}


def _legend(figure: Figure, samples: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    shown = [
        Line2D([], [], color=LOOKS[c][0], marker=LOOKS[c][1], linestyle="none", label=c)
        for c in LOOKS
        if c in set(samples["contender"])
    ]
    shown += [
        Line2D(
            [], [], color="#444444", marker="o", linestyle="none", label=e, **_filling(e, "#444444")
        )
        for e in ENGINES
        if e in set(samples["engine"])
    ]
    figure.legend(handles=shown, loc="outside lower center", ncols=len(shown))
