"""ppa ICDE Fig. 10 = TKDE Fig. 12, live: a correlated failure under PPA, and its tentative output.

All 15 nodes of the recovery topology are killed at once while all, half or none of their tasks have
a replica (`live/recovery` has the topology and the machines). Besides the papers' four series: the
time from the detection until the first tentative result was in the out topic. According to the
papers this is up to ten times earlier than all tasks are back. The simulator runs the same
failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.live import _topology
from experiments.live._judged import (
    CHANGED,
    Tables,
    all_if,
    equal_output,
    fastest,
    in_time,
    numbers,
    passes_of,
    simulated_near,
)
from experiments.live._runs import outcome_of
from experiments.live._topology import PACED, SIMULATED, SPEC, Contender, Shape, Ways
from experiments.ppa import _random, _recovery
from experiments.ppa._recovery import RATES, SYNTHETIC
from experiments.ppa.partial_replication import ACTIVE_HALF, LOOKS, PLANS, UP_TO
from harness.claims import Finding, every, found, invariant, paper
from harness.experiment import Experiment
from harness.figures.style import BLACK, not_measured, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WINDOW_S = 30
FASTER = {Profile.SMOKE: 10.0, Profile.QUICK: 10.0, Profile.PAPER: 1.0}
INTERVALS_S = {Profile.SMOKE: (15,), Profile.QUICK: (5, 15), Profile.PAPER: (5, 10, 15, 20, 30)}
LONGEST_ALONE_PER_S = 2_000
"""The rate at which the live runs of quick have only the longest of these intervals."""
PHASE = 0.9
"""Place of the kill within a checkpoint interval."""
FULL_S = 35
"""Instant at which every task's window is full: each gets its input from the first second on."""
AFTER_S = 15
TENTATIVE = "first tentative output"


def run(point: Point, context: Context) -> Outcome:
    """Measure one rate on one of the engines: a pass for every plan and interval."""
    faster = FASTER[context.profile]
    shape = Shape(window_s=WINDOW_S, rate=int(str(point["rate"])), faster=faster)
    cases = {
        f"{plan}-every-{interval_s}s": (plan, interval_s)
        for interval_s in intervals_s(point, context.profile)
        for plan in PLANS
    }
    at_s = {name: kill_at_s(interval_s) / faster for name, (_, interval_s) in cases.items()}
    kills = {name: dict.fromkeys(SYNTHETIC, at_s[name]) for name in cases}
    contenders = {
        name: Contender(scheme="ppa", checkpoint_s=interval_s, plan=PLANS[plan])
        for name, (plan, interval_s) in cases.items()
    }
    rows: list[tuple[str, int, str, float | None]] = []
    if point["engine"] == SIMULATED:
        for name, (plan, interval_s) in cases.items():
            context.progress(f"simulating {name}")
            options = shape.simulated(contenders[name], kills[name], context.seed("network"))
            rows += _restored(_topology.simulate(options), plan, interval_s)
        values = {"passes": 0, "faster": faster}
        return Outcome(values=values, series={"latencies": _frame(rows)})
    variants = {
        name: Variant(setup=shape.setup(contenders[name]), schedule=_topology.kills(kills[name]))
        for name in cases
    }
    load_s = max(at_s.values()) + AFTER_S / faster
    wanted = shape.live(load_s=load_s, first_warmup_s=3, seed=context.seed("input"))
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    for name, (plan, interval_s) in cases.items():
        found = outcomes[name]
        back = _topology.ways(found.series["incidents"], kills[name])
        rows += _restored(back, plan, interval_s)
        rows.append((f"{plan}, {TENTATIVE}", interval_s, plan, first_tentative_s(found, back)))
    return outcome_of(outcomes, {"faster": faster}, latencies=_frame(rows))


def intervals_s(point: Point, profile: Profile) -> Sequence[int]:
    """Return the checkpoint intervals of a run, in the papers' time."""
    chosen = INTERVALS_S[profile]
    fewer = profile is Profile.QUICK and point["engine"] != SIMULATED
    return chosen[-1:] if fewer and point["rate"] == LONGEST_ALONE_PER_S else chosen


