"""A drawing as a value: panels, what is on their axes, and the lines in them.

``Chart(...)`` is an experiment's ``draw``::

    draw = Chart(
        Panel(Line("utilization", x="interval_min", by="depth", label="n = {}"),
              x="checkpoint interval (min)", y="utilization", y_range=(0, 1), log="x"),
        stamp="chosen: c = 30 s",
    )

Where a column or a number stands, a `harness.claims.quantity` of the line's rows may stand too:
``1000 * rows["delay_s"]``. What no form here says is drawn by a function: ``Chart(finish=...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.claims.quantity import Quantity, evaluate
from harness.figures.style import CYCLE, Look, label_line_ends, not_measured, stamp

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any  # matplotlib takes long to import, and only drawing needs it

__all__ = ["Axes", "Chart", "Figure", "Limit", "Line", "Looks", "Panel", "Range"]

Looks = Mapping[Any, Look | Mapping[str, Any]]
"""The look of each line by its value: those that come first are drawn first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The lines of a panel: one for each value of a column that the table has."""

    y: Any
    """A column, or a quantity of the line's rows."""
    x: Any
    by: str = ""
    """The column; without it all rows are one line."""
    looks: Looks | None = None
    """Without it the values have the colours of the cycle, in their order."""
    label: str | Callable[[Any], str] | None = None
    """Of a line, made of its value; None: that of its look, or the value. One that begins with "_"
    is in no legend."""
    markers: Sequence[str] = ()
    """A marker for each of these lines, where they have no looks."""
    where: Any = True
    """The rows that count, as a quantity."""
    ends: tuple[Any, Any] | None = None
    """Lower and upper end of each point's interval: columns or quantities."""
    band: bool = False
    """Draw the interval as a band, not as bars."""
    table: str = ""
    """The table that it draws, where its panel has several."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``Axes.plot`` for every line."""
    bars_style: Mapping[str, Any] = field(default_factory=lambda: {"capsize": 2})
    """Arguments of ``Axes.errorbar`` where the interval is bars."""

    def draw(self, axes: Axes, table: Any) -> None:
        """Draw the lines whose rows the table has."""
        table = table[self.table] if self.table else table
        if self.where is not True:
            table = table[evaluate(self.where, table)]
        for value, rows, look in self._lines(table):
            style = {"label": str(value), **look, **self._label(value), **self.style}
            x, y = _values(self.x, rows), _values(self.y, rows)
            if self.ends is None:
                axes.plot(x, y, **style)
                continue
            low, high = (_values(end, rows) for end in self.ends)
            if self.band:
                axes.plot(x, y, **style)
                colour = style.get("color")
                axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
            else:
                spread = np.array([y - low, high - y], dtype=float)
                axes.errorbar(x, y, yerr=spread, **{**style, **self.bars_style})

    def _lines(self, table: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame, dict[str, Any]]]:
        if not self.by:
            if len(table):
                yield "", table, {}
            return
        present = sorted(table[self.by].unique()) if self.looks is None else list(self.looks)
        for place, value in enumerate(present):
            rows = table[table[self.by] == value]
            look = self._cycled(place) if self.looks is None else self.looks[value]
            if len(rows):
                yield value, rows, look.kwargs() if isinstance(look, Look) else dict(look)

    def _label(self, value: Any) -> dict[str, str]:
        if self.label is None:
            return {}
        made = self.label(value) if callable(self.label) else self.label.format(value)
        return {"label": made}

    def _cycled(self, place: int) -> dict[str, str]:
        colour = {"color": CYCLE[place % len(CYCLE)]}
        markers = {"marker": self.markers[place % len(self.markers)]} if self.markers else {}
        return {**colour, **markers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A straight line across a panel at a value, with a text where it begins or ends."""

    x: Any = None
    y: Any = None
    text: str = ""
    at: tuple[float, float] = (0.0, 0.0)
    """The place of the text, on the axes' own scales."""
    style: Mapping[str, Any] = field(default_factory=dict)
    text_style: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, axes: Axes, table: pd.DataFrame) -> None:
        """Draw it."""
        look = {"color": "#767676", "linewidth": 0.9, "linestyle": ":", **self.style}
        if self.x is not None:
            axes.axvline(float(evaluate(self.x, table)), **look)
        else:
            axes.axhline(float(evaluate(self.y, table)), **look)
        if self.text:
            own = {"xytext": (0, 3), "textcoords": "offset points", "fontsize": 7}
            axes.annotate(self.text, self.at, **{**own, **self.text_style})


