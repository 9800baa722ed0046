"""The figure of `experiments.live.engines`: curves of cost and latency, and recoveries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.live._rates import WORDS
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    not_measured,
    plain_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASKS = "tasks"
LINE = ["workload", "engine", "settings", "interval_s", "durable"]
"""Columns of a line: one engine with one setting over one workload."""
PARTS = {
    "cpu_us_python": ("Python on workers", GREEN),
    "cpu_us_java": ("JVMs on workers", BLUE),
    "cpu_us_own": ("driver", ORANGE),
    "cpu_us_coordinator": ("coordinator", VERMILION),
    "cpu_us_kafka": ("Kafka", GREY),
    "cpu_us_redis": ("Redis", PURPLE),
}
"""Columns of CPU per record, with names and colours. Kafka and Redis work for both engines."""


def draw_engines(tables: Mapping[str, pd.DataFrame], figure: Figure, *, bound_s: float) -> None:
    """Draw cost against latency, latency against rate, the parts of the cost, and every kill.

    ``bound_s``: latency within which engines are compared."""
    (cost, latency), (parts, kills) = figure.subplots(2, 2)
    for axes, rows, drawn in (
        (cost, tables["curves"], lambda axes, rows: _draw_cost(axes, rows, bound_s)),
        (latency, tables["curves"], _draw_latency),
        (parts, tables["rungs"], lambda axes, rows: _draw_parts(axes, rows, tables["curves"])),
        (kills, tables["kills"], _draw_kills),
    ):
        if len(rows):
            drawn(axes, rows)
        else:
            not_measured(axes)


OURS, THEIRS = (BLUE, SKY, GREEN, PURPLE), (GREY, ORANGE, VERMILION, PURPLE, BLACK)
"""Colours of the lines of either engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One engine with one setting over one workload."""

    name: str
    rungs: pd.DataFrame
    """By rate."""
    color: str
    marker: Literal["o", "^"]


def _lines(curves: pd.DataFrame) -> Iterator[Line]:
    used: list[tuple[str, str, float, bool]] = []
    for _, rungs in curves.groupby(["engine", "settings", "interval_s", "durable", "workload"]):
        row = rungs.iloc[0]
        engine, called, interval_s = row["engine"], row["settings"], row["interval_s"]
        key = engine, called, interval_s, bool(row["durable"])
        colors = OURS if engine == TASKS else THEIRS
        if key not in used:
            used.append(key)
        place = [one for one in used if one[0] == engine].index(key)
        name = TASKS if engine == TASKS else f"stock {called}"
        yield Line(
            name=f"{name}, {interval_s:g} s{'' if key[3] else ', no file'}, {row['workload']}",
            rungs=rungs.sort_values("rate_per_s"),
            color=colors[place % len(colors)],
            marker="o" if row["workload"] == WORDS else "^",
        )


def _draw(axes: Axes, line: Line, x: str, y: str) -> None:
    """Draw a line; hollow marks are rates that saturate it."""
    rungs = line.rungs
    axes.errorbar(
        rungs[x],
        rungs[y],
        xerr=_errors(rungs, x),
        yerr=_errors(rungs, y),
        color=line.color,
        linewidth=0.9,
        elinewidth=0.7,
        capsize=2,
    )
    for held, rows in rungs.groupby(rungs["held"].astype(bool)):
        axes.scatter(
            rows[x],
            rows[y],
            s=22,
            edgecolors=line.color,
            facecolors=line.color if held is True else "white",
            marker=line.marker,
            zorder=3,
        )


def _errors(rungs: pd.DataFrame, name: str) -> list[NDArray[np.float64]] | None:
    """Return the distances to the ends of the intervals; None without samples enough."""
    low, high = rungs[f"{name}_low"], rungs[f"{name}_high"]
    if low.isna().all():
        return None
    return [np.asarray(one, dtype=float) for one in (rungs[name] - low, high - rungs[name])]


def _scaled(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curves in milliseconds and thousands of records."""
    scaled = curves.assign(rate_per_s_low=None, rate_per_s_high=None)
    for ending in ("", "_low", "_high"):
        for name, factor in (("latency_p50_s", 1000), ("records_per_core_s", 0.001)):
            column = f"{name}{ending}"
            if column in scaled:
                scaled[column] = pd.to_numeric(scaled[column]) * factor
    return scaled


