"""Absence of a killed node by the size of its tasks' state and by the rate.

Word count on six nodes; its two counters carry a block of state besides their counts, of which
every batch rewrites a part. Nodes are killed one after the other with SIGKILL. The counters have
three of the nodes to themselves, so that the next node to be killed has one. A row in which it had
none is left out, because the other tasks have next to no state.

From a checkpoint a task has to fetch its state from Redis and to process again what came since;
a replica has both already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.live._judged import numbers, right_output
from experiments.live._kills import OUTSIDE_NOTE, measure_kills
from experiments.live._six_nodes import KEPT, warm
from harness.claims import Finding, at_most, hypothesis
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Results, Scheduling, measured
from harness.figures.chart import Figure
from harness.figures.style import BLUE, ORANGE, not_measured, plain_ticks
from harness.results.record import Outcome, Point, Profile

INTERVAL_S, CHECKPOINT_S = 0.1, 2.0
KB, MB = 1_000, 1_000_000
SIZES = (KB, MB, 10 * MB, 100 * MB)
RATES_PER_S = (2_000.0, 10_000.0, 40_000.0)
KILLS = {Profile.SMOKE: 2, Profile.QUICK: 3, Profile.PAPER: 60}
GAP_S, LONG_GAP_S = 2.5, 5.0
"""Time between two kills; the second where the state is more than `LONG_FROM`."""
FIRST_S = 2 * CHECKPOINT_S + 0.5
"""The first kill: a checkpoint is stored by then, however large."""
LONG_FROM = 50 * MB
PLACEMENT, SLOTS = (2, 4, 2, 4, 0, 3, 5), (1, 1, 2, 1, 2, 1)
"""Node of each task (split and lower twice, the two counters, collect), and copies that each node
takes: the others' nodes are full, and one of the counters' nodes is free."""
VICTIMS = (0, 3, 1)
"""Nodes killed in turn. A lost counter goes to the free node, the victim before."""
COUNTERS = (4, 5)
CHECKPOINTS, REPLICAS = "checkpoint", "rppg"


def point(scheme: str, state_bytes: int, rate_per_s: float) -> Point:
    return {"scheme": scheme, "state_bytes": state_bytes, "rate_per_s": rate_per_s}


def parameters(point: Point) -> TaskParameters:
    """Return the engine's parameters; replicas of the counters need a slot more on their nodes."""
    replicas = point["scheme"] == REPLICAS
    slots = [most + (replicas and node in VICTIMS) for node, most in enumerate(SLOTS)]
    return TaskParameters(
        checkpoint_s=CHECKPOINT_S,
        suspect_s=5.0,  # a node that writes 100 MB is silent for longer than a second
        placement=PLACEMENT,
        slots=slots,
        plan=COUNTERS if replicas else (),
    )


def run(point: Point, context: Context) -> Outcome:
    """Measure one scheme at one size and rate."""
    from experiments.live._ballast import heavy

    runner = warm("tasks", str(point["scheme"]), parameters(point), context)
    size = int(str(point["state_bytes"]))
    return measure_kills(
        runner,
        workload=heavy(state_bytes=size),
        rate_per_s=float(str(point["rate_per_s"])),
        interval_s=INTERVAL_S,
        checkpoint_s=CHECKPOINT_S,
        kills=KILLS[context.profile],
        gap_s=LONG_GAP_S if size > LONG_FROM else GAP_S,
        first_s=FIRST_S,
        victims=VICTIMS,
    )


_QUICK = [
    *(point(CHECKPOINTS, size, RATES_PER_S[0]) for size in SIZES),
    point(CHECKPOINTS, MB, RATES_PER_S[-1]),
    point(REPLICAS, 10 * MB, RATES_PER_S[0]),
]
_PAPER = [
    *(point(CHECKPOINTS, size, RATES_PER_S[0]) for size in SIZES),
    *(point(CHECKPOINTS, MB, rate) for rate in RATES_PER_S[1:]),
    *(point(REPLICAS, size, RATES_PER_S[0]) for size in SIZES),
]

MEASUREMENT = measured(
    "live/state",
    run=run,
    grid={
        Profile.SMOKE: [point(CHECKPOINTS, MB, 500.0)],
        Profile.QUICK: _QUICK,
        Profile.PAPER: _PAPER,
    },
    seconds=(45, 16, 180),
    scheduling=Scheduling(keeps=KEPT, early=True),
)

# Shown: no record depends on what follows.

OUTSIDE = "outside_ms"
"""The measure from outside (`experiments.live._kills.outside`)."""
LIMITS = {"small_ms": 250.0, "ms_per_mb": 20.0, "replica_ms": 100.0, "rate_ms": 250.0}
"""Fixed before measuring."""


def tabulate(results: Results) -> pd.DataFrame:
    """Return a row per kill of a node with a counter."""
    kills = results.series("kills", ["scheme", "state_bytes", "rate_per_s", "failures"])
    if not len(kills):
        return kills.assign(restored_ms=pd.Series(dtype=float))
    return kills[kills["tasks"].str.contains("count")].reset_index(drop=True)


def medians(
    table: pd.DataFrame, scheme: str, by: str, measure: str = "restored_ms", /, **fixed: float
) -> pd.Series[float]:
    """Return the median of a measure, in ms, by one of size and rate."""
    mine = table[table["scheme"] == scheme].reindex(columns=sorted({*table.columns, measure}))
    for name, value in fixed.items():
        mine = mine[mine[name] == value]
    return mine.dropna(subset=[measure]).groupby(by)[measure].median()


