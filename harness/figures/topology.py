"""A topology as a picture: a column of tasks per operator, replicated tasks filled.

Tests: ``tests/figures/test_topology.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.figures.style import GREEN, GREY
from harness.topology.model import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP = 1.8
"""Gap between two operators in one column, in task heights; it contains the name."""

_CLEAR = 40
"""Number of distinguishable substreams of one edge; more are drawn fainter."""


def size_in(topology: Topology) -> tuple[float, float]:
    """Return a figure size in inches in which the topology's tasks stay apart."""
    positions = _positions(topology)
    columns = len(set(positions[:, 0]))
    tallest = np.ptp(positions[:, 1]) + 3
    return (
        min(24.0, max(5.0, (1.9 if tallest < 40 else 2.8) * columns + 1)),
        min(40.0, max(2.5, 0.3 * tallest + 1)),
    )


def draw_topology(
    topology: Topology, alive: NDArray[np.bool_], figure: Figure, *, title: str = ""
) -> None:
    """Draw ``topology`` on ``figure``; ``alive`` flags the replicated tasks, shape ``(tasks,)``.

    Sources are at the left. Substreams between two replicated tasks are drawn strong: they survive
    when everything else fails."""
    axes = figure.subplots()
    axes.set_axis_off()
    positions = _positions(topology)
    _draw_substreams(axes, topology, alive, positions)
    for flag, face, label in ((True, GREEN, "replicated"), (False, "white", "not replicated")):
        x, y = positions[alive == flag].T
        axes.scatter(
            x, y, s=90, facecolor=face, edgecolor=GREEN if flag else GREY, zorder=3,
            linewidth=1.2, label=f"{label} ({int((alive == flag).sum())})",
        )  # fmt: skip
    for task, (x, y) in enumerate(positions):
        index = topology.place(task)[1]
        color = "white" if alive[task] else GREY
        axes.annotate(
            str(index), (x, y), ha="center", va="center", fontsize=6, color=color, zorder=4
        )
    for operator in topology.operators:
        _name(axes, topology, operator.name, positions)
    axes.margins(x=0.12, y=0.06)
    figure.legend(loc="outside lower center", ncols=2, handletextpad=0.2)
    if title:
        axes.set_title(title, loc="left", pad=24)


def _name(axes: Axes, topology: Topology, name: str, positions: NDArray[np.float64]) -> None:
    x, y = positions[topology.tasks(name).start]
    operator = topology.operator(name)
    notes = [
        word
        for word, applies in (
            ("join", operator.join),
            (f"cost {operator.cost}", operator.cost != 1),
            *((f"→ {q.name}, priority {q.priority}", q.sink == name) for q in topology.queries),
        )
        if applies
    ]
    text = name + (f"\n{', '.join(notes)}" if notes else "")
    axes.annotate(
        text, (x, y), xytext=(0, 7), textcoords="offset points", ha="center", va="bottom",
        fontsize=7.5, zorder=5, linespacing=0.95,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )  # fmt: skip


def _draw_substreams(
    axes: Axes, topology: Topology, alive: NDArray[np.bool_], positions: NDArray[np.float64]
) -> None:
    from matplotlib.collections import LineCollection

    for edge in topology.edges:
        rows, columns = topology.substream_tasks(edge)
        surviving = alive[rows] & alive[columns]
        lines = np.stack([positions[rows], positions[columns]], axis=1)
        faint = min(1.0, (_CLEAR / len(rows)) ** 0.5)
        for flag, color, width in ((False, "#c8c8c8", 0.5), (True, GREEN, 1.3)):
            axes.add_collection(
                LineCollection(
                    list(lines[surviving == flag]),
                    colors=color,
                    linewidths=max(0.4, width * faint),
                    alpha=max(0.35, faint),
                    zorder=1 + flag,
                )
            )


def _positions(topology: Topology) -> NDArray[np.float64]:
    """Return the place of each task, shape ``(tasks, 2)``: a column per depth, tasks downwards."""
    depth: dict[str, int] = {}
    for name in topology.order:
        depth[name] = max((depth[up] + 1 for up in topology.upstream(name)), default=0)
    for name in reversed(topology.order):  # sources next to the operator that they feed
        nearest = min((depth[down] for down in topology.downstream(name)), default=None)
        if nearest is not None:
            depth[name] = nearest - 1
    positions = np.zeros((topology.task_count, 2))
    for column in set(depth.values()):
        names = [name for name in topology.order if depth[name] == column]
        heights = [topology.operator(name).parallelism + _GAP for name in names]
        top = sum(heights) / 2
        for name, height in zip(names, heights, strict=True):
            own = topology.tasks(name)
            positions[own, 0] = column
            positions[own, 1] = top - np.arange(own.stop - own.start)
            top -= height
    return positions
