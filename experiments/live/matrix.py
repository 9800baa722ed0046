"""Four workloads under four schemes and two models of failure, live, on the task engine.

World Cup top 100, traffic jams, accident detection and word count run from Kafka to Kafka under
checkpoints alone, full replication, PPA with half of the tasks replicated, and RPPG with as many;
nodes are killed at exponential times, or a whole rack at once. Every cell is a no-failure twin
and the same input with the failures; both are read at the out topic by the same judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live import _plans
from experiments.stock._workloads import WORKLOADS
from harness.claims import Claim, ClaimKind
from harness.cluster.base import ClusterSpec
from harness.engines.base import Setup
from harness.engines.run import LiveRun, lacking, measure
from harness.experiment import Context, Experiment, Origin
from harness.failures.generators import exponential, one_target
from harness.failures.schedule import Schedule
from harness.figures.style import BLACK, GREY, SCHEMES, Look, stamp
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENGINE = "tasks"
CONTENDERS: Mapping[str, str] = {
    "checkpoint": "checkpoint",
    "full replication": "active",
    "PPA": "ppa",
    "RPPG+RAS": "rppg",
}
"""What a figure says, and the engine's scheme."""
LOOKS: Mapping[str, Look] = {
    name: replace(SCHEMES[scheme], label=name) for name, scheme in CONTENDERS.items()
}
EXPONENTIAL, CORRELATED = "exponential", "correlated"
FAILURES = (EXPONENTIAL, CORRELATED)
BATCH_S = 0.5
CHECKPOINT_S = 2.0
MARGIN_S = 2.0
"""Nothing fails in the first seconds of a load, nor so shortly before its end that nothing would
be seen of it."""
SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3, memory_mb_per_worker=768
)


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
    Profile.SMOKE: Scale(load_s=8, kills=(1, 2), warmup_s=0, first_warmup_s=3, settle_s=1),
    Profile.QUICK: Scale(load_s=14, kills=(1, 3), warmup_s=0, first_warmup_s=6, settle_s=2),
    Profile.PAPER: Scale(load_s=60, kills=(2, 6), warmup_s=5, first_warmup_s=15, settle_s=5),
}
MEASURES = (
    "latency_p50_s", "latency_p99_s", "twin_latency_p50_s", "throughput_per_s", "accuracy_first",
    "accuracy_last", "paper_accuracy_first", "paper_accuracy_last", "tentative_share", "cpu_s",
    "twin_cpu_s", "resident_bytes", "recovery_s", "recovery_at_least_s", "detection_s",
    "output_gap_s", "replicas", "kills_done", "nodes_killed", "output_equals_truth",
    "output_equals_twin", "contradictions", "difference_from_truth", "difference_from_twin",
    "results",
)  # fmt: skip


def run(point: Point, context: Context) -> Outcome:
    """One cell: twin, failures, truth."""
    name, contender = str(point["workload"]), str(point["scheme"])
    # The engine closes a window when its last batch is over, and waits for no watermark: a result
    # is due, and its latency counts, from the window's end. The table of accidents is written from
    # the stock engine's messages alone.
    workload = replace(
        _plans.WORKLOADS[name](context.seed("input", name)),
        watermark_delay_s=0.001,
        into_table=False,
    )
    rate, scale = WORKLOADS[name].rate_per_s, SCALES[context.profile]
    plan = _plans.plan_for(CONTENDERS[contender], workload, rate, nodes=SPEC.node_names)
    given: dict[str, Any] = {"checkpoint_s": CHECKPOINT_S}
    if CONTENDERS[contender] in ("ppa", "rppg"):
        given["plan"] = ",".join(map(str, plan))
    wanted = LiveRun(
        workload=workload,
        engine=ENGINE,
        setup=Setup(
            scheme=CONTENDERS[contender],
            brief=context.profile is Profile.SMOKE,
            parameters=given,
        ),
        interval_s=BATCH_S,
        rate_per_s=rate,
        load_s=scale.load_s,
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        schedule=_schedule(str(point["failures"]), scale, context, name),
    )
    if (why := lacking(wanted, SPEC)) is not None:
        return Outcome(values={}, skipped=why)
    outcome = measure(wanted, context.cluster(SPEC), context)
    values = {**outcome.values, "replicas": len(plan)}
    results = values.get("results")
    values["tentative_share"] = values["tentative"] / results if results else None
    return replace(outcome, values=values)


