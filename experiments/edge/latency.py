"""Fig. 6a, 6b: latency over the input rate, of the whole run and during recovery.

The paper: over the whole run RPPG+RAS is like full-rep+DRA, around 2.5 s, and ck-only+DRA like
RPPG+DRA, around or above 5 s. During recovery all but RPPG+RAS rise above 5 s, even full-rep+DRA,
whose replicas are badly placed.

Live, a report's latency is the time from its intended sending until the first result with it is in
the out topic. Each road reports every car once a second, at even distances, so a result of one
second has the reports of all tenths of it alike. A short run has the outage in a larger part of it
than the paper's minute. So what was sent in the ten seconds after the failure and all the rest
count as in that minute: ten parts and fifty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.edge import _deployment, _live, _runs, _storm
from experiments.edge._deployment import GATEWAYS, LOOKS, MECHANISMS
from experiments.edge._live import SCALES, Reason, Scale, Tables, about_live, by_run, changed
from experiments.edge._runs import (
    DRAIN_S,
    FAILURE_S,
    HEARTBEAT_TIMEOUT_S,
    INPUT_S,
    RECOVERY_S,
    RESTART_S,
    TIMEOUT_S,
)
from experiments.live._judged import equal_output, passes_of
from experiments.live._runs import outcome_of
from experiments.ppa._topology import kept
from harness.claims import (
    Cause,
    Claim,
    Finding,
    Rule,
    all_of,
    applied,
    at_least,
    at_most,
    found,
    hypothesis,
    median_of,
    paper,
    rows,
    together,
)
from harness.claims.cells import Cells, Printed, nearest_to
from harness.experiment import Context, Experiment, Outcome, Point, Results, measured
from harness.figures.chart import Figure
from harness.figures.style import legend_below, stamp

PARTS: dict[str, tuple[float, ...]] = {
    "overall": (),
    "recovery": (FAILURE_S, FAILURE_S + RECOVERY_S),
}


def run(point: Point, context: Context) -> Outcome:
    """One minute with a failure at one rate."""
    measured = _storm.at(point, context, failure=True)
    values: dict[str, float] = {}
    for name, times in PARTS.items():
        mean, low, high = measured.latencies(*times)
        values |= {f"{name}_s": mean, f"{name}_p5_s": low, f"{name}_p95_s": high}
        values[f"{name}_acknowledged_s"], *_ = measured.latencies(*times, complete=True)
    return Outcome(values=values)


MEASUREMENT = _runs.over_rates(
    id="edge/latency",
    run=run,
)


LIVE_PARTS = 10
"""Parts of a second at which its reports were sent."""
SETTLE_S = 2
"""Seconds at the start that do not count: copies are placed in them."""


def run_live(point: Point, context: Context) -> Outcome:
    """Measure one mechanism at one rate: the twin is the run without a failure."""
    rate, mechanism = int(str(point["rate"])), str(point["mechanism"])
    outcomes = _live.measure_failure(mechanism, rate, _live.workload(context, rate), context)
    results = outcomes["failure"].series["results"]
    counted = reports(results[results["pass"] == "failed"])
    return outcome_of(outcomes, measures(counted, SCALES[context.profile], rate * GATEWAYS))


def reports(results: pd.DataFrame) -> pd.DataFrame:
    """Return ``sent_s``, ``at_s`` and ``reports`` of each tenth of a second of each result."""
    count = results["car_ids"].str.split().str.len().to_numpy(dtype=float)
    middle = (np.arange(LIVE_PARTS) + 0.5) / LIVE_PARTS
    return pd.DataFrame(
        {
            "sent_s": (results["window_start_s"].to_numpy(dtype=float)[:, None] + middle).ravel(),
            "at_s": np.repeat(results["arrival_s"].to_numpy(dtype=float), LIVE_PARTS),
            "reports": np.repeat(count / LIVE_PARTS, LIVE_PARTS),
        }
    )


def measures(reports: pd.DataFrame, scale: Scale, offered_per_s: float) -> dict[str, float]:
    """Return latencies in seconds, shares of the input, and tuples per second at the sink.

    ``success`` is the paper's: in a result by `DRAIN_S` after the input. ``in_time``: within the
    printed timeout of a tuple. ``throughput_per_s``: the mean of the load's seconds."""
    inside = reports[reports["sent_s"].between(SETTLE_S, scale.input_s)]
    begin_s = scale.fail_at_s
    after = inside["sent_s"].between(begin_s, begin_s + RECOVERY_S, inclusive="left")
    spans = {True: min(RECOVERY_S, scale.input_s - begin_s)}
    spans[False] = scale.input_s - SETTLE_S - spans[True]
    minute = {True: RECOVERY_S / INPUT_S, False: 1 - RECOVERY_S / INPUT_S}
    share = after.map({part: minute[part] / (spans[part] * offered_per_s) for part in spans})
    latency_s = inside["at_s"] - inside["sent_s"]
    weight = inside["reports"] * share
    whole = inside["at_s"] < scale.input_s + DRAIN_S
    came = reports[reports["at_s"].between(SETTLE_S, scale.input_s)]["reports"].sum()
    return {
        **_spread("overall", latency_s, weight),
        **_spread("recovery", latency_s[after], inside["reports"][after]),
        "success": float(weight[whole].sum()),
        "in_time": float(weight[latency_s <= TIMEOUT_S].sum()),
        "offered_per_s": offered_per_s,
        "throughput_per_s": float(came / (scale.input_s - SETTLE_S)),
    }


