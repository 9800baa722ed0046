"""Four workloads under four schemes and two models of failure, live, on the task engine.

World Cup top 100, traffic jams, accident detection and word count run from Kafka to Kafka under
checkpoints alone, full replication, PPA with half of the tasks replicated, and RPPG with as many;
nodes are killed at exponential times, or a whole rack at once. Every cell is a twin without
failures and the same input with them; one judge reads both at the out topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live import _plans
from experiments.live._judged import SAMPLED, Tables, described, numbers
from experiments.live._matrix_figure import CORRELATED, FAILURES, draw_matrix
from experiments.live._six_nodes import KEPT, SPEC
from experiments.stock._scale import cluster_spec
from experiments.stock._workloads import WORKLOADS
from harness.claims import (
    Claim,
    Finding,
    at_most,
    difference_of,
    every,
    hypothesis,
    invariant,
    median_of,
    not_asked,
    with_interval,
)
from harness.cluster.base import TOGETHER, Action, ClusterSpec
from harness.engines.base import Setup
from harness.engines.structured.parameters import StockParameters
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.failures.generators import Repair, exponential, one_target
from harness.failures.schedule import NO_FAILURES, FailureEvent, Schedule
from harness.figures.style import GREY, SCHEMES, Look
from harness.judging.run import LiveRun, Variant, lacking, measure_each, together
from harness.measure.recovery import Unrecovered
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS, STOCK = "tasks", "structured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheme on an engine."""

    engine: str = TASKS
    scheme: str
    spec: ClusterSpec = SPEC
    away_s: float | None = None
    """Time until a killed node is restarted; None: the engine does that itself, at once."""


STOCK_SPEC = cluster_spec(Profile.SMOKE)
CONTENDERS: Mapping[str, Contender] = {
    "checkpoint": Contender(scheme="checkpoint"),
    "full replication": Contender(scheme="active"),
    "PPA": Contender(scheme="ppa"),
    "RPPG+RAS": Contender(scheme="rppg"),
    "stock checkpoint": Contender(engine=STOCK, scheme="checkpoint", spec=STOCK_SPEC, away_s=3.0),
    "stock active": Contender(engine=STOCK, scheme="active", spec=STOCK_SPEC, away_s=3.0),
    "stock PPA": Contender(engine=STOCK, scheme="ppa", spec=STOCK_SPEC, away_s=3.0),
}
"""Contenders by their names in the figure."""
OURS = tuple(name for name, contender in CONTENDERS.items() if contender.engine == TASKS)
LOOKS: Mapping[str, Look] = {
    name: replace(
        SCHEMES[contender.scheme],
        label=name,
        **({} if contender.engine == TASKS else {"color": GREY}),
    )
    for name, contender in CONTENDERS.items()
}
BATCH_S = 0.5
TRIGGER_S = 1.0
"""Trigger interval of the stock engine."""
CHECKPOINT_S = 2.0
CALM_S = 2.0
"""Time on time that ends a recovery: two of the longest windows' slides. A load of seconds has no
calm of the usual five. Fixed on 2026-11-23."""
AGAIN_S = 5.0
"""Time from the restart of a Spark worker until executors run on it."""
MARGIN_S = 2.0
"""Time at the start of a load without failures, half of that before its end: a failure needs time
to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a profile's cells."""

    load_s: float
    kills: tuple[int, int]
    """Least and most nodes that an exponential schedule may kill."""
    warmup_s: float
    first_warmup_s: float
    settle_s: float


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(load_s=7, kills=(1, 2), warmup_s=0, first_warmup_s=3, settle_s=1),
    Profile.QUICK: Scale(load_s=7, kills=(1, 2), warmup_s=0, first_warmup_s=6, settle_s=1),
    Profile.PAPER: Scale(load_s=60, kills=(2, 6), warmup_s=5, first_warmup_s=15, settle_s=5),
}