def _schedule(model: str, scale: Scale, context: Context, workload: str) -> Schedule:
    """The same for every scheme of a workload, so that schemes meet the same failures."""
    begin_s, end_s = MARGIN_S, scale.load_s - 2 * MARGIN_S
    if model == CORRELATED:
        at_s = begin_s + (end_s - begin_s) * 0.4
        rack = SPEC.rack_names[context.seed("rack", workload) % SPEC.racks]
        return one_target(rack, at_s=at_s, restart_after_s=2.0)
    fewest, most = scale.kills
    rate_per_hour = 3600 * (fewest + most) / 2 / (len(SPEC.node_names) * (end_s - begin_s))
    for attempt in range(1000):
        schedule = exponential(
            SPEC.node_names,
            rate_per_hour=rate_per_hour,
            duration_s=end_s,
            seed=context.seed("kills", workload, attempt),
        )
        times = [event.at_s for event in schedule.events]
        if fewest <= len(times) <= most and min(times) >= begin_s:
            return schedule
    raise AssertionError("a thousand exponential schedules, and none with a kill in time")


def table(results: Results) -> pd.DataFrame:
    """A row per run of a cell, with everything the judge found."""
    frame = results.frame
    for name in MEASURES:
        if name not in frame:
            frame[name] = None
    return frame[["workload", "scheme", "failures", "repeat", *MEASURES]].reset_index(drop=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Above: per workload, the recovery and the accuracy of what came first. Below: the trade,
    resources spent against accuracy lost, a point a scheme."""
    panels = figure.subplots(3, len(WORKLOADS), sharey="row", squeeze=False)
    for column, (workload, scaled) in enumerate(WORKLOADS.items()):
        mine = table[table["workload"] == workload]
        _bars(panels[0][column], mine, "recovery_s")
        _bars(panels[1][column], mine, "paper_accuracy_first")
        _trade(panels[2][column], mine)
        panels[0][column].set_title(scaled.label, loc="left")
        panels[2][column].set_xlabel("processor time of the twin (s)")
    panels[0][0].set_ylabel("recovery, as a user sees it (s)")
    panels[1][0].set_ylabel("accuracy of the first\nversions (share)")
    panels[2][0].set_ylabel("accuracy lost (share)")
    handles, labels = panels[2][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    shown = int(table.groupby(["workload", "scheme", "failures"]).size().max()) if len(table) else 0
    runs = "1 run" if shown == 1 else f"{shown} runs"
    stamp(figure, f"{runs} a cell; filled: exponential, hatched or hollow: a rack at once")


def _bars(axes: Axes, mine: pd.DataFrame, measure: str) -> None:
    """A pair of bars per scheme. Where there is no bar, a dash means that the value was not
    measured, and a 0 that it is zero."""
    for number, name in enumerate(CONTENDERS):
        for offset, failures in zip((-0.2, 0.2), FAILURES, strict=True):
            rows = mine[(mine["scheme"] == name) & (mine["failures"] == failures)]
            value = pd.to_numeric(rows[measure]).mean()
            if np.isnan(value):
                axes.annotate("–", (number + offset, 0), ha="center", color=GREY)
                continue
            if value == 0:
                axes.annotate("0", (number + offset, 0), ha="center", color=LOOKS[name].color)
                continue
            hatch = "" if failures == EXPONENTIAL else "////"
            axes.bar(
                number + offset, value, width=0.38, color=LOOKS[name].color, hatch=hatch,
                edgecolor="white",
            )  # fmt: skip
    axes.set_xticks(range(len(CONTENDERS)), [name.replace(" ", "\n") for name in CONTENDERS])
    axes.set_xlim(-0.5, len(CONTENDERS) - 0.5)
    axes.tick_params(axis="x", labelsize=6)


def _trade(axes: Axes, mine: pd.DataFrame) -> None:
    for name in CONTENDERS:
        for failures in FAILURES:
            rows = mine[(mine["scheme"] == name) & (mine["failures"] == failures)]
            spent = pd.to_numeric(rows["twin_cpu_s"]).mean()
            lost = 1 - pd.to_numeric(rows["paper_accuracy_first"]).mean()
            look = LOOKS[name]
            hollow: Any = {} if failures == EXPONENTIAL else {"markerfacecolor": "none"}
            axes.plot(
                [spent], [lost], color=look.color, marker=look.marker, linestyle="none",
                markersize=7, label=name if failures == EXPONENTIAL else None, **hollow,
            )  # fmt: skip
    axes.axhline(0, color=BLACK, linewidth=0.6)


def claims(table: pd.DataFrame) -> Sequence[Claim]:
    """Two for every cell that was run: it was really broken, and its stable output is the twin's.
    Then what the schemes promise."""
    return [*_cells(table), *_promises(table)]


def _cells(table: pd.DataFrame) -> list[Claim]:
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
            Claim(
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


def _promises(table: pd.DataFrame) -> list[Claim]:
    recovery = _means(table, "recovery_s")
    spent = _means(table, "twin_cpu_s")
    lost = _means(table, "paper_accuracy_first")
    return [
        Claim(
            text="Full replication recovers sooner than checkpoints alone",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(recovery, "full replication", "checkpoint"),
            measured={"mean_recovery_s": recovery},
        ),
        Claim(
            text="PPA spends less processor time than full replication",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(spent, "PPA", "full replication"),
            measured={"mean_processor_s_of_the_twin": spent},
        ),
        Claim(
            text="Where output goes on without what is lost, its first versions are less accurate",
            kind=ClaimKind.HYPOTHESIS,
            held=_less(lost, "PPA", "checkpoint"),
            measured={"mean_accuracy_of_first_versions": lost},
        ),
    ]


def _means(table: pd.DataFrame, measure: str) -> dict[str, float | None]:
    """By scheme; None where nothing was measured."""
    found = {}
    for name in CONTENDERS:
        values = pd.to_numeric(table[table["scheme"] == name][measure]).dropna()
        found[name] = float(values.mean()) if len(values) else None
    return found


def _less(means: Mapping[str, float | None], one: str, other: str) -> bool | None:
    first, second = means[one], means[other]
    return None if first is None or second is None else first < second


def grid(workloads: Sequence[str]) -> list[Point]:
    """Cells that can share warm processes stand together."""
    return [
        {"workload": workload, "scheme": scheme, "failures": failures}
        for workload in workloads
        for scheme in CONTENDERS
        for failures in FAILURES
    ]


EXPERIMENT = Experiment(
    id="live/matrix",
    paper="Faultline",
    figure="matrix",
    title="Four workloads, four schemes, two models of failure",
    statement=(
        "Beyond the papers: every workload of theirs under every scheme of theirs, on one engine, "
        "judged by one judge."
    ),
    origin=Origin.MEASURED,
    chooses=["harness.engines.tasks.engine"],
    grid=dict.fromkeys(Profile, tuple(grid(list(WORKLOADS)))),
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 22.0, Profile.QUICK: 40.0, Profile.PAPER: 150.0},
    run=run,
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        *(scaled.note for scaled in WORKLOADS.values()),
        f"6 nodes on 2 racks, batches of {BATCH_S} s, checkpoints every {CHECKPOINT_S:g} s. PPA "
        "and RPPG replicate half of the tasks: PPA the plan of SA, RPPG the riskiest by its "
        "equation 1 with equal probabilities. On two racks without distances there is nothing "
        "near for RAS to prefer: replicas stand on the other rack under every scheme.",
        "Exponential schedules are drawn until one kills at least one node in time; every scheme "
        "of a workload meets the same schedule. A killed node's process is started again at once.",
    ),
    figure_size_in=(11.0, 8.0),
    smoke_covered_by="stock/worker-kill",
)
