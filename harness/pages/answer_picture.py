"""The picture of an answer: a bar for each number, with its value in words beside it.

A hollow bar has too few passes for an interval; a bar that ends in an arrow was not over while it
was watched. Labels stand above their bars, so that a phone shows them in full."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.figures.style import BLUE, GREY, new_figure, styled
from harness.pages.answers import Answer, Number
from harness.pages.drawing import TEXT_AS_TEXT, lightened, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_IN, _BAR_IN, _REST_IN = 5.4, 0.46, 1.15
_LINE = 58
"""Characters of a line of the title."""


def picture(answer: Answer) -> bytes:
    """Return the picture as an SVG with text as text."""
    return _drawn(answer.question.words, answer.question.axis, tuple(answer.bars))


@functools.cache
def _drawn(title: str, axis: str, bars: Sequence[Number]) -> bytes:
    """Return the picture, drawn once: a report is written again while runs come in."""
    with styled(TEXT_AS_TEXT):
        figure = new_figure((_WIDTH_IN, _REST_IN + _BAR_IN * len(bars)))
        axes = figure.subplots()
        for y, bar in enumerate(bars):
            _draw(axes, y, bar)
        axes.set_ylim(len(bars) - 0.5, -0.75)
        axes.set_yticks([])
        ends = [end for bar in bars for end in (bar.value, bar.high or 0.0) if math.isfinite(end)]
        axes.set_xlim(0, 1.45 * max(ends) or 1.0)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(textwrap.fill(title, _LINE), loc="left")
        few = "; hollow: too few passes for an interval" if any(bar.few for bar in bars) else ""
        axes.set_xlabel(textwrap.fill(axis + few, _LINE + 14))
        return lightened(saved(figure, "svg"))


def _draw(axes: Axes, y: int, bar: Number) -> None:
    face = "white" if bar.few else BLUE
    axes.barh(y, bar.value, 0.36, color=face, edgecolor=BLUE, linewidth=1.4)
    if bar.value == 0:  # a bar without length is not seen
        axes.plot(0, y, "o", color=BLUE, markerfacecolor=face, clip_on=False, zorder=3)
    end = bar.value
    if bar.low is not None and bar.high is not None and math.isfinite(bar.low):
        end = max(end, bar.high if math.isfinite(bar.high) else bar.value)
        axes.plot((bar.low, end), (y, y), color=GREY, linewidth=2)
    if bar.longer:
        axes.plot(end, y, ">", color=BLUE, zorder=3)
    axes.annotate(
        bar.text, (end, y), (7, 0), textcoords="offset points", va="center", fontweight="bold"
    )
    axes.annotate(
        bar.label, (0, y - 0.22), (3, 1), textcoords="offset points", va="bottom", fontsize=8.5
    )


def in_words(answer: Answer) -> str:
    """Return the picture in words."""
    bars = "; ".join(f"{bar.label}: {bar.text}" for bar in answer.bars)
    return f"{answer.question.axis}: {bars}."
