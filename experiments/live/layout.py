"""The one layout and rate of live/peers: the highest rung that its weakest system holds.

Every system is tried without a kill at lower and lower rates, on one worker a rack, until it keeps
up and leaves a quarter of the cores idle, over the load and in every ten seconds of it. All systems
of live/peers then get the rate of the weakest. Where one holds no rung, the figure is not measured,
with what was short as the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live._peers_rows import (
    CHECKPOINTS,
    FLINK,
    LABELS,
    LIVE_TUNED,
    OWN,
    RATES_PER_S,
    STOCK,
    STREAMS,
    SYSTEMS,
    TASKS,
    TUNED,
    TWIN_S,
    TWO_QUERIES,
    System,
)
from experiments.live._peers_run import Twin, chosen, start
from harness.claims import Finding, found, hypothesis
from harness.experiment import Context, Experiment, Results, Scheduling, measured
from harness.figures.chart import Figure
from harness.figures.style import BLUE, GREY, VERMILION
from harness.judging.climb import Climb
from harness.judging.headroom import IDLE_SHARE
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from workloads.base import Workload

QUICK = (
    (STOCK, TUNED), (STOCK, TWO_QUERIES), (STOCK, LIVE_TUNED), (TASKS, CHECKPOINTS), (TASKS, TUNED),
    (STREAMS, TUNED), (FLINK, TUNED),
)  # fmt: skip
"""The systems of the quick profile; that of a user is not tried."""
_ALL = [row for row in SYSTEMS if row[0] != OWN]


def run(point: Point, context: Context) -> Outcome:
    """Try a system at lower and lower rates, until one is held."""
    name, tuning = str(point["engine"]), str(point["tuning"])
    if why_not := left_out(point, context.options):
        return Outcome(values={}, skipped=why_not)
    system = SYSTEMS[name, tuning]
    kind, setup = chosen(name, system)
    workload = words(system, context)
    if why_not := kind.lacks(setup, workload, system.spec):
        return Outcome(values={}, skipped=why_not)

    def attempt(rate_per_s: float) -> dict[str, Any]:
        measured = start(system, kind, setup, workload, context, tuning, rate_per_s=rate_per_s)
        if system.warmup_s and not climb.steps:
            measured.warm_up(system.warmup_s)
        twin = measured.twin(system.first_s + TWIN_S)
        return _rung(twin, rate_per_s, system.interval_s)

    climb = Climb(attempt, lambda rung: rung["held"])
    climb.until_held(RATES_PER_S[-1:] if context.profile is Profile.SMOKE else RATES_PER_S)
    held, rungs = climb.held, climb.results
    return Outcome(
        values={
            "system": LABELS[name, tuning],
            "held_rate_per_s": None if held is None else held.rung,
            "short": None if held else "; ".join(_words(rung) for rung in rungs),
        },
        series={"rungs": pd.DataFrame(rungs)},
    )


def _rung(twin: Twin, rate_per_s: float, interval_s: float) -> dict[str, Any]:
    kept_up = twin.normal is not None and twin.normal.kept_up(interval_s)
    short = [twin.room.short, None if kept_up else "it did not keep up with its load"]
    return {
        "rate_per_s": rate_per_s,
        "cores": twin.room.cores,
        **twin.room.row(),
        "latency_median_s": None if twin.normal is None else twin.normal.median_s,
        "short": "; ".join(filter(None, short)),
        "held": not any(short),
    }


def _words(rung: Mapping[Any, Any]) -> str:
    return f"at {rung['rate_per_s']:g} records/s {rung['short']}"


def asked(options: Mapping[str, Any]) -> list[str]:
    """Return the engines that were asked for, names or files."""
    return [str(name) for name in options.get("engine", ())]


def is_file(name: str) -> bool:
    """Return True for an engine of the user's own."""
    return name.endswith((".yaml", ".yml", ".py"))


def of_engines(points: Sequence[Point], options: Mapping[str, Any]) -> list[Point]:
    """Return the points of the engines that were asked for; all of them if none was."""
    names = {OWN if is_file(name) else name for name in asked(options)}
    return [point for point in points if not names or point["engine"] in names]


def left_out(point: Point, options: Mapping[str, Any]) -> str | None:
    """Return why a point is not measured: other engines were asked for; None if it is."""
    there = of_engines([point], options)
    return None if there else f"only {', '.join(asked(options))} was asked for"


def lasts(
    profile: Profile, points: Sequence[Point], options: Mapping[str, Any], usual_s: float
) -> tuple[float, str] | None:
    """Return the mean duration of these runs, of which those of other engines take no time."""
    if not (names := asked(options)):
        return None
    share = len(of_engines(points, options)) / len(points)
    return share * usual_s, f"the mean; runs of others than {', '.join(names)} take no time"


