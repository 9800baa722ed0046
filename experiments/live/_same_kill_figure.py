"""The figure of `experiments.live.same_kill`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live._judged import bar_of
from experiments.live._outage import PARTS
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    not_measured,
    plain_ticks,
    stamp,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Shown: no record depends on what follows.

LOOKS: Mapping[str, tuple[str, str]] = {
    "stock": ("stock Spark, micro-batches", GREY),
    "stock tuned": ("stock Spark, micro-batches, tuned", ORANGE),
    "stock real-time": ("stock Spark, real-time mode", PURPLE),
    "checkpoint": ("task engine, checkpoints", GREEN),
    "active": ("task engine, active replicas", BLUE),
}
"""Label and colour of each row."""
AROUND_S = (-3.0, 16.0)
"""Drawn time, from the kill."""
LEAST_S = 0.01
"""Begin of the logarithmic axes."""
STEPS: Mapping[str, tuple[str, str]] = {
    **{
        f"part_{name}": look
        for name, look in zip(
            PARTS,
            [
                ("until the loss is seen", VERMILION),
                ("rescheduling", BLACK),
                ("locality wait", YELLOW),
                ("first batches", SKY),
            ],
            strict=True,
        )
    },
    "catching_up_s": ("until output is on time", "#DDDDDD"),
}
"""Label and colour of the parts of an outage."""


Samples = Callable[[str, str], Sequence[float]]
"""Returns the samples of a row and a measure."""


def draw_same_kill(
    tables: Mapping[str, pd.DataFrame],
    figure: Figure,
    samples: Samples,
    *,
    slide_s: float,
    caption: str,
) -> None:
    """Draw the lateness around the kill above, recoveries and parts of the outage below."""
    grid = figure.add_gridspec(2, 2, height_ratios=(1.3, 1))
    above = figure.add_subplot(grid[0, :])
    below, parts = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
    _lateness(above, tables["windows"], slide_s)
    _recoveries(below, samples)
    _parts(parts, tables["parts"])
    stamp(figure, caption)


def _lateness(axes: Axes, windows: pd.DataFrame, slide_s: float) -> None:
    for row, (label, color) in LOOKS.items():
        mine = windows[windows["row"] == row] if len(windows) else windows
        if not len(mine):
            axes.plot([], [], color=color, label=f"{label} (not measured)")
            continue
        shown = mine[mine["ended_s"].between(*AROUND_S)]
        shown = shown.assign(beyond_s=(shown["late_s"] - shown["usual_s"]).clip(lower=LEAST_S))
        passes = [one.sort_values("ended_s") for _, one in shown.groupby(["run", "sample"])]
        for one in passes:
            axes.plot(one["ended_s"], one["beyond_s"], color=color, linewidth=0.6, alpha=0.35)
        at_s = (np.floor(shown["ended_s"] / slide_s) + 0.5) * slide_s
        by_time = shown["beyond_s"].groupby(at_s)
        median = by_time.median()[2 * by_time.size() > len(passes)]
        counted = f"{label} ({len(passes)} kill{'s' if len(passes) > 1 else ''})"
        axes.plot(median.index, median, color=color, linewidth=1.8, label=counted)
    axes.axvline(0, color=VERMILION, linewidth=1)
    axes.annotate(
        "SIGKILL", (0, 1), (-44, -10), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=VERMILION, fontsize=8,
    )  # fmt: skip
    if len(windows):
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    else:
        not_measured(axes)
    axes.set_xlim(*AROUND_S)
    axes.set_ylabel("results later than usual by\n(s, logarithmic)")
    axes.set_xlabel("end of the window (s from the kill of a worker with all that runs on it)")
    axes.legend(loc="upper right")


def _recoveries(axes: Axes, samples: Samples) -> None:
    """Draw both measures of each row: medians with intervals, and a dot per kill."""
    looks = (("engine_s", "s", "as the engine reports it"), ("outside_s", "o", "seen from outside"))
    for number, (row, (_, color)) in enumerate(LOOKS.items()):
        for shift, (measure, marker, _) in zip((-0.15, 0.15), looks, strict=True):
            values = [value for value in samples(row, measure) if np.isfinite(value)]
            shown = [max(value, LEAST_S) for value in values]
            axes.plot([number + shift] * len(shown), shown, ".", color=color, alpha=0.4)
            bar_of(axes, number + shift, values, color=color, marker=marker, least=LEAST_S)
    handles: list[Any] = [
        axes.plot([], [], marker, color=GREY, label=label)[0] for _, marker, label in looks
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=7)
    axes.set_xticks(range(len(LOOKS)), [row.replace(" ", "\n") for row in LOOKS])
    if any(samples(row, measure) for row in LOOKS for measure, _, _ in looks):
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    else:
        not_measured(axes)
    axes.set_ylabel("recovery (s, logarithmic)")


def _parts(axes: Axes, parts: pd.DataFrame) -> None:
    """Draw the medians of the parts from the kill until output is on time, stacked."""
    by_row = parts.set_index("row").reindex(list(LOOKS))
    begin = np.zeros(len(LOOKS))
    for name, (label, color) in STEPS.items():
        length = by_row[name].astype(float).fillna(0.0).to_numpy()
        axes.barh(range(len(LOOKS)), length, left=begin, color=color, label=label)
        begin = begin + length
    axes.set_yticks(range(len(LOOKS)), list(LOOKS))
    axes.invert_yaxis()
    axes.set_xlabel("median parts of the outage (s)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7)
    if not len(parts):
        not_measured(axes)
