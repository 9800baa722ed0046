"""The one picture for a first screen: the outage after a kill, by engine and scheme.

It is drawn from the report's first table, of whatever records are given: a dot is a median over
passes, a bar its 95 % interval. Fewer than six passes have no interval, and their dot is hollow. A
bar to the edge has no known end, and a median without one is an arrow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.figures.style import BLUE, GREY, VERMILION, new_figure, stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINEAR_BELOW_S = 0.1
"""The axis is logarithmic above, so that an outage of 0 has a place."""
_ROW_IN = 0.24


def draw(figures: Sequence[Mapping[str, Any]], stamped: str) -> Figure:
    """Draw the outages (`harness.pages.outages.outages`); call and save it inside `styled`."""
    lines = [line for figure in figures for line in (figure, *figure["rows"])]
    drawn = new_figure((8.0, 1.0 + _ROW_IN * len(lines)))
    axes = drawn.subplots()
    most_s = 1.5 * max([1.0, *_ends(figures)])
    for y, line in enumerate(lines):
        if "rows" in line:
            axes.text(
                -0.005, y, line["title"], transform=axes.get_yaxis_transform(),
                ha="right", va="center", fontweight="bold", fontsize=8,
            )  # fmt: skip
            continue
        color = VERMILION if "Spark" in line["engine"] else BLUE
        if line["interval_s"] is not None:
            low_s, high_s = (min(each, most_s) for each in line["interval_s"])
            axes.plot((low_s, high_s), (y, y), color=color, linewidth=4, alpha=0.35)
        face = color if line["interval_s"] is not None else "white"
        axes.plot(
            line["at_least_s"], y, ">" if line["median_s"] is None else "o", color=color,
            markerfacecolor=face, clip_on=False, zorder=3,
        )  # fmt: skip
        axes.text(
            1.01, y, _count(line), transform=axes.get_yaxis_transform(), va="center", color=GREY,
            fontsize=7,
        )  # fmt: skip
    axes.set_yticks(
        [y for y, line in enumerate(lines) if "rows" not in line],
        [f"{line['engine']}, {line['scheme']}" for line in lines if "rows" not in line],
    )
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xscale("symlog", linthresh=LINEAR_BELOW_S)
    axes.set_xlim(0, most_s)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(
        "outage that a user sees after a kill [s], logarithmic above 0.1 s;\n"
        "dot: median, >: it is longer, bar: 95 % interval, hollow: fewer than six passes"
    )
    stamp(drawn, stamped)
    return drawn


def _ends(figures: Sequence[Mapping[str, Any]]) -> list[float]:
    rows = [row for figure in figures for row in figure["rows"]]
    intervals = [row["interval_s"] for row in rows if row["interval_s"] is not None]
    ends = [end for interval in intervals for end in interval if math.isfinite(end)]
    return [row["at_least_s"] for row in rows] + ends


def _count(row: Mapping[str, Any]) -> str:
    return f"{row['count']}, {row['never']} not back" if row["never"] else str(row["count"])


def in_words(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture in words."""
    return " ".join(
        f"{figure['title']}: "
        + "; ".join(
            f"{row['engine']}, {row['scheme']}: {row['outage']} ({_count(row)})"
            for row in figure["rows"]
        )
        + "."
        for figure in figures
    )
