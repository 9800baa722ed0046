"""One look for every picture: report, notebooks and ``--draw``.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; a scheme or a planner
has the same colour and marker in every figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#767676"
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)

_STYLE: Any = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "savefig.bbox": "tight",
    "svg.fonttype": "path",
    "svg.hashsalt": "faultline",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}

_CHANGES: ContextVar[Mapping[str, Any]] = ContextVar("changes", default=MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Look:
    """The look of one scheme, planner or model in every figure."""

    label: str
    color: str
    marker: str
    linestyle: str = "-"

    def kwargs(self) -> dict[str, Any]:
        """Return keyword arguments for ``Axes.plot``."""
        return asdict(self)


SCHEMES: Mapping[str, Look] = {
    "replay": Look("source replay", GREY, "v"),
    "checkpoint": Look("checkpoint", VERMILION, "o"),
    "active": Look("active replication", BLUE, "s"),
    "ppa": Look("PPA", GREEN, "D"),
    "rppg": Look("RPPG", PURPLE, "^"),
}

PLANNERS: Mapping[str, Look] = {
    "optimum": Look("proven optimum", BLACK, "*", "--"),
    "dp": Look("DP", BLUE, "s"),
    "dp-printed": Look("DP, as printed", SKY, "^"),
    "sa": Look("SA", GREEN, "D"),
    "greedy": Look("Greedy", VERMILION, "o"),
    "refined": Look("refined SA", PURPLE, "P"),
    "exhaustive": Look("exhaustive", GREY, "x", ":"),
    "inc": Look("INC", GREEN, "D"),
    "to": Look("TO", VERMILION, "o"),
    "rppg": Look("RPPG", PURPLE, "^"),
    "dra": Look("DRA", ORANGE, "v"),
    "ras": Look("RAS", PURPLE, "^"),
}

MODELS: Mapping[str, Look] = {
    "ours": Look("utilization model", BLUE, "s"),
    "young": Look("Young", ORANGE, "v"),
    "daly-first": Look("Daly, first order", VERMILION, "o"),
    "daly": Look("Daly, higher order", PURPLE, "^"),
    "zhuang": Look("Zhuang et al. (reconstruction)", GREEN, "D"),
}

_STAMP = "stamp"
"""Mark of the text that `stamp` has written."""


@contextmanager
def styled(changes: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Draw inside this context; ``changes`` hold in it, also where it is entered again."""
    import matplotlib as mpl

    mpl.use("Agg", force=False)
    changes = {**_CHANGES.get(), **changes}
    token = _CHANGES.set(changes)
    try:
        style: Any = {**_STYLE, **changes}
        with mpl.rc_context(style):
            yield
    finally:
        _CHANGES.reset(token)


def new_figure(size_in: tuple[float, float] = (8.0, 4.5)) -> Figure:
    """Return an empty figure without a window; use it inside `styled`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_in)
    FigureCanvasAgg(figure)
    return figure


def label_line_ends(axes: Axes) -> None:
    """Write each line's label next to its last point instead of in a legend.

    Labels are moved apart to 5.5 % of the axes' height; call it after the limits are final."""
    ends: list[tuple[float, Line2D]] = []
    for line in axes.get_lines():
        points = np.asarray(line.get_xydata(), dtype=float)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) and not str(line.get_label()).startswith("_"):
            on_screen = axes.transData.transform(points[-1])
            ends.append((float(axes.transAxes.inverted().transform(on_screen)[1]), line))
    ends.sort(key=lambda end: end[0])
    lowest_free = float("-inf")
    for end, line in ends:
        height = max(end, lowest_free)
        lowest_free = height + 0.055
        axes.annotate(
            str(line.get_label()),
            xy=(1.01, height),
            xycoords="axes fraction",
            color=line.get_color(),
            fontsize=8,
            va="center",
            annotation_clip=False,
        )


def not_measured(axes: Axes) -> None:
    """Write "not measured" into empty axes, so that nobody looks for a line."""
    axes.text(
        0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center",
        color=GREY, fontsize=9,
    )  # fmt: skip


def plain_ticks(*axes: Axis) -> None:
    """Write the ticks of logarithmic axes as plain numbers: 0.1, 1, 10.

    An axis shorter than two decades also gets 2 and 5. Call it after the limits are final."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        steps = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(10, subs=steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure, axes: Axes, *, columns: int | None = None) -> None:
    """Write the legend of one panel below all of them, in one row without ``columns``."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(handles))


def stamp(figure: Figure, text: str) -> None:
    """Write a warning into the figure: simulated, scaled down, chosen values.

    A figure that has a stamp already gets one line with both texts."""
    for earlier in figure.texts:
        if earlier.get_gid() == _STAMP:
            present = earlier.get_text()
            new = [part for part in text.split(" · ") if part not in present]
            earlier.set_text(" · ".join([present, *new]))
            return
    look: Any = {"fontsize": 7, "color": VERMILION, "style": "italic", "ha": "right", "x": 0.995,
                 "gid": _STAMP}  # fmt: skip
    if figure.get_suptitle():
        figure.text(y=0.995, s=text, va="top", **look)
    else:
        figure.suptitle(text, fontweight="normal", **look)
