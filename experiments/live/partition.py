"""A rack cut off the network, frozen, or killed, and back again, under the papers' schemes, live.

A rack that was cut off goes on alone: it holds its tasks' newest states, and neither receives nor
sends anything. A frozen one does nothing. Both are given up for their silence, replaced by the
other rack, and come back with copies that are out of date; what those still publish must count
nowhere. A killed rack is found by its closed connections. One run is a twin without a failure, and
the same input once more for each scheme and each failure.

Cuts need workers with a network of their own: ``--network namespaces``, ``--cluster docker``, or a
file of machines with ``cuts: true``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from experiments.live._judged import Tables, all_if, numbers
from experiments.live._plans import WORKLOADS, plan_for
from experiments.live._six_nodes import KEPT, SPEC
from experiments.stock._figure import draw_around
from experiments.stock.partition import FAILURES, schedule
from harness.claims import Finding, applied, found, hypothesis, invariant, rows_of
from harness.cluster.base import Action
from harness.engines.base import EventKind, Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, measured
from harness.figures.chart import Figure
from harness.judging.run import LiveRun, Variant, measure_each, together
from workloads.base import Workload

CONTENDERS: Mapping[str, str] = {
    "checkpoint": "checkpoint",
    "full replication": "active",
    "PPA": "ppa",
}
"""Name in the figure, and the engine's scheme."""
WORKLOAD, RATE_PER_S = "word-count", 500.0
BATCH_S, CHECKPOINT_S = 0.5, 2.0
SUSPECT_S, HEARTBEAT_S = 1.0, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The length of a profile's passes, and those that it makes."""

    fail_at_s: float
    down_s: float
    """Less than the 20 s after which Spark gives up a silent executor, so that the same processes
    are back after a cut and after a freeze."""
    load_s: float
    settle_s: float
    first_warmup_s: float
    contenders: Sequence[str] = tuple(CONTENDERS)
    failures: Sequence[str] = tuple(FAILURES)


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(
        fail_at_s=2.5, down_s=3, load_s=8, settle_s=1, first_warmup_s=3,
        contenders=("checkpoint", "full replication"), failures=("cut off",),
    ),
    Profile.QUICK: Scale(fail_at_s=3, down_s=10, load_s=15, settle_s=1, first_warmup_s=5),
    Profile.PAPER: Scale(fail_at_s=20, down_s=10, load_s=60, settle_s=5, first_warmup_s=15),
}  # fmt: skip


def run(point: Point, context: Context) -> Outcome:
    """Run the twin, and every scheme under every failure."""
    scale = SCALES[context.profile]
    cluster = context.cluster(SPEC)
    # A window is due when it ends: this engine waits for no watermark.
    workload = replace(WORKLOADS[WORKLOAD](context.seed("input")), watermark_delay_s=0.001)
    racks = SPEC.rack_names
    rack = racks[context.seed("rack") % len(racks)]
    variants = {
        (contender, failure): Variant(
            setup=_setup(CONTENDERS[contender], workload),
            schedule=schedule(failure, rack, at_s=scale.fail_at_s, down_s=scale.down_s),
        )
        for contender in scale.contenders
        for failure in scale.failures
    }
    wanted = LiveRun(
        workload=workload,
        engine="tasks",
        setup=_setup("checkpoint", workload),
        interval_s=BATCH_S,
        rate_per_s=float(str(point["rate_per_s"])),
        load_s=scale.load_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
    )
    # Names are parts of topics'.
    names = {"-".join(cell).replace(" ", "-"): cell for cell in variants}
    by_name = {name: variants[cell] for name, cell in names.items()}
    found = measure_each(wanted, by_name, cluster, context)
    outcomes = {}
    for name, one in found.items():
        scheme, failure = names[name]
        more = {"scheme": scheme, "failure": failure, **_beyond(one, scale.down_s)}
        outcomes[name] = replace(one, values={**more, **one.values})
    return together(outcomes)


