"""Fig. 7 and 8: success rate and throughput over the input rate, with a failure at 30 s.

The paper: RPPG+RAS and full-rep+DRA process every tuple, RPPG+DRA about 95 %, ck-only+DRA about
80 %; the throughput of the first two matches the input rate, that of the others is lower.

The live figure shows the runs of `live/edge-latency`. A tuple succeeds, as in the paper, if it is
in a result 30 s after the input. Beside it stands the share that is in one within the printed
timeout of a tuple, 5 s."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from experiments.edge import _deployment, _live, _runs, _storm, latency
from experiments.edge._deployment import GATEWAYS, LINES
from experiments.edge._live import about_live, by_run, changed
from experiments.edge._runs import DRAIN_S, INPUT_S, TIMEOUT_S
from experiments.live._judged import equal_output, passes_of
from harness.claims import (
    Cause,
    Claim,
    Finding,
    Foregone,
    Rule,
    all_of,
    applied,
    at_least,
    found,
    hypothesis,
    invariant,
    median_of,
    paper,
    rows,
    together,
    unmeasured,
)
from harness.claims.cells import Cells, Printed, nearest_to
from harness.experiment import Context, Experiment, Outcome, Point, Results
from harness.figures.chart import Chart, Limit, Line, Panel
from harness.seeds import DEFAULT_SEED

NEAR = 0.05


def run(point: Point, context: Context) -> Outcome:
    """One minute with a failure at one rate."""
    measured = _storm.at(point, context, failure=True)
    offered = int(str(point["rate"])) * GATEWAYS
    return Outcome(
        values={
            "success": measured.success(),
            "offered_per_s": offered,
            "throughput_per_s": float(measured.throughput().loc[5 : INPUT_S - 1].mean()),
        }
    )


MEASUREMENT = _runs.over_rates(
    id="edge/success",
    run=run,
)


# Shown: no record depends on what follows.
WHOLE = 0.995


each: dict[str, Any] = {"x": "rate", "by": "mechanism", "looks": LINES}


def _drawing(*more: Line | Limit, stamp: str, table: str = "") -> Chart:
    """Return success to the left, with ``more``, and throughput to the right.

    ``table`` is the name of a table of runs, of which the means are drawn."""
    rate = "input rate (tuples/s per gateway)"
    offered = Line(
        x="rate",
        y="offered_per_s",
        where=~rows["rate"].duplicated(),
        style={"color": "black", "linestyle": ":", "label": "input rate"},
    )
    return Chart(
        [
            Panel(
                [Line(y=100 * rows["success"], **each), *more],
                rate,
                "tuples in a result, of those sent (%)",
                title="Fig. 7: success rate",
                y_range=(0, 103),
                legend={"loc": "lower left"},
                table=table,
            ),
            Panel(
                [Line(y="throughput_per_s", **each), offered],
                rate,
                "throughput (tuples/s), mean of the minute",
                title="Fig. 8: throughput",
                y_range=(0, None),
                legend={"loc": "upper left"},
                table=table,
            ),
        ],
        stamp=stamp,
        prepare=(lambda tables: {table: _runs.averaged(tables[table])}) if table else None,
    )


PRINTED = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""By the paper's rule of failed tuples. Version 1 took those that were later than the timeout."""
LESS = Rule(version=3, since="2026-11-25", seen_seeds=(DEFAULT_SEED, 71804))
"""What is "only around 95 %" is less than all, and "lower" is lower by any difference. Version 2
took all for around 95 %, and asked for 5 % less."""


success = applied(_runs.mean_of, rows, "success")
throughput = (rows["throughput_per_s"] / rows["offered_per_s"]).groupby(rows["mechanism"]).mean()
FULL, PARTIAL = ("RPPG+RAS", "full-rep+DRA"), ("ck-only+DRA", "RPPG+DRA")


def _around(id: str, name: str, share: float) -> Claim:  # noqa: A002
    text = f"{name} processes only around {share:.0%}".replace("%", " %")

    mine = success[name]
    return paper(
        id,
        text,
        rule=LESS,
        cause=Cause.LOST,
        foregone=Foregone.PARTLY,
        foregone_because="the length of the outage was chosen by the printed ten seconds of Fig. 5",
    ).holds(
        (abs(mine - share) <= NEAR) & (mine < WHOLE),
        success=mine,
        printed=share,
        tolerance=NEAR,
        less_than=WHOLE,
    )


