"""The figure of `experiments.live.peers`: every outage on one axis, split into its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.live._outages import PARTS
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    not_measured,
    stamp,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: Mapping[str, tuple[str, str]] = {
    "detection_s": ("detection", VERMILION),
    "restart_s": ("new place", ORANGE),
    "restore_s": ("restoration", PURPLE),
    "transaction_s": ("open transaction", BLUE),
    "replay_s": ("replay", GREEN),
}
"""Parts of an outage, in their order."""
PUBLISHED: Sequence[tuple[str, float, float]] = (
    ("Structured Streaming", 20.0, 20.0),
    ("Kafka Streams", 21.0, 32.0),
    ("Flink", 53.0, 58.0),
)
"""Recoveries in OSPBench (van Dongen and Van den Poel, IEEE Access 2021), in seconds: one of five
workers killed, at least once. Read off figures; another machine and another job."""


def draw_outages(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw a bar per engine, tuning and kind of kill, a cross per kill, and what was published."""
    axes = figure.subplots()
    kills = tables["outages"]
    if not len(kills):
        not_measured(axes)
        return
    rows = list(kills.groupby(["engine", "tuning", "kill"], sort=False))
    for place, (_, mine) in enumerate(rows):
        _draw_row(axes, place, mine)
    names = [f"{engine}, {tuning}: {kill}" for (engine, tuning, kill), _ in rows]
    for number, (name, low, high) in enumerate(PUBLISHED):
        place = len(rows) + number
        axes.plot([low, high], [place, place], color=BLACK, marker="|", linewidth=3)
        names.append(f"published: {name}")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    for label, color in LOOKS.values():
        axes.barh([0], [0], color=color, label=label)
    axes.barh([0], [0], color=GREY, label="not split: nothing was reported")
    axes.legend(loc="lower right")
    axes.set_xlabel("time from the kill until the last late result (s)")
    axes.set_xlim(left=0)
    stamp(figure, "word count; bars: mean of the parts; crosses: every kill")


def _draw_row(axes: Axes, place: int, mine: pd.DataFrame) -> None:
    axes.plot(
        mine["outage_s"], [place] * len(mine), "x", color=BLACK, markersize=4, linestyle="none"
    )
    split = mine.dropna(subset=list(PARTS))
    if not len(split):
        axes.barh([place], [mine["outage_s"].mean()], color=GREY, alpha=0.6)
        return
    left = 0.0
    for part in PARTS:
        width = float(split[part].mean())
        axes.barh([place], [width], left=left, color=LOOKS[part][1], alpha=0.8)
        left += width
