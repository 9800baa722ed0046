"""Fig. 7 and 8: success rate and throughput over the input rate, with a failure at 30 s.

The paper: RPPG+RAS and full-rep+DRA process every tuple, RPPG+DRA about 95 %, ck-only+DRA about
80 %; the throughput of the first two matches the input rate, that of the others is lower.

The live figure shows the runs of `live/edge-latency`. A tuple succeeds, as in the paper, if it is
in a result 30 s after the input. Beside it stands the share that is in one within the printed
timeout of a tuple, 5 s."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from experiments.edge import _deployment, _live, _runs, _storm, latency
from experiments.edge._deployment import GATEWAYS, MECHANISMS, line
from experiments.edge._live import Tables, about_live
from experiments.edge._runs import DRAIN_S, INPUT_S, TIMEOUT_S
from experiments.live._judged import equal_output, passes_of
from harness.claims import (
    Cause,
    Claim,
    Finding,
    Foregone,
    Rule,
    every,
    found,
    hypothesis,
    invariant,
    not_asked,
    paper,
    unmeasured,
)
from harness.experiment import Experiment
from harness.figures.chart import Figure
from harness.figures.style import stamp
from harness.measurement import Context
from harness.results.record import Outcome, Point
from harness.results.tables import Results
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


def table(results: Results) -> pd.DataFrame:
    """Return a row per mechanism and rate."""
    return _runs.means(results, ["success", "offered_per_s", "throughput_per_s"])


def draw(table: pd.DataFrame, figure: Figure, *, stamped: str = _storm.STAMP) -> None:
    """Draw success to the left, throughput to the right; ``stamped``: origin of the numbers."""
    left, right = figure.subplots(1, 2)
    for name in MECHANISMS:
        rows = table[table["mechanism"] == name].sort_values("rate")
        left.plot(rows["rate"], 100 * rows["success"], **line(name))
        right.plot(rows["rate"], rows["throughput_per_s"], **line(name))
    offered = table.drop_duplicates("rate").sort_values("rate")
    right.plot(
        offered["rate"], offered["offered_per_s"], color="black", linestyle=":", label="input rate"
    )
    left.set_ylim(0, 103)
    left.set_ylabel("tuples in a result, of those sent (%)")
    left.set_title("Fig. 7: success rate", loc="left")
    right.set_ylim(bottom=0)
    right.set_ylabel("throughput (tuples/s), mean of the minute")
    right.set_title("Fig. 8: throughput", loc="left")
    for axes in (left, right):
        axes.set_xlabel("input rate (tuples/s per gateway)")
    left.legend(loc="lower left")
    right.legend(loc="upper left")
    stamp(figure, stamped)


PRINTED = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""By the paper's rule of failed tuples. Version 1 took those that were later than the timeout."""
LESS = Rule(version=3, since="2026-11-25", seen_seeds=(DEFAULT_SEED, 71804))
"""What is "only around 95 %" is less than all, and "lower" is lower by any difference. Version 2
took all for around 95 %, and asked for 5 % less."""


@invariant("none-twice", "No tuple is counted twice")
def none_twice(table: pd.DataFrame) -> Finding:
    return every(table["success"] <= 1 + 1e-9, **_runs.mean_of(table, "success"))


@hypothesis(
    "all-in-the-end",
    "In the end every tuple is processed, under every mechanism",
    counted=True,
    because="Storm drops what is replayed and later than the lag. The protocol of this repository "
    "presumably loses none of it: it was an invariant where these figures were run by that.",
)
def all_in_the_end(table: pd.DataFrame) -> Finding:
    return every((table["success"] - 1).abs() <= 1e-9, **_runs.mean_of(table, "success"))


@paper("hundred-percent", "RPPG+RAS and full-rep+DRA process 100 %", rule=PRINTED)
def hundred_percent(table: pd.DataFrame) -> Finding:
    share = _runs.mean_of(table, "success")
    return found(min(share["RPPG+RAS"], share["full-rep+DRA"]) >= WHOLE, **share, needed=WHOLE)


def _around(id: str, name: str, share: float) -> Claim:  # noqa: A002
    text = f"{name} processes only around {share:.0%}".replace("%", " %")

    @paper(
        id,
        text,
        rule=LESS,
        cause=Cause.LOST,
        foregone=Foregone.PARTLY,
        foregone_because="the length of the outage was chosen by the printed ten seconds of Fig. 5",
    )
    def around(table: pd.DataFrame) -> Finding:
        mine = _runs.mean_of(table, "success")[name]
        held = abs(mine - share) <= NEAR and mine < WHOLE
        return found(held, success=mine, printed=share, tolerance=NEAR, less_than=WHOLE)

    return around


