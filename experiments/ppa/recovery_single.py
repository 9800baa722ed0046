"""ppa ICDE Fig. 7 = TKDE Fig. 8: recovery latency of a single node's failure.

The live figure has ICDE Fig. 8 = TKDE Fig. 9, too. In it one node after another (a task of each
level), or all 15 at once, are killed under active replication, checkpoints of two intervals, and
source replay. Live runs have the declared speed of the simulator's nodes, or are as fast as this
machine is. A recovery has two measures. The papers' is the engine's own: from the detection until
the failed tasks are back where they were. From outside it lasts from the first signal until output
is on time again. Each live failure is also simulated at the instant at which it really was.

One live run is one (window, rate): a twin, and for each contender a pass with four single failures
and one pass or more with the correlated one, in turns. A pass with the correlated one is a sample.
Every pass's stable output is compared with the twin's and the truth. `Scale` has what a profile
leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from experiments.live._judged import passes_of
from experiments.live._runs import outcome_of
from experiments.ppa import _latency, _live_recovery, _random, _topology
from experiments.ppa._latency import CHECKPOINT, REPLAY
from experiments.ppa._live_recovery import CORRELATED, FAILURES, SINGLE
from experiments.ppa._recoveries import MEASURED, in_vain, summary_of, weighted
from experiments.ppa._recovery import FIRSTS, LEVELS, SYNTHETIC, level_of
from experiments.ppa._topology import LIVE, PACED, SIMULATED, Contender, Recoveries, Row, Shape
from harness.claims import Cause, Finding, found, paper, quantity
from harness.claims.samples import FEWEST
from harness.experiment import Context, Experiment, Results, measured, simulated
from harness.results.record import Outcome, Point, Profile
from harness.seeds import generator


def run(point: Point, context: Context) -> Outcome:
    """Run one contender at one window and rate."""
    return Outcome(values={"latency_s": _latency.single_s(point, context)})


MEASUREMENT = simulated(
    "ppa/recovery-single",
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds=(0.1, 1.2, 1.2),
    run=run,
)


ALL_PLACES = "all"
CONTENDERS: Mapping[str, Contender] = {
    # As in the papers sources stay: the 15 backup nodes have room for the synthetic tasks.
    "Active-5s": Contender(scheme="rppg", trim_s=5, plan=SYNTHETIC),
    "CKP-5s": Contender(scheme="checkpoint", checkpoint_s=5),
    "CKP-15s": Contender(scheme="checkpoint", checkpoint_s=15),
    "CKP-30s": Contender(scheme="checkpoint", checkpoint_s=30),
    "Storm": Contender(scheme="replay"),
}
"""Seconds are at the papers' scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The speed-up of a profile's runs over the papers', and the passes that it leaves out."""

    faster: float
    contenders: Sequence[str] = tuple(CONTENDERS)
    levels: Sequence[int] = (0, 1, 2, 3)
    """Levels whose first task fails alone; without any there are correlated failures only."""
    after_s: float | None = None
    """Load after the last kill, where it is not `AFTER_S`."""
    passes: Mapping[str, int] = field(default_factory=dict)
    """Passes of a run in which all fail, by contender; one where it is left out. Their kills are at
    places that divide the longest checkpoint interval evenly."""
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
    Profile.SMOKE: Scale(faster=10, contenders=("Active-5s", "CKP-30s"), levels=(1,)),
    Profile.QUICK: Scale(
        faster=1,
        contenders=("Active-5s", "CKP-30s", "Storm"),
        levels=(),
        after_s=16,
        passes={"Active-5s": FEWEST, "CKP-30s": FEWEST},
    ),
    Profile.PAPER: Scale(faster=1),
}
AFTER_S = {**dict.fromkeys(CONTENDERS, 45), "Storm": 120}
"""Length of the load after the last kill: output has to be watched until it is on time again."""
STORM_APART_S = 30
"""Least time between two single failures of a pass without checkpoints."""
LONGEST_S = max(each.checkpoint_s for each in CONTENDERS.values())
PHASES = (0.4, 0.15, 0.9, 0.65)
"""Places of single kills within the longest checkpoint interval, one level after the other: so far
apart that the output can be on time between two of them."""
LATE = 0.9
"""Place of the correlated kill."""


