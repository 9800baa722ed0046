"""The two experiments that kill, with their figure: output over time around the kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.stock import calibration
from experiments.stock._kills import NOTES, PUBLISHED_RECOVERY_S, claims_of, tabulate
from harness.experiment import Experiment
from harness.figures.style import BLACK, GREY, ORANGE, SCHEMES, not_measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_PANELS = 4
"""Largest number of columns with time lines; other points are only summarized."""


def kill_experiment(victim: str, *, scope: str, **fields: Any) -> Experiment:
    """Return the experiment about the first failure of ``scope``, the kill of a ``victim``."""
    return Experiment(
        paper="Faultline",
        figure=f"{victim} kill",
        table=partial(tabulate, scope=scope),
        draw=partial(draw_kills, victim=victim),
        claims=claims_of(victim),
        notes=NOTES,
        figure_size_in=(9.0, 7.0),
        scaled_by=calibration.EXPERIMENT,
        **fields,
    )


def draw_kills(tables: Mapping[str, pd.DataFrame], figure: Figure, *, victim: str) -> None:
    """Draw throughput and latency over time per point, and recovery and gap of every run below."""
    runs, timeline = tables["runs"], tables["timeline"]
    shown = runs.drop_duplicates(["scheme", "interval_s"])
    if len(shown) > MOST_PANELS:
        ends = shown.groupby("scheme")["interval_s"].transform
        shown = shown[(shown["interval_s"] == ends("min")) | (shown["interval_s"] == ends("max"))]
    if not len(shown):
        not_measured(figure.subplots())
        return
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.3, 1])
    over_time, summary = parts
    axes = over_time.subplots(2, len(shown), sharex="col", sharey="row", squeeze=False)
    for column, run in enumerate(rows(shown)):
        mine = timeline[timeline["run"] == run["run"]]
        _throughput(axes[0, column], mine, run)
        _latency(axes[1, column], mine, run, victim=victim)
    for row, label in ((0, "results/s"), (1, "latency (s)")):
        axes[row, 0].set_ylabel(label)
        axes[row, 0].set_ylim(bottom=0, top=axes[row, 0].get_ylim()[1] * 1.12)
    over_time.legend(handles=_legend(), loc="outside upper center", ncols=5, fontsize=7)
    over_time.supxlabel("seconds since the load began", fontsize=9)
    left, right = summary.subplots(1, 2)
    _summary(left, runs, "recovery_s", "recovery (s)", least_top=1.15 * PUBLISHED_RECOVERY_S)
    left.axhline(PUBLISHED_RECOVERY_S, color=GREY, linestyle="--", linewidth=1)
    left.annotate(
        "published for one worker (other machine, other job)",
        (0.01, PUBLISHED_RECOVERY_S),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2),
        textcoords="offset points",
        va="top",
        fontsize=7,
        color=GREY,
    )
    _summary(right, runs, "output_gap_s", "output gap (s)")


def _throughput(axes: Axes, mine: pd.DataFrame, run: Any) -> None:
    draw_steps(axes, mine, run, "throughput_per_s")
    _mark(axes, run)
    axes.set_title(f"{SCHEMES[run['scheme']].label}, {run['interval_s']:g} s")


def draw_steps(axes: Axes, timeline: pd.DataFrame, run: Any, column: str) -> None:
    """Draw ``column`` of a run and its twin over time, one step per trigger interval.

    Finer bins would show the trigger, not the failure."""
    width = max(run["interval_s"], 0.5)
    for name, color in (("twin", GREY), ("failed", SCHEMES[run["scheme"]].color)):
        mine = timeline[timeline["pass"] == name]
        bins = np.floor(mine["at_s"] / width + 1e-9) * width
        values = mine.groupby(bins)[column].mean()
        axes.step(values.index, values.to_numpy(), where="post", color=color,
                  linewidth=1 if name == "twin" else 1.6)  # fmt: skip


def _latency(axes: Axes, mine: pd.DataFrame, run: Any, *, victim: str) -> None:
    color = SCHEMES[run["scheme"]].color
    lines: list[tuple[str, str, dict[str, Any]]] = [
        ("twin", "latency_p99_s", {"color": GREY, "linewidth": 1}),
        ("failed", "latency_p50_s", {"color": color, "linewidth": 1, "linestyle": ":"}),
        ("failed", "latency_p99_s", {"color": color, "marker": ".", "markersize": 4}),
    ]
    for name, column, style in lines:
        values = mine.loc[mine["pass"] == name, ["at_s", column]]
        at_s, latency_s = values[np.isfinite(values[column])].to_numpy(dtype=float).T
        # No line where no result came for longer than two triggers: nothing was measured there.
        pauses = np.flatnonzero(np.diff(at_s) > 2 * run["interval_s"] + 0.5) + 1
        axes.plot(np.insert(at_s, pauses, np.nan), np.insert(latency_s, pauses, np.nan), **style)
    _mark(axes, run, victim=victim)
    until_s = run["load_s"] if pd.isna(run["alone_until_s"]) else run["alone_until_s"]
    axes.set_xlim(0.0 if pd.isna(run["alone_from_s"]) else run["alone_from_s"], until_s)


def _legend() -> list[Line2D]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=GREY, linewidth=1, label="no failure (twin): p99"),
        Line2D([], [], color=BLACK, marker=".", label="with the kill: results/s, p99"),
        Line2D([], [], color=BLACK, linewidth=1, linestyle=":", label="with the kill: p50"),
    ]


def _mark(axes: Axes, run: Any, *, victim: str | None = None) -> None:
    """Mark the failure as a band from kill to restart, and the time when output had caught up."""
    if pd.isna(run["killed_at_s"]):
        return
    until = run["load_s"] if pd.isna(run["restarted_at_s"]) else run["restarted_at_s"]
    axes.axvspan(run["killed_at_s"], until, color=ORANGE, alpha=0.18, linewidth=0)
    axes.axvline(run["killed_at_s"], color=ORANGE, linewidth=1.2)
    above = axes.get_xaxis_transform()
    if victim is not None:
        axes.annotate(f"{victim} down", ((run["killed_at_s"] + until) / 2, 0.98), xycoords=above,
                      ha="center", va="top", fontsize=7, color="#8a5a00")  # fmt: skip
    if run["recovery_s"]:
        caught_up = run["killed_at_s"] + run["recovery_s"]
        axes.axvline(caught_up, color="black", linewidth=1, linestyle="--")
        if victim is not None:
            text = f"caught up\n+{run['recovery_s']:.1f} s"
            axes.annotate(text, (caught_up, 0.86), xycoords=above, xytext=(3, 0),
                          textcoords="offset points", va="top", fontsize=7)  # fmt: skip


def _summary(
    axes: Axes, runs: pd.DataFrame, column: str, label: str, *, least_top: float = 1.0
) -> None:
    """Draw every run as a point; a run without the number is hollow and at the top."""
    places = _places(runs)
    top = float(np.nanmax([*runs[column].astype(float) * 1.2, least_top]))
    for row in rows(runs):
        look, value = SCHEMES[row["scheme"]], row[column]
        missing = pd.isna(value)
        axes.plot(
            places.index((row["scheme"], row["interval_s"])) + 0.08 * row["repeat"],
            top * 0.95 if missing else value,
            marker=look.marker,
            color=look.color,
            markersize=6,
            linestyle="none",
            markerfacecolor="none" if missing else look.color,
        )
    axes.set_xticks(
        range(len(places)), [f"{SCHEMES[s].label.split()[0]}\n{i:g} s" for s, i in places]
    )
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_ylim(0, top)
    axes.set_ylabel(label)
    if runs[column].isna().any():
        axes.set_xlabel("hollow: did not catch up, or the twin fell behind", fontsize=7)
    repeats = int(runs.groupby(["scheme", "interval_s"]).size().min())
    axes.set_title(f"every run ({repeats} per point)", fontsize=8, fontweight="normal", loc="right")


def _places(runs: pd.DataFrame) -> Sequence[tuple[str, float]]:
    pairs = rows(runs[["scheme", "interval_s"]].drop_duplicates())
    return [(pair["scheme"], pair["interval_s"]) for pair in pairs]


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as mappings."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
