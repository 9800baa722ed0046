"""ppa ICDE Fig. 7 and 8 = TKDE Fig. 8 and 9, live and in virtual time on one picture.

The papers' recovery topology on 34 nodes. One node after another (a task of each level), or all 15
at once, are killed under active replication, checkpoints of two intervals, and source replay. Live
runs have the declared speed of the simulator's nodes, or are as fast as this machine is. Latency is
the papers': from the detection until the failed tasks are back where they were.

One run is one (window, rate): a twin, and for each contender a pass with four single failures and a
pass with the correlated one. Every pass's stable output is compared with the twin's and the truth.
`Scale` has what a profile leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live import _topology
from experiments.live._judged import (
    CHANGED,
    Tables,
    all_if,
    equal_output,
    numbers,
    passes_of,
    simulated_near,
)
from experiments.live._recovery_figure import CORRELATED, FAILURES, SINGLE, draw_latencies
from experiments.live._runs import outcome_of
from experiments.live._topology import LIVE, PACED, SIMULATED, SPEC, Contender, Shape, Ways
from experiments.ppa import _random
from experiments.ppa._recovery import LEVELS, SYNTHETIC
from harness.claims import Claim, Finding, found, paper
from harness.experiment import Experiment
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_PLACES = "all"

Row = tuple[str, str, str, float | None]
"""Contender, failure, place and latency."""
CONTENDERS: Mapping[str, Contender] = {
    # As in the papers sources stay: the 15 backup nodes have room for the synthetic tasks.
    "Active-5s": Contender(scheme="rppg", trim_s=5, plan=SYNTHETIC),
    "CKP-5s": Contender(scheme="checkpoint", checkpoint_s=5),
    "CKP-30s": Contender(scheme="checkpoint", checkpoint_s=30),
    "Storm": Contender(scheme="replay"),
}
"""In the order of the papers' legend; seconds are the papers'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The speed-up of a profile's runs over the papers', and the passes that it leaves out."""

    faster: float
    first_warmup_s: float
    contenders: Sequence[str] = tuple(CONTENDERS)
    levels: Sequence[int] = (0, 1, 2, 3)
    """Levels whose first task fails alone."""
    left_out: Sequence[tuple[str | float, str, str]] = ()
    """(engine, window or rate; contender; failure) without a live pass; an empty name is any."""

    def has(self, point: Point, contender: str, failure: str) -> bool:
        """Return True if that pass of a point is made."""
        return contender in self.contenders and not any(
            where in (point["engine"], point["window_s"], point["rate"])
            and point["engine"] != SIMULATED
            and one in ("", contender)
            and other in ("", failure)
            for where, one, other in self.left_out
        )


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(
        faster=10, first_warmup_s=2, contenders=("Active-5s", "CKP-30s"), levels=(1,)
    ),
    Profile.QUICK: Scale(
        faster=10,
        first_warmup_s=3,
        left_out=[
            (LIVE, "", SINGLE),
            (LIVE, "CKP-30s", ""),
            (30, "", SINGLE),
            (1_000, "", SINGLE),
            (30, "CKP-5s", ""),
            (30, "CKP-30s", ""),
        ],
    ),
    Profile.PAPER: Scale(faster=1, first_warmup_s=10),
}
AFTER_S = 15
"""Length of the load after the last kill."""
STORM_APART_S = 30
"""Least time between two single failures of a pass without checkpoints."""
LONGEST_S = max(each.checkpoint_s for each in CONTENDERS.values())
PHASES = (0.4, 0.65, 0.9, 0.15)
"""Places of single kills within the longest checkpoint interval, one level after the other."""
LATE = 0.9
"""Place of the correlated kill."""


def fail_at_s(window_s: float, scale: Scale) -> dict[str, dict[int, float]]:
    """Return for both kinds of failure, by task, the instant of its kill.

    A task of the n-th level fails alone when n windows are full, and not before the first
    checkpoint of the longest interval, each at the next one of the `PHASES` of that interval. All
    fail together `LATE` in it, at the last such instant that is not behind the last single one."""
    firsts, every = _topology.one_of_each_level(), LONGEST_S
    step_s = every * (PHASES[1] - PHASES[0])
    single, at_s = {}, every * PHASES[0]
    for number, level in enumerate(scale.levels):
        phase = PHASES[number % len(PHASES)]
        while at_s < max(every, (level + 1) * window_s) or not _in_phase(at_s, phase):
            at_s += step_s
        single[firsts[level]] = at_s / scale.faster
        at_s += step_s
    at_s -= step_s
    whole = at_s // every - (at_s % every < every * LATE)
    together_s = max(whole, 1) * every + every * LATE
    return {
        SINGLE: single,
        CORRELATED: dict.fromkeys(SYNTHETIC, together_s / scale.faster),
    }


def _in_phase(at_s: float, phase: float) -> bool:
    return abs(at_s / LONGEST_S % 1 - phase) < 1e-6


def run(point: Point, context: Context) -> Outcome:
    """Measure every contender at one window and rate, on one of the engines."""
    scale = SCALES[context.profile]
    shape = Shape(
        window_s=float(str(point["window_s"])),
        rate=int(str(point["rate"])),
        faster=scale.faster,
        speed=point["engine"] != LIVE,
    )
    passes = list(_passes(fail_at_s(shape.window_s, scale), scale, point))
    if point["engine"] == SIMULATED:
        return _simulated(shape, passes, scale, context)
    variants = {
        each.name: Variant(
            setup=shape.setup(CONTENDERS[each.contender]), schedule=_topology.kills(each.at_s)
        )
        for each in passes
    }
    load_s = max(max(each.at_s.values()) for each in passes) + AFTER_S / scale.faster
    outcomes = measure_each(
        shape.live(load_s=load_s, first_warmup_s=scale.first_warmup_s, seed=context.seed("input")),
        variants,
        context.cluster(SPEC),
        context,
    )
    rows = []
    for each in passes:
        back = _topology.ways(outcomes[each.name].series["incidents"], each.at_s)
        rows += each.rows(back)
    return outcome_of(outcomes, {"faster": scale.faster}, latencies=_latencies(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassKills:
    """The kills of one pass under one contender."""

    contender: str
    failure: str
    part: int
    at_s: Mapping[int, float]

    @property
    def name(self) -> str:
        """Its name, which is part of a topic's."""
        return f"{self.contender}-{self.failure.replace(' ', '-')}-{self.part}"

    def rows(self, back: Ways) -> list[Row]:
        """Return a row for each task that failed alone, or one for all of them."""
        if self.failure == CORRELATED:
            return [(self.contender, self.failure, ALL_PLACES, back.latency_s(list(self.at_s)))]
        return [
            (self.contender, self.failure, _topology.level_of(task), back.latency_s([task]))
            for task in self.at_s
        ]