def fail_at_s(window_s: float, scale: Scale, shift: float = 0.0) -> dict[str, dict[int, float]]:
    """Return for both kinds of failure, by task, the instant of its kill.

    A task of the n-th level fails alone when n windows are full, and not before the first
    checkpoint of the longest interval, each at the next one of the `PHASES` of that interval. All
    fail together `LATE` in it, at the last such instant that is not behind the last single one.

    A repetition has a ``shift`` (0 to 1) of its own: all single kills come by that part of the
    distance of two phases later, and the correlated one by that part of an interval."""
    firsts, every = list(FIRSTS.values()), LONGEST_S
    step_s = every * (PHASES[1] - PHASES[0] + 1)
    later_s = shift * every / len(PHASES)
    single, at_s = {}, every * PHASES[0]
    for number, level in enumerate(scale.levels):
        phase = PHASES[number % len(PHASES)]
        while at_s < max(every, (level + 1) * window_s) or abs(at_s / every % 1 - phase) >= 1e-6:
            at_s += step_s
        single[firsts[level]] = (at_s + later_s) / scale.faster
        at_s += step_s
    at_s -= step_s
    late = (LATE + shift) % 1
    whole = at_s // every - (at_s % every < every * late)
    together_s = max(whole, 1) * every + every * late
    return {
        SINGLE: single,
        CORRELATED: dict.fromkeys(SYNTHETIC, together_s / scale.faster),
    }


def full_s(point: Point) -> float:
    """Return when the windows of every level are full, in the papers' time."""
    return len(LEVELS) * float(str(point["window_s"]))