def _draw_cost(axes: Axes, curves: pd.DataFrame, bound_s: float) -> None:
    for line in _lines(_scaled(curves)):
        _draw(axes, line, "latency_p50_s", "records_per_core_s")
        axes.plot([], [], label=line.name, color=line.color, marker=line.marker)
    axes.axvline(bound_s * 1000, color=VERMILION, linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, axes.yaxis)
    axes.set_xlabel("median latency from the window's end (ms); dashed: the bound")
    axes.set_ylabel("1,000 records per core-second")
    axes.set_title("cost and latency, up to saturation (hollow)")
    axes.legend(fontsize=6)


def _draw_latency(axes: Axes, curves: pd.DataFrame) -> None:
    for line in _lines(_scaled(curves)):
        _draw(axes, line, "rate_per_s", "latency_p50_s")
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, axes.yaxis)
    axes.set_xlabel("records a second")
    axes.set_ylabel("median latency (ms)")
    axes.set_title("latency and rate")


def _draw_parts(axes: Axes, rungs: pd.DataFrame, curves: pd.DataFrame) -> None:
    """Draw the cheapest rung that each engine holds: medians over its runs."""
    rung = [*LINE, "rate_per_s"]
    held = rungs.merge(curves.loc[curves["held"].astype(bool), rung], on=rung)
    medians = held.groupby(rung).median(numeric_only=True).reset_index()
    chosen = [
        mine.sort_values("records_per_core_s").iloc[-1]
        for _, mine in medians.groupby(["workload", "engine"])
    ]
    names = [
        f"{'tasks' if row['engine'] == TASKS else 'stock'}, {row['workload']}\n"
        f"{row['rate_per_s']:,.0f}/s"
        for row in chosen
    ]
    left = [0.0] * len(chosen)
    for column, (label, color) in PARTS.items():
        values = [_value(row, column) for row in chosen]
        axes.barh(names, values, left=left, color=color, label=label)
        left = [at + value for at, value in zip(left, values, strict=True)]
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("CPU per record (µs)")
    axes.set_title("what a record costs, at the cheapest rate held")
    # Beside the short bar of the task engine, which is the uppermost.
    axes.legend(fontsize=6, loc="upper right")


def _value(row: pd.Series[float], column: str) -> float:
    """Return a value; engines have different names for their drivers."""
    names = ("cpu_us_driver", "cpu_us_drivers") if column == "cpu_us_own" else (column,)
    values = [row.get(name) for name in names]
    return float(sum(value for value in values if value is not None and not pd.isna(value)))


LEAST_MS = 1.0
"""Begin of the logarithmic axis: a kill that made no window late is drawn there."""


def _draw_kills(axes: Axes, kills: pd.DataFrame) -> None:
    for color, (scheme, mine) in zip((BLUE, ORANGE, GREY), kills.groupby("scheme"), strict=False):
        for measure, line, label in (
            ("restored_ms", "-", f"{scheme}, by the engine"),
            ("outside_ms", ":", f"{scheme}, from outside"),
        ):
            ordered = mine[measure].dropna().astype(float).sort_values().clip(lower=LEAST_MS)
            share = [(place + 1) / len(ordered) for place in range(len(ordered))]
            axes.step(ordered, share, where="post", color=color, linestyle=line, label=label)
    axes.set_xlabel("from the kill (ms, logarithmic)")
    axes.set_ylabel("share of kills")
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    axes.set_ylim(0, 1.02)
    axes.set_title("task engine: recoveries of killed nodes")
    axes.legend(fontsize=7)
