"""Figures of recovery latency: contenders, grid and runs, then table, picture and claims."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from experiments.ppa import _random, _recovery
from experiments.ppa._recovery import RATES, SYNTHETIC, WINDOWS_S, Contender, Recovered
from harness.claims import Finding, every
from harness.experiment import Context, Point, Profile, Results
from harness.figures.chart import Chart, Line, Panel
from harness.figures.style import BLUE, GREY, SKY, VERMILION
from harness.protocol.scheme import Recovery

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
ACTIVE, CHECKPOINT, REPLAY = ("Active-5s", "Active-30s"), ("CKP-5s", "CKP-15s", "CKP-30s"), "Storm"
_FEW = ((10, 1_000), (10, 2_000), (30, 1_000))
"""Windows and rates of the smoke and quick profiles."""
REPEATS = (1, 2, 10)


def grid() -> dict[Profile, Sequence[Point]]:
    points: list[Point] = [
        {"window_s": window, "rate": rate, "contender": name, "engine": SIMULATED}
        for window in WINDOWS_S
        for rate in RATES
        for name in CONTENDERS
    ]
    few = [p for p in points if (p["window_s"], p["rate"]) in _FEW]
    quick = [p for p in few if p["contender"] != "CKP-15s"]
    smoke = [p for p in quick if p["contender"] != "Active-30s"]
    return {Profile.SMOKE: smoke, Profile.QUICK: quick, Profile.PAPER: points}


def recovered(point: Point, failed: Collection[int], context: Context) -> Recovered:
    """Return the recovery of the ``failed`` tasks under a point's contender."""
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
    return _recovery.measure(options)


def single_s(point: Point, context: Context) -> float:
    """Return the mean latency over the places of a single failed task.

    The papers do so for Storm; for the others they do not say which task failed.

    The smoke profile has one place, in the middle."""
    smoke = context.profile is Profile.SMOKE
    places = _recovery.one_location() if smoke else _recovery.locations()
    return sum(weight * recovered(point, failed, context).latency_s() for failed, weight in places)


# Shown: no record depends on what follows.

LOOKS = {
    name: {"color": colour, "marker": marker, "linestyle": "none", "label": name}
    for name, colour, marker in (
        ("Active-5s", BLUE, "s"), ("Active-30s", SKY, "D"), ("CKP-5s", "#E08A5B", "v"),
        ("CKP-15s", VERMILION, "o"), ("CKP-30s", "#8C3D00", "^"), ("Storm", GREY, "X"),
    )
}  # fmt: skip
"""Colour and marker by contender, in the order of the legend."""
GROUPS = {
    (window_s, rate): f"window {window_s} s\n{rate:,} tuples/s"
    for window_s, rate in product(WINDOWS_S, RATES)
}
AXIS: Mapping[str, Any] = {
    "ticks": dict(enumerate(GROUPS.values())),
    "x_range": (-0.5, len(GROUPS) - 0.5),
}
"""The axis of `placed`."""
NOTES = (
    *_recovery.NOTES,
    "The intervals are lost except checkpoints every 30 s; 5, 15 and 30 s are chosen. Active-Xs "
    "trims the replica's output every X seconds, CKP-Xs checkpoints every X seconds, Storm "
    "replays the sources.",
    "Storm replays the source tuples of the unfinished windows of the failed tasks, which is read "
    "as one window of the sources. They fill the windows of all operators on their way.",
)
MOMENTS = (
    "Presumably the moments of the failures: a recovery from a checkpoint is longer, the later its "
    "failure comes after one, and the quick profile has two failures a point."
)
"""Why what compares checkpoints may fail in the quick profile."""
MUCH = 5.0
"""Factor from which active replication is "much" faster than the passive approaches."""
LITTLE_S = 0.1
"""Largest change of a latency that counts as "little influence" of window and rate."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per engine, window, rate and contender: latency over the repetitions (s)."""
    by = ["engine", "window_s", "rate", "contender"]
    return spread(results.frame, by, "latency_s")


def spread(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Return mean, extremes and sample size of a column per group."""
    groups = frame.groupby(list(by), sort=False)
    return groups.agg(
        mean=(value, "mean"), min=(value, "min"), max=(value, "max"), count=(value, "count")
    ).reset_index()


def latencies(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return means: a row per (window, rate), a column per contender.

    It has the columns of those of ``names`` that were run, in that order."""
    found = _random.wide(table, ("window_s", "rate"), "contender")
    return found[[name for name in names if name in found]]


def passive(table: pd.DataFrame) -> pd.DataFrame:
    """Return the latencies of Checkpoint and Storm."""
    return latencies(table, (*CHECKPOINT, REPLAY))


def means(table: pd.DataFrame) -> dict[str, Any]:
    """Return column means by name, for a claim's numbers."""
    return _random.named(table.mean())


def every_entry(holds: pd.DataFrame, known: pd.DataFrame, **measured: Any) -> Finding:
    """Return a finding about each entry of a table that is not null in ``known``."""
    return every(holds.to_numpy()[known.notna().to_numpy()], **measured)


def growth_over(found: pd.DataFrame, level: str, values: Sequence[int]) -> pd.DataFrame:
    """Return the factor of each contender's latency at the second of two values of a level."""
    one, other = (found[found.index.get_level_values(level) == value] for value in values)
    return (other.droplevel(level) / one.droplevel(level)).dropna(how="all")


def lead(table: pd.DataFrame) -> float:
    """Return the smallest factor of the fastest passive way over active replication."""
    return float((passive(table).min(axis=1) / latencies(table, ACTIVE).max(axis=1)).min())


def swing_s(table: pd.DataFrame) -> float:
    """Return the largest difference that windows and rates make to active replication."""
    active = latencies(table, ACTIVE)
    return float((active.max() - active.min()).max())


def rises_with_interval(table: pd.DataFrame) -> Finding:
    """Return whether each longer interval takes longer, at every window and rate."""
    checkpoint = latencies(table, CHECKPOINT)
    steps = checkpoint.diff(axis=1).iloc[:, 1:]
    return every_entry(steps > 0, steps, **means(checkpoint))


def grows(table: pd.DataFrame, least: float, most: float | None = None) -> Finding:
    """Return whether each passive way's factor at twice the rate is between two others."""
    growth = growth_over(passive(table), "rate", RATES)
    inside = (growth >= least) & (growth <= (math.inf if most is None else most))
    numbers = {"needed": least} if most is None else {"accepted": [least, most]}
    factors = means(growth)
    return every_entry(inside, growth, factor_for_twice_the_rate=factors, **numbers)


def placed(table: pd.DataFrame) -> pd.DataFrame:
    """Add ``at``, the place of a row: contenders in groups of window and rate."""
    group = [[*GROUPS].index(cell) for cell in zip(table["window_s"], table["rate"], strict=True)]
    offset = {name: 0.12 * (number - 2.5) for number, name in enumerate(LOOKS)}
    return table.assign(at=group + table["contender"].map(offset))


draw = Chart(
    [
        Panel(
            [Line(x="at", y="mean", by="contender", looks=LOOKS, ends=("min", "max"))],
            "window length and rate of each source task",
            "recovery latency (s, logarithmic)",
            log="y",
            legend={"loc": "upper left", "ncols": 3},
            **AXIS,
        )
    ],
    prepare=placed,
    stamp=lambda table: f"{_recovery.STAMP}; bars: range of {table['count'].max()} failures",
)