def run_live(point: Point, context: Context) -> Outcome:
    """Measure every contender at one window and rate, on one of the engines."""
    scale = SCALES[context.profile]
    shape = Shape(
        window_s=float(str(point["window_s"])),
        rate=int(str(point["rate"])),
        faster=scale.faster,
        speed=point["engine"] != LIVE,
    )
    shift = context.seed("phase") % 1000 / 1000
    passes = list(_passes(scale, point, shift))
    cases = {
        each.name: _topology.Case(contender=CONTENDERS[each.contender], at_s=each.at_s)
        for each in in_turns(passes, context.seed("order"))
    }
    outcomes: Mapping[str, Outcome] = {}
    if point["engine"] == SIMULATED:
        found = _topology.recoveries_simulated(shape, cases, context)
    else:
        ends_s = (
            max(each.at_s.values()) + (scale.after_s or AFTER_S[each.contender]) / scale.faster
            for each in passes
        )
        outcomes, found = _topology.recoveries_live(shape, cases, context, load_s=max(ends_s))
    rows = [row for each in passes for row in each.rows(found[each.name])]
    cell = ["contender", "failure", "sample", "place", "phase"]
    return outcome_of(
        outcomes, {"faster": scale.faster}, latencies=_topology.latencies_of(rows, cell)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassKills:
    """The kills of one pass under one contender."""

    contender: str
    failure: str
    part: int
    at_s: Mapping[int, float]
    faster: float

    @property
    def name(self) -> str:
        """Its name, which is part of a topic's."""
        return f"{self.contender}-{self.failure.replace(' ', '-')}-{self.part}"

    def rows(self, found: Recoveries) -> Iterator[Row]:
        """Yield a row for each task that failed alone, or one for all of them."""
        together = self.failure == CORRELATED
        for tasks in [list(self.at_s)] if together else [[task] for task in self.at_s]:
            kill = found.kills.get(tasks[0])
            yield found.row(
                tasks,
                contender=self.contender,
                failure=self.failure,
                sample=self.part if together else 0,
                place=ALL_PLACES if together else level_of(tasks[0]),
                phase=None if kill is None else kill.at_s * self.faster / LONGEST_S % 1,
            )


def _passes(scale: Scale, point: Point, shift: float) -> Iterator[PassKills]:
    """Return every contender's passes.

    Storm's single failures would run into one another: it has two passes, each with every other
    failure, and they are `STORM_APART_S` apart. Without checkpoints it has no phase either: all
    fail as soon as windows are full, so that output is watched for the longest time."""
    for contender, failure in product(CONTENDERS, FAILURES):
        if not scale.has(point, contender, failure):
            continue
        together, storm = failure == CORRELATED, contender == "Storm"
        parts = scale.passes.get(contender, 1) if together else 1 + storm
        for part in range(parts):
            later = part / parts if together else 0.0
            at_s = fail_at_s(float(str(point["window_s"])), scale, shift + later)[failure]
            if storm and together:
                at_s = dict.fromkeys(at_s, full_s(point) / scale.faster)
            elif storm:
                chosen = list(at_s.items())[part::parts]
                at_s = dict(_moved_apart(chosen, STORM_APART_S / scale.faster))
            if at_s:
                yield PassKills(
                    contender=contender,
                    failure=failure,
                    part=part,
                    at_s=at_s,
                    faster=scale.faster,
                )


def in_turns(passes: Sequence[PassKills], seed: int) -> Sequence[PassKills]:
    """Return passes in turns: one of each contender and failure, in a drawn order, then the next.

    What changes while a run lasts then meets all contenders alike."""
    drawn = generator(seed, "order").permutation(len(passes))
    return sorted((passes[number] for number in drawn), key=lambda each: each.part)


def _moved_apart(kills: Sequence[tuple[int, float]], least_s: float) -> list[tuple[int, float]]:
    """Return kills at least ``least_s`` apart: a scheme without checkpoints has no phase."""
    found: list[tuple[int, float]] = []
    for task, at_s in kills:
        found.append((task, max(at_s, found[-1][1] + least_s) if found else at_s))
    return found


FEW: Sequence[tuple[int, int]] = ((10, 1_000), (10, 2_000), (30, 1_000))


def live_grid() -> dict[Profile, Sequence[Point]]:
    def cells(engines: Sequence[str], cells: Sequence[tuple[int, int]]) -> list[Point]:
        return [
            {"engine": engine, "window_s": window_s, "rate": rate}
            for engine in engines
            for window_s, rate in cells
        ]

    every = (*FEW, (30, 2_000))
    return {
        Profile.SMOKE: cells((SIMULATED, PACED), FEW[:1]),
        Profile.QUICK: cells((SIMULATED, PACED), FEW[:1]),
        Profile.PAPER: cells((SIMULATED, PACED, LIVE), every),
    }


LIVE_MEASUREMENT = measured(
    "live/recovery",
    grid=live_grid(),
    seconds=(60.0, 735.0, 1600.0),
    run=run_live,
    keeps=_topology.kept,
)


# Shown: no record depends on what follows.
PROPORTION = (1.6, 2.4)
"""Accepted factors of the latency at twice the rate."""


@quantity
def _longer_s(table: pd.DataFrame) -> pd.Series[float]:
    """Return Storm's time with 30 s windows, less that with 10 s windows, by rate."""
    replay = _latency.passive(table)[REPLAY].unstack("window_s")
    return replay[30] - replay[10]


@paper("storm-slower", "Storm takes longer than Checkpoint in most of the cases")
def storm_slower(table: pd.DataFrame) -> Finding:
    checkpoint = _latency.latencies(table, CHECKPOINT)
    share = (_latency.passive(table)[[REPLAY]].to_numpy() > checkpoint.to_numpy()).mean()
    return found(bool(share > 0.5), share_of_cases=float(share), needed_above=0.5)


CLAIMS = [
    paper(
        "much-faster", "Active replication has a much lower latency than the passive approaches"
    ).at_least(_latency.lead, _latency.MUCH),
    paper("stable", "Window length and rate have little influence on active replication").at_most(
        _latency.swing_s, _latency.LITTLE_S
    ),
    paper(
        "rate",
        "Checkpoint and Storm grow in proportion to the rate",
        cause=Cause.READING,
        because=_latency.MOMENTS,
    )(lambda table: _latency.grows(table, *PROPORTION)),
    paper("interval", "The latency with Checkpoint increases with the checkpoint interval")(
        _latency.rises_with_interval
    ),
    paper("storm-window", "Storm takes longer with 30 s windows than with 10 s windows")(
        _random.ahead(_longer_s())
    ),
    storm_slower,
]
EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.BOTH,
    figure="Figure 7 (TKDE: 8)",
    title="Recovery latency of a single node's failure",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window, and is mostly slower."
    ),
    table=_latency.table,
    draw=_latency.draw,
    claims=CLAIMS,
    notes=(
        *_latency.NOTES,
        "Mean over the failed task's places, as the papers have it for Storm; tasks of a level "
        "behave alike and one of each is run.",
    ),
    figure_size_in=(9.0, 4.8),
    smoke_covered_by="ppa/recovery-correlated",
)


