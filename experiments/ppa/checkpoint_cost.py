"""ppa ICDE Fig. 9 = TKDE Fig. 10: the cost of checkpoints relative to normal computation.

Twice, with windows of 30 s: on the declared machine of the simulation, and on this machine, where
the processor time of the real operator (a sliding sum over the window) and of encoding its state
for the store are measured.

Live, on 34 nodes without a failure, one pass takes no checkpoint, the others take one at each
interval. The processor time of the 15 processes with a synthetic task each counts, from when their
windows are full until the load ends. The difference to the pass without checkpoints is the cost of
checkpoints. Nodes run as fast as this machine is: a declared speed is held by timers and costs no
processor time. The papers' ratio is that of a task, and a node's process does more: messages,
heartbeats. So the cost is set against the processor time of the tasks' operators alone, on the same
batches in this process, and against all that the processes take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from experiments.live._judged import Tables, numbers, passes_of, worst_of
from experiments.live._runs import nodes_cpu_s, outcome_of
from experiments.ppa import _latency, _random, _recovery, _topology
from experiments.ppa._recoveries import fastest, in_time
from experiments.ppa._recovery import RATES, SOURCES, SYNTHETIC, Contender
from experiments.ppa._topology import SPEC, Shape
from harness.claims import (
    Cause,
    Claim,
    Finding,
    Foregone,
    Rule,
    Sample,
    applied,
    invariant,
    median_of,
    paper,
    rows,
    rows_of,
)
from harness.experiment import Context, Experiment, Results, measured, simulated
from harness.failures.schedule import NO_FAILURES
from harness.figures.chart import Axes, Figure
from harness.figures.style import BLUE, GREY, VERMILION, not_measured, stamp
from harness.hosting.codec import encode
from harness.judging.run import Variant, measure_each
from harness.results.record import Outcome, Point, Profile
from harness.seeds import DEFAULT_SEED, generator
from workloads.synthetic import KEYED, synthetic
from workloads.toolkit.operators import program_of, timeline_of

WINDOW_S = 30
_INTERVALS_S = (1, 2, 5, 10, 15, 20, 30)
INTERVALS_S = {Profile.SMOKE: (1, 5, 30), Profile.QUICK: _INTERVALS_S, Profile.PAPER: _INTERVALS_S}
HERE = "this machine"
ENGINES = (_latency.SIMULATED, HERE)
BATCHES = {Profile.SMOKE: 5, Profile.QUICK: 30, Profile.PAPER: 100}
"""Timed batches, after the window has filled."""
START_US = 1_800_000_000_000_000


def run(point: Point, context: Context) -> Outcome:
    """Measure every interval at one rate, on one of the two machines."""
    rate = int(str(point["rate"]))
    if point["engine"] == HERE:
        return _here(rate, context)
    rows = []
    for interval_s in INTERVALS_S[context.profile]:
        context.progress(f"every {interval_s} s")
        options = _recovery.options_of(
            Contender(label=f"CKP-{interval_s}s", checkpoint_s=interval_s),
            window_s=WINDOW_S,
            rate=rate,
            failed=SYNTHETIC[:1],
            phase=0.99,
            seed=context.seed("network"),
        )
        rows.append((interval_s, _recovery.measure_costs(options)))
    return Outcome(
        values={}, series={"ratios": pd.DataFrame(rows, columns=["interval_s", "ratio"])}
    )


def _here(rate: int, context: Context) -> Outcome:
    """Measure this process; a task of O1 takes 2 × ``rate`` tuples a second."""
    workload = synthetic(seed=context.seed("input"), keys=rate // 2, window_s=WINDOW_S)
    timeline = timeline_of(workload, start_us=START_US, batch_s=1)
    task = program_of(workload, timeline=timeline, rate=16 * rate).task("O1", 0)
    batches = [_batch(rate, source, context) for source in range(2)]
    state = task.initial()
    computing_s, encoding_s = [], []
    for batch in range(WINDOW_S + BATCHES[context.profile]):
        context.progress("computing", fraction=batch / (WINDOW_S + BATCHES[context.profile]))
        began = process_time()
        state, _ = task.process(state, batch, batches)
        computed = process_time()
        encode(state)
        if batch >= WINDOW_S:
            computing_s.append(computed - began)
            encoding_s.append(process_time() - computed)
    batch_s, checkpoint_s = float(np.mean(computing_s)), float(np.mean(encoding_s))
    intervals = INTERVALS_S[context.profile]
    ratios = pd.DataFrame(
        {"interval_s": intervals, "ratio": [checkpoint_s / (batch_s * i) for i in intervals]}
    )
    return Outcome(
        values={
            "state_tuples": task.state_tuples(state),
            "batch_cpu_s": batch_s,
            "checkpoint_cpu_s": checkpoint_s,
        },
        series={"ratios": ratios},
    )


def _batch(rate: int, source: int, context: Context) -> pa.Table:
    """Return a second's tuples of one source task."""
    keys = rate // 2
    amounts = generator(context.seed("amounts"), source).integers(0, 100, rate)
    return pa.table(
        {"key": source * keys + np.arange(rate) % keys, "amount": amounts}, schema=KEYED
    )