CLAIMS = [
    invariant("none-twice", "No tuple is counted twice").every(
        rows["success"] <= 1 + 1e-9, also=success
    ),
    hypothesis(
        "all-in-the-end",
        "In the end every tuple is processed, under every mechanism",
        counted=True,
        because="Storm drops what is replayed and later than the lag. The protocol of this "
        "repository presumably loses none of it: it was an invariant where these figures were run "
        "by that.",
    ).every((rows["success"] - 1).abs() <= 1e-9, also=success),
    paper("hundred-percent", "RPPG+RAS and full-rep+DRA process 100 %", rule=PRINTED).holds(
        all_of([success[name] >= WHOLE for name in FULL]), also=success, needed=WHOLE
    ),
    _around("rppg-dra-95", "RPPG+DRA", 0.95),
    _around("ck-only-80", "ck-only+DRA", 0.8),
    paper(
        "match-rate",
        "RPPG+RAS and full-rep+DRA match the input rate; the other two are lower",
        rule=LESS,
    ).holds(
        all_of(
            [
                *(abs(throughput[name] - 1) <= NEAR for name in FULL),
                *(throughput[name] < WHOLE for name in PARTIAL),
            ]
        ),
        share_of_the_input_rate=throughput.to_dict(),
        tolerance=NEAR,
        less_than=WHOLE,
    ),
]
SHARES = Printed(
    what="success rate",
    unit="",
    place="Section V-C, text on Figure 7",
    by=("mechanism",),
    values={("RPPG+RAS",): 1.0, ("full-rep+DRA",): 1.0, ("RPPG+DRA",): 0.95, ("ck-only+DRA",): 0.8},
    ours=Cells("", "success", {"rate": nearest_to(_deployment.RATES[1])}),
)
"""At the default rate."""
EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figures 7 and 8",
    title="Success rate and throughput of accident detection over the input rate",
    statement=(
        "RPPG+RAS and full-rep+DRA process every tuple and match the input rate; RPPG+DRA around "
        "95 % and ck-only+DRA around 80 %, with a lower throughput."
    ),
    table=partial(_runs.means, columns=["success", "offered_per_s", "throughput_per_s"]),
    draw=_drawing(stamp=_storm.STAMP),
    printed=[SHARES],
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        *_storm.NOTES,
        f"A tuple has failed, as in the paper, if it is in no result {DRAIN_S} s after the minute.",
    ),
    figure_size_in=(9.5, 4.2),
)


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``rates``, a row per mechanism, rate and repetition, and ``passes`` (`passes_of`)."""
    columns = ["success", "in_time", "offered_per_s", "throughput_per_s"]
    return {
        "rates": _live.per_run(results, columns),
        "passes": passes_of(results, ["mechanism", "rate"], "uncorrected"),
    }


draw_live = _drawing(
    Line(
        y=100 * rows["in_time"],
        style={"linestyle": "--", "linewidth": 1.0, "markersize": 3, "label": "_"},
        **each,
    ),
    *(
        _live.printed(100 * share, f"{name} {share:.0%}".replace("%", " %"), -9)
        for name, share in {"RPPG+DRA": 0.95, "ck-only+DRA": 0.8}.items()
    ),
    stamp=f"{_live.STAMP}; dashed: in a result within {TIMEOUT_S:g} s",
    table="rates",
)


@hypothesis(
    "in-time",
    f"Within {TIMEOUT_S:g} s RPPG+RAS and full-rep+DRA have nearly all tuples in a result, and "
    "ck-only+DRA has the fewest",
    rule=Rule(version=3, since=_live.SINCE, seen_seeds=_runs.SEEN),
    # Version 1 took 95 % for nearly all, which no mechanism misses after the declared outage, and
    # any difference of the means for fewer.
)
def in_time(table: pd.DataFrame) -> Finding:
    """Judge the least share of the first two in each run, and how far the last is below all others.

    Both have the same tolerance."""
    runs = [_runs.mean_of(run, "in_time") for _, run in table.groupby("repeat")]
    least = median_of(min(run[name] for name in FULL) for run in runs)
    behind = median_of(
        min(share for name, share in run.items() if name != "ck-only+DRA") - run["ck-only+DRA"]
        for run in runs
    )
    return together(
        {
            "nearly_all": at_least(least, WHOLE, **_runs.mean_of(table, "in_time")),
            "fewer": at_least(behind, 1 - WHOLE),
        }
    )


def at_each_rate(table: pd.DataFrame) -> Finding:
    """Judge the least share at any rate: the paper says it "for different input rates"."""
    least = {name: table["success"][table["mechanism"] == name].min() for name in FULL}
    shares = {name: float(share) for name, share in least.items()}
    return found(all_of(share >= WHOLE for share in shares.values()), least=shares, needed=WHOLE)


DROPPED = ("rppg-dra-95", "ck-only-80", "match-rate")
"""Sentences about what is dropped, or about what is late and then dropped."""
NOT_BUILT = Rule(version=4, since="2026-11-27", seen_seeds=_runs.SEEN)
"""Versions before judged the shares that came, of which the engine loses none."""


def not_built(tables: object) -> Finding:
    """Decide nothing: what the sentence is about is not in the engine."""
    return unmeasured(
        "a tuple of the paper fails if it is replayed after its timeout of 5 s and then later than "
        "the lag of 1 s; this repository's protocol drops no tuple, so what is lost by that is not "
        "there"
    )


LOSES_NONE: dict[str, Any] = {
    "foregone": Foregone.CONSTRUCTION,
    "foregone_because": "the engine drops no tuple under any mechanism: its output must always "
    "equal the truth",
}


def _live_claim(claim: Claim) -> Claim:
    if claim.id in DROPPED:
        return replace(about_live(claim, "rates"), decide=not_built, rule=NOT_BUILT)
    if claim.id == "hundred-percent":
        return about_live(by_run(replace(claim, decide=at_each_rate)), "rates", **LOSES_NONE)
    more = LOSES_NONE if claim.id == "all-in-the-end" else {}
    return about_live(claim, "rates", rule=changed(claim.rule), **more)


LIVE_EXPERIMENT = EXPERIMENT.live(
    latency.LIVE_MEASUREMENT,
    counterpart=EXPERIMENT.id,
    name="live/edge-success",
    title="Success rate and throughput of accident detection over the input rate, live",
    table=tabulate_live,
    draw=draw_live,
    printed=[SHARES.on("rates")],
    claims=[equal_output, *map(_live_claim, CLAIMS), about_live(in_time, "rates")],
    notes=latency.LIVE_NOTES,
)