def _spread(name: str, latency_s: pd.Series[float], weight: pd.Series[float]) -> dict[str, float]:
    """Return mean, 5th and 95th percentile; nothing where nothing came."""
    if not len(latency_s):
        return {}
    mean, low, high = _runs.weighted(latency_s, weight)
    return {f"{name}_s": mean, f"{name}_p5_s": low, f"{name}_p95_s": high}


LIVE_MEASUREMENT = measured(
    "live/edge-latency", run=run_live, seconds=(45.0, 42.0, 140.0), grid=_live.GRID, keeps=kept
)


# Shown: no record depends on what follows.
ALIKE = 0.15
"""Two mechanisms are similar if their means differ by at most this share."""
PAPER_S = {"fast": 2.5, "slow": 5.0}
TWICE = 1.5
"""The paper's 5 s against 2.5 s is a factor of two; this much counts as "higher"."""
PANELS = {"overall": "(a) overall", "recovery": "(b) during recovery"}
SEVERAL = Rule(version=3, since="2026-11-26", seen_seeds=_runs.SEEN)
"""Version 1 judged one run, and its seed decided it; version 2 took five for an interval."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per run: mean, 5th and 95th percentile of both panels.

    ``..._acknowledged_s``: mean time until the ackers knew the tuples to be complete."""
    parts = ("", "_p5", "_p95", "_acknowledged")
    columns = [f"{name}{part}_s" for name in PANELS for part in parts]
    return _runs.per_run(results, columns)


def draw(table: pd.DataFrame, figure: Figure, *, stamped: str = _storm.STAMP) -> None:
    """Bars per rate, a colour per mechanism, ticks from the 5th to the 95th percentile.

    Each is the mean over the repetitions. ``stamped`` is the origin of the numbers."""
    table = _runs.averaged(table)
    panels = figure.subplots(1, 2, sharey=True)
    rates = sorted(table["rate"].unique())
    for axes, (panel, title) in zip(panels, PANELS.items(), strict=True):
        for number, name in enumerate(MECHANISMS):
            rows = table[table["mechanism"] == name].set_index("rate").reindex(rates)
            mean, low, high = (rows[f"{panel}{part}_s"].to_numpy() for part in ("", "_p5", "_p95"))
            spread = [np.maximum(mean - low, 0), np.maximum(high - mean, 0)]
            axes.bar(
                np.arange(len(rates)) + (number - 1.5) * 0.2, mean, width=0.2, yerr=spread,
                color=LOOKS[name].color, label=name, capsize=1.5, error_kw={"linewidth": 0.8},
            )  # fmt: skip
        axes.set_xticks(range(len(rates)), [str(rate) for rate in rates])
        axes.set_xlim(-0.5, len(rates) - 0.5)
        axes.set_xlabel("input rate (tuples/s per gateway)")
        axes.set_title(title, loc="left")
    panels[0].set_ylabel("latency (s): mean, 5th to 95th percentile")
    legend_below(figure, panels[0], columns=4)
    stamp(figure, stamped)


def _alike(id: str, one: str, other: str) -> Claim:  # noqa: A002
    @paper(id, f"Overall latency of {one} is similar to that of {other}", rule=SEVERAL)
    def alike(table: pd.DataFrame) -> Finding:
        means = [_runs.mean_of(run, "overall_s") for _, run in table.groupby("repeat")]
        apart = median_of(abs(each[one] / each[other] - 1) for each in means)
        whole = _runs.mean_of(table, "overall_s")
        return at_most(apart, ALIKE, **{name: whole[name] for name in (one, other)})

    return alike


