"""The two modes of stock Spark: latency, and records per core-second, against rate.

The same query in micro-batches (append mode, each result once) and in real-time mode (update mode,
a result again with every change), each with Spark's own settings and tuned. A result of real-time
mode is the last value of its window and word: its latency is from the newest record that goes into
it to the first arrival of that value. A result of micro-batches counts from the record that closes
its window. The time from a window's end compares both from one instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.stock.real_time_kill import SPEC
from harness.claims import Claim, Finding, Rule, at_most, every, hypothesis, invariant, not_asked
from harness.claims.samples import median_of, ratio_of
from harness.engines.structured.parameters import Mode, StockParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, measured
from harness.figures.chart import Axes, Figure
from harness.figures.style import BLUE, GREY, ORANGE, VERMILION, legend_below, plain_ticks
from harness.seeds import DEFAULT_SEED
from harness.stock_kills.scale import UPDATES_WATERMARK_S, spark_conf

if TYPE_CHECKING:
    from experiments.stock._kills import Tables
    from harness.judging.passes import PassRecord
    from harness.judging.runner import Runner
    from workloads.base import Workload

MICRO, REAL = Mode.MICRO_BATCH.value, Mode.REAL_TIME.value
DEFAULT, TUNED = "default", "tuned"
SETTINGS: Mapping[tuple[str, str], StockParameters] = {
    (MICRO, DEFAULT): StockParameters(),
    (MICRO, TUNED): StockParameters(
        # Two tasks with state: fewer tasks a batch cost less than they slow it down here.
        conf={"spark.sql.shuffle.partitions": "2", "spark.locality.wait": "0s"},
    ),
    (REAL, DEFAULT): StockParameters(mode=REAL, checkpoint_s=5),
    (REAL, TUNED): StockParameters(
        mode=REAL,
        checkpoint_s=20,
        # The most that a row waits for others on its way to a task with state; the default is 50.
        conf={"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5"},
    ),
}
"""Spark's own settings, and those that shorten a record's way."""
TRIGGER_S = 0.1
"""Trigger of micro-batches: as fast as they can."""
WINDOW_S = 2.0
WATERMARK_S = {MICRO: 0.2, REAL: UPDATES_WATERMARK_S}
"""Delay for late records, for which results wait in micro-batches alone."""
SETTLE_S = 6.0
RATES_PER_S: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: [50],
    Profile.QUICK: [25, 400],
    Profile.PAPER: [25, 50, 100, 200, 400, 800, 1600],
}
LOAD_S = {Profile.SMOKE: 8.0, Profile.QUICK: 15.0, Profile.PAPER: 90.0}
"""Length of a pass; in quick it has the six whole windows that an interval needs."""
WARMUP_S = {Profile.SMOKE: 0.0, Profile.QUICK: 6.0, Profile.PAPER: 40.0}
"""Load at the highest rate before the first pass, in each mode: the code differs."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one mode under one kind of settings: every rate on one warm application."""
    from harness.engines.base import Setup
    from harness.judging.runner import open_runner
    from workloads.wordcount import word_count

    given = SETTINGS[str(point["mode"]), str(point["settings"])]
    conf = {**given.conf, **spark_conf(context.options)}
    setup = Setup(scheme="checkpoint", parameters=replace(given, conf=conf))
    workload = word_count(
        seed=context.seed("text"),
        window_s=WINDOW_S,
        slide_s=WINDOW_S,
        watermark_delay_s=WATERMARK_S[given.mode],
        traced=True,
    )
    cluster = context.cluster(SPEC)
    runner = open_runner("structured", setup, cluster, context)
    rates = RATES_PER_S[context.profile]
    if WARMUP_S[context.profile]:
        _pass("warm-up", workload, rates[-1], WARMUP_S[context.profile], runner)
    rows, windows = [], []
    for rate_per_s in rates:
        load_s = LOAD_S[context.profile]
        row, each = _pass(f"rate-{rate_per_s:g}", workload, rate_per_s, load_s, runner)
        rows.append(row)
        windows.append(each.assign(rate_per_s=rate_per_s))
    late = next((row["invalid"] for row in rows if row["invalid"]), None)
    return Outcome(
        values={"rates": len(rows)},
        series={"rates": pd.DataFrame(rows), "windows": pd.concat(windows, ignore_index=True)},
        invalid=late if context.profile is not Profile.SMOKE else None,
    )


DROPPED = "the watermark dropped {} rows, so the query answered another question than the batch"