def _setup(scheme: str, workload: Workload) -> Setup:
    plan = plan_for(scheme, workload, RATE_PER_S) if scheme == "ppa" else ()
    parameters = TaskParameters(
        checkpoint_s=CHECKPOINT_S, heartbeat_s=HEARTBEAT_S, suspect_s=SUSPECT_S, plan=plan
    )
    return Setup(scheme=scheme, parameters=parameters)


def _beyond(outcome: Outcome, down_s: float) -> dict[str, Any]:
    """Return messages dropped at the fence, and the share of the twin's results while it is away.

    The judge counts neither."""
    incidents, timeline = outcome.series["incidents"], outcome.series["timeline"]
    failed_at_s = outcome.values["failed_at_s"]
    delivered: dict[str, float] = {}
    if failed_at_s is not None:
        away = timeline[timeline["at_s"].between(failed_at_s, failed_at_s + down_s)]
        delivered = {
            str(name): float(part["throughput_per_s"].sum()) for name, part in away.groupby("pass")
        }
    twin = delivered.get("twin", 0.0)
    return {
        "down_s": down_s,
        "fenced": int((incidents["event"] == EventKind.FENCED.value).sum()),
        "delivered_meanwhile": delivered.get("failed", 0.0) / twin if twin else None,
    }


MEASUREMENT = measured(
    "live/partition",
    run=run,
    grid=[{"rate_per_s": RATE_PER_S}],
    seconds=(45, 210, 700),
    keeps=KEPT,
    actions=frozenset({Action.CUT, Action.HEAL}),
)

# Shown: no record depends on what follows.

LATE_NOTICE_S = 1.0
"""Delay of a loaded machine in noticing a silence. Fixed on 2026-11-22."""
DETECTED_S = (SUSPECT_S - HEARTBEAT_S, SUSPECT_S + HEARTBEAT_S + LATE_NOTICE_S)
"""The last heartbeat may have come just before the failure, or a whole interval before it."""
MEASURES = (
    "failures_planned", "failures_done", "failure_lateness_s", "failed_at_s", "down_s",
    "output_equals_truth", "output_equals_twin", "difference_from_truth", "difference_from_twin",
    "contradictions", "uncorrected", "results", "duplicates", "tentative", "corrections",
    "delivered_meanwhile", "fenced", "detection_s", "detected_by", "paper_recovery_s",
    "recovery_s", "recovery_at_least_s", "output_gap_s", "paper_accuracy_first", "load_s",
)  # fmt: skip