def kill_at_s(interval_s: int) -> float:
    """Return when to kill in the papers' time: windows are full, at `PHASE` of the interval."""
    return (-(-FULL_S // interval_s) + PHASE) * interval_s


def _restored(back: Ways, plan: str, interval_s: int) -> list[tuple[str, int, str, float | None]]:
    rows = [(plan, interval_s, plan, back.latency_s(SYNTHETIC))]
    if plan == "PPA-0.5":
        rows.append((ACTIVE_HALF, interval_s, plan, back.latency_s(PLANS[plan])))
    return rows


def first_tentative_s(found: Outcome, back: Ways) -> float | None:
    """Return the time from the detection until the first tentative result was in the out topic.

    It is 0 if that came before the last of the nodes was found."""
    results = found.series["results"]
    if not back.detected_s or "stability" not in results:
        return None
    tentative = results[(results["pass"] == "failed") & (results["stability"] == "tentative")]
    if not len(tentative):
        return None
    return max(0.0, float(tentative["arrival_s"].min()) - max(back.detected_s.values()))


def _frame(rows: Sequence[tuple[str, int, str, float | None]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["series", "interval_s", "plan", "latency_s"])
    return frame.astype({"latency_s": float})


def grid(rates: Sequence[int]) -> list[Point]:
    return [{"rate": rate, "engine": engine} for engine in (SIMULATED, PACED) for rate in rates]


MEASUREMENT = Measurement(
    id="live/partial-replication",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: grid(RATES[:1]), Profile.QUICK: grid(RATES), Profile.PAPER: grid(RATES)},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 40.0, Profile.QUICK: 45.0, Profile.PAPER: 1500.0},
    run=run,
    scheduling=Scheduling(keeps=_topology.kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

MUCH = 2.0
POINT = ["engine", "rate"]


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``latencies`` in seconds of the run, and ``passes`` (`passes_of`)."""
    by = [*POINT, "faster", "interval_s", "series"]
    rows = results.series("latencies", (*POINT, "faster")).reindex(columns=[*by, "latency_s"])
    means = rows.groupby(by, sort=False)["latency_s"].agg(["mean", "count", "size"]).reset_index()
    means.loc[means["count"] < means["size"], "mean"] = np.nan  # one never came back
    return {"latencies": means, "passes": passes_of(results, POINT, "tentative", "uncorrected")}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw (a) and (b), one rate each; solid live, dotted simulated."""
    latencies = tables["latencies"]
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, rate, letter in zip(panels, RATES, "ab", strict=True):
        mine = latencies[latencies["rate"] == rate]
        for name, (colour, marker, line) in SERIES.items():
            for engine in (PACED, SIMULATED):
                rows = mine[(mine["series"] == name) & (mine["engine"] == engine)]
                rows = rows.sort_values("interval_s")
                live = engine == PACED
                axes.plot(
                    rows["interval_s"], rows["mean"].clip(lower=1e-4), color=colour, marker=marker,
                    linestyle=line if live else ":", label=name if live else None,
                    markerfacecolor=colour if live else "none",
                )  # fmt: skip
        axes.plot([], [], color=BLACK, linestyle=":", marker="o", markerfacecolor="none",
                  label="the same, simulated")  # fmt: skip
        if len(mine):
            axes.set_yscale("log")
        else:
            not_measured(axes)
        axes.set_title(f"({letter}) {rate:,} tuples/s per source task", loc="left")
        axes.set_xlabel("checkpoint interval in the papers (s)")
    panels[0].set_ylabel("recovery latency (s, logarithmic)" + in_time(fastest(latencies)))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    stamp(
        figure,
        "34 processes of one machine, 15 killed at once; speed of a node chosen: "
        f"{_topology.TUPLES_PER_S:,.0f} tuples/s",
    )


FIRST = f"PPA-0.5, {TENTATIVE}"
SERIES = {**LOOKS, FIRST: (BLACK, "*", "-.")}


def _live(tables: Tables) -> tuple[pd.DataFrame, bool]:
    """Return live latencies, a row per cell and a column per series; True if none is missing."""
    latencies = tables["latencies"]
    live = latencies[latencies["engine"] == PACED].set_index(["rate", "interval_s", "series"])
    by = live["mean"].astype(float).unstack("series").reindex(columns=list(SERIES))
    return by, len(by) > 0 and bool(by.notna().all(axis=None))


@paper(
    "in-order-of-plans",
    "PPA-0.5 takes longer than PPA-1.0 and less long than PPA-0",
    rule=CHANGED,
    because="Tasks are restored from checkpoints at once, each on a standby node of its own. So "
    "the last one is back hardly sooner if half of the tasks need no restoring, and one live pass "
    "presumably differs from the next by more than that.",
)
def in_order(tables: Tables) -> Finding:
    by, whole = _live(tables)
    ordered = (by["PPA-1.0"] < by["PPA-0.5"]) & (by["PPA-0.5"] < by["PPA-0"])
    return found(all_if(whole, ordered), **numbers(by.round(3).to_dict("list")))


@paper(
    "active-half-much-earlier",
    "The active half of PPA-0.5 is back much earlier than all of its tasks",
    rule=CHANGED,
    because="The machine's cores presumably have to take back the memory of 15 killed processes "
    "before replicas get their turn. The shorter the checkpoint interval, the sooner all tasks are "
    "back and the more that time counts.",
)
def active_half(tables: Tables) -> Finding:
    by, whole = _live(tables)
    half = by["PPA-0.5"] / by[ACTIVE_HALF]
    return found(all_if(whole, half >= MUCH), factors=half.round(1).tolist(), needed=MUCH)


@paper(
    "tentative-much-earlier",
    "Tentative output begins up to ten times earlier than all tasks are back",
    rule=CHANGED,
    because="Where all times are a tenth of the papers', the time that tentative output takes "
    "presumably is not: a batch has to end, the coordinator closes it for the lost tasks, and it "
    "passes through all operators of 34 processes on one machine.",
)
def tentative_earlier(tables: Tables) -> Finding:
    by, whole = _live(tables)
    earlier = by["PPA-0.5"] / by[FIRST].where(by[FIRST] > 0)  # of 0 nothing is a multiple
    held = all_if(whole, earlier.max() >= UP_TO)
    return found(held, factors=earlier.round(1).tolist(), needed_once=UP_TO)


@invariant("tentative-corrected", "Every tentative result was replaced by a stable one in the end")
def corrected(tables: Tables) -> Finding:
    """Judge the passes of every plan, also of the empty one."""
    left, tentative = (
        pd.to_numeric(tables["passes"][column]) for column in ("uncorrected", "tentative")
    )
    return every(left.eq(0), tentative=tentative.tolist(), left=left.tolist())


CLAIMS = [
    equal_output,
    in_order,
    active_half,
    tentative_earlier,
    corrected,
    simulated_near("rate", "interval_s", "series"),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _random.CONFERENCE,
    figure="Figure 10 (TKDE: 12), live and simulated",
    title="A correlated failure with PPA: recovery latency and tentative output, live",
    statement=(
        "PPA-1.0 recovers before PPA-0.5, that before PPA-0; tentative output begins up to ten "
        "times earlier than all tasks are back."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        _topology.NOTE,
        "Quick and smoke: all times are a tenth of the papers', the window of 30 s is 3 s; rates "
        "and speed stay, so a latency is a tenth, too. The simulator runs the same. In quick "
        f"{LONGEST_ALONE_PER_S:,} tuples/s are run live with the longest interval alone.",
        "Tentative results are taken back and computed again here when the lost input is there, "
        "which the papers leave for later work.",
        f"Half of the tasks is the sink and the whole subtree above one of its two inputs: "
        f"{len(_recovery.half_of_the_trees())} of 15. The kill falls at {PHASE:g} of a checkpoint "
        "interval.",
    ),
    figure_size_in=(9.0, 4.8),
    smoke_covered_by="stock/worker-kill",
)
