"""What the figures on random topologies share: specifications, means with intervals, panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harness.figures.style import PLANNERS, stamp
from harness.measurement import Context
from harness.results.record import Point, Profile
from harness.seeds import generator
from harness.topology.generate import FULL, STRUCTURED, Specification, random_topology
from harness.topology.model import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONFERENCE = "Su and Zhou, ICDE 2016"
JOURNAL = "Su and Zhou, TKDE 2019"

TOPOLOGIES: Mapping[Profile, int] = {Profile.SMOKE: 2, Profile.QUICK: 20, Profile.PAPER: 100}
RATIOS: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: (0.2, 0.5, 0.8),
    Profile.QUICK: tuple(round(0.1 * step, 1) for step in range(1, 10)),
    Profile.PAPER: tuple(round(0.1 * step, 1) for step in range(1, 10)),
}

PANELS: Mapping[str, tuple[str, Mapping[str, Specification]]] = {
    "a": (
        "workload skewness",
        {"uniform": Specification(), "Zipf, s = 0.1": Specification(zipf=0.1)},
    ),
    "b": (
        "parallelization",
        {
            "4 to 8 tasks": Specification(parallelism=(4, 8), zipf=0.1),
            "8 to 16 tasks": Specification(parallelism=(8, 16), zipf=0.1),
            "16 to 32 tasks": Specification(parallelism=(16, 32), zipf=0.1),
        },
    ),
    "c": (
        "structured and full",
        {
            "structured": Specification(partitionings=STRUCTURED, zipf=0.1),
            "full": Specification(partitionings=FULL, zipf=0.1),
        },
    ),
    "d": (
        "joins",
        {
            "no joins": Specification(zipf=0.1),
            "50 % joins": Specification(zipf=0.1, join_fraction=0.5),
        },
    ),
}

POINTS: Sequence[Point] = [
    {"panel": panel, "variant": variant}
    for panel, (_, variants) in PANELS.items()
    for variant in variants
]

NOTES = (
    "5 to 10 operators, Zipf s = 0.1 and 50 % joins are printed. The degree ranges are lost: "
    "4 to 8, 8 to 16 and 16 to 32 tasks are chosen; elsewhere 4 to 16.",
    "Chosen: all four partitionings equally likely except in (c); Zipf workloads in (b) to (d), "
    "where the paper does not say; the 50 % are of the operators that have two inputs.",
)


def topologies(specification: Specification, context: Context, count: int) -> list[Topology]:
    """``count`` random topologies; the same shapes for every specification that allows them."""
    return [
        random_topology(specification, generator(context.seed("topology", number), "topology"))
        for number in range(count)
    ]


def budget(topology: Topology, ratio: float) -> int:
    """``ratio`` of the cost of replicating everything, rounded down."""
    return int(ratio * topology.total_cost + 1e-9)


def specification(point: Point) -> Specification:
    """The specification of a point of `POINTS`."""
    return PANELS[str(point["panel"])][1][str(point["variant"])]


def summary(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Mean ``value`` per group, the half-width of its 95 % interval, and the sample size."""
    grouped = frame.groupby(list(by), sort=False)["value"]
    table = grouped.agg(["mean", "std", "count"]).reset_index()
    table["half_width"] = 1.96 * table["std"].fillna(0.0) / np.sqrt(table["count"])
    return table.drop(columns="std")


def draw_panels(
    table: pd.DataFrame, figure: Figure, *, planners: Sequence[str], x: str, x_label: str
) -> None:
    """Four panels; colour and marker by planner, line by variant; 95 % intervals as bands."""
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, (panel, (title, variants)) in zip(panels.flat, PANELS.items(), strict=True):
        for variant, line in zip(variants, ("-", "--", ":"), strict=False):
            for planner in planners:
                part = table[
                    (table["panel"] == panel)
                    & (table["variant"] == variant)
                    & (table["planner"] == planner)
                ]
                draw_band(
                    axes,
                    part,
                    planner,
                    x=x,
                    line=line,
                    label=f"{planner_label(planner)}, {variant}",
                )
        axes.set_title(f"({panel}) {title}", loc="left")
        axes.legend(loc="upper left", fontsize=7, handlelength=2.6)
        axes.set_ylim(0, 1)
        axes.set_xlim(0, 1)
    for axes in panels[1]:
        axes.set_xlabel(x_label)
    for axes in panels[:, 0]:
        axes.set_ylabel("output fidelity (mean, 95 % interval)")
    sample = int(table["count"].max()) if len(table) else 0
    stamp(figure, f"{sample} random topologies per point; degree ranges chosen")


def planner_label(planner: str) -> str:
    """The planner's name in legends."""
    return PLANNERS[planner].label


def draw_band(
    axes: Axes, part: pd.DataFrame, planner: str, *, x: str, line: str, label: str
) -> None:
    """One curve with its interval."""
    look = PLANNERS[planner]
    axes.plot(
        part[x], part["mean"], color=look.color, marker=look.marker, markersize=3.5,
        linestyle=line, label=label,
    )  # fmt: skip
    axes.fill_between(
        part[x], part["mean"] - part["half_width"], part["mean"] + part["half_width"],
        color=look.color, alpha=0.12, linewidth=0,
    )  # fmt: skip


def wide(table: pd.DataFrame, planners: Sequence[str], index: Sequence[str]) -> pd.DataFrame:
    """A row per setting, a column per planner with its mean."""
    return table.pivot_table(index=list(index), columns="planner", values="mean")[list(planners)]


def mean_of(table: pd.DataFrame, panel: str, planner: str) -> Callable[[str], pd.Series[float]]:
    """Variant to its mean per x, for one panel and planner."""
    part = table[(table["panel"] == panel) & (table["planner"] == planner)]
    return lambda variant: part[part["variant"] == variant].set_index("x")["mean"]


def place(index: object) -> str:
    """A row of a table in words: ``"c / full / 0.9"``."""
    parts = index if isinstance(index, tuple) else (index,)
    return " / ".join(part if isinstance(part, str) else f"{part:g}" for part in parts)


def everywhere(points: Sequence[Point]) -> dict[Profile, Sequence[Point]]:
    """The same grid in every profile."""
    return dict.fromkeys(Profile, points)


ONCE: Mapping[Profile, int] = dict.fromkeys(Profile, 1)
"""Repetition lies in the number of topologies."""