def _passes(
    at_s: Mapping[str, Mapping[int, float]], scale: Scale, point: Point
) -> Iterator[PassKills]:
    """Return every contender's passes.

    Storm's single failures would run into one another: it has two passes, each with every other
    failure, and they are `STORM_APART_S` apart."""
    for contender in CONTENDERS:
        for failure in FAILURES:
            if not scale.has(point, contender, failure):
                continue
            kills = list(at_s[failure].items())
            apart = 2 if contender == "Storm" and failure == SINGLE else 1
            for part in range(apart):
                chosen = kills[part::apart]
                if apart > 1:
                    chosen = _moved_apart(chosen, STORM_APART_S / scale.faster)
                yield PassKills(contender=contender, failure=failure, part=part, at_s=dict(chosen))


def _moved_apart(kills: Sequence[tuple[int, float]], least_s: float) -> list[tuple[int, float]]:
    """Return kills at least ``least_s`` apart: a scheme without checkpoints has no phase."""
    found: list[tuple[int, float]] = []
    for task, at_s in kills:
        found.append((task, max(at_s, found[-1][1] + least_s) if found else at_s))
    return found


def _simulated(
    shape: Shape, passes: Sequence[PassKills], scale: Scale, context: Context
) -> Outcome:
    """Simulate the same topology, placement, rates, speed and failures in virtual time."""
    rows = []
    for each in passes:
        context.progress(f"simulating {each.name}")
        options = shape.simulated(CONTENDERS[each.contender], each.at_s, context.seed("network"))
        rows += each.rows(_topology.simulate(options))
    values = {"passes": 0, "faster": scale.faster}
    return Outcome(values=values, series={"latencies": _latencies(rows)})