def table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs`` and ``timeline``.

    ``runs``: a row per run, scheme and failure; ``timeline``: a row per run, scheme, failure, pass
    and half second."""
    frame = results.series("variants", ["repeat"])
    columns = ["run", "variant", "scheme", "failure", "repeat", *MEASURES]
    return {"runs": frame.reindex(columns=columns), "timeline": results.series("timeline")}


def _by_run(runs: pd.DataFrame, column: str) -> dict[str, Any]:
    return {
        f"{row.scheme}, {row.failure}, repetition {row.repeat}": getattr(row, column)
        for row in runs.itertuples()
    }


@hypothesis(
    "silence-noticed",
    f"A rack that is cut off or frozen is given up {DETECTED_S[0]:g} to {DETECTED_S[1]:g} s later",
)
def silence_noticed(tables: Tables) -> Finding:
    runs = tables["runs"]
    silent = runs[runs["failure"].isin(["cut off", "frozen"])]
    took = pd.to_numeric(silent["detection_s"])
    held = all_if(len(took) and took.notna().all(), took.between(*DETECTED_S))
    return found(held, **_by_run(silent, "detection_s"))


@hypothesis(
    "kill-noticed-sooner",
    "A killed rack is noticed sooner than one that falls silent: its connections close",
)
def kill_noticed_sooner(tables: Tables) -> Finding:
    runs = tables["runs"]
    took = {each: pd.to_numeric(runs["detection_s"][runs["failure"] == each]) for each in FAILURES}
    silent = pd.concat([took["cut off"], took["frozen"]])
    known = all(len(each) and each.notna().all() for each in took.values())
    held = all_if(known, took["killed"].max() < silent.min())
    return found(held, **numbers({each: seconds.tolist() for each, seconds in took.items()}))


@hypothesis(
    "shorter-gap-with-replicas",
    "The output stops for a shorter time under full replication than with checkpoints",
)
def shorter_gap(tables: Tables) -> Finding:
    """Judge gaps. Late results still come while the rack is away, so their number shows nothing."""
    runs = tables["runs"]
    gaps_s = pd.to_numeric(runs["output_gap_s"])
    means = gaps_s.groupby(runs["scheme"]).mean().to_dict()
    known = {"checkpoint", "full replication"} <= set(means) and gaps_s.notna().all()
    return found(
        means["full replication"] < means["checkpoint"] if known else None,
        mean_output_gap_s=means,
        share_of_results_delivered_meanwhile=_by_run(runs, "delivered_meanwhile"),
    )


runs = rows_of("runs")
CLAIMS = [
    invariant(
        "really-broken", "Every rack was really cut off, frozen or killed while it lived"
    ).every(
        runs["failures_planned"].gt(0) & runs["failures_done"].eq(runs["failures_planned"]),
        also=applied(_by_run, runs, "failures_done"),
    ),
    invariant(
        "equal-output",
        "After every failure the stable output equals the twin's and the ground truth",
    ).every(
        runs["output_equals_truth"].eq(True) & runs["output_equals_twin"].eq(True),
        also=applied(_by_run, runs, "difference_from_truth"),
    ),
    invariant(
        "fenced",
        "The rack that is back is fenced: no result is delivered with two stable values, and "
        "what its replaced copies still publish counts nowhere",
    ).every(runs["contradictions"].eq(0), also=applied(_by_run, runs, "fenced")),
    invariant("tentative-corrected", "Every tentative result is corrected or confirmed").every(
        runs["uncorrected"].eq(0), also=applied(_by_run, runs, "uncorrected")
    ),
    silence_noticed,
    kill_noticed_sooner,
    shorter_gap,
]


def draw(tables: Tables, figure: Figure) -> None:
    """Draw a panel per failure: results over time under each scheme, the twin's in grey behind."""
    firsts = tables["runs"].drop_duplicates(["scheme", "failure"])
    runs = firsts.assign(scheme=firsts["scheme"].map(CONTENDERS)).to_dict("records")
    columns = {
        f"a rack {failure}": mine
        for failure in FAILURES
        if (mine := [run for run in runs if run["failure"] == failure])
    }
    draw_around(figure, columns, tables["timeline"], ("throughput_per_s",))


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="partition, task engine",
    title="A rack cut off the network, frozen, or killed, under the papers' schemes",
    statement=(
        "The papers break nodes by killing them. A rack that falls silent and comes back is "
        "harder: its copies must be replaced, and count for nothing when they are back."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        f"Word count over real text, windows of 4 s every 1 s, {RATE_PER_S:g} lines/s, batches of "
        f"{BATCH_S} s; 6 nodes on 2 racks; heartbeats every {HEARTBEAT_S} s, a node is given up "
        f"after {SUSPECT_S:g} s of silence; checkpoints every {CHECKPOINT_S:g} s. PPA replicates "
        "half of the tasks, SA's choice.",
        "All passes of a run share one twin. The rack is away for 10 s (smoke: 3), less than the "
        "20 s after which Spark gives up a silent executor. The same rack, drawn from the seed, is "
        "taken at the same instant each time. The coordinator, Kafka and Redis are outside of "
        "both racks.",
        "Where no network can be cut (a local cluster on loopback addresses) all of it is skipped, "
        "because each of the three has a meaning only with the others.",
    ),
    figure_size_in=(9.5, 4.0),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