Range = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what is drawn in it, in that order, and its axes."""

    drawn: Sequence[Line | Limit | Callable[[Axes, pd.DataFrame], None]]
    x: str = ""
    y: str = ""
    """What is on the axes."""
    _: KW_ONLY
    title: str = ""
    title_style: Mapping[str, Any] = field(default_factory=lambda: {"loc": "left"})
    x_range: Range = (None, None)
    y_range: Range = (None, None)
    log: str = ""
    """The logarithmic axes: "x", "y" or "xy"."""
    ticks: Mapping[Any, str] | None = None
    """Of the x axis, with their texts."""
    legend: Mapping[str, Any] | None = None
    """Arguments of ``Axes.legend``; None: no legend."""
    ends: bool = False
    """Label lines at their ends."""
    table: str = ""
    """The table that it draws, where an experiment has several."""
    where: Any = True
    """The rows that it draws, as a quantity."""

    def draw(self, axes: Axes, tables: Any) -> None:
        """Draw what is in the panel."""
        rows = tables[self.table] if self.table else tables
        if self.where is not True:
            rows = rows[evaluate(self.where, rows)]
        for each in self.drawn:
            draw = each.draw if isinstance(each, Line | Limit) else each
            draw(axes, rows)

    def finish(self, axes: Axes) -> None:
        """Set the axes when all panels are drawn; an empty one says that it was not measured."""
        if "x" in self.log:
            axes.set_xscale("log")
        if "y" in self.log:
            axes.set_yscale("log")
        if self.x_range != (None, None):
            axes.set_xlim(*self.x_range)
        if self.y_range != (None, None):
            axes.set_ylim(*self.y_range)
        if self.ticks is not None:
            axes.set_xticks(list(self.ticks), labels=list(self.ticks.values()))
        if self.x:
            axes.set_xlabel(self.x)
        if self.y:
            axes.set_ylabel(self.y)
        if self.title:
            axes.set_title(self.title, **self.title_style)
        if not axes.has_data():
            not_measured(axes)
        elif self.legend is not None and axes.get_legend_handles_labels()[0]:
            axes.legend(**self.legend)
        if self.ends:
            label_line_ends(axes)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of panels side by side, or below each other; an experiment's ``draw``."""

    panels: Sequence[Panel]
    _: KW_ONLY
    stamp: str | Callable[[Any], str] = ""
    """The origin of the numbers, from the tables if they say it."""
    columns: int | None = None
    """Panels in a row; None: all of them."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``Figure.subplots``."""
    prepare: Callable[[Any], Any] | None = None
    """Makes what is drawn of the tables."""
    legend: Mapping[str, Any] | None = None
    """Arguments of the legend of all lines, below the panels."""
    finish: Callable[[Sequence[Axes], Any], object] | None = None
    """Draws by hand what is missing, when all panels are drawn."""

    def __call__(self, tables: Any, figure: Figure, *, stamped: str | None = None) -> None:
        """Draw the tables; ``stamped`` replaces the stamp."""
        made = tables if self.prepare is None else self.prepare(tables)
        columns = self.columns or len(self.panels)
        grid = figure.subplots(
            -(-len(self.panels) // columns), columns, squeeze=False, **self.layout
        )
        axes = list(grid.flat)
        for one, panel in zip(axes, self.panels, strict=False):
            panel.draw(one, made)
        for one, panel in zip(axes, self.panels, strict=False):
            panel.finish(one)
        if self.finish is not None:
            self.finish(axes, made)
        if self.legend is not None:
            self._legend(figure, axes)
        words = self.stamp(tables) if callable(self.stamp) else self.stamp
        if stamped or words:
            stamp(figure, stamped or words)

    def _legend(self, figure: Figure, axes: Sequence[Axes]) -> None:
        drawn = (zip(*one.get_legend_handles_labels(), strict=True) for one in axes)
        known = {label: handle for pairs in drawn for handle, label in pairs}
        if known:
            own = {"loc": "outside lower center", "ncols": len(known)}
            figure.legend(known.values(), known, **{**own, **(self.legend or {})})


def _values(value: Any, table: pd.DataFrame) -> Any:
    if isinstance(value, Quantity):
        return np.asarray(evaluate(value, table), dtype=float)
    return table[value].to_numpy() if isinstance(value, str) else value