def _latencies(rows: Sequence[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["contender", "failure", "place", "latency_s"])
    return frame.astype({"latency_s": float})


_FEW: Sequence[tuple[int, int]] = ((10, 1_000), (10, 2_000), (30, 1_000))


def grid() -> dict[Profile, Sequence[Point]]:
    def cells(engines: Sequence[str], cells: Sequence[tuple[int, int]]) -> list[Point]:
        return [
            {"engine": engine, "window_s": window_s, "rate": rate}
            for engine in engines
            for window_s, rate in cells
        ]

    every = (*_FEW, (30, 2_000))
    return {
        Profile.SMOKE: cells((SIMULATED, PACED), _FEW[:1]),
        Profile.QUICK: [*cells((SIMULATED, PACED), _FEW), *cells((LIVE,), _FEW[1:2])],
        Profile.PAPER: cells((SIMULATED, PACED, LIVE), every),
    }


MEASUREMENT = Measurement(
    id="live/recovery",
    origin=Origin.MEASURED,
    grid=grid(),
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 60.0, Profile.QUICK: 48.0, Profile.PAPER: 1200.0},
    run=run,
    scheduling=Scheduling(keeps=_topology.kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

MUCH = 5.0
"""Active is "much lower" if the passive ways take at least this many times as long."""
PROPORTION = (1.5, 2.5)
"""Accepted growth for twice the rate."""
POINT = ["engine", "window_s", "rate"]


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``latencies`` in seconds of the run, over repetitions, and ``passes`` (`passes_of`).

    A single failure's is the mean over the tasks that may fail, as in the papers."""
    by = [*POINT, "faster", "contender", "failure"]
    rows = results.series("latencies", (*POINT, "faster"))
    rows = rows.reindex(columns=["run", *by, "place", "latency_s"])
    weight = rows["place"].map({ALL_PLACES: 1, **LEVELS})  # the tasks of a level behave alike
    weighted = rows.assign(weight=weight, latency_s=rows["latency_s"] * weight)
    runs = weighted.groupby(["run", *by], sort=False)[["latency_s", "weight"]]
    each = runs.sum(min_count=1).assign(back=runs.count()["latency_s"], of=runs.size())
    latency_s = (each["latency_s"] / each["weight"]).where(each["back"] == each["of"])
    grouped = latency_s.rename("latency_s").reset_index().groupby(by, sort=False)["latency_s"]
    means = grouped.agg(["mean", "min", "max", "count", "size"]).reset_index()
    means.loc[means["count"] < means["size"], "mean"] = np.nan  # one never came back
    return {"latencies": means, "passes": passes_of(results, POINT, "difference_from_twin")}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw a panel per failure, a mark per contender and engine."""
    draw_latencies(tables["latencies"], figure)


def _means(tables: Tables, engine: str = PACED) -> pd.DataFrame:
    """Return the means of one engine: a row per cell, a column per contender."""
    mine = tables["latencies"]
    cells = mine[mine["engine"] == engine].set_index(["failure", "window_s", "rate", "contender"])
    return cells["mean"].astype(float).unstack("contender").reindex(columns=list(CONTENDERS))


def _longer(cells: pd.DataFrame, longer: Any, shorter: Any, name: str = "{}") -> Finding:
    """Return whether one column is above another, in the rows where both were measured."""
    both = cells.reindex(columns=[longer, shorter]).dropna()
    shown = numbers(both.round(3).to_dict("list"), name)
    return found(all_if(len(both), both[longer] > both[shorter]), **shown)


def _active(claim: str, engine: str) -> Claim:
    @paper(
        claim,
        f"Active replication recovers much faster than Checkpoint and Storm ({engine})",
        rule=CHANGED,
        because="When 15 processes die at once, the machine's cores presumably have to take back "
        "their memory before any replica gets its turn, so active replication takes longer than in "
        "the simulator. The shorter the checkpoint interval, the less there is to process again, "
        "and the smaller is the factor.",
    )
    def much_faster(tables: Tables) -> Finding:
        means = _means(tables, engine)
        factor = means.drop(columns="Active-5s").min(axis=1) / means["Active-5s"]
        held = all_if(len(factor) and factor.notna().all(), factor >= MUCH)
        return found(held, factors=factor.round(1).tolist(), needed=MUCH)

    return much_faster


@paper(
    "in-proportion-to-rate",
    "Checkpoint and Storm grow in proportion to the rate",
    rule=CHANGED,
    because="The more recent the checkpoints, the less input has to be processed again. Finding "
    "and opening 15 checkpoints at once on one machine is then presumably a large part of the "
    "latency, and does not depend on the rate. In the simulator each node has cores of its own.",
)
def grows_with_rate(tables: Tables) -> Finding:
    means = _means(tables).drop(columns="Active-5s")
    low, high = (means.query("rate == @rate").droplevel("rate") for rate in (1_000, 2_000))
    growth = (high / low).dropna(how="all").dropna(how="all", axis=1)
    held = all_if(len(growth), (growth >= PROPORTION[0]) & (growth <= PROPORTION[1]))
    factors = growth.round(2).to_dict("list")
    return found(held, factors_for_twice_the_rate=factors, accepted=list(PROPORTION))


CLAIMS = [
    equal_output,
    _active("active-much-faster", PACED),
    _active("active-much-faster-as-fast-as-it-is", LIVE),
    grows_with_rate,
    paper("longer-with-interval", "Checkpoint takes longer with a longer interval")(
        lambda tables: _longer(_means(tables), "CKP-30s", "CKP-5s")
    ),
    paper(
        "storm-longer-with-window", "Storm takes longer with 30 s windows than with 10 s windows"
    )(
        lambda tables: _longer(
            _means(tables)["Storm"].unstack("window_s"), 30.0, 10.0, "window_{:g}_s"
        )
    ),
    paper(
        "storm-faster-with-short-windows",
        "With 10 s windows Storm is faster than Checkpoint with a 30 s interval when all "
        "nodes fail",
        because="Presumably because Storm's replay is exact here: the last of four operators "
        "needs four windows of the sources, and each operator waits for the output of the one "
        "above it. Checkpoints are read by all of them at once and are at most 30 s old. "
        "ppa/recovery-correlated simulates this for other windows, too.",
    )(
        lambda tables: _longer(
            _means(tables).query("failure == @CORRELATED and window_s == 10"), "CKP-30s", "Storm"
        )
    ),
    simulated_near("failure", "window_s", "rate", "contender"),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _random.CONFERENCE,
    figure="Figures 7 and 8 (TKDE: 8 and 9), live and simulated",
    title="Recovery latency of one and of all failed nodes, live and simulated",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        _topology.NOTE,
        "Quick leaves out single failures where windows are 30 s, at the lower rate, and as fast "
        "as this machine is; the simulator has them.",
        "Quick and smoke: all times are a tenth of the papers', a window of 10 s is 1 s, a "
        "checkpoint every 30 s one every 3 s; rates are the papers' and the speed stays, so a "
        "latency is a tenth, too. The simulator runs the same.",
        "A killed process is found by its closed connection, so that those that die together are "
        "found together, as by the papers' master; detection is not counted. Killed processes are "
        f"there again {_topology.RESTART_S:g} s later, as empty standby nodes.",
        "When 15 die at once, a latency counts from the last that was found, some 0.1 s after the "
        "first: the papers' master finds all of them in one look, and so does the simulator.",
    ),
    figure_size_in=(10.0, 4.8),
    smoke_covered_by="stock/worker-kill",
)
