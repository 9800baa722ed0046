"""ppa ICDE Fig. 9 = TKDE Fig. 10, live: what checkpoints cost beside normal computation.

The papers' recovery topology on 34 nodes, no failure, windows of 30 s. One pass takes no
checkpoint, the others one every so many seconds; counted is the processor time of the 15 processes
that host a synthetic task each, from the moment their windows are full until the load ends. What a
pass used more than the one without checkpoints is what its checkpoints cost. As fast as this
machine is: a declared speed is held by timers and costs no processor time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.live import _topology
from experiments.live._judged import in_time, passes_of
from experiments.live._topology import SPEC, Contender, Shape
from experiments.ppa import _random
from experiments.ppa._recovery import RATES, SOURCES
from experiments.ppa.checkpoint_cost import PROHIBITIVE, WINDOW_S
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.failures.schedule import NO_FAILURES
from harness.figures.style import BLUE, VERMILION, not_measured, stamp
from harness.judging.run import Variant, measure_each, together
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FASTER = {Profile.SMOKE: 10.0, Profile.QUICK: 10.0, Profile.PAPER: 1.0}

INTERVALS_S: Mapping[Profile, Sequence[int]] = {
    Profile.SMOKE: (1, 15),
    Profile.QUICK: (1, 5, 15),
    Profile.PAPER: (1, 2, 5, 10, 15, 20, 30),
}

FULL_S, COUNTED_S = 35.0, 60.0
"""In the papers' time: when all windows are full, and for how long processor time is counted."""

NEVER_S = 900.0
"""Between two checkpoints of the pass without any: longer than the load, and no more batches than
the scheme keeps in its buffers."""


def run(point: Point, context: Context) -> Outcome:
    """Every interval at one rate."""
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
        name: node_cpu_s(found.series["usage"], from_s=FULL_S / faster, until_s=load_s)
        for name, found in outcomes.items()
    }
    without = spent["none"]
    rows = [
        (interval_s, spent[f"every-{interval_s}s"], without, len(checkpoints_of(interval_s)))
        for interval_s in intervals
    ]
    frame = pd.DataFrame(rows, columns=["interval_s", "cpu_s", "without_cpu_s", "checkpoints"])
    merged = together(outcomes)
    return Outcome(
        values={**merged.values, "faster": faster},
        series={"costs": frame, **merged.series},
        invalid=merged.invalid,
    )


