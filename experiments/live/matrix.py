"""Four workloads under four schemes and two models of failure, live, on the task engine.

World Cup top 100, traffic jams, accident detection and word count run from Kafka to Kafka under
checkpoints alone, full replication, PPA with half of the tasks replicated, and RPPG with as many;
nodes are killed at exponential times, or a whole rack at once. Every cell is a no-failure twin
and the same input with the failures; both are read at the out topic by the same judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.live import _plans
from experiments.live._matrix_figure import CORRELATED, FAILURES, draw_matrix
from experiments.live._six_nodes import KEPT, SPEC
from experiments.stock._scale import cluster_spec
from experiments.stock._workloads import WORKLOADS
from harness.claims import ClaimKind, Verdict
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
    """After which a killed node is restarted; None: the engine does that itself, at once."""


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
"""By what a figure says."""

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
"""Of the stock engine."""

CHECKPOINT_S = 2.0

AGAIN_S = 5.0
"""From the restart of a Spark worker until executors run on it."""

MARGIN_S = 2.0
"""Nothing fails in the first seconds of a load, nor so shortly before its end that nothing would
be seen of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large a profile's cells are."""

    load_s: float
    kills: tuple[int, int]
    """How few and how many nodes an exponential schedule may kill."""
    warmup_s: float
    first_warmup_s: float
    settle_s: float


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(load_s=7, kills=(1, 2), warmup_s=0, first_warmup_s=3, settle_s=1),
    Profile.QUICK: Scale(load_s=7, kills=(1, 2), warmup_s=0, first_warmup_s=6, settle_s=1),
    Profile.PAPER: Scale(load_s=60, kills=(2, 6), warmup_s=5, first_warmup_s=15, settle_s=5),
}


def run(point: Point, context: Context) -> Outcome:
    """The cells of one workload under one scheme: a twin, and the same input once for each model
    of failure, each with its truth."""
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
    """What the passes of a workload have in common, and the replicated tasks."""
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
    )
    return run, plan


def _schedule(
    model: str, contender: Contender, scale: Scale, context: Context, workload: str
) -> Schedule:
    """The same for every scheme of a workload on one engine, so that they meet the same
    failures."""
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
    """Every kill with its restart, also one that falls behind the time for which was drawn."""
    restarts = [
        FailureEvent(at_s=kill.at_s + away_s, action=Action.RESTART, target=kill.target)
        for kill in schedule.kills
    ]
    events = sorted([*schedule.kills, *restarts], key=lambda event: event.at_s)
    return replace(schedule, events=events)


def _one_lives(schedule: Schedule, nodes: int, away_s: float | None) -> bool:
    """Whether not all nodes are away at any time; those that come back at once never are."""
    if away_s is None:
        return True
    kills = schedule.kills
    return all(
        len({other.target for other in kills if 0 <= kill.at_s - other.at_s <= away_s + AGAIN_S})
        < nodes
        for kill in kills
    )


def at_once(spec: ClusterSpec, rack: str, *, at_s: float, away_s: float | None) -> Schedule:
    """Every node of a rack is killed at one instant. Its worker lives, where nodes share one, so
    that they are back in seconds and not in the time that an executor takes to start."""
    nodes = [name for name in spec.node_names if name.partition("n")[0] == rack]
    return replace(
        one_target(TOGETHER.join(nodes), at_s=at_s, restart_after_s=away_s),
        origin="all nodes of a rack at once",
        parameters={"rack": rack, "at_s": at_s},
    )


def grid(*, stock: Sequence[str]) -> list[Point]:
    """Two cells a point, those of the stock engine for these workloads. What can share warm
    processes stands together."""
    return [
        {"workload": workload, "scheme": scheme}
        for scheme, contender in CONTENDERS.items()
        for workload in (WORKLOADS if contender.engine == TASKS else stock)
    ]


