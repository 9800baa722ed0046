"""The shortest trigger at which the stock engine keeps up on this machine, with a margin.

Word count under active replication, the heavier of the two schemes, is tried at longer and longer
triggers until one is held, then at lower rates. The grids of the kills are multiples of the held
trigger and rate, so that a slow machine measures recoveries from its regular state and not from a
backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.claims import Finding, found, hypothesis
from harness.engines.structured.parameters import StockParameters
from harness.experiment import Context, Experiment, Results, Scheduling, measured
from harness.figures.chart import Figure
from harness.figures.style import BLUE, GREY, VERMILION
from harness.judging.calibration import MEDIAN_INTERVALS, TAIL_INTERVALS
from harness.results.record import Outcome, Point, Profile
from harness.stock_kills.own import OPTIONS, own
from harness.stock_kills.scale import (
    LEAST_TRIGGER_S,
    SCALES,
    check_options,
    cluster_spec,
    conf_of,
    keeps,
    longer_s,
    own_or_words,
    scale_of,
)
from workloads.base import Workload

LOAD_S = 8.0
"""Load of a rung, in addition to some of its triggers."""

WINDOWS = 2
"""Windows that fall due in a rung, at least; short ones are more."""

SETTLE_S = 3.0


def run(point: Point, context: Context) -> Outcome:
    """Climb until a rung is held; in the smoke profile try one rung only."""
    from harness.engines.base import Setup
    from harness.judging.calibration import COARSE, FINE, calibrate, ladder
    from harness.judging.run import LiveRun

    mine = own_or_words(context)
    speed = mine.event.speed
    scale = SCALES[context.profile].following(mine.workload, speed)
    smoke = context.profile is Profile.SMOKE
    # Longer windows make longer rungs, and a user waits for the answer.
    steps = COARSE if "workload" in context.options else FINE
    rungs = ladder(LEAST_TRIGGER_S[context.profile], mine.rate_per_s, steps)
    ramp = LiveRun(
        workload=mine.workload,
        setup=Setup(
            scheme=str(point["scheme"]),
            parameters=StockParameters(conf=conf_of(mine, context.options)),
        ),
        interval_s=rungs[0].interval_s,
        rate_per_s=rungs[0].rate_per_s,
        load_s=_load_s(mine.workload, speed),
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=SETTLE_S,
        event=mine.event,
    )
    cluster = context.cluster(cluster_spec(context.profile, context.options))
    rungs = rungs[:1] if smoke else rungs
    return calibrate(ramp, rungs, cluster, context, event_at=mine.event_at)


def _load_s(workload: Workload, speed: float) -> float:
    return max(LOAD_S, (workload.watermark_delay_s + WINDOWS * workload.slide_s) / speed)


def lasts(
    profile: Profile, points: Sequence[Point], options: Mapping[str, Any], usual_s: float
) -> tuple[float, str] | None:
    """Return the duration of a ramp over the user's own workload, and its reason."""
    mine = own(profile, options)
    if mine is None:
        return None
    workload, speed = mine.workload, mine.event.speed
    scale = scale_of(profile, options)
    warm_s = scale.first_warmup_s - SCALES[profile].first_warmup_s
    more_s = _load_s(workload, speed) - LOAD_S + scale.pieces * longer_s(workload, speed)
    return usual_s + warm_s + more_s, (
        f"windows of {workload.window_s:g} s: {WINDOWS} or more in each rung of the ramp"
    )


MEASUREMENT = measured(
    "stock/calibration",
    run=run,
    grid=[{"scheme": "active"}],
    seconds=(45, 100, 130),
    repeats=1,
    scheduling=Scheduling(keeps=keeps, once=True),
    chooses=["harness.engines.structured.engine"],
    accepts=OPTIONS | {"text"},
    check=check_options,
    lasts=lasts,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per pass of the ramp, in the order in which they were made."""
    return results.series("ramp", ["scheme", "held_interval_s", "held_rate_per_s"])


def _held(table: pd.DataFrame) -> dict[str, Any]:
    """Return trigger and rate of the rung that was held; None each if there is none."""
    held = table[table["held"].astype(bool)]
    return {
        f"held_{name}": None if held.empty else float(held[name].iloc[0])
        for name in ("interval_s", "rate_per_s")
    }


@hypothesis(
    "shortest-trigger",
    "This machine holds the shortest trigger of the grids at their rate, with a margin: the median "
    f"window takes at most {MEDIAN_INTERVALS:g} triggers and the slowest at most "
    f"{TAIL_INTERVALS:g}",
    counted=True,
)
def shortest_trigger(table: pd.DataFrame) -> Finding:
    held, first = _held(table), table.iloc[0]
    same = [*held.values()] == [first["interval_s"], first["rate_per_s"]]
    return found(same, _lateness(first), **held)


@hypothesis(
    "some-trigger",
    "It holds some trigger and some rate, so that kills can be measured on it",
    counted=True,
)
def some_trigger(table: pd.DataFrame) -> Finding:
    held = _held(table)
    return found(None not in held.values(), **held)


CLAIMS = [shortest_trigger, some_trigger]


def _lateness(step: pd.Series[Any]) -> str:
    """Return the lateness of the windows of one pass, or the reason why it is unknown."""
    if not pd.isna(step["why_not"]):
        return f"the pass at {step['interval_s']:g} s gave no result: {step['why_not']}"
    median, slowest = (
        float(step[name]) / float(step["interval_s"])
        for name in ("latency_median_s", "latency_slowest_s")
    )
    return (
        f"with a trigger of {step['interval_s']:g} s its median window took {median:.1f} triggers "
        f"and its slowest {slowest:.1f}"
    )


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the median and slowest window of every pass, in triggers, with the limits."""
    axes = figure.subplots()
    place = np.arange(len(table))
    for column, limit, color, label in (
        ("latency_median_s", MEDIAN_INTERVALS, BLUE, "median window"),
        ("latency_slowest_s", TAIL_INTERVALS, VERMILION, "slowest window"),
    ):
        triggers = table[column].astype(float) / table["interval_s"]
        axes.plot(place, triggers, color=color, marker="o", linestyle="none", label=label)
        axes.axhline(limit, color=color, linestyle="--", linewidth=1)
    names = [
        f"{row.interval_s:g} s\n{row.rate_per_s:g}/s\n{'held' if row.held else 'not held'}"
        for row in table.itertuples()
    ]
    axes.set_xticks(place, names)
    axes.set_xlim(-0.5, len(table) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("latency (triggers); dashed: allowed")
    axes.grid(visible=True, axis="y", color=GREY, alpha=0.3)
    axes.legend()


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="calibration",
    title="The shortest trigger that this machine holds",
    statement="A machine that keeps up with a margin can tell a failure's delay from its own.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Made once for a machine and a code, before the experiments whose grids rest on it; "
        "./faultline run stock/calibration --again makes it anew.",
        "Triggers of 1, 1.5, 2, 3 and 4 times the grid's shortest at its rate, then the longest at "
        "a half and a quarter of the rate, until one is held. A rung whose median alone is within "
        "the margin is tried twice. Without a failure; two applications with two executors each.",
        "Its applications stay for the runs that follow, which then need no long warm-up: it costs "
        "one pass of some 20 s where the first rung is held.",
    ),
    figure_size_in=(6.5, 3.5),
    smoke_covered_by="stock/worker-kill",
)