def _by_size(
    table: pd.DataFrame, scheme: str, up_to: int = SIZES[-1], measure: str = "restored_ms"
) -> pd.Series[float]:
    found = medians(table, scheme, "state_bytes", measure, rate_per_s=RATES_PER_S[0])
    return found[found.index <= up_to]


def _outside(table: pd.DataFrame) -> dict[str, Any]:
    """Return the medians of the other measure, by scheme and size."""
    return {
        f"outside_ms, {scheme}, {float(str(size)) / MB:g} MB": float(value)
        for scheme in (CHECKPOINTS, REPLICAS)
        for size, value in _by_size(table, scheme, measure=OUTSIDE).items()
    }


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw left by size and right by rate: a dot per kill, a line through the medians."""
    by_size, by_rate = figure.subplots(1, 2, sharey=True)
    for scheme, label, color in (
        (CHECKPOINTS, "checkpoint", ORANGE),
        (REPLICAS, "replicas of the counters", BLUE),
    ):
        for axes, by, name, value, unit in (
            (by_size, "state_bytes", "rate_per_s", RATES_PER_S[0], MB),
            (by_rate, "rate_per_s", "state_bytes", MB, 1_000),
        ):
            mine = table[(table["scheme"] == scheme) & (table[name] == value)]
            axes.scatter(mine[by] / unit, mine["restored_ms"], s=9, color=color, alpha=0.5)
            line = medians(table, scheme, by, **{name: value})
            axes.plot(line.index / unit, line, color=color, marker="o", label=label)
            seen = medians(table, scheme, by, OUTSIDE, **{name: value}).clip(lower=1.0)
            axes.plot(
                seen.index / unit, seen, color=color, marker="o", markerfacecolor="none",
                linestyle=":", label=f"{label}, seen from outside",
            )  # fmt: skip
    by_size.set_xlabel("state per counter (MB)")
    by_size.set_ylabel("kill to restored; hollow: until\noutput is on time (ms)")
    by_rate.set_xlabel("1,000 records/s, 1 MB of state")
    for axes in (by_size, by_rate):
        if not any(line.get_xdata().size for line in axes.lines):
            not_measured(axes)
        else:
            axes.set_xscale("log")
            axes.set_yscale("log")
            plain_ticks(axes.xaxis, axes.yaxis)
    by_size.legend()


def _largest(by: pd.Series[float]) -> float | None:
    return float(by.max()) if len(by) else None


def ms_per_mb(by_size: pd.Series[float]) -> float | None:
    """Return the slope of the straight line through the medians; None with fewer than three."""
    if len(by_size) < 3:
        return None
    megabytes = by_size.index.to_numpy(dtype=float) / MB
    return float(np.polyfit(megabytes, by_size.to_numpy(dtype=float), 1)[0])


@hypothesis("per-mb", "Every further MB costs at most 20 ms.")
def per_mb(table: pd.DataFrame) -> Finding:
    by_size = _by_size(table, CHECKPOINTS)
    sizes = numbers(by_size.set_axis(by_size.index / MB).to_dict(), "ms_at_{:g}_mb")
    slope = ms_per_mb(by_size)
    return at_most(slope, LIMITS["ms_per_mb"], value=slope, **sizes, **_outside(table))


@hypothesis(
    "replica-any-size",
    "With a replica a kill is restored within 100 ms (median), of its state.",
)
def replica_any_size(table: pd.DataFrame) -> Finding:
    value, small = (_largest(_by_size(table, REPLICAS, up_to)) for up_to in (SIZES[-1], MB))
    return at_most(value, LIMITS["replica_ms"], value=value, ms_up_to_1_mb=small)


@hypothesis(
    "any-rate",
    "From 2,000 to 40,000 records/s a kill is restored from checkpoints within 250 ms (median).",
)
def any_rate(table: pd.DataFrame) -> Finding:
    by_rate = medians(table, CHECKPOINTS, "rate_per_s", state_bytes=MB)
    value = _largest(by_rate) if len(by_rate) > 1 else None
    rates = numbers(by_rate.to_dict(), "ms_at_{:g}_per_s")
    return at_most(value, LIMITS["rate_ms"], value=value, **rates)


CLAIMS = [
    right_output(lambda table: table),
    hypothesis(
        "small-from-checkpoints",
        "Up to 1 MB of state a task, a kill is restored from checkpoints within 250 ms (median).",
    ).at_most(lambda table: _largest(_by_size(table, CHECKPOINTS, MB)), LIMITS["small_ms"]),
    per_mb,
    replica_any_size,
    any_rate,
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="state",
    title="Recovery of the task engine by size of state and by rate",
    statement=(
        "A task restored from a checkpoint is away for as long as its state takes to fetch "
        "and its input to process again; a replica has both."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    notes=[
        OUTSIDE_NOTE,
        "6 nodes, 2 counters with the state on three of them, one of which is free: every kill "
        f"hits a counter. Checkpoints every {CHECKPOINT_S:g} s, batches of "
        f"{INTERVAL_S:g} s. Chosen; no paper's figure.",
        "Times count from just before the first signal of a kill.",
        "The limits in the sentences were fixed before measuring.",
    ],
    figure_size_in=(9.0, 3.6),
)
