"""The same kill under every workload of the papers: checkpoint against active replication.

The World Cup top 100, traffic jams and accident detection run on the stock engine from Kafka to
Kafka while one worker is killed and restarted some seconds later (word count has
`stock/worker-kill` to itself). Each is a query of another shape: three aggregations in a row, a
join of two aggregations, and a filter with a one-second window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.stock import calibration
from experiments.stock._figure import draw_around, draw_runs
from experiments.stock._kills import (
    LOCALITY_NOTE,
    Tables,
    mean_gap,
    named,
    nothing_dropped,
    punctual,
    really_failed,
    runs,
    shorter,
    tabulate,
    why_unmeasured,
)
from experiments.stock._workloads import WORKLOADS, workload_of
from harness.claims import Claim, Finding, applied, found, hypothesis, invariant, paper
from harness.experiment import Context, Experiment, Outcome, Point, Profile, measured
from harness.figures.chart import Figure
from harness.measure.success import DRAIN_S, TUPLE_TIMEOUT_S
from harness.stock_kills.measure import run_kill
from harness.stock_kills.scale import check_options, keeps

SHOWN = ("world-cup", "traffic-jams", "accidents")
IN_QUICK = ("accidents",)
"""The workload with a result in the edge paper. Quick has others of the stock engine where they
serve more figures: word count in `experiments.stock.worker_kill`, the World Cup in
`experiments.stock.input_rate` and `experiments.live.engines`."""
TRIGGER_S = {"world-cup": 2, "traffic-jams": 2, "accidents": 1}
"""Trigger and checkpoint interval, with which two cores keep up; accidents have a shorter one,
because their tuples time out."""


def _point(workload: str, scheme: str) -> Point:
    return {"workload": workload, "scheme": scheme, "interval_s": TRIGGER_S[workload]}


def run(point: Point, context: Context) -> Outcome:
    """Measure one workload under one scheme: twin, kill, truth."""
    name = str(point["workload"])
    rate_per_s = WORKLOADS[name].rate_per_s
    return run_kill(point, context, workload=workload_of(name, context), rate_per_s=rate_per_s)


MEASUREMENT = measured(
    "stock/workload-kill",
    run=run,
    grid={
        Profile.SMOKE: [_point(SHOWN[0], "active")],
        Profile.QUICK: [_point(w, s) for s in ("checkpoint", "active") for w in IN_QUICK],
        Profile.PAPER: [_point(w, s) for s in ("checkpoint", "active") for w in SHOWN],
    },
    seconds=(60, 105, 230),
    keeps=keeps,
    chooses=["harness.engines.structured.engine"],
    accepts=frozenset({"conf"}),
    check=check_options,
)

# Shown: no record depends on what follows.


MINE: Mapping[str, Any] = {name: runs[runs["workload"] == name] for name in SHOWN}
UNDROPPED: Mapping[str, Any] = {
    name: mine[mine["dropped_rows"] == 0] for name, mine in MINE.items()
}
"""The runs of each workload, and those in which the watermark dropped no row."""
ASKED = {name: {"asked": applied(len, mine) > 0} for name, mine in MINE.items()}
"""No grid without a workload is asked about it."""


def _equal(workload: str) -> Claim:
    mine = UNDROPPED[workload]
    return invariant(
        f"{workload}/equal",
        f"{WORKLOADS[workload].label}: with a worker killed and no row dropped the output equals "
        "the batch ground truth and the no-failure twin, and no result came with two values",
    ).every(
        [mine["output_equals_truth"], mine["output_equals_twin"], mine["contradictions"] == 0],
        **ASKED[workload],
        results=applied(named, mine, "results"),
        differences=applied(named, mine, "difference_from_truth"),
    )


def _accurate(workload: str) -> Claim:
    """Claim what follows from equal output, as the stock engine delivers nothing tentative."""
    mine = UNDROPPED[workload]
    return invariant(
        f"{workload}/accurate",
        f"{WORKLOADS[workload].label}: with a worker killed and no tentative output the accuracy, "
        "as the papers count it against the no-failure twin, is 1 on the first and on the last "
        "version of the results",
    ).every(
        [mine["paper_accuracy_first"] == 1, mine["paper_accuracy_last"] == 1],
        **ASKED[workload],
        first=applied(named, mine, "paper_accuracy_first"),
        last=applied(named, mine, "paper_accuracy_last"),
    )


def _shorter(workload: str) -> Claim:
    """Claim it of mean gaps; a run whose gap was not measured leaves no mean."""
    mine = MINE[workload]
    active, checkpoint = (
        applied(mean_gap, mine[mine["scheme"] == name]) for name in ("active", "checkpoint")
    )
    return hypothesis(
        f"{workload}/shorter-gap",
        f"{WORKLOADS[workload].label}: the output gap after a worker kill is shorter under active "
        "replication than under checkpoint",
    ).holds(
        applied(shorter, active, checkpoint),
        **ASKED[workload],
        why=applied(why_unmeasured, mine),
        mean_output_gap_s={"active": active, "checkpoint": checkpoint},
        output_gap_s=applied(named, mine, "output_gap_s"),
    )


def _more_succeed(tables: Tables) -> Finding:
    """Compare success; undecided without both schemes, or if a twin could not follow its load."""
    mine = tables["runs"][tables["runs"]["workload"] == "accidents"]
    rates = mine.groupby("scheme")["success_rate"].mean()
    known = mine["success_rate"].notna().all() and mine["twin_kept_up"].all()
    both = known and {"active", "checkpoint"} <= set(rates.index)
    return found(
        rates["active"] > rates["checkpoint"] if both else None,
        success_rate=named(mine, "success_rate"),
        twin_success_rate=named(mine, "twin_success_rate"),
    )


accidents = MINE["accidents"]
CLAIMS = [
    really_failed,
    punctual,
    nothing_dropped("the kill of a worker"),
    *map(_equal, SHOWN),
    invariant(
        "accidents/table",
        "Accident detection: with a worker killed the database table that was written as the "
        "results arrived equals the batch ground truth, every accident in it once",
    ).every(
        accidents["table_equals_truth"].eq(True)
        & (accidents["table_rows"] == accidents["results"]),
        **ASKED["accidents"],
        rows=applied(named, accidents, "table_rows"),
        repeated_deliveries=applied(named, accidents, "duplicates"),
        differences=applied(named, accidents, "table_difference"),
    ),
    *map(_accurate, SHOWN),
    *map(_shorter, SHOWN),
    paper(
        "accidents/more-succeed",
        f"Accident detection: after a worker kill more tuples succeed (first result within "
        f"the tuple timeout of {TUPLE_TIMEOUT_S:g} s) under active replication than under "
        "checkpoint; the edge paper reports 100 % against around 80 %",
    )(_more_succeed),
]


def draw(tables: Tables, figure: Figure) -> None:
    """Draw latency over time per workload under both schemes, and below every recovery.

    Latency is the 99th percentile, with that of a twin; accuracy and success are numbers."""
    runs = tables["runs"]
    first = runs[runs["repeat"] == runs["repeat"].min()]
    columns = {
        WORKLOADS[name].label: first[first["workload"] == name].to_dict("records")
        for name in SHOWN
        if (first["workload"] == name).any()
    }
    parts: Any = figure.subfigures(2, 1, height_ratios=[2.2, 1])
    draw_around(parts[0], columns, tables["timeline"], ("latency_p99_s",))
    draw_runs(parts[1].subplots(), runs, ("workload", "scheme"), "recovery_s", "recovery (s)")


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="worker kill, other workloads",
    title="The kill of one worker under the papers' other workloads",
    statement=(
        "Whatever the query computes, a worker's kill leaves its output equal; it comes "
        "late under checkpoint and goes on under active replication."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *(WORKLOADS[name].note for name in SHOWN),
        "Scaled down to two cores. The trigger interval, which is the checkpoint interval, is 2 s, "
        "for accidents 1 s. Time lines are of the first repetition, points of every run. Quick has "
        "accidents alone.",
        LOCALITY_NOTE,
        "Accuracy is the papers': the share of the no-failure twin's objects of the top 100 (World "
        "Cup), incidents (traffic) and standing cars (accidents) that the first, or the last, "
        "delivered version of the results held.",
        "Accidents also go into a table of a SQLite database, kept beside the record, where the "
        "edge paper's last operator stores them: written by a follower of the out topic while the "
        "results arrive, not by the query; the table's primary key (window, location) keeps the "
        "first version of every result.",
        f"A tuple of accident detection succeeds when its first result arrives within "
        f"{TUPLE_TIMEOUT_S:g} s of its intended send time and at most {DRAIN_S:g} s after the "
        "load, the edge paper's timeout and drain. The stock engine waits for the window (1 s), "
        "its lag (1 s) and up to two trigger intervals besides, so tuples have little time left "
        "even without a failure: the twin's rate is shown, too.",
    ),
    figure_size_in=(10.0, 5.5),
    smoke_covered_by="stock/worker-kill",
    scaled_by=calibration.EXPERIMENT,
    quick_by_page=True,
)