def _keeps(point: Point) -> str:
    """The task engine serves every scheme; a stock application serves its own."""
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

MEASURES = (
    "latency_p50_s", "latency_p99_s", "twin_latency_p50_s", "throughput_per_s", "accuracy_first",
    "accuracy_last", "paper_accuracy_first", "paper_accuracy_last", "tentative_share", "cpu_s",
    "twin_cpu_s", "resident_bytes", "network_bytes", "recovery_s", "recovery_at_least_s",
    "paper_recovery_s", "recovery_why_not",
    "detection_s", "output_gap_s", "replicas", "kills_done", "nodes_killed", "output_equals_truth",
    "output_equals_twin", "contradictions", "difference_from_truth", "difference_from_twin",
    "results", "uncorrected",
)  # fmt: skip


def table(results: Results) -> pd.DataFrame:
    """A row per cell and repetition, with everything the judge found."""
    cells = results.series("variants", ("workload", "scheme", "repeat", "replicas"))
    cells = cells.rename(columns={"variant": "failures"}).reindex(
        columns=["workload", "scheme", "failures", "repeat", "tentative", *MEASURES]
    )
    share = pd.to_numeric(cells["tentative"]) / pd.to_numeric(cells["results"])
    return cells.assign(tentative_share=share).drop(columns="tentative")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """The matrix above, and below it what schemes spend and what they save."""
    draw_matrix(table, figure, LOOKS)


def claims(table: pd.DataFrame) -> Sequence[Verdict]:
    """For every cell that was run: it was really broken, and its stable output is the twin's. Then
    what the schemes promise. A stock engine that stalled has lost nothing yet and is told of by a
    sentence of its own."""
    stalled = ~table["scheme"].isin(OURS) & table["recovery_why_not"].eq(Unrecovered.STALLED.value)
    return [
        *_cells(table[~stalled]),
        *_promises(table),
        *_stock(table, stalled),
        *_query_level(table),
    ]


def _cells(table: pd.DataFrame) -> list[Verdict]:
    found = []
    for (workload, scheme, failures), rows in table.groupby(
        ["workload", "scheme", "failures"], sort=False
    ):
        equal = (
            rows["output_equals_truth"].eq(True)
            & rows["output_equals_twin"].eq(True)
            & rows["contradictions"].eq(0)
        )
        killed = pd.to_numeric(rows["kills_done"]) >= 1
        found.append(
            Verdict(
                text=f"{WORKLOADS[str(workload)].label}, {scheme}, {failures}: processes were "
                "really killed, and the stable output equals the twin's and the ground truth",
                kind=ClaimKind.INVARIANT,
                held=bool((equal & killed).all()),
                measured={
                    "results": rows["results"].tolist(),
                    "kills": rows["kills_done"].tolist(),
                    "difference_from_truth": rows["difference_from_truth"].tolist(),
                    "difference_from_twin": rows["difference_from_twin"].tolist(),
                },
            )
        )
    return found


def _stock(table: pd.DataFrame, stalled: pd.Series[bool]) -> list[Verdict]:
    theirs = table[~table["scheme"].isin(OURS)]
    if not len(theirs):
        return []
    cells = [
        f"{row['workload']}, {row['scheme']}, {row['failures']}"
        for row in table[stalled].to_dict("records")
    ]
    return [
        Verdict(
            text="The stock engine goes on after the failures in every cell",
            kind=ClaimKind.HYPOTHESIS,
            held=not cells,
            measured={"cells": len(theirs), "stalled_for_good": cells},
        )
    ]