MEASUREMENT = simulated(
    "ppa/checkpoint-cost",
    grid=[{"engine": engine, "rate": rate} for engine in ENGINES for rate in RATES],
    seconds=(1.0, 0.4, 3.0),
    run=run,
    alone=True,
)


FASTER = {Profile.SMOKE: 10.0, Profile.QUICK: 10.0, Profile.PAPER: 1.0}
LIVE_INTERVALS_S: Mapping[Profile, Sequence[int]] = {
    Profile.SMOKE: (1, 15),
    Profile.QUICK: (1, 15),
    Profile.PAPER: (1, 2, 5, 10, 15, 20, 30),
}
FULL_S, COUNTED_S = 35.0, 60.0
"""Instant at which all windows are full, and the counted time after it, in the papers' time."""
NEVER_S = 900.0
"""Checkpoint interval of the pass without checkpoints: longer than the load, and no more batches
than the scheme keeps in its buffers."""


def run_live(point: Point, context: Context) -> Outcome:
    """Measure every interval at one rate."""
    faster = FASTER[context.profile]
    shape = Shape(window_s=WINDOW_S, rate=int(str(point["rate"])), faster=faster, speed=False)
    intervals = LIVE_INTERVALS_S[context.profile]

    def taking(every_s: float) -> Variant:
        contender = _topology.Contender(scheme="checkpoint", checkpoint_s=every_s)
        return Variant(setup=shape.setup(contender), schedule=NO_FAILURES)

    variants = {"none": taking(NEVER_S)}
    variants |= {f"every-{interval_s}s": taking(interval_s) for interval_s in intervals}
    load_s = (FULL_S + COUNTED_S) / faster
    wanted = shape.live(context, load_s=load_s)
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    spent = {
        name: nodes_cpu_s(found.series["usage"], hosts(), from_s=FULL_S / faster, until_s=load_s)
        for name, found in outcomes.items()
    }
    without = spent["none"]
    rows = [
        (interval_s, spent[f"every-{interval_s}s"], without, len(checkpoints_of(interval_s)))
        for interval_s in intervals
    ]
    frame = pd.DataFrame(rows, columns=["interval_s", "cpu_s", "without_cpu_s", "checkpoints"])
    frame["operators_cpu_s"] = operators_s(shape, context)
    return outcome_of(outcomes, {"faster": faster}, costs=frame)


def hosts() -> set[str]:
    """Return the nodes with a synthetic task."""
    return {SPEC.node_names[node] for node in _topology.placement()[SOURCES:]}


