"""What the figures of recovery latency share: contenders, grid, runs, table, picture, and the
sentences that the papers have about both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.ppa import _recovery
from experiments.ppa._recovery import RATES, SYNTHETIC, WINDOWS_S, Contender
from harness.claims import ClaimKind, Verdict
from harness.figures.style import BLUE, GREY, SKY, VERMILION, stamp
from harness.measurement import Context
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
MUCH = 5.0
"""Active is "much" faster if the passive ways take at least so many times as long."""
LITTLE_S = 0.1
"""Window and rate "have little influence" if they change a latency by no more."""
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


def latency_s(point: Point, failed: Collection[int], context: Context) -> float:
    """Seconds from the detection until the last of the ``failed`` tasks was back, in one run."""
    contender = CONTENDERS[str(point["contender"])]
    context.progress(f"{contender.label}, {len(failed)} failed")
    options = _recovery.options_of(
        contender,
        window_s=int(str(point["window_s"])),
        rate=int(str(point["rate"])),
        failed=failed,
        phase=_recovery.phase_of(context.repeat),
        seed=context.seed("network"),
    )
    return _recovery.measure(options).latency_s()


def single_s(point: Point, context: Context) -> float:
    """The mean over the places in the topology where a single failed task may stand, as the
    papers take it for Storm; in the smoke profile one place in the middle."""
    smoke = context.profile is Profile.SMOKE
    places = _recovery.one_location() if smoke else _recovery.locations()
    return sum(weight * latency_s(point, failed, context) for failed, weight in places)


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


def of(found: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Those of the contenders that were run."""
    return found[[name for name in names if name in found]]


def much_faster(found: pd.DataFrame, text: str) -> Verdict:
    """Active against the fastest passive way, where that is hardest."""
    passive, active = of(found, (*CHECKPOINT, REPLAY)), of(found, ACTIVE)
    smallest = float((passive.min(axis=1) / active.max(axis=1)).min())
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=smallest >= MUCH,
        measured={"smallest_factor": smallest, "needed": MUCH},
    )


def stable(found: pd.DataFrame, text: str) -> Verdict:
    """How much windows and rates change active replication."""
    active = of(found, ACTIVE)
    swing_s = float((active.max() - active.min()).max())
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=swing_s <= LITTLE_S,
        measured={"largest_difference_s": swing_s, "tolerance_s": LITTLE_S},
    )


def rises_with_interval(found: pd.DataFrame, text: str) -> Verdict:
    """Checkpoints from the shortest interval to the longest, at every window and rate."""
    checkpoint = of(found, CHECKPOINT)
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=bool((np.diff(checkpoint.to_numpy(), axis=1) > 0).all()),
        measured=means(checkpoint),
    )


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
