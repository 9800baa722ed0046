"""ppa ICDE Fig. 9 = TKDE Fig. 10, live: the cost of checkpoints over that of normal computation.

The papers' recovery topology on 34 nodes, no failure, windows of 30 s. One pass takes no
checkpoint, the others take one at each interval. The processor time of the 15 processes with a
synthetic task each counts, from when their windows are full until the load ends. The difference to
the pass without checkpoints is the cost of checkpoints. Nodes run as fast as this machine is: a
declared speed is held by timers and costs no processor time.

The papers' ratio is that of a task. A node's process does more than its task: messages, heartbeats.
So the cost is set against the processor time of the tasks' operators alone, on the same batches in
this process (`ppa/checkpoint-cost`), and against all that the processes take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from experiments.live import _topology
from experiments.live._judged import Tables, fastest, in_time, numbers, passes_of
from experiments.live._runs import nodes_cpu_s, outcome_of
from experiments.live._topology import SPEC, Contender, Shape
from experiments.ppa import _random
from experiments.ppa import checkpoint_cost as computed
from experiments.ppa._recovery import RATES, SOURCES, SYNTHETIC
from experiments.ppa.checkpoint_cost import PROHIBITIVE, WINDOW_S
from harness.claims import (
    Cause,
    Finding,
    Rule,
    at_least,
    every,
    found,
    invariant,
    paper,
    unmeasured,
)
from harness.claims.samples import FEWEST
from harness.experiment import Experiment
from harness.failures.schedule import NO_FAILURES
from harness.figures.style import BLUE, GREY, VERMILION, not_measured, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FASTER = {Profile.SMOKE: 10.0, Profile.QUICK: 10.0, Profile.PAPER: 1.0}
INTERVALS_S: Mapping[Profile, Sequence[int]] = {
    Profile.SMOKE: (1, 15),
    Profile.QUICK: (1, 15),
    Profile.PAPER: (1, 2, 5, 10, 15, 20, 30),
}
FULL_S, COUNTED_S = 35.0, 60.0
"""Instant at which all windows are full, and the counted time after it, in the papers' time."""
NEVER_S = 900.0
"""Checkpoint interval of the pass without checkpoints: longer than the load, and no more batches
than the scheme keeps in its buffers."""


def run(point: Point, context: Context) -> Outcome:
    """Measure every interval at one rate."""
    faster = FASTER[context.profile]
    shape = Shape(window_s=WINDOW_S, rate=int(str(point["rate"])), faster=faster, speed=False)
    intervals = INTERVALS_S[context.profile]

    def taking(every_s: float) -> Variant:
        contender = Contender(scheme="checkpoint", checkpoint_s=every_s)
        return Variant(setup=shape.setup(contender), schedule=NO_FAILURES)

    variants = {"none": taking(NEVER_S)}
    variants |= {f"every-{interval_s}s": taking(interval_s) for interval_s in intervals}
    load_s = (FULL_S + COUNTED_S) / faster
    wanted = shape.live(load_s=load_s, first_warmup_s=3, seed=context.seed("input"))
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
    point: Point = {"engine": computed.HERE, "rate": round(shape.rate / shape.faster)}
    batch_s = float(computed.run(point, context).values["batch_cpu_s"])
    return batch_s * COUNTED_S * len(SYNTHETIC)