def _pass(
    name: str, workload: Workload, rate_per_s: float, load_s: float, runner: Runner
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the numbers of one rate, and the latencies of its windows."""
    made = runner.steady(name, workload, rate_per_s, load_s, TRIGGER_S, truth=True)
    return summarize(made.record, made.due(), workload, rate_per_s)


def summarize(
    record: PassRecord, truth: pd.DataFrame, workload: Workload, rate_per_s: float
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a row with the numbers of a pass, and a row per window with median latencies."""
    from harness.judging import trust
    from harness.judging.outcome import against_truth, in_one_form, with_latency
    from harness.judging.resources import records_per_core_s
    from harness.measure.versions import revises, versions

    (record,), truth = in_one_form([record], truth, workload)
    revised, dropped = revises(record.deliveries), trust.dropped(record)
    seen = versions(record.deliveries, workload.identity_in_run, workload.values)
    equal = against_truth(seen.stable, truth, workload, workload.identity_in_run)
    results = with_latency(seen.stable, record, workload, revised=revised)
    first = with_latency(seen.first, record, workload, revised=revised)
    results = results.assign(
        first_s=first.set_index(workload.identity_in_run)["latency_s"]
        .reindex(pd.MultiIndex.from_frame(results[workload.identity_in_run]))
        .to_numpy(),
        end_s=results["arrival_s"] - results["window_start_s"] - workload.window_s,
    )
    whole = (results["window_start_s"] >= SETTLE_S - workload.window_s) & (
        results["window_start_s"] + workload.window_s + 1 <= record.until_s
    )
    windows = results[whole].groupby("window_start_s")
    quantiles = {
        f"{name}_{share}_s": windows[column].quantile(q)
        for name, column in (("latency", "latency_s"), ("first", "first_s"), ("end", "end_s"))
        for share, q in (("p50", 0.5), ("p99", 0.99))
    }
    row = {
        "rate_per_s": rate_per_s,
        "equal": equal.equal,
        "difference": equal.describe(),
        "drained": record.drained,
        "results": len(seen.stable),
        "deliveries": len(record.deliveries),
        "records_per_core_s": records_per_core_s(
            record.usage, rate_per_s, from_s=SETTLE_S, until_s=record.until_s
        ),
        "dropped": dropped,
        "invalid": trust.mistimed(record) or (DROPPED.format(dropped) if dropped else None),
    }
    return row, pd.DataFrame(quantiles).reset_index()


def _point(mode: str, settings: str) -> Point:
    return {"mode": mode, "settings": settings}


MEASUREMENT = measured(
    "stock/modes",
    run=run,
    grid={
        Profile.SMOKE: [_point(REAL, DEFAULT)],
        Profile.QUICK: [_point(MICRO, DEFAULT), _point(REAL, DEFAULT)],
        Profile.PAPER: [_point(*pair) for pair in SETTINGS],
    },
    seconds=(20, 70, 900),
    keeps=lambda point: f"checkpoint {point['settings']}",
    chooses=["harness.engines.structured.engine"],
    accepts=frozenset({"conf"}),
)

# Shown: no record depends on what follows.

LEAST_GAIN = 0.5
"""Largest ratio of real-time mode's median latency to that of micro-batches. The published medians
of a window count are 103 and 358 ms. Fixed on 2026-11-23 before the first run."""


BY_RUN = Rule(version=2, since="2026-11-26", seen_seeds=(DEFAULT_SEED, 71811))
"""A run is one sample. Version 1 took each of its windows for one."""


def table(results: Results) -> Tables:
    """Return the tables ``rates``, a row per run and rate, and ``windows``, one per window."""
    by = ["mode", "settings", "repeat"]
    return {"rates": results.series("rates", by), "windows": results.series("windows", by)}


def at(tables: Tables, mode: str, column: str, settings: str = DEFAULT) -> dict[float, Any]:
    """Return by rate the median over the windows of each run: the windows of one have it alike."""
    windows = tables["windows"]
    mine = windows[(windows["mode"] == mode) & (windows["settings"] == settings)]
    by_run = mine.groupby(["rate_per_s", "run"])[column].median()
    return {float(str(rate)): one for rate, one in by_run.groupby("rate_per_s")}


@invariant(
    "same-results",
    "In both modes, where no row came too late, the last values equal the batch query over the "
    "same input",
)
def same_results(tables: Tables) -> Finding:
    rates = tables["rates"]
    rates = rates[rates["dropped"] == 0]
    differences = {
        f"{one.mode}, {one.settings}, {one.rate_per_s:g}/s": one.difference
        for one in rates.itertuples()
    }
    return every(rates["equal"].astype(object), differences=differences)


def _lower(claim: str, text: str, column: str, limit: float, because: str | None = None) -> Claim:
    @hypothesis(claim, f"At the lowest rate {text}", because=because, rule=BY_RUN)
    def decide(tables: Tables) -> Finding:
        micro, real = (at(tables, mode, column) for mode in (MICRO, REAL))
        ratios = {rate: ratio_of(real[rate], micro[rate]) for rate in real.keys() & micro.keys()}
        return at_most(ratios[min(ratios)], limit) if ratios else not_asked()

    return decide


lower_median = _lower(
    "lower-median",
    "the median latency in real-time mode is at most half of that in micro-batches",
    "latency_p50_s",
    LEAST_GAIN,
)
lower_tail = _lower(
    "lower-tail",
    "the 99th percentile of latency in real-time mode is below that in micro-batches",
    "latency_p99_s",
    1.0,
    because="The slowest results of a window presumably came while real-time mode ended a batch, "
    "wrote its checkpoint and began the next one, which it does at every trigger.",
)


@hypothesis(
    "costs-more",
    "At the highest rate real-time mode processes fewer records per core-second than micro-batches",
    because="The two are near each other. Most of the processor time presumably goes into the "
    "query itself, whichever mode runs it.",
    rule=BY_RUN,
)
def costs_more(tables: Tables) -> Finding:
    rates = tables["rates"]
    shown = rates[
        (rates["settings"] == DEFAULT) & (rates["rate_per_s"] == rates["rate_per_s"].max())
    ]
    each = {mode: shown.loc[shown["mode"] == mode, "records_per_core_s"] for mode in (MICRO, REAL)}
    medians = {mode: (one := median_of(values)) and one.value for mode, values in each.items()}
    return at_most(ratio_of(each[REAL], each[MICRO]), 1.0, records_per_core_s=medians)


CLAIMS = [same_results, lower_median, lower_tail, costs_more]
LOOKS = {
    (MICRO, DEFAULT): ("micro-batches", GREY, "o"),
    (MICRO, TUNED): ("micro-batches, tuned", ORANGE, "s"),
    (REAL, DEFAULT): ("real-time mode", BLUE, "o"),
    (REAL, TUNED): ("real-time mode, tuned", VERMILION, "s"),
}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw median and 99th percentile of latency, and records per core-second, against rate.

    Marks are medians over the runs, with a 95 % interval from six runs on."""
    panels = figure.subplots(1, 3)
    costs = dict(list(tables["rates"].groupby(["mode", "settings"])))
    for (mode, settings), (label, color, marker) in LOOKS.items():
        look = {"label": label, "color": color, "marker": marker}
        for axes, column in zip(panels, ("latency_p50_s", "latency_p99_s"), strict=False):
            _curve(axes, at(tables, mode, column, settings), look)
        if (mode, settings) in costs:
            by_rate = costs[mode, settings].groupby("rate_per_s")["records_per_core_s"]
            _curve(panels[2], dict(list(by_rate)), look)
    for axes, title in zip(panels, ("median", "99th percentile", "cost"), strict=True):
        axes.set_title(title, fontsize=9)
        axes.set_ylabel("latency of results (s)")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("lines per second")
        plain_ticks(axes.xaxis, axes.yaxis)
    panels[2].set_ylabel("records per core-second")
    legend_below(figure, panels[0])


def _curve(axes: Axes, by_rate: Mapping[Any, pd.Series[float]], look: Mapping[str, Any]) -> None:
    known = {rate: one for rate, values in by_rate.items() if (one := median_of(values))}
    if not known:
        return
    ends = [(one.low, one.value, one.high) for one in known.values()]
    below = [0.0 if low is None else value - low for low, value, _ in ends]
    above = [0.0 if high is None else high - value for _, value, high in ends]
    values = [one.value for one in known.values()]
    axes.errorbar(list(known), values, yerr=[below, above], capsize=2, **look)


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="modes",
    title="Stock Spark in micro-batches and in real-time mode",
    statement=(
        "Real-time mode delivers every change of a result, sooner than micro-batches deliver the "
        "result itself, and ends with the same results; each change costs a message."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        f"Word count in windows of {WINDOW_S:g} s on four executors with two slots each. "
        "Micro-batches follow each other as fast as they can. Real-time mode makes a checkpoint "
        "every 5 s (tuned: 20 s) and pauses meanwhile.",
        "Real-time mode: from the newest record of a word in its window to the first arrival of "
        "the count that stays. Micro-batches: from the record that closes the window. The tables "
        "have the latency of the first value, and from the window's end, as well.",
        "Quick has Spark's own settings alone, and the ends of the scale of rates.",
    ),
    figure_size_in=(10.0, 4.0),
    smoke_covered_by="stock/real-time-kill",
)