@paper(
    "match-rate",
    "RPPG+RAS and full-rep+DRA match the input rate; the other two are lower",
    rule=LESS,
)
def match_rate(table: pd.DataFrame) -> Finding:
    share = (table["throughput_per_s"] / table["offered_per_s"]).groupby(table["mechanism"]).mean()
    matched = [abs(share[name] - 1) <= NEAR for name in ("RPPG+RAS", "full-rep+DRA")]
    lower = [share[name] < WHOLE for name in ("ck-only+DRA", "RPPG+DRA")]
    shares = {str(name): float(each) for name, each in share.items()}
    return found(
        all(matched) and all(lower),
        share_of_the_input_rate=shares,
        tolerance=NEAR,
        less_than=WHOLE,
    )


CLAIMS = [
    none_twice,
    all_in_the_end,
    hundred_percent,
    _around("rppg-dra-95", "RPPG+DRA", 0.95),
    _around("ck-only-80", "ck-only+DRA", 0.8),
    match_rate,
]
EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figures 7 and 8",
    title="Success rate and throughput of accident detection over the input rate",
    statement=(
        "RPPG+RAS and full-rep+DRA process every tuple and match the input rate; RPPG+DRA around "
        "95 % and ck-only+DRA around 80 %, with a lower throughput."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        *_storm.NOTES,
        f"A tuple has failed, as in the paper, if it is in no result {DRAIN_S} s after the minute.",
    ),
    figure_size_in=(9.5, 4.2),
)


LIVE_PRINTED = {"RPPG+DRA": 0.95, "ck-only+DRA": 0.8}


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``rates``, a row per mechanism and rate, and ``passes`` (`passes_of`)."""
    columns = ["success", "in_time", "offered_per_s", "throughput_per_s"]
    return {
        "rates": _runs.means(results, columns),
        "passes": passes_of(results, ["mechanism", "rate"], "uncorrected"),
    }


def draw_live(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/success`; the share in time is thin and dashed."""
    rows = tables["rates"]
    draw(rows, figure, stamped=_live.STAMP)
    left, _ = figure.axes
    for name in MECHANISMS:
        mine = rows[rows["mechanism"] == name].sort_values("rate")
        look = {**line(name), "linestyle": "--", "linewidth": 1.0, "markersize": 3, "label": None}
        left.plot(mine["rate"], 100 * mine["in_time"], **look)
    for name, share in LIVE_PRINTED.items():
        left.axhline(100 * share, color="black", linestyle=":", linewidth=0.9)
        left.annotate(
            f"printed: {name} {share:.0%}".replace("%", " %"), (1, 100 * share),
            xycoords=("axes fraction", "data"), xytext=(-2, -9), textcoords="offset points",
            ha="right", fontsize=7,
        )  # fmt: skip
    left.annotate(
        f"dashed: in a result within {TIMEOUT_S:g} s", (0.98, 0.03), xycoords="axes fraction",
        ha="right", fontsize=7,
    )  # fmt: skip


@hypothesis(
    "in-time",
    f"Within {TIMEOUT_S:g} s RPPG+RAS and full-rep+DRA have nearly all tuples in a result, and "
    "ck-only+DRA has the fewest",
)
def in_time(tables: Tables) -> Finding:
    rows = tables["rates"]
    if not set(MECHANISMS) <= set(rows["mechanism"]):
        return not_asked()
    share = _runs.mean_of(rows, "in_time")
    kept = [share[name] >= 1 - NEAR for name in ("full-rep+DRA", "RPPG+RAS")]
    fewest = min(share, key=share.__getitem__) == "ck-only+DRA"
    return every([*kept, fewest], **share, nearly_all=1 - NEAR)


NOTHING_DROPPED = (
    "a tuple of the paper fails if it is replayed after its timeout of 5 s and then later than the "
    "lag of 1 s; this repository's protocol drops no tuple, so what is lost by that is not there"
)
DROPPED = ("rppg-dra-95", "ck-only-80", "match-rate")
"""Sentences about what is dropped, or about what is late and then dropped."""


NOT_BUILT = Rule(version=4, since="2026-11-27", seen_seeds=(DEFAULT_SEED,))
"""Versions before judged the shares that came, of which the engine loses none."""


def not_built(tables: Tables) -> Finding:
    """Decide nothing: what the sentence is about is not in the engine."""
    return unmeasured(NOTHING_DROPPED)


LIVE_CLAIMS = [
    equal_output,
    *(
        replace(live, decide=not_built, rule=NOT_BUILT) if live.id in DROPPED else live
        for live in (about_live(each, "rates") for each in CLAIMS)
    ),
    in_time,
]
LIVE_EXPERIMENT = replace(
    EXPERIMENT,
    counterpart=EXPERIMENT.id,
    measurement=latency.LIVE_MEASUREMENT,
    name="live/edge-success",
    figure="Figures 7 and 8, live",
    title="Success rate and throughput of accident detection over the input rate, live",
    table=tabulate_live,
    draw=draw_live,
    claims=LIVE_CLAIMS,
    notes=latency.LIVE_NOTES,
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
