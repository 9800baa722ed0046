"""The figure of `experiments.live.engines`: cost of a record, and duration of recoveries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.live._rates import SATURATION, WORDS
from harness.figures.style import BLUE, GREEN, GREY, ORANGE, VERMILION, not_measured, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASKS = "tasks"
PARTS = {
    "cpu_us_python": "Python on workers",
    "cpu_us_java": "JVMs on workers",
    "cpu_us_own": "driver",
    "cpu_us_coordinator": "coordinator",
}
"""Columns of CPU per record, with their names in the figure."""


def draw_engines(table: pd.DataFrame, figure: Figure, *, bound_s: float) -> None:
    """Draw above latency against efficiency, a mark per run, and the cost at saturation.

    Below: parts of the CPU, and every kill. ``bound_s``: latency within which engines are compared.
    """
    (cost, worth), (parts, kills) = figure.subplots(2, 2)
    for axes, part, drawn in (
        (cost, "rate", lambda axes, rows: _draw_rates(axes, rows, bound_s)),
        (parts, "rate", _draw_parts),
        (worth, SATURATION, _draw_saturation),
        (kills, "recovery", _draw_kills),
    ):
        rows = table[table["part"] == part]
        if len(rows):
            drawn(axes, rows)
        else:
            not_measured(axes)


def _draw_rates(axes: Axes, rates: pd.DataFrame, bound_s: float) -> None:
    for (engine, workload), mine in rates.groupby(["engine", "workload"]):
        axes.scatter(
            mine["latency_p50_s"] * 1000,
            mine["records_per_core_s"] / 1000,
            s=18 + mine["rate_per_s"] / 1500,
            color=BLUE if engine == TASKS else GREY,
            marker="o" if workload == WORDS else "^",
            alpha=0.75,
            linewidths=0,
            label=f"{_called(engine)}, {workload}",
        )
    axes.axvline(bound_s * 1000, color=VERMILION, linewidth=0.8, linestyle="--",
                 label="bound of latency")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, axes.yaxis)
    axes.set_xlabel("median latency from the window's end (ms)")
    axes.set_ylabel("1,000 records per core-second")
    axes.set_title("cost and latency (a larger mark: more records/s)")
    axes.legend(fontsize=7)


def _draw_saturation(axes: Axes, full: pd.DataFrame) -> None:
    best = full.groupby(["workload", "engine"])["records_per_core_s"].max().sort_index()
    names = [f"{_called(engine)}\n{workload}" for workload, engine in best.index]
    colors = [BLUE if engine == TASKS else GREY for _, engine in best.index]
    bars = axes.bar(names, best.to_numpy(dtype=float) / 1000, color=colors)
    axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_ylabel("1,000 records per core-second")
    axes.set_title("saturated, without a bound of latency")


def _draw_parts(axes: Axes, rates: pd.DataFrame) -> None:
    """Draw the best run of each engine and workload."""
    chosen = [
        mine.sort_values("records_per_core_s").iloc[-1]
        for _, mine in rates.groupby(["workload", "engine"])
    ]
    colors = (GREEN, BLUE, ORANGE, VERMILION)
    names = [f"{_called(row['engine'])}, {row['workload']}\n{row['rate_per_s']:,.0f}/s, "
             f"{row['interval_s']:g} s" for row in chosen]  # fmt: skip
    left = [0.0] * len(chosen)
    for (column, label), color in zip(PARTS.items(), colors, strict=True):
        values = [_value(row, column) for row in chosen]
        axes.barh(names, values, left=left, color=color, label=label)
        left = [at + value for at, value in zip(left, values, strict=True)]
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("CPU per record (µs)")
    axes.set_title("what a record costs, best run of each")
    axes.legend(fontsize=7)


def _value(row: pd.Series[float], column: str) -> float:
    """Return a value; engines have different names for their drivers."""
    names = ("cpu_us_driver", "cpu_us_drivers") if column == "cpu_us_own" else (column,)
    values = [row.get(name) for name in names]
    return float(sum(value for value in values if value is not None and not pd.isna(value)))


def _draw_kills(axes: Axes, kills: pd.DataFrame) -> None:
    for color, (scheme, mine) in zip((BLUE, ORANGE, GREY), kills.groupby("scheme"), strict=False):
        ordered = mine["restored_ms"].dropna().sort_values()
        share = [(place + 1) / len(ordered) for place in range(len(ordered))]
        axes.step(ordered, share, where="post", color=color, label=str(scheme))
    axes.set_xlabel("kill to restored (ms)")
    axes.set_ylabel("share of kills")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_title("task engine: recoveries of killed nodes")
    axes.legend(fontsize=7)


def _called(engine: object) -> str:
    return "tasks" if engine == TASKS else "stock"