overall, acknowledged = (
    applied(_runs.mean_of, rows, name) for name in ("overall_s", "recovery_acknowledged_s")
)
least_s = applied(min, overall["ck-only+DRA"], overall["RPPG+DRA"])
acknowledged_above_5 = hypothesis(
    "acknowledged-above-5",
    "During recovery a tuple's acknowledgement takes more than 5 s under every mechanism",
).every(applied(pd.Series, acknowledged) > PAPER_S["slow"], also=acknowledged)
NOT_LATE = (
    "By Storm's rules a result comes with its window or never: what is replayed after 5 s is "
    "behind the watermark and is dropped, unless it is the first that a new executor sees. So an "
    "outage presumably loses tuples (Fig. 7) and delays few. What does take 5 s and more is a "
    "tuple's acknowledgement, while any copy that it was sent to is dead, with RPPG+RAS as well. "
    "What the paper took as latency is not printed, and neither gives the four sentences together. "
    "For full-rep+DRA the paper blames the place of the replica; with the free cores that are "
    "chosen here DRA finds one as good as RAS does."
)


@paper(
    "recovery-above-5",
    "During recovery all but RPPG+RAS rise above 5 s, even full-rep+DRA",
    because=NOT_LATE,
    cause=Cause.LOST,
)
def recovery_above_5(table: pd.DataFrame) -> Finding:
    during = _runs.mean_of(table, "recovery_s")
    above = [(during[name] > PAPER_S["slow"]) == (name != "RPPG+RAS") for name in MECHANISMS]
    more: dict[str, Any] = {"paper_s": PAPER_S["slow"]}
    if "recovery_acknowledged_s" in table:  # of the model alone
        more["until_acknowledged"] = _runs.mean_of(table, "recovery_acknowledged_s")
    return found(all_of(above), **during, **more)


@paper(
    "ras-lowest",
    "During recovery RPPG+RAS has the lowest latency and is the most stable (read as: rises least)",
    because="It shares that with full-rep+DRA, presumably since a living copy of each aggregator "
    "goes on in both.",
    cause=Cause.LOST,
    rule=SEVERAL,
)
def ras_lowest(table: pd.DataFrame) -> Finding:
    """Judge how far the lowest of the others is above it, in each run."""
    return _lowest(table, "recovery_s", "rise")


def _lowest(table: pd.DataFrame, *measures: str) -> Finding:
    risen = table.assign(rise=table["recovery_s"] / table["overall_s"])
    findings = {}
    for measure in measures:
        leads = [_lead(_runs.mean_of(run, measure)) for _, run in risen.groupby("repeat")]
        findings[measure] = at_least(median_of(leads), 0.0, **_runs.mean_of(risen, measure))
    return together(findings)


def _lead(values: dict[str, Any]) -> float:
    """Return by how much RPPG+RAS is below the lowest of the others."""
    lowest = min(value for name, value in values.items() if name != "RPPG+RAS")
    return float(lowest - values["RPPG+RAS"])


CLAIMS = [
    _alike("ras-like-full", "RPPG+RAS", "full-rep+DRA"),
    _alike("ck-like-rppg", "ck-only+DRA", "RPPG+DRA"),
    paper("fast", "Overall latency of RPPG+RAS and full-rep+DRA is around 2.5 s").holds(
        all_of(
            [abs(overall[name] - PAPER_S["fast"]) <= 1 for name in ("RPPG+RAS", "full-rep+DRA")]
        ),
        also=overall,
        paper_s=PAPER_S["fast"],
        tolerance_s=1,
    ),
    paper(
        "slow",
        "Overall latency of ck-only+DRA and RPPG+DRA is around 5 s or higher",
        because=NOT_LATE,
        cause=Cause.LOST,
    ).holds(least_s >= PAPER_S["slow"] - 1, also=overall, paper_s=PAPER_S["slow"], tolerance_s=1),
    paper(
        "slower",
        "ck-only+DRA and RPPG+DRA are slower than RPPG+RAS (relative reading)",
        because=NOT_LATE,
        cause=Cause.LOST,
    ).holds(
        least_s >= TWICE * overall["RPPG+RAS"], also=overall, needed_factor=TWICE, paper_factor=2
    ),
    recovery_above_5,
    ras_lowest,
    acknowledged_above_5,
]
NUMBERS = (
    Printed(
        what="mean latency over the run",
        unit="s",
        place="Section V-C, text on Figure 6(a)",
        by=("mechanism",),
        values={
            **{(name,): PAPER_S["fast"] for name in ("full-rep+DRA", "RPPG+RAS")},
            **{(name,): PAPER_S["slow"] for name in ("ck-only+DRA", "RPPG+DRA")},
        },
        ours=Cells("", "overall_s", {"rate": nearest_to(_deployment.RATES[1])}),
        why="What the paper took as latency is not printed.",
    ),
    Printed(
        what="mean latency during recovery",
        unit="s",
        place="Section V-C, text on Figure 6(b)",
        by=("mechanism",),
        values={(name,): PAPER_S["slow"] for name in MECHANISMS if name != "RPPG+RAS"},
        ours=Cells("", "recovery_s", {"rate": nearest_to(_deployment.RATES[1])}),
        bound="at least",
        why="What the paper took as latency is not printed.",
    ),
)
"""Its default rate stands for all of them: the paper's sentences are about every rate."""
EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    sentences={"slower": "edge/latency/slow"},
    paper=_deployment.PAPER,
    figure="Figure 6",
    title="Latency of accident detection over the input rate",
    statement=(
        "Overall RPPG+RAS is like full-rep+DRA, around 2.5 s, and the other two are around 5 s or "
        "higher; during recovery all but RPPG+RAS are above 5 s."
    ),
    table=table,
    draw=draw,
    main=True,
    printed=[*NUMBERS],
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        *_storm.NOTES,
        "During recovery: tuples sent in the ten seconds after the failure. The second that the "
        "aggregators wait for late tuples is part of every latency; tuples in no result are in "
        "none.",
    ),
    figure_size_in=(9.5, 4.2),
)