def run(point: Point, context: Context) -> Outcome:
    """Measure the cells of one workload under one scheme.

    A twin, and the same input once for each model of failure, each with its truth."""
    name, contender = str(point["workload"]), CONTENDERS[str(point["scheme"])]
    scale = SCALES[context.profile]
    wanted, plan = _wanted(name, contender, scale, context)
    if (why := lacking(wanted, contender.spec)) is not None:
        return Outcome(values={}, skipped=why)
    variants = {
        failures: Variant(
            setup=wanted.setup,
            schedule=_schedule(failures, contender, scale, context, name),
        )
        for failures in FAILURES
    }
    cells = together(measure_each(wanted, variants, context.cluster(contender.spec), context))
    return replace(cells, values={**cells.values, "replicas": len(plan)})


def _wanted(
    name: str, contender: Contender, scale: Scale, context: Context
) -> tuple[LiveRun, Sequence[int]]:
    """Return the common part of a workload's passes, and the replicated tasks."""
    workload, rate = _plans.WORKLOADS[name](context.seed("input", name)), WORKLOADS[name].rate_per_s
    given: TaskParameters | StockParameters | None = None
    plan: Sequence[int] = ()
    if contender.engine == TASKS:
        plan = _plans.plan_for(contender.scheme, workload, rate, nodes=SPEC.node_names)
        planned = contender.scheme in ("ppa", "rppg")
        given = TaskParameters(checkpoint_s=CHECKPOINT_S, plan=plan if planned else ())
    elif contender.scheme == "ppa":
        plan = _plans.plan_for("ppa", workload, rate, nodes=SPEC.node_names)
        given = StockParameters(partitions=_plans.second_query(workload, rate, plan))
    run = LiveRun(
        # The table of accidents is written from the stock engine's messages alone.
        workload=replace(workload, into_table=False),
        engine=contender.engine,
        setup=Setup(
            scheme=contender.scheme, brief=context.profile is Profile.SMOKE, parameters=given
        ),
        interval_s=BATCH_S if contender.engine == TASKS else TRIGGER_S,
        rate_per_s=rate,
        load_s=scale.load_s,
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        schedule=NO_FAILURES,
        timed=context.profile is not Profile.SMOKE,
        calm_s=CALM_S,
    )
    return run, plan


def _schedule(
    model: str, contender: Contender, scale: Scale, context: Context, workload: str
) -> Schedule:
    """Return the failures, which are the same for every scheme of a workload on one engine."""
    spec, away_s = contender.spec, contender.away_s
    begin_s, end_s = MARGIN_S, scale.load_s - 2 * MARGIN_S
    rack = spec.rack_names[context.seed("rack", workload) % spec.racks]
    if model == CORRELATED:
        return at_once(spec, rack, at_s=begin_s + (end_s - begin_s) * 0.4, away_s=away_s)
    fewest, most = scale.kills
    if away_s is not None:
        fewest = 1  # of few nodes one has to live
    rate_per_hour = 3600 * (fewest + most) / 2 / (len(spec.node_names) * (end_s - begin_s))
    for attempt in range(1000):
        schedule = exponential(
            spec.node_names,
            rate_per_hour=rate_per_hour,
            duration_s=end_s,
            seed=context.seed("kills", workload, attempt),
            repair=None if away_s is None else Repair(mean_s=away_s),
        )
        times = [event.at_s for event in schedule.kills]
        enough = fewest <= len(times) <= most and min(times) >= begin_s
        if enough and _one_lives(schedule, len(spec.node_names), away_s):
            return schedule if away_s is None else with_restarts(schedule, away_s)
    raise AssertionError("a thousand exponential schedules, and none with a kill in time")


def with_restarts(schedule: Schedule, away_s: float) -> Schedule:
    """Add its restart to every kill, also one after the time for which kills were drawn."""
    restarts = [
        FailureEvent(at_s=kill.at_s + away_s, action=Action.RESTART, target=kill.target)
        for kill in schedule.kills
    ]
    events = sorted([*schedule.kills, *restarts], key=lambda event: event.at_s)
    return replace(schedule, events=events)


