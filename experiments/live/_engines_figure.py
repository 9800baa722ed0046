"""The figure of `experiments.live.engines`: curves of cost and latency, and recoveries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from experiments.live._judged import stacked
from harness.figures.chart import Axes, Figure
from harness.figures.style import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    not_measured,
    plain_ticks,
)

TASKS = "tasks"
LINE = ["workload", "engine", "settings", "interval_s", "durable"]
"""Columns of a line: one engine with one setting over one workload."""
PARTS = {
    "cpu_us_python": ("Python on workers", GREEN),
    "cpu_us_java": ("JVMs on workers", BLUE),
    "cpu_us_driver": ("driver", ORANGE),
    "cpu_us_drivers": ("_driver", ORANGE),  # of the other engine
    "cpu_us_coordinator": ("coordinator", VERMILION),
    "cpu_us_kafka": ("Kafka", GREY),
    "cpu_us_redis": ("Redis", PURPLE),
}
"""Columns of CPU per record, with names and colours. Kafka and Redis work for both engines."""
MARKERS = "o^sDvP"
"""Of lines, a colour each time anew."""
LEAST_MS = 1.0
"""Begin of the logarithmic axis: a kill that made no window late is drawn there."""


def draw_engines(tables: Mapping[str, pd.DataFrame], figure: Figure, *, bound_s: float) -> None:
    """Draw cost against latency, latency against rate, the parts of the cost, and every kill.

    ``bound_s``: latency within which engines are compared."""
    (cost, latency), (parts, kills) = figure.subplots(2, 2)
    curves, rungs = tables["curves"], tables["rungs"]
    if len(curves):
        _draw_curves(cost, curves, "latency_p50_s", "records_per_core_s")
        cost.axvline(bound_s, color=VERMILION, linewidth=0.8, linestyle="--")
        cost.legend(fontsize=6)
        _draw_curves(latency, curves, "rate_per_s", "latency_p50_s")
        _draw_parts(parts, rungs, curves)
    if len(tables["kills"]):
        _draw_kills(kills, tables["kills"])
    for axes in (cost, latency, parts, kills):
        if not axes.has_data():
            not_measured(axes)
    cost.set_xlabel("median latency from the window's end (s); dashed: the bound")
    cost.set_ylabel("records per core-second")
    cost.set_title("cost and latency, up to saturation (hollow)")
    latency.set_xlabel("records a second")
    latency.set_ylabel("median latency (s)")
    latency.set_title("latency and rate")


def _draw_curves(axes: Axes, curves: pd.DataFrame, x: str, y: str) -> None:
    """Draw the lines with the intervals of y; hollow marks are rates that saturate a line."""
    for place, (names, rungs) in enumerate(curves.groupby(LINE)):
        workload, engine, settings, interval_s, durable = names
        label = f"{engine if engine == TASKS else settings}, {interval_s:g} s, {workload}"
        color, marker = CYCLE[place % len(CYCLE)], MARKERS[place // len(CYCLE)]
        ends = rungs[y] - rungs[f"{y}_low"], rungs[f"{y}_high"] - rungs[y]
        axes.errorbar(
            rungs[x], rungs[y], yerr=np.array(ends, dtype=float), color=color, marker=marker,
            linewidth=0.9, capsize=2, label=label if bool(durable) else f"{label}, no file",
        )  # fmt: skip
        full = rungs[~rungs["held"].astype(bool)]
        axes.plot(
            full[x], full[y], color=color, marker=marker, markerfacecolor="white",
            linestyle="none", zorder=3,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, axes.yaxis)


def _draw_parts(axes: Axes, rungs: pd.DataFrame, curves: pd.DataFrame) -> None:
    """Draw the cheapest rung that each engine holds: medians over its runs."""
    rung = [*LINE, "rate_per_s"]
    held = rungs.merge(curves.loc[curves["held"].astype(bool), rung], on=rung)
    medians = held.groupby(rung).median(numeric_only=True).reset_index()
    best = medians.sort_values("records_per_core_s").groupby(["workload", "engine"]).tail(1)
    stacked(axes, [f"{one.engine}, {one.workload}\n{one.rate_per_s:,.0f}/s"
                   for one in best.itertuples()], best, PARTS)  # fmt: skip
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("CPU per record (µs)")
    axes.set_title("what a record costs, at the cheapest rate held")


def _draw_kills(axes: Axes, kills: pd.DataFrame) -> None:
    for color, (scheme, mine) in zip((BLUE, ORANGE, GREY), kills.groupby("scheme"), strict=False):
        for measure, line, label in (
            ("restored_ms", "-", f"{scheme}, by the engine"),
            ("outside_ms", ":", f"{scheme}, from outside"),
        ):
            ordered = mine[measure].dropna().astype(float).clip(lower=LEAST_MS)
            if len(ordered):
                axes.ecdf(ordered, color=color, linestyle=line, label=label)
    axes.set_xlabel("from the kill (ms, logarithmic)")
    axes.set_ylabel("share of kills")
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    axes.set_title("task engine: recoveries of killed nodes")
    axes.legend(fontsize=7)