LATENCIES = [f"{part}{end}_s" for part in PANELS for end in ("", "_p5", "_p95")]
LIVE_NOTES = (
    "The nodes of live/edge-throughput: the testbed's declared delays and bandwidth, replicas and "
    "places by the planners, every report counts. Quick: four of the five rates, 17 s of "
    "input and the failure in second 6; what was sent in the ten seconds after it counts as ten "
    "parts of the paper's minute, the rest as fifty.",
    "By this repository's protocol, not Storm's: a result waits for no late tuples, since a batch "
    "is over when all sources have said so; a task that is lost reads again what its source still "
    "has, and drops nothing of it. A task without a replica waits for a worker for "
    f"{HEARTBEAT_TIMEOUT_S + RESTART_S:g} s, the heartbeats' timeout and a chosen second.",
    _live.ROOM_NOTE,
    *_deployment.NOTES,
)


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``latencies`` as `edge/latency` has them, and ``passes`` (`passes_of`)."""
    return {
        "latencies": _live.per_run(results, LATENCIES),
        "passes": passes_of(results, ["mechanism", "rate"], "uncorrected"),
    }


def draw_live(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/latency`, with the paper's numbers."""
    draw(tables["latencies"], figure, stamped=_live.STAMP)
    printed = ([*PAPER_S.values()], [PAPER_S["slow"]])
    for axes, values in zip(figure.axes, printed, strict=True):
        for value in values:
            _live.printed(value, f"{value:g} s", 2).draw(axes, tables["latencies"])


NO_LAG = (
    "A result comes here when its batch is over, presumably below a second after its newest tuple. "
    "The paper's aggregators wait for their lag of 1 s, and how long its tuples queue is not "
    "printed."
)
OUTAGE = (
    "Whoever has a living copy of both aggregators has no outage here. The others have one of 6 s: "
    "half of that is its tuples' delay in the mean, and a tenth of the minute is in it. The "
    "printed recovery of about ten seconds would add less than a second to the minute's mean, too. "
    "So the paper's 5 s presumably have other parts, such as tuples that queue; what it took as "
    "latency is not printed."
)
REASONS: Mapping[str, Reason] = {
    "fast": (NO_LAG, Cause.READING),
    "ck-like-rppg": (OUTAGE, Cause.LOST),
    "slow": (OUTAGE, Cause.LOST),
    "slower": (OUTAGE, Cause.LOST),
    "recovery-above-5": (OUTAGE, Cause.LOST),
    "ras-lowest": (ras_lowest.because, ras_lowest.cause),
}


@paper(
    ras_lowest.id,
    "Overall and during recovery RPPG+RAS has the lowest latency, and it is the most stable (read "
    "as: rises least)",
    rule=SEVERAL,
)
def ras_lowest_live(table: pd.DataFrame) -> Finding:
    """Judge how far the lowest of the others is above it, in each run.

    The paper says it of both: "whenever considering the latency distribution in overall runtime or
    only during recovery". Before `_live.SINCE` the recovery alone decided it."""
    return _lowest(table, "overall_s", "recovery_s", "rise")


LIVE_CLAIMS = [
    ras_lowest_live if each is ras_lowest else each
    for each in CLAIMS
    if each is not acknowledged_above_5
]
OF_MEANS = ("fast", "slow", "slower", "recovery-above-5")
"""Sentences about means, which have no sample."""
LIVE_EXPERIMENT = EXPERIMENT.live(
    LIVE_MEASUREMENT,
    counterpart=EXPERIMENT.id,
    title="Latency of accident detection over the input rate, live",
    table=tabulate_live,
    draw=draw_live,
    printed=[each.on("latencies") for each in NUMBERS],
    claims=[
        equal_output,
        *(
            about_live(
                by_run(each) if each.id in OF_MEANS else replace(each, rule=changed(each.rule)),
                "latencies",
                REASONS.get(each.id, (None, None)),
            )
            for each in LIVE_CLAIMS
        ),
    ],
    notes=LIVE_NOTES,
)
