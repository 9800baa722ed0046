"""What the figures of recovery latency share: contenders, grid, table and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.ppa import _recovery
from experiments.ppa._recovery import RATES, SYNTHETIC, WINDOWS_S, Contender
from harness.figures.style import BLUE, GREY, SKY, VERMILION, stamp
from harness.protocol.scheme import Recovery
from harness.results.record import Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATED = "simulated"
"""The engine of these points. Live engines add points of their own."""
CONTENDERS: Mapping[str, Contender] = {
    each.label: each
    for each in (
        Contender(label="Active-5s", replicated=SYNTHETIC, trim_s=5),
        Contender(label="Active-30s", replicated=SYNTHETIC, trim_s=30),
        Contender(label="CKP-5s", checkpoint_s=5),
        Contender(label="CKP-15s", checkpoint_s=15),
        Contender(label="CKP-30s", checkpoint_s=30),
        Contender(label="Storm", recovery=Recovery.REPLAY),
    )
}
"""In the order of the papers' legend."""
ACTIVE, CHECKPOINT, REPLAY = ("Active-5s", "Active-30s"), ("CKP-5s", "CKP-15s", "CKP-30s"), "Storm"
LOOKS = {
    "Active-5s": (BLUE, "s"), "Active-30s": (SKY, "D"), "CKP-5s": ("#E08A5B", "v"),
    "CKP-15s": (VERMILION, "o"), "CKP-30s": ("#8C3D00", "^"), "Storm": (GREY, "X"),
}  # fmt: skip
NOTES = (
    *_recovery.NOTES,
    "The intervals are lost except checkpoints every 30 s; 5, 15 and 30 s are chosen. Active-Xs "
    "trims the replica's output every X seconds, CKP-Xs checkpoints every X seconds, Storm "
    "replays the sources.",
    "Storm's replay is exact here: a task four windows deep needs four windows of the sources.",
)
_FEW = ((10, 1_000), (10, 2_000), (30, 1_000))
"""What the smoke profile runs of windows and rates."""
REPEATS = {Profile.SMOKE: 1, Profile.QUICK: 3, Profile.PAPER: 10}


def grid() -> dict[Profile, Sequence[Point]]:
    points: list[Point] = [
        {"window_s": window, "rate": rate, "contender": name, "engine": SIMULATED}
        for window in WINDOWS_S
        for rate in RATES
        for name in CONTENDERS
    ]
    few = ("Active-5s", "CKP-5s", "CKP-30s", REPLAY)
    small = [p for p in points if p["contender"] in few and (p["window_s"], p["rate"]) in _FEW]
    return {Profile.SMOKE: small, Profile.QUICK: points, Profile.PAPER: points}


def table(results: Results) -> pd.DataFrame:
    """A row per engine, window, rate and contender: latency over the repetitions, in seconds."""
    by = ["engine", "window_s", "rate", "contender"]
    grouped = results.frame.groupby(by, sort=False)["latency_s"]
    return grouped.agg(["mean", "min", "max", "count"]).reset_index()


def latencies(table: pd.DataFrame) -> pd.DataFrame:
    """Means of the simulated points: a row per (window, rate), a column per contender."""
    chosen = table[table["engine"] == SIMULATED]
    return chosen.pivot_table(index=["window_s", "rate"], columns="contender", values="mean")


def means(table: pd.DataFrame) -> dict[str, float]:
    """Column means by name, for a claim's numbers."""
    return {str(name): float(table[name].mean()) for name in table.columns}


def growth_with_rate(found: pd.DataFrame) -> pd.DataFrame:
    """How many times as long each contender takes at twice the rate, by window."""
    by_rate = {rate: found[found.index.get_level_values("rate") == rate] for rate in RATES}
    slow, fast = (by_rate[rate].droplevel("rate") for rate in RATES)
    return (fast / slow).dropna(how="all")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Groups of (window, rate) from left to right, as in the papers; a marker per contender."""
    axes = figure.subplots()
    groups = [(w, r) for w in WINDOWS_S for r in RATES]
    present = [name for name in CONTENDERS if name in set(table["contender"])]
    for number, name in enumerate(present):
        rows = table[table["contender"] == name].set_index(["window_s", "rate"])
        offset = (number - (len(present) - 1) / 2) * 0.12
        x = np.array([groups.index(place) for place in rows.index]) + offset
        colour, marker = LOOKS[name]
        spread = [(rows["mean"] - rows["min"]).tolist(), (rows["max"] - rows["mean"]).tolist()]
        axes.errorbar(
            x, rows["mean"], yerr=spread, color=colour, marker=marker, linestyle="none",
            capsize=2, label=name,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), [f"window {w} s\n{r:,} tuples/s" for w, r in groups])
    axes.set_xlabel("window length and rate of each source task")
    axes.set_ylabel("recovery latency (s, logarithmic)")
    axes.legend(loc="upper left", ncols=3)
    axes.set_ylim(top=axes.get_ylim()[1] * 8)
    stamp(figure, f"{_recovery.STAMP}; bars: range of {int(table['count'].max())} failures")