def checkpoints_of(interval_s: int) -> range:
    """The checkpoints of a task within the counted time."""
    return range(int(FULL_S // interval_s) + 1, int((FULL_S + COUNTED_S) // interval_s) + 1)


def node_cpu_s(usage: pd.DataFrame, *, from_s: float, until_s: float) -> float:
    """Processor seconds of the nodes of the synthetic tasks between two instants of the pass that
    is judged, between two samples in proportion to the time."""
    hosts = {SPEC.node_names[node] for node in _topology.placement()[SOURCES:]}
    mine = usage[(usage["pass"] == "failed") & usage["who"].isin(hosts)]
    found = 0.0
    for _, samples in mine.dropna(subset=["cpu_s"]).groupby("who"):
        at_s, cpu_s = samples["at_s"].to_numpy(), samples["cpu_s"].to_numpy()
        begun, ended = np.interp([from_s, until_s], at_s, cpu_s)
        found += float(ended - begun)
    return found


GRID: Sequence[Point] = [{"rate": rate} for rate in RATES]

MEASUREMENT = Measurement(
    id="live/checkpoint-cost",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: GRID[:1], Profile.QUICK: GRID[:1], Profile.PAPER: GRID},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 60.0, Profile.QUICK: 110.0, Profile.PAPER: 900.0},
    run=run,
    scheduling=Scheduling(keeps=_topology.kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

QUICKLY = 3.0
"""The cost rises quickly if it is at least so many times as high every second as every 15."""

LOOKS = {RATES[0]: (BLUE, "s", "-"), RATES[1]: (VERMILION, "o", "--")}


def table(results: Results) -> dict[str, pd.DataFrame]:
    """``costs``: per rate and interval, processor seconds of checkpoints per processor second
    without them; ``passes``: what the judge says of each pass."""
    rows = results.series("costs", ("rate", "faster"))
    by = ["rate", "faster", "interval_s"]
    passes = passes_of(results, ["rate"])
    if not len(rows):
        return {"costs": pd.DataFrame(columns=[*by, "ratio"]), "passes": passes}
    ratio = rows["cpu_s"] / rows["without_cpu_s"] - 1
    costs = rows.assign(ratio=ratio).groupby(by, sort=False)["ratio"].mean().reset_index()
    return {"costs": costs, "passes": passes}


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """The ratio over the interval, a line per rate; the axes of `ppa/checkpoint-cost`."""
    costs = tables["costs"]
    axes = figure.subplots()
    for rate, (colour, marker, line) in LOOKS.items():
        rows = costs[costs["rate"] == rate].sort_values("interval_s")
        if rows.empty:
            continue
        axes.plot(
            rows["interval_s"], rows["ratio"], color=colour, marker=marker, linestyle=line,
            label=f"{rate:,} tuples/s per source task",
        )  # fmt: skip
    axes.axhline(PROHIBITIVE, color="#767676", linewidth=0.9, linestyle=":")
    axes.annotate(
        "as much as the computation itself", (15, PROHIBITIVE), xytext=(0, 3),
        textcoords="offset points", ha="right", fontsize=7,
    )  # fmt: skip
    lowest, highest = (costs["ratio"].min(), costs["ratio"].max()) if len(costs) else (0.0, 0.0)
    axes.set_ylim(min(0.0, float(lowest)), 1.1 * max(PROHIBITIVE, float(highest)))
    axes.set_xlim(left=0)
    faster = float(costs["faster"].max()) if len(costs) else 1.0
    axes.set_xlabel("checkpoint interval in the papers (s); windows of 30 s" + in_time(faster))
    axes.set_ylabel("processor time of checkpoints\nper processor time without them")
    if len(costs):
        axes.legend(loc="center right")
    else:
        not_measured(axes)
    stamp(figure, "15 processes of one machine, as fast as it is; counted by the kernel")


def claims(tables: Mapping[str, pd.DataFrame]) -> list[Verdict]:
    """Nothing lost; rising, and how high at one second."""
    costs, passes = tables["costs"], tables["passes"]
    by = costs.pivot_table(index="interval_s", columns="rate", values="ratio").sort_index()
    whole = len(by) > 1 and bool(by.notna().to_numpy().all())
    first = {f"{rate} tuples/s": float(by[rate].iloc[0]) for rate in by} if whole else {}
    last = {f"{rate} tuples/s": float(by[rate].iloc[-1]) for rate in by} if whole else {}
    falls = whole and bool((np.diff(by.to_numpy(), axis=0) < 0).all())
    equal = passes["output_equals_truth"].eq(True) if len(passes) else passes
    return [
        Verdict(
            text="In every pass the stable output equals the truth, with checkpoints as without",
            kind=ClaimKind.INVARIANT,
            held=bool(equal.all()) if len(passes) else None,
            measured={"passes": len(passes)},
        ),
        Verdict(
            text="The cost rises quickly as the interval shrinks",
            kind=ClaimKind.PAPER,
            held=falls and all(first[rate] >= QUICKLY * last[rate] > 0 for rate in first)
            if whole
            else None,
            measured={
                f"{rate} tuples/s": {f"{i:g} s": round(by[rate][i], 3) for i in by.index}
                for rate in by
            }
            | {"needed": QUICKLY},
        ),
        Verdict(
            text="A checkpoint every second is prohibitively expensive",
            kind=ClaimKind.PAPER,
            held=min(first.values()) >= PROHIBITIVE if first else None,
            measured={**first, "prohibitive_from": PROHIBITIVE},
        ),
    ]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _random.CONFERENCE,
    figure="Figure 9 (TKDE: 10), live",
    title="Processor time of checkpoints beside normal computation, live",
    statement=(
        "The cost of checkpoints rises quickly as their interval shrinks; a checkpoint every "
        "second is prohibitively expensive."
    ),
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        "The papers' 16 source tasks on 4 nodes, 15 tasks on a node each and 15 standby nodes: 34 "
        "processes on one machine. Quick and smoke: all times are a tenth of the papers', the "
        "window of 30 s is 3 s; rates stay. A task's state is then a tenth of the papers', too, "
        "and so is the time between two checkpoints of it: the ratio stays, but what a checkpoint "
        "costs however small it is comes ten times as often.",
        "Normal computation is all that a node's process does without checkpoints: operators, "
        "messages, heartbeats. Redis, where checkpoints are stored, is not counted.",
    ),
    figure_size_in=(8.0, 4.6),
    smoke_covered_by="stock/worker-kill",
)