def words(system: System, context: Context) -> Workload:
    """Return the word count; updates wait for no watermark, which only keeps their state longer."""
    from harness.stock_kills.scale import UPDATES_WATERMARK_S
    from workloads.wordcount import word_count

    seed = context.seed("text")
    if system.real_time:
        return word_count(seed=seed, depth=4, watermark_delay_s=UPDATES_WATERMARK_S)
    return word_count(seed=seed, depth=4)


def join(tried: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the rung of the weakest system, and the shortage of each that holds none.

    Disturbed tries of a system decide nothing about the machine: it counts with the lowest rung."""
    rates_per_s, short = [RATE_IF_UNKNOWN], []
    for one in tried:
        if one["held_rate_per_s"] is not None:
            rates_per_s.append(float(one["held_rate_per_s"]))
        elif one.get("disturbed"):
            rates_per_s.append(RATES_PER_S[-1])
        else:
            short.append(f"{one['system']}: {one['short']}")
    return {"held_rate_per_s": min(rates_per_s), "short": ". ".join(short) or None}


RATE_IF_UNKNOWN = RATES_PER_S[0]
"""Where no system was tried: in the smoke profile, and for an engine of one's own."""


def held_rate_per_s(calibration: Mapping[str, Any] | None) -> float:
    """Return the rate that all systems get."""
    return RATE_IF_UNKNOWN if calibration is None else float(calibration["held_rate_per_s"])


def nothing_held(calibration: Mapping[str, Any] | None) -> str | None:
    """Return why no system is measured: one holds no rung; None if all hold one."""
    short = None if calibration is None else calibration["short"]
    return short and (
        "not measured: this machine has too few cores or too little memory for one layout of all "
        f"systems. Tried, with what was short: {short}. End what else runs on it (./faultline "
        "doctor), or take a machine with more cores, and run live/layout with --again"
    )


MEASUREMENT = measured(
    "live/layout",
    run=run,
    grid={
        Profile.SMOKE: [{"engine": TASKS, "tuning": TUNED}],
        Profile.QUICK: [{"engine": engine, "tuning": tuning} for engine, tuning in QUICK],
        Profile.PAPER: [{"engine": engine, "tuning": tuning} for engine, tuning in _ALL],
    },
    seconds=(60, 110, 130),
    repeats=1,
    scheduling=Scheduling(once=True),
    chooses=[
        "harness.engines.structured.engine",
        "harness.engines.tasks.engine",
        "harness.engines.kafka_streams.engine",
        "harness.engines.flink.engine",
    ],
    join=join,
    accepts=frozenset({"engine"}),
    lasts=lasts,
    fetches="Kafka Streams (90 MB) and Flink (340 MB)",
)

# Shown: no record depends on what follows.


def tabulate(results: Results) -> pd.DataFrame:
    """Return a row per system and rung, in the order in which they were tried."""
    return results.series("rungs", ["system", "held_rate_per_s"])


@hypothesis(
    "every-system-holds-a-rung",
    "Every system of live/peers keeps up on this machine at some rate of the ladder and leaves "
    f"{IDLE_SHARE:.0%} of the cores idle, in every ten seconds",
    counted=True,
)
def holds(table: pd.DataFrame) -> Finding:
    held = table.groupby("system")["held"].any()
    short = table[table["system"].isin(held.index[~held])]
    why = ". ".join(f"{row['system']}: {_words(row)}" for row in short.to_dict("records"))
    return found(bool(held.all()), why or None, held=int(held.sum()), systems=len(held))


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the idle share of every rung that was tried, and the least that counts."""
    axes = figure.subplots()
    place = np.arange(len(table))
    for column, color, label in (
        ("twin_idle_share", BLUE, "over the load"),
        ("twin_least_idle_share", VERMILION, "in its busiest ten seconds"),
    ):
        share = table[column].astype(float)
        axes.plot(share, place, color=color, marker="o", linestyle="none", label=label)
    axes.axvline(IDLE_SHARE, color=GREY, linestyle="--", linewidth=1)
    names = [f"{row.system}, {row.rate_per_s:g}/s" for row in table.itertuples()]
    axes.set_yticks(place, names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the cores that is idle; dashed: the least that counts")
    axes.legend()


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="layout",
    title="The layout and rate that every system of live/peers holds here",
    statement="Times of systems compare where each of them had room.",
    table=tabulate,
    draw=draw,
    claims=(holds,),
    notes=(
        "One worker a rack, two racks, two partitions; rates of "
        f"{', '.join(f'{rate:g}' for rate in RATES_PER_S)} records/s, the highest first, until "
        "one is held: the system keeps up, a quarter of the cores is idle over the load and in "
        "every ten seconds of it, and the load generator, the broker and the judge have room, "
        "too. A rung that other programs disturbed says nothing: its run is made again in a "
        "calmer minute.",
        "Made once for a machine and a code; ./faultline run live/layout --again makes it anew.",
    ),
    figure_size_in=(8.0, 4.5),
    smoke_covered_by="live/engines",
)