def checkpoints_of(interval_s: int) -> range:
    """Return the numbers of a task's checkpoints within the counted time."""
    return range(int(FULL_S // interval_s) + 1, int((FULL_S + COUNTED_S) // interval_s) + 1)


GRID: Sequence[Point] = [{"rate": rate} for rate in RATES]

MEASUREMENT = Measurement(
    id="live/checkpoint-cost",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: GRID[:1], Profile.QUICK: GRID[:1], Profile.PAPER: GRID},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 60.0, Profile.QUICK: 85.0, Profile.PAPER: 900.0},
    run=run,
    scheduling=Scheduling(keeps=_topology.kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

QUICKLY = 3.0
"""The cost rises quickly if it is at least this many times as high every second as every 15."""
LOOKS = {RATES[0]: (BLUE, "s", "-"), RATES[1]: (VERMILION, "o", "--")}


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``costs``, checkpoints' share of processor time, and ``passes`` (`passes_of`).

    ``ratio`` is to the tasks' operators, ``of_process`` to all that their processes take."""
    by = ["rate", "faster", "interval_s"]
    rows = results.series("costs", ("rate", "faster"))
    rows = rows.reindex(columns=[*by, "cpu_s", "without_cpu_s", "operators_cpu_s"])
    more = (rows["cpu_s"] - rows["without_cpu_s"]).astype(float)
    rows = rows.assign(
        ratio=more / rows["operators_cpu_s"].astype(float), of_process=more / rows["without_cpu_s"]
    )
    costs = rows.groupby(by, sort=False)[["ratio", "of_process"]].mean().reset_index()
    return {"costs": costs, "passes": passes_of(results, ["rate"])}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw the ratio over the interval, a line per rate; the axes of `ppa/checkpoint-cost`."""
    costs = tables["costs"]
    axes = figure.subplots()
    for rate, (colour, marker, line) in LOOKS.items():
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
    axes.axhline(PROHIBITIVE, color=GREY, linewidth=0.9, linestyle=":")
    axes.annotate(
        "as much as the computation itself", (15, PROHIBITIVE), xytext=(0, 3),
        textcoords="offset points", ha="right", fontsize=7,
    )  # fmt: skip
    shown = [*costs["ratio"].dropna(), *costs["of_process"].dropna()]
    axes.set_ylim(min([0.0, *shown]), 1.1 * max([PROHIBITIVE, *shown]))
    axes.set_xlim(left=0)
    axes.set_xlabel(
        "checkpoint interval in the papers (s); windows of 30 s" + in_time(fastest(costs))
    )
    axes.set_ylabel("processor time of checkpoints\nper processor time of the tasks")
    if len(costs):
        axes.legend(loc="center right")
    else:
        not_measured(axes)
    stamp(figure, "15 processes of one machine, as fast as it is; counted by the kernel")


@invariant(
    "equal-output",
    "In every pass the stable output equals the truth, with checkpoints as without",
)
def equal_output(tables: Tables) -> Finding:
    passes = tables["passes"]
    return every(passes["output_equals_truth"].eq(True), passes=len(passes))


def _ratios(tables: Tables) -> tuple[pd.DataFrame, bool]:
    """Return the ratios, a row per interval and a column per rate, and True if none is missing."""
    by = tables["costs"].pivot_table(index="interval_s", columns="rate", values="ratio")
    return by.sort_index(), len(by) > 1 and bool(by.notna().all(axis=None))


PER_TASK = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""Per normal computation of the tasks, as printed. Version 1: of their processes."""
BEFORE = "Measured before the operators' own processor time was."


@paper(
    "cost-rises-quickly",
    "The cost rises quickly as the interval shrinks",
    rule=PER_TASK,
    unmeasured_because=BEFORE,
)
def rises(tables: Tables) -> Finding:
    by, whole = _ratios(tables)
    shown = numbers(by.round(3).rename(index="{:g} s".format).to_dict(), "{} tuples/s")
    if not whole:
        return unmeasured(**shown)
    falls = (by.diff().iloc[1:] < 0).all(axis=None)
    quickly = (by.iloc[0] >= QUICKLY * by.iloc[-1]) & (by.iloc[-1] > 0)
    return found(bool(falls and quickly.all()), **shown, needed=QUICKLY)


@paper(
    "every-second-prohibitive",
    "A checkpoint every second is prohibitively expensive",
    rule=PER_TASK,
    unmeasured_because=BEFORE,
    cause=Cause.MACHINE,
    because="Prohibitive means at least as much processor time as the tasks' operators take. "
    "Presumably the state, small where the window is a tenth of the papers', and the lower rate, "
    "which quick has alone, make checkpoints cheap.",
)
def prohibitive(tables: Tables) -> Finding:
    by, whole = _ratios(tables)
    first = numbers(by.iloc[0].to_dict() if whole else {}, "{} tuples/s")
    return at_least(min(first.values(), default=None), PROHIBITIVE, **first)


CLAIMS = [equal_output, rises, prohibitive]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE,
    figure="Figure 9 (TKDE: 10), live",
    title="Processor time of checkpoints beside normal computation, live",
    statement=(
        "The cost of checkpoints rises quickly as their interval shrinks; a checkpoint every "
        "second is prohibitively expensive."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
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
    figure_size_in=(8.0, 4.6),
    smoke_covered_by="stock/worker-kill",
)