def _query_level(table: pd.DataFrame) -> list[Verdict]:
    """PPA as a Spark user can have it: judged where the first query was hit."""
    mine = table[table["scheme"] == "stock PPA"]
    if not len(mine):
        return []
    stock = [name for name in CONTENDERS if name not in OURS]
    gaps_s = _means(table, "output_gap_s", stock)
    left = pd.to_numeric(mine["uncorrected"])
    return [
        Verdict(
            text="Every tentative result of the second query was replaced by a stable one",
            kind=ClaimKind.HYPOTHESIS,
            held=bool((left == 0).all()),
            measured={
                "tentative_share": pd.to_numeric(mine["tentative_share"]).round(4).tolist(),
                "left": left.tolist(),
            },
        ),
        Verdict(
            text="With a second, smaller query on the other rack the stock engine's output stops "
            "for less long than with one query over both",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(gaps_s, "stock PPA", "stock checkpoint"),
            measured={"mean_output_gap_s": gaps_s},
        ),
    ]


def _promises(table: pd.DataFrame) -> list[Verdict]:
    table = table[table["scheme"].isin(OURS)]
    back = _means(table, "paper_recovery_s")
    spent = _means(table, "twin_cpu_s")
    lost = _means(table, "paper_accuracy_first")
    return [
        Verdict(
            text="With full replication all tasks are back sooner than with checkpoints alone",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(back, "full replication", "checkpoint"),
            measured={
                "mean_s_from_the_detection": back,
                "mean_s_as_a_user_sees_it": _means(table, "recovery_s"),
            },
        ),
        Verdict(
            text="PPA spends less processor time than full replication",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(spent, "PPA", "full replication"),
            measured={"mean_processor_s_of_the_twin": spent},
        ),
        Verdict(
            text="Where output goes on without what is lost, its first versions are less accurate",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(lost, "PPA", "checkpoint"),
            measured={"mean_accuracy_of_first_versions": lost},
        ),
    ]


def _means(
    table: pd.DataFrame, measure: str, names: Sequence[str] = OURS
) -> dict[str, float | None]:
    """By scheme; None where nothing was measured."""
    found = {}
    for name in names:
        values = pd.to_numeric(table[table["scheme"] == name][measure]).dropna()
        found[name] = float(values.mean()) if len(values) else None
    return found


def _less(means: Mapping[str, float | None], one: str, other: str) -> bool | None:
    first, second = means[one], means[other]
    return None if first is None or second is None else first < second


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
    claims=claims,
    notes=(
        *(scaled.note for scaled in WORKLOADS.values()),
        f"6 nodes on 2 racks, batches of {BATCH_S} s, checkpoints every {CHECKPOINT_S:g} s. PPA "
        "and RPPG replicate half of the tasks: PPA the plan of SA, RPPG the riskiest by its "
        "equation 1 with equal probabilities. On two racks without distances there is nothing "
        "near for RAS to prefer: replicas stand on the other rack under every scheme.",
        "There is room on the other rack for all that is lost, so that an outage is shorter than a "
        "batch and hardly anything comes out tentative: what a plan is worth while a rack stays "
        "away is measured by live/query-accuracy.",
        "Recovery is drawn as the papers define it, from the detection until all tasks are back: "
        "where it is shorter than the time between two results, a user sees none of it, and "
        "recovery_s in the table is 0.",
        "Exponential schedules are drawn until one kills at least one node in time, and not all of "
        "them; every scheme "
        "of a workload meets the same schedule. Correlated: every node of a rack at one instant. A "
        "killed node of the task engine is started again at once.",
        f"The stock engine's nodes are Spark workers, one on each of 2 racks, its trigger "
        f"{TRIGGER_S:g} s. A killed worker is restarted 3 s later. The paper profile alone has its "
        "cells, which take longer than all others; in quick live/engines and live/same-kill "
        "compare the engines.",
        "Stock PPA is PPA at the level of queries, which a user of Spark can have today: the whole "
        "query on the first rack, and on the second one the same query over the partitions that "
        "the plan's MC-trees need. What the second gives is tentative; a reader shows it from the "
        "moment at which the first has lost an executor until it has committed its next batch.",
    ),
    figure_size_in=(11.0, 10.0),
    smoke_covered_by="stock/worker-kill",
)