def operators_s(shape: Shape, context: Context) -> float:
    """Return the processor seconds of the synthetic tasks' operators alone in the counted time.

    A batch has the tuples of one of the papers' seconds, over the speed-up; tasks are alike."""
    point: Point = {"engine": HERE, "rate": round(shape.rate / shape.faster)}
    batch_s = float(run(point, context).values["batch_cpu_s"])
    return batch_s * COUNTED_S * len(SYNTHETIC)


def checkpoints_of(interval_s: int) -> range:
    """Return the numbers of a task's checkpoints within the counted time."""
    return range(int(FULL_S // interval_s) + 1, int((FULL_S + COUNTED_S) // interval_s) + 1)


GRID: Sequence[Point] = [{"rate": rate} for rate in RATES]
LIVE_MEASUREMENT = measured(
    "live/checkpoint-cost",
    grid={Profile.SMOKE: GRID[:1], Profile.QUICK: GRID, Profile.PAPER: GRID},
    seconds=(60.0, 85.0, 900.0),
    run=run_live,
    keeps=_topology.kept,
)


# Shown: no record depends on what follows.
LOOKS = {_latency.SIMULATED: (BLUE, "s"), HERE: (VERMILION, "o")}
QUICKLY = 5.0
"""Factor from the longest interval to the shortest from which the cost "increases quickly"."""
PROHIBITIVE = 1.0
"""Ratio from which checkpoints are prohibitively expensive: the cost of the computation itself."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per engine, rate and interval: processor time of checkpoints per computation."""
    frame = results.series("ratios", ("engine", "rate"))
    by = ["engine", "rate", "interval_s"]
    return _latency.spread(frame, by, "ratio")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the ratio over the interval; colour by machine, line by rate."""
    axes = figure.subplots()
    for engine, (colour, marker) in LOOKS.items():
        for rate, line in zip(RATES, ("-", "--"), strict=True):
            rows = _random.select(table, engine=engine, rate=rate)
            if len(rows):
                axes.plot(
                    rows["interval_s"], rows["mean"], color=colour, marker=marker, linestyle=line,
                    label=f"{engine}, {rate:,} tuples/s",
                )  # fmt: skip
    _draw_prohibitive(axes, 30)
    axes.set_yscale("log")
    axes.set_xlabel("checkpoint interval (s); windows of 30 s")
    axes.set_ylabel(
        "processor time of checkpoints\nper processor time of computation (logarithmic)"
    )
    if len(table):
        axes.legend(loc="upper right")
    else:
        not_measured(axes)
    stamp(figure, f"{_recovery.STAMP}; {HERE}: processor time of the real operator and codec")


def _draw_prohibitive(axes: Axes, until_s: float) -> None:
    axes.axhline(PROHIBITIVE, color=GREY, linewidth=0.9, linestyle=":")
    axes.annotate(
        "as much as the computation itself", (until_s, PROHIBITIVE), xytext=(0, 3),
        textcoords="offset points", ha="right", fontsize=7,
    )  # fmt: skip


NEVER_FALLS = Rule(version=2, since="2026-11-25", seen_seeds=(DEFAULT_SEED,))
"""The cost of the shortest interval is a multiple of that of the longest, and no shorter interval
is cheaper. Version 1 asked that each be dearer, which the papers do not say of each."""
BY_COST: Mapping[str, object] = {
    "foregone": Foregone.CONSTRUCTION,
    "foregone_because": "a checkpoint takes its declared time for each tuple of state",
}


def _claims(engine: str) -> Iterator[Claim]:
    name, settled = engine.replace(" ", "-"), BY_COST if engine == _latency.SIMULATED else {}
    ratios = _random.wide(rows[rows["engine"] == engine], ("interval_s",), "rate")
    first, last = ratios.iloc[0], ratios.iloc[-1]
    yield paper(
        f"{name}/rises",
        f"The cost rises quickly as the interval shrinks ({engine})",
        rule=NEVER_FALLS,
        **settled,
    ).every(
        (ratios.diff().iloc[1:] <= 0).all() & (first >= QUICKLY * last),
        at_1_s=applied(_random.named, first),
        at_30_s=applied(_random.named, last),
    )
    yield paper(
        f"{name}/prohibitive",
        f"A checkpoint every second is prohibitively expensive ({engine})",
        **settled,
    ).every(first >= PROHIBITIVE, also=applied(_random.named, first), prohibitive_from=PROHIBITIVE)


CLAIMS = [claim for engine in ENGINES for claim in _claims(engine)]
EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    sentences={
        "simulated/rises": "ppa/checkpoint-cost/this-machine/rises",
        "simulated/prohibitive": "ppa/checkpoint-cost/this-machine/prohibitive",
    },
    paper=_random.BOTH,
    figure="Figure 9 (TKDE: 10)",
    title="Processor time of checkpoints relative to normal computation",
    statement=(
        "The cost of checkpoints rises quickly as their interval shrinks; a checkpoint every "
        "second is prohibitively expensive."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_recovery.NOTES,
        "This machine: process time of one O1 task with 30 s of input as its state, and of "
        "encoding that state as the store gets it; sending and storing are not in it.",
    ),
    figure_size_in=(8.0, 4.6),
)


LIVE_QUICKLY = 3.0
"""The cost rises quickly if it is at least this many times as high every second as every 15."""
LIVE_LOOKS = {RATES[0]: (BLUE, "s", "-"), RATES[1]: (VERMILION, "o", "--")}


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``costs``, checkpoints' share of processor time, and ``passes`` (`passes_of`).

    ``ratio`` is to the tasks' operators, ``of_process`` to all that their processes take. Besides
    ``samples``, the same of each run."""
    by = ["rate", "faster", "interval_s"]
    rows = results.series("costs", ("rate", "faster"))
    rows = rows.reindex(columns=["run", *by, "cpu_s", "without_cpu_s", "operators_cpu_s"])
    more = (rows["cpu_s"] - rows["without_cpu_s"]).astype(float)
    rows = rows.assign(
        ratio=more / rows["operators_cpu_s"].astype(float), of_process=more / rows["without_cpu_s"]
    )
    costs = rows.groupby(by, sort=False)[["ratio", "of_process"]].mean().reset_index()
    return {"costs": costs, "samples": rows, "passes": passes_of(results, ["rate"])}


def draw_live(tables: Tables, figure: Figure) -> None:
    """Draw the ratio over the interval, a line per rate; the axes of `ppa/checkpoint-cost`."""
    costs = tables["costs"]
    axes = figure.subplots()
    for rate, (colour, marker, line) in LIVE_LOOKS.items():
        rows = costs[costs["rate"] == rate].sort_values("interval_s")
        if len(rows):
            axes.plot(
                rows["interval_s"], rows["ratio"], color=colour, marker=marker, linestyle=line,
                label=f"{rate:,} tuples/s per source task",
            )  # fmt: skip
            axes.plot(
                rows["interval_s"], rows["of_process"], color=colour, marker=marker,
                markerfacecolor="white", linestyle=line, linewidth=0.9,
                label=f"{rate:,}: of all that the processes take",
            )  # fmt: skip
    _draw_prohibitive(axes, 15)
    shown = [*costs["ratio"].dropna(), *costs["of_process"].dropna()]
    axes.set_ylim(min([0.0, *shown]), 1.1 * max([PROHIBITIVE, *shown]))
    axes.set_xlim(left=0)
    axes.set_xlabel("checkpoint interval in the papers (s); windows of 30 s")
    axes.set_ylabel("processor time of checkpoints\nper processor time of the tasks")
    if len(costs):
        axes.legend(loc="center right")
    else:
        not_measured(axes)
    stamp(
        figure,
        "15 processes of one machine, as fast as it is; counted by the kernel"
        f"{in_time(fastest(costs))}",
    )


passes = rows_of("passes")
equal_output = invariant(
    "equal-output", "In every pass the stable output equals the truth, with checkpoints as without"
).every(passes["output_equals_truth"].eq(True), passes=applied(len, passes))


def _of_runs(tables: Tables) -> dict[str, Any]:
    """Return the ratios by rate, a row per run and a column per interval, the shortest first."""
    return {
        f"{rate:,} tuples/s": own.pivot_table(index="run", columns="interval_s", values="ratio")
        for rate, own in tables["samples"].groupby("rate")
    }


BY_RUN = Rule(version=4, since="2026-11-28", seen_seeds=(DEFAULT_SEED, 71811))
"""Medians over the runs with their intervals; per normal computation of the tasks, as printed.
Version 3 judged the means of all runs. Version 1: per that of their processes."""
BEFORE = "Measured before the operators' own processor time was."


@paper(
    "cost-rises-quickly",
    "The cost rises quickly as the interval shrinks",
    rule=BY_RUN,
    unmeasured_because=BEFORE,
)
def rises(tables: Tables) -> Finding:
    """Judge each step to a shorter interval, and the shortest against three times the longest."""
    means = tables["costs"].pivot_table(index="interval_s", columns="rate", values="ratio")
    shown = means.round(3).rename(index="{:g} s".format).to_dict()
    more: dict[str, Sample | None] = {}
    for rate, ratios in _of_runs(tables).items():
        for shorter, longer in pairwise(ratios.columns):
            step = f"{rate}, {shorter:g} s less {longer:g} s"
            more[step] = median_of(ratios[shorter] - ratios[longer])
        ends = f"{rate}, the first less {LIVE_QUICKLY:g} times the last"
        more[ends] = None
        if len(ratios.columns) > 1:
            first, last = ratios.iloc[:, 0], ratios.iloc[:, -1].clip(lower=0.0)
            more[ends] = median_of(first - LIVE_QUICKLY * last)
    return worst_of(more, 0.0, least=True, **numbers(shown, "{} tuples/s"), needed=LIVE_QUICKLY)


@paper(
    "every-second-prohibitive",
    "A checkpoint every second is prohibitively expensive",
    rule=BY_RUN,
    unmeasured_because=BEFORE,
    cause=Cause.MACHINE,
    because="Prohibitive means at least as much processor time as the tasks' operators take. "
    "Presumably the state, small where the window is a tenth of the papers', make "
    "checkpoints cheap.",
)
def prohibitive(tables: Tables) -> Finding:
    """Judge the median of the runs at the shortest interval, at each rate."""
    first = {
        rate: median_of(ratios.iloc[:, 0]) if len(ratios.columns) else None
        for rate, ratios in _of_runs(tables).items()
    }
    return worst_of(first, PROHIBITIVE, least=True)


LIVE_EXPERIMENT = EXPERIMENT.live(
    LIVE_MEASUREMENT,
    sentences={
        "cost-rises-quickly": "ppa/checkpoint-cost/this-machine/rises",
        "every-second-prohibitive": "ppa/checkpoint-cost/this-machine/prohibitive",
    },
    paper=_random.CONFERENCE,
    title="Processor time of checkpoints beside normal computation, live",
    table=tabulate_live,
    draw=draw_live,
    claims=[equal_output, rises, prohibitive],
    notes=(
        "The papers' 16 source tasks on 4 nodes, 15 tasks on a node each and 15 standby nodes: 34 "
        "processes on one machine. Quick and smoke: all times are a tenth of the papers', the "
        "window of 30 s is 3 s; rates stay. A task's state is then a tenth of the papers', too, "
        "and so is the time between two checkpoints of it: the ratio stays, but the fixed cost "
        "of a checkpoint comes ten times as often.",
        "Normal computation is that of the tasks, as in the papers: their operators on the same "
        "batches, timed alone. Thin: against all that their processes take without checkpoints, "
        "messages and heartbeats too. Redis, where checkpoints are stored, is not counted.",
    ),
)