def _one_lives(schedule: Schedule, nodes: int, away_s: float | None) -> bool:
    """Return True if some node is up at any time; those that come back at once are never away."""
    if away_s is None:
        return True
    kills = schedule.kills
    return all(
        len({other.target for other in kills if 0 <= kill.at_s - other.at_s <= away_s + AGAIN_S})
        < nodes
        for kill in kills
    )


def at_once(spec: ClusterSpec, rack: str, *, at_s: float, away_s: float | None) -> Schedule:
    """Kill every node of a rack at one instant.

    Their worker lives, where nodes share one, so that they are back in seconds and not in the time
    that an executor takes to start."""
    nodes = [name for name in spec.node_names if name.partition("n")[0] == rack]
    return replace(
        one_target(TOGETHER.join(nodes), at_s=at_s, restart_after_s=away_s),
        origin="all nodes of a rack at once",
        parameters={"rack": rack, "at_s": at_s},
    )


def grid(*, stock: Sequence[str]) -> list[Point]:
    """Return points of two cells each, those of the stock engine for the workloads ``stock``.

    Points that can share warm processes follow each other."""
    return [
        {"workload": workload, "scheme": scheme}
        for scheme, contender in CONTENDERS.items()
        for workload in (WORKLOADS if contender.engine == TASKS else stock)
    ]


def _keeps(point: Point) -> str:
    """Name the warm processes: a stock application serves one scheme, the task engine all."""
    contender = CONTENDERS[str(point["scheme"])]
    return KEPT if contender.engine == TASKS else f"{STOCK} {contender.scheme}"


MEASUREMENT = Measurement(
    id="live/matrix",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: grid(stock=()),
        Profile.QUICK: grid(stock=()),
        Profile.PAPER: grid(stock=tuple(WORKLOADS)),
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 30.0, Profile.QUICK: 29.0, Profile.PAPER: 230.0},
    run=run,
    scheduling=Scheduling(keeps=_keeps),
    chooses=["harness.engines.tasks.engine", "harness.engines.structured.engine"],
)

# Shown: no record depends on what follows.

