"""Drawings of output over time around a failure, and of every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.stock import calibration
from experiments.stock._kills import NOTES, PUBLISHED_RECOVERY_S, claims_of, tabulate
from harness.experiment import Experiment
from harness.figures.chart import Axes, Figure
from harness.figures.style import GREY, ORANGE, SCHEMES, not_measured

Run = Mapping[Any, Any]
MOST_PANELS = 4
"""Largest number of columns with time lines; other points are only summarized."""
LABELS = {"throughput_per_s": "results/s", "latency_p99_s": "latency, p99 (s)"}


def kill_experiment(victim: str, *, scope: str, **fields: Any) -> Experiment:
    """Return the experiment about the first failure of ``scope``, the kill of a ``victim``."""
    return Experiment(
        paper="Faultline",
        figure=f"{victim} kill",
        table=partial(tabulate, scope=scope),
        draw=draw_kills,
        claims=claims_of(victim),
        notes=NOTES,
        figure_size_in=(9.0, 7.0),
        scaled_by=calibration.EXPERIMENT,
        **fields,
    )


def draw_kills(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw throughput and latency over time per point, and recovery and gap of every run below."""
    runs = tables["runs"]
    shown = runs.drop_duplicates(["scheme", "interval_s"])
    if len(shown) > MOST_PANELS:
        ends = shown.groupby("scheme")["interval_s"].transform
        shown = shown[(shown["interval_s"] == ends("min")) | (shown["interval_s"] == ends("max"))]
    columns = {
        f"{SCHEMES[run['scheme']].label}, {run['interval_s']:g} s": [run]
        for run in shown.to_dict("records")
    }
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.3, 1])
    draw_around(parts[0], columns, tables["timeline"])
    if not columns:
        return
    left, right = parts[1].subplots(1, 2)
    draw_runs(left, runs, ("scheme", "interval_s"), "recovery_s", "recovery (s)")
    left.axhline(PUBLISHED_RECOVERY_S, color=GREY, linestyle="--", linewidth=1)
    left.set_ylim(top=max(left.get_ylim()[1], 1.15 * PUBLISHED_RECOVERY_S))
    left.set_title("dashed: published for one worker (other machine, other job)", fontsize=7)
    draw_runs(right, runs, ("scheme", "interval_s"), "output_gap_s", "output gap (s)")


def draw_around(
    figure: Any, columns: Mapping[str, Sequence[Run]], timeline: pd.DataFrame,
    measures: Sequence[str] = tuple(LABELS),
) -> None:  # fmt: skip
    """Draw measures over time, a row each, with a column of panels by title for some runs each.

    The twin without a failure is grey, and the time of the failure is marked."""
    if not columns:
        not_measured(figure.subplots())
        return
    panels = figure.subplots(len(measures), len(columns), sharex="col", sharey="row", squeeze=False)
    for column, (title, runs) in enumerate(columns.items()):
        panels[0, column].set_title(title)
        for axes, measure in zip(panels[:, column], measures, strict=True):
            _mark(axes, runs[0])
            for number, run in enumerate(runs):
                mine = timeline[timeline["run"] == run["run"]]
                if "variant" in run:
                    mine = mine[mine["variant"] == run["variant"]]
                _draw_steps(axes, mine, run, measure, twin=not number)
        _cut(panels[0, column], runs)
    for axes, measure in zip(panels[:, 0], measures, strict=True):
        axes.set_ylabel(LABELS[measure])
        axes.set_ylim(bottom=0)  # shared: every line must be there first
    figure.supxlabel("seconds since the load began; grey: the twin without a failure", fontsize=9)
    drawn = {
        label: line
        for axes in panels[0]
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(drawn.values(), drawn, loc="outside upper center", ncols=5, fontsize=7)


def _draw_steps(axes: Axes, timeline: pd.DataFrame, run: Run, measure: str, *, twin: bool) -> None:
    """Draw a measure of a run and its twin over time, one step per trigger interval.

    Finer bins would show the trigger, not the failure."""
    width = max(run.get("interval_s", 1.0), 0.5)
    look = SCHEMES[run["scheme"]]
    lines = [("failed", look.color, look.label, 1.6)]
    if twin:
        lines.insert(0, ("twin", GREY, "no failure", 1.0))
    for name, color, label, thick in lines:
        mine = timeline[timeline["pass"] == name]
        mine = mine[np.isfinite(mine[measure])]
        bins = np.floor(mine["at_s"] / width + 1e-9) * width
        values = mine.groupby(bins)[measure].mean()
        axes.step(
            values.index, values.to_numpy(), where="post", color=color, label=label, linewidth=thick
        )


def _mark(axes: Axes, run: Any) -> None:
    """Mark the failure as a band from its begin to its end, and the time of catching up."""
    away = "down_s" in run
    begin = run["failed_at_s" if away else "killed_at_s"]
    if pd.isna(begin):
        return
    end = begin + run["down_s"] if away else run["restarted_at_s"]
    end = run["load_s"] if pd.isna(end) else end
    axes.axvspan(begin, end, color=ORANGE, alpha=0.18, linewidth=0, label="failure")
    if not away and run["recovery_s"]:
        axes.axvline(begin + run["recovery_s"], color="black", linewidth=1, linestyle="--")


def _cut(axes: Axes, runs: Sequence[Any]) -> None:
    """Show the time without the other failures of the run, where it has some."""
    begin, end = (runs[0].get(f"alone_{name}_s") for name in ("from", "until"))
    if begin is not None and not pd.isna(begin):
        axes.set_xlim(begin, runs[0]["load_s"] if pd.isna(end) else end)


def draw_runs(axes: Axes, runs: pd.DataFrame, by: Sequence[str], measure: str, label: str) -> None:
    """Draw every run as a point; a run without the number is hollow and at the top."""
    every = runs.to_dict("records")
    points = [tuple(run[name] for name in by) for run in every]
    places = list(dict.fromkeys(points))
    known = runs[measure].astype(float)
    top = float(np.nanmax([*known * 1.2, 1.0]))
    for point, value, run in zip(points, known, every, strict=True):
        look, missing = SCHEMES[run["scheme"]], pd.isna(value)
        axes.plot(
            places.index(point) + 0.08 * run["repeat"], top * 0.95 if missing else value,
            marker=look.marker, color=look.color, linestyle="none",
            markerfacecolor="none" if missing else look.color,
        )  # fmt: skip
    axes.set_xticks(range(len(places)), ["\n".join(map(str, place)) for place in places])
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_ylim(0, top)
    axes.set_ylabel(label)
    axes.set_xlabel("every run; hollow: not measured, or not caught up", fontsize=7)