MEASURES = ("latency_s", "simulated_s", "phase", *_topology.LATENCIES[2:])
POINT = ["engine", "window_s", "rate"]


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``samples``, ``latencies`` and ``passes`` (`passes_of`); times are those of the run.

    A sample is a cell of one pass, with both measures of the recovery: ``latency_s``, the engine's,
    and ``outside_s``. A single failure's is the mean over the tasks that may fail, of a run's one
    or two passes; ``in_vain`` is the part of these whose time from outside is a lower bound.
    ``latencies`` has their medians and intervals, a row per cell (`summary_of`)."""
    by = [*POINT, "faster", "contender", "failure"]
    rows = results.series("latencies", (*POINT, "faster"))
    rows = rows.reindex(columns=["run", *by, "sample", "place", *MEASURES]).fillna({"sample": 0})
    weight = rows["place"].map({ALL_PLACES: 1, **LEVELS})  # the tasks of a level behave alike
    rows["in_vain"] = in_vain(rows)
    found = weighted(rows, weight.astype(float), ["run", "sample", *by], [*MEASURED, "in_vain"])
    return {
        "samples": found,
        "latencies": summary_of(found, by),
        "kills": rows,
        "passes": passes_of(results, POINT, "difference_from_twin"),
    }


LIVE_EXPERIMENT = EXPERIMENT.live(
    LIVE_MEASUREMENT,
    sentences={
        "active-much-faster": "ppa/recovery-correlated/much-faster",
        "active-much-faster-as-fast-as-it-is": "ppa/recovery-correlated/much-faster",
        "in-proportion-to-rate": "ppa/recovery-single/rate",
        "grows-rapidly-with-rate": "ppa/recovery-correlated/rate",
        "longer-with-interval": "ppa/recovery-single/interval",
        "storm-longer-with-window": "ppa/recovery-single/storm-window",
        "storm-faster-with-short-windows": "ppa/recovery-correlated/storm-short-windows",
    },
    paper=_random.CONFERENCE,
    figure="Figures 7 and 8 (TKDE: 8 and 9), live and simulated",
    title="Recovery latency of one and of all failed nodes, live and simulated",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window."
    ),
    table=tabulate_live,
    draw=_live_recovery.draw_latencies,
    claims=_live_recovery.CLAIMS,
    notes=(
        _topology.NOTE,
        "Windows, checkpoints and synchronization have the papers' times in quick and paper. Quick "
        "has windows of 10 s at the lower rate and the failure of all 15 nodes alone: six passes "
        "of active replication and of checkpoints every 30 s, and one of Storm. Smoke: all "
        "times are a tenth of the papers', a window of 10 s is 1 s; rates are the papers' and the "
        "speed stays, so a latency is a tenth, too. The simulator runs the same.",
        "A killed process is found by its closed connection, so that those that die together are "
        "found together, as we assume of the papers' master; detection is not counted. Killed "
        f"processes are there again {_topology.RESTART_S:g} s later, as empty standby nodes.",
        "When 15 die at once, the engine's latency counts from the last that was found: we assume "
        "that the papers' master finds all of them in one look, as the simulator does.",
        "The intervals of checkpoints other than 30 s and of active replication are chosen: the "
        "papers' are lost.",
        *_topology.TWO_MEASURES,
        "Below, a mark without a bar has too few samples for an interval: where a twin fell behind "
        "its load, nothing is known from outside.",
        "A pass is one sample. Those of a run share its twin and its input, are made in turns, and "
        "are killed at places that divide the longest checkpoint interval evenly; each run has an "
        "input and a beginning of its own. Error bars are 95 % intervals of medians, from six "
        "samples on (--repeats 6 for what has one pass a run).",
    ),
    figure_size_in=(10.0, 7.2),
    quick_by_page=False,
)