OF_A_KILL = (
    "paper_recovery_s", "recovery_s", "recovery_at_least_s", "recovery_why_not", "twin_recovery_s",
    "output_gap_s", "overlaps",
)  # fmt: skip
MEASURES = (
    "latency_p50_s", "latency_p99_s", "twin_latency_p50_s", "throughput_per_s", "accuracy_first",
    "accuracy_last", "paper_accuracy_first", "paper_accuracy_last", "tentative_share", "cpu_s",
    "twin_cpu_s", "resident_bytes", "network_bytes", "recovery_s", "recovery_at_least_s",
    "paper_recovery_s", "recovery_why_not",
    "detection_s", "output_gap_s", "replicas", "kills_done", "nodes_killed", "output_equals_truth",
    "output_equals_twin", "contradictions", "difference_from_truth", "difference_from_twin",
    "results", "uncorrected",
)  # fmt: skip


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``cells``, ``kills`` and ``costs``.

    A row of ``cells`` per cell and repetition, with everything the judge found; one of ``kills``
    per failure, with both measures of its recovery: ``paper_recovery_s``, the engine's, and
    ``outside_s`` (where the output was not back, the time for which it was watched); one of
    ``costs`` per pass, with its processor seconds."""
    cells = results.series("variants", ("workload", "scheme", "repeat", "replicas"))
    cells = cells.rename(columns={"variant": "failures"}).reindex(
        columns=["run", "workload", "scheme", "failures", "repeat", "tentative", *MEASURES]
    )
    share = pd.to_numeric(cells["tentative"]) / pd.to_numeric(cells["results"])
    kills = results.series("recoveries", ("workload", "scheme", "repeat"))
    kills = kills.rename(columns={"variant": "failures"}).reindex(
        columns=["run", "workload", "scheme", "failures", "repeat", "at_s", *OF_A_KILL]
    )
    back_s = pd.to_numeric(kills["recovery_s"])
    below = kills["recovery_why_not"].eq(Unrecovered.UNRESOLVED.value)
    outside_s = back_s.fillna(pd.to_numeric(kills["recovery_at_least_s"])).mask(below, 0.0)
    by = ["run", "workload", "scheme", "repeat"]
    twins = cells.drop_duplicates("run")[[*by, "twin_cpu_s"]].rename(columns={"twin_cpu_s": "s"})
    failed = cells[[*by, "failures", "cpu_s"]].rename(columns={"cpu_s": "s"})
    costs = pd.concat([twins.assign(failures="none"), failed], ignore_index=True)
    return {
        "cells": cells.assign(tentative_share=share).drop(columns="tentative"),
        "kills": kills.assign(outside_s=outside_s),
        "costs": costs.rename(columns={"s": "spent_s"}),
    }


def draw(tables: Tables, figure: Figure) -> None:
    """Draw the matrix above, and below it the costs and the benefits of the schemes."""
    draw_matrix(tables, figure, LOOKS)


def _stalled(table: pd.DataFrame) -> pd.Series[bool]:
    """Return True for stock cells that stalled: they have lost nothing yet (`stock-goes-on`)."""
    return ~table["scheme"].isin(OURS) & table["recovery_why_not"].eq(Unrecovered.STALLED.value)


def _cell(workload: str, scheme: str, failures: str) -> Claim:
    """Claim that the output of one cell is right."""
    key = "/".join(part.replace(" ", "-").replace("+", "-").lower() for part in (workload, scheme))

    @invariant(
        f"{key}/{failures}",
        f"{WORKLOADS[workload].label}, {scheme}, {failures}: processes were really killed, and the "
        "stable output equals the twin's and the ground truth",
    )
    def right(tables: Tables) -> Finding:
        table = tables["cells"]
        mine = (table["workload"] == workload) & (table["scheme"] == scheme)
        rows = table[mine & (table["failures"] == failures) & ~_stalled(table)]
        if not len(rows):
            return not_asked()
        good = rows["output_equals_truth"].eq(True) & rows["output_equals_twin"].eq(True)
        good &= rows["contradictions"].eq(0) & (pd.to_numeric(rows["kills_done"]) >= 1)
        columns = ["results", "kills_done", "difference_from_truth", "difference_from_twin"]
        return every(good, **numbers(rows[columns].to_dict("list")))

    return right


def _less(
    claim: str, text: str, kind: str, measure: str, one: str, other: str, *shown: str
) -> Claim:
    """Claim that a scheme's median is below another's; ``shown``: further measures.

    ``kind`` names the table, whose rows are the samples."""

    @hypothesis(claim, text, rule=SAMPLED)
    def less(tables: Tables) -> Finding:
        ours = one in OURS
        rows = tables[kind]
        mine = rows[rows["scheme"].isin(OURS) == ours]
        if not ours and not len(mine):
            return not_asked()
        of = {
            name: {
                scheme: pd.to_numeric(cell[name]).dropna().tolist()
                for scheme, cell in mine.groupby("scheme", sort=False)
            }
            for name in (measure, *shown)
        }
        medians: dict[str, Any] = {
            f"{name}, {scheme!s}": described(median_of(values))
            for name, by in of.items()
            for scheme, values in by.items()
        }
        apart = difference_of(of[measure].get(one, []), of[measure].get(other, []))
        return with_interval(at_most(apart, 0.0, **medians))

    return less


@hypothesis("stock-goes-on", "The stock engine goes on after the failures in every cell")
def stock_goes_on(tables: Tables) -> Finding:
    table = tables["cells"]
    stalled = _stalled(table)
    theirs = table[~table["scheme"].isin(OURS)]
    if not len(theirs):
        return not_asked()
    rows = table[stalled].to_dict("records")
    cells = [f"{row['workload']}, {row['scheme']}, {row['failures']}" for row in rows]
    return every(~stalled[theirs.index], cells=len(theirs), stalled_for_good=cells)


@hypothesis(
    "stock-tentative-replaced",
    "Every tentative result of the second query was replaced by a stable one",
)
def stock_tentative_replaced(tables: Tables) -> Finding:
    """Judge PPA as a Spark user can have it, where the first query was hit."""
    table = tables["cells"]
    mine = table[table["scheme"] == "stock PPA"]
    if not len(mine):
        return not_asked()
    left, share = (pd.to_numeric(mine[name]) for name in ("uncorrected", "tentative_share"))
    return every(left.eq(0), tentative_share=share.round(4).tolist(), left=left.tolist())


CLAIMS = [
    *(
        _cell(workload, scheme, failures)
        for scheme in CONTENDERS
        for workload in WORKLOADS
        for failures in FAILURES
    ),
    _less(
        "replication-back-sooner",
        "With full replication all tasks are back sooner than with checkpoints alone",
        "kills",
        "paper_recovery_s",
        "full replication",
        "checkpoint",
        "outside_s",
        "twin_recovery_s",
    ),
    _less(
        "ppa-cheaper",
        "PPA spends less processor time than full replication",
        "costs",
        "spent_s",
        "PPA",
        "full replication",
    ),
    _less(
        "first-versions-less-accurate",
        "Where output goes on without what is lost, its first versions are less accurate",
        "cells",
        "paper_accuracy_first",
        "PPA",
        "checkpoint",
    ),
    stock_goes_on,
    stock_tentative_replaced,
    _less(
        "stock-second-query-shorter-gap",
        "With a second, smaller query on the other rack the stock engine's output stops for less "
        "long than with one query over both",
        "kills",
        "output_gap_s",
        "stock PPA",
        "stock checkpoint",
    ),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="matrix",
    title="Four workloads, four schemes, two models of failure",
    statement=(
        "Beyond the papers: every workload of theirs under every scheme of theirs, on one engine, "
        "judged by one judge."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *(scaled.note for scaled in WORKLOADS.values()),
        f"6 nodes on 2 racks, batches of {BATCH_S} s, checkpoints every {CHECKPOINT_S:g} s. PPA "
        "and RPPG replicate half of the tasks: PPA the plan of SA, RPPG the riskiest by its "
        "equation 1 with equal probabilities. On two racks without distances there is nothing "
        "near for RAS to prefer: replicas are on the other rack under every scheme.",
        "There is room on the other rack for all lost tasks, so that an outage is shorter than a "
        "batch and hardly any output is tentative: live/query-accuracy measures plans while a rack "
        "stays away.",
        "Two measures of each recovery: as the engine reports it, from the detection until all "
        "tasks are back; and as seen from outside, from the first signal until results are on "
        f"time again and were for {CALM_S:g} s. Results come with the end of a window: where an "
        "outage fits between two of them, or delays one by less than the judge resolves, a user "
        "sees none of it, and the second measure is 0. What the same rule finds in the twin, where "
        "nothing failed, is in the table (twin_recovery_s).",
        "Samples are the kills of all cells of a scheme, each of another input and phase, and for "
        "costs all passes; error bars are 95 % intervals of medians, from five samples on.",
        "Exponential schedules are drawn until one kills at least one node in time, and not all of "
        "them; every scheme "
        "of a workload meets the same schedule. Correlated: every node of a rack at one instant. A "
        "killed node of the task engine is started again at once.",
        "The stock engine runs in micro-batches; its nodes are Spark workers, one on each of 2 "
        f"racks, its trigger {TRIGGER_S:g} s. A killed worker is restarted 3 s later. The paper "
        "profile alone has its cells, which take longer than all others; in quick live/engines and "
        "live/same-kill compare the engines.",
        "Stock PPA is PPA at the level of queries, which a user of Spark can have today: the whole "
        "query on the first rack, and on the second one the same query over the partitions that "
        "the plan's MC-trees need. What the second gives is tentative; a reader shows it from the "
        "moment at which the first has lost an executor until it has committed its next batch.",
    ),
    figure_size_in=(11.0, 12.0),
    smoke_covered_by="stock/worker-kill",
)
