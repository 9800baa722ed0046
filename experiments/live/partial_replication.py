"""ppa ICDE Fig. 10 = TKDE Fig. 12, live: a correlated failure under PPA, and its tentative output.

All 15 nodes of the recovery topology are killed at once while all, half or none of their tasks have
a replica (`live/recovery` has the topology, the machines and the two measures of a recovery).
Besides the papers' four series: the time from the detection until the first tentative result was in
the out topic. According to the papers this is up to ten times earlier than all tasks are back. The
simulator runs the same failures, at the instants at which they really were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live import _topology
from experiments.live._judged import (
    SAMPLED,
    Tables,
    at_the_real_instants,
    bar_of,
    described,
    equal_output,
    fastest,
    in_time,
    in_vain,
    passes_of,
    points_of,
    simulated_near,
    summary_of,
    worst_of,
)
from experiments.live._runs import outcome_of
from experiments.live._topology import PACED, SIMULATED, SPEC, Contender, Shape, Ways
from experiments.ppa import _random, _recovery
from experiments.ppa._recovery import RATES, SYNTHETIC
from experiments.ppa.partial_replication import ACTIVE_HALF, LOOKS, PLANS, UP_TO
from harness.claims import (
    Cause,
    Finding,
    Sample,
    at_least,
    every,
    invariant,
    paper,
    ratio_of,
    unmeasured,
)
from harness.claims.samples import FEWEST
from harness.experiment import Experiment
from harness.figures.style import BLACK, legend_below, not_measured, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.kills import Kill
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WINDOW_S = 30
FASTER = {Profile.SMOKE: 10.0, Profile.QUICK: 10.0, Profile.PAPER: 1.0}
INTERVALS_S = {Profile.SMOKE: (15,), Profile.QUICK: (5, 15), Profile.PAPER: (5, 10, 15, 20, 30)}
PHASE = 0.9
"""Place of the kill within a checkpoint interval, plus the shift of a repetition."""
FULL_S = 35
"""Instant at which every task's window is full: each gets its input from the first second on."""
AFTER_S = 60
TENTATIVE = "first tentative output"
COLUMNS = ("latency_s", "simulated_s", "outside_s", "outside_why_not", "overlaps", "twin_s")
Row = dict[str, Any]
"""Series, interval and plan; the latency, and for a live failure what else is known of it."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one rate on one of the engines: a pass for every plan and interval."""
    faster = FASTER[context.profile]
    shape = Shape(window_s=WINDOW_S, rate=int(str(point["rate"])), faster=faster)
    cases = {
        f"{plan}-every-{interval_s}s": (plan, interval_s)
        for interval_s in intervals_s(point, context.profile)
        for plan in PLANS
    }
    shift = context.seed("phase") % 1000 / 1000
    at_s = {name: kill_at_s(every, shift) / faster for name, (_, every) in cases.items()}
    kills = {name: dict.fromkeys(SYNTHETIC, at_s[name]) for name in cases}
    contenders = {
        name: Contender(scheme="ppa", checkpoint_s=interval_s, plan=PLANS[plan])
        for name, (plan, interval_s) in cases.items()
    }
    rows: list[Row] = []
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
        seen = _topology.kills_of(found, kills[name])
        context.progress(f"simulating {name}")
        simulated = _topology.counterpart(shape, contenders[name], seen, context.seed("network"))
        first = next(iter(seen.values()), None)
        rows += _restored(back, plan, interval_s, simulated, first)
        first_s = first_tentative_s(found, back)
        rows.append(_row(f"{plan}, {TENTATIVE}", interval_s, plan, first_s))
    return outcome_of(outcomes, {"faster": faster}, latencies=_frame(rows))


def intervals_s(point: Point, profile: Profile) -> Sequence[int]:
    """Return the checkpoint intervals of a run, in the papers' time.

    Live runs of quick have only the longest."""
    chosen = INTERVALS_S[profile]
    fewer = profile is Profile.QUICK and point["engine"] != SIMULATED
    return chosen[-1:] if fewer else chosen


def kill_at_s(interval_s: int, shift: float = 0.0) -> float:
    """Return when to kill in the papers' time: windows are full, at a place of the interval.

    ``shift``: the part of an interval by which a repetition is away from `PHASE`."""
    return (-(-FULL_S // interval_s) + (PHASE + shift) % 1) * interval_s


def _row(
    series: str,
    interval_s: int,
    plan: str,
    latency_s: float | None,
    simulated_s: float | None = None,
    kill: Kill | None = None,
) -> Row:
    return {
        "series": series,
        "interval_s": interval_s,
        "plan": plan,
        "latency_s": latency_s,
        "simulated_s": simulated_s,
        **(_topology.outside(kill) if kill is not None else {}),
    }


def _restored(
    back: Ways,
    plan: str,
    interval_s: int,
    simulated: Ways | None = None,
    kill: Kill | None = None,
) -> list[Row]:
    """Return a row for all tasks, and under PPA-0.5 one for those with a replica.

    What is seen from outside is seen of the whole output."""
    other = simulated or Ways()
    rows = [
        _row(plan, interval_s, plan, back.latency_s(SYNTHETIC), other.latency_s(SYNTHETIC), kill)
    ]
    if plan == "PPA-0.5":
        half = PLANS[plan]
        rows.append(
            _row(ACTIVE_HALF, interval_s, plan, back.latency_s(half), other.latency_s(half))
        )
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


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["series", "interval_s", "plan", *COLUMNS])
    numbers = ["latency_s", "simulated_s", "outside_s", "twin_s"]
    return frame.astype(dict.fromkeys(numbers, float))


def grid(rates: Sequence[int]) -> list[Point]:
    return [{"rate": rate, "engine": engine} for engine in (SIMULATED, PACED) for rate in rates]


MEASUREMENT = Measurement(
    id="live/partial-replication",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: grid(RATES[:1]),
        Profile.QUICK: [*grid(RATES)[:-2], *grid(RATES)[-1:]],
        Profile.PAPER: grid(RATES),
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 40.0, Profile.QUICK: 27.0, Profile.PAPER: 1500.0},
    run=run,
    scheduling=Scheduling(keeps=_topology.kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

MUCH = 2.0
POINT = ["engine", "rate"]


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``samples``, ``latencies`` and ``passes`` (`passes_of`); times are those of the run.

    A sample is a cell of one run; ``latencies`` has medians and intervals (`summary_of`)."""
    by = [*POINT, "faster", "interval_s", "series"]
    rows = results.series("latencies", (*POINT, "faster")).reindex(columns=["run", *by, *COLUMNS])
    rows["in_vain"] = in_vain(rows)
    shown = [at_the_real_instants(rows, engine, by[1:]) for engine in (PACED, SIMULATED)]
    return {
        "samples": rows,
        "latencies": summary_of(pd.concat(shown, ignore_index=True), by),
        "passes": passes_of(results, POINT, "tentative", "uncorrected"),
    }


def draw(tables: Tables, figure: Figure) -> None:
    """Draw (a) and (b), one rate each: above as the engine reports it, below from outside."""
    latencies = tables["latencies"]
    panels: Any = figure.subplots(2, len(RATES), sharex=True, sharey=True)
    for column, (rate, letter) in enumerate(zip(RATES, "ab", strict=True)):
        mine = latencies[latencies["rate"] == rate]
        for axes, measure in zip(panels[:, column], ("latency_s", "outside_s"), strict=True):
            _lines(axes, tables["samples"], mine, measure)
            if not len(mine):
                not_measured(axes)
        if len(mine):
            panels[0][0].set_yscale("log")
        panels[0][column].set_title(f"({letter}) {rate:,} tuples/s per source task", loc="left")
        panels[1][column].set_xlabel("checkpoint interval in the papers (s)")
    panels[0][0].set_ylabel("as the engine reports it\n(s, logarithmic)")
    panels[1][0].set_ylabel("seen from outside\n(s, logarithmic)" + in_time(fastest(latencies)))
    legend_below(figure, panels[0][0], columns=3)
    stamp(
        figure,
        "34 processes of one machine, 15 killed at once; speed of a node chosen: "
        f"{_topology.TUPLES_PER_S:,.0f} tuples/s",
    )


def _lines(axes: Axes, samples: pd.DataFrame, mine: pd.DataFrame, measure: str) -> None:
    """Draw one measure of each series, with intervals; dotted: the simulated ones."""
    for name, (colour, marker, line) in SERIES.items():
        for engine in (PACED, SIMULATED) if measure == "latency_s" else (PACED,):
            rows = mine[(mine["series"] == name) & (mine["engine"] == engine)]
            rows = rows.sort_values("interval_s")
            live = engine == PACED
            axes.plot(
                rows["interval_s"], rows[measure].clip(lower=LEAST_S), color=colour,
                marker=marker, linestyle=line if live else ":", label=name if live else None,
                markerfacecolor=colour if live else "none",
            )  # fmt: skip
            of_series = samples[samples["series"] == name]
            cells = at_the_real_instants(of_series, engine, ["rate", "interval_s"])
            for interval_s in rows["interval_s"]:
                here = cells[cells["interval_s"].eq(interval_s) & cells["rate"].isin(rows["rate"])]
                points_of(axes, interval_s, here, measure, color=colour, least=LEAST_S)
                bar_of(
                    axes, interval_s, here[measure].astype(float).tolist(), color=colour,
                    marker="", least=LEAST_S,
                )  # fmt: skip
    axes.plot([], [], color=BLACK, linestyle=":", marker="o", markerfacecolor="none",
              label="the same, simulated")  # fmt: skip


LEAST_S = 1e-3
"""Begin of the logarithmic axis: a recovery that was seen by nobody is drawn there."""
FIRST = f"PPA-0.5, {TENTATIVE}"
SERIES = {**LOOKS, FIRST: (BLACK, "*", "-.")}


def _ratios(
    tables: Tables, longer: str, shorter: str, measure: str = "latency_s"
) -> dict[str, Sample | None]:
    """Return by cell how many times as long one series takes; one never back is infinite."""
    rows = tables["samples"]
    live = rows[rows["engine"] == PACED]
    found: dict[str, Sample | None] = {}
    for (rate, interval_s), cell in live.groupby(["rate", "interval_s"]):
        by = {
            str(name): one[measure].astype(float)
            for name, one in cell.groupby("series", sort=False)
        }
        values = [by.get(name, pd.Series(dtype=float)) for name in (longer, shorter)]
        watched = measure == "outside_s"
        endless = [one if watched or name == FIRST else one.fillna(float("inf")) for name, one in
                   zip((longer, shorter), values, strict=True)]  # fmt: skip
        name = f"{longer} / {shorter}, {rate:,} tuples/s, {interval_s:g} s"
        found[name] = ratio_of(*endless) if all(len(one.dropna()) for one in endless) else None
    return found


@paper(
    "in-order-of-plans",
    "PPA-0.5 takes longer than PPA-1.0 and less long than PPA-0",
    rule=SAMPLED,
    cause=Cause.MACHINE,
    because="Tasks are restored from checkpoints at once, each on a standby node of its own. So "
    "the last one is back hardly sooner if half of the tasks need no restoring, and one live pass "
    "presumably differs from the next by more than that.",
)
def in_order(tables: Tables) -> Finding:
    def steps(measure: str) -> dict[str, Sample | None]:
        below = _ratios(tables, "PPA-0.5", "PPA-1.0", measure)
        return {**below, **_ratios(tables, "PPA-0", "PPA-0.5", measure)}

    return worst_of(steps("latency_s"), 1.0, least=True, outside=steps("outside_s"))


@paper(
    "active-half-much-earlier",
    "The active half of PPA-0.5 is back much earlier than all of its tasks",
    rule=SAMPLED,
    cause=Cause.MACHINE,
    because="The machine's cores presumably have to take back the memory of 15 killed processes "
    "before replicas get their turn. The shorter the checkpoint interval, the sooner all tasks are "
    "back and the more that time counts.",
)
def active_half(tables: Tables) -> Finding:
    """Judge the engine's measure alone: half of the tasks has no output of its own."""
    return worst_of(_ratios(tables, "PPA-0.5", ACTIVE_HALF), MUCH, least=True)


@paper(
    "tentative-much-earlier",
    "Tentative output begins up to ten times earlier than all tasks are back",
    rule=SAMPLED,
    cause=Cause.MACHINE,
    because="Where all times are a tenth of the papers', the time that tentative output takes "
    "presumably is not: a batch has to end, the coordinator closes it for the lost tasks, and it "
    "passes through all operators of 34 processes on one machine.",
)
def tentative_earlier(tables: Tables) -> Finding:
    """Judge the cell with the largest factor: the papers say "up to"."""
    factors = {cell: one for cell, one in _ratios(tables, "PPA-0.5", FIRST).items() if one}
    if not factors:
        return unmeasured(needed_once=UP_TO)
    best = max(factors, key=lambda cell: factors[cell].value)
    shown = {cell: described(one) for cell, one in factors.items()}
    return at_least(factors[best], UP_TO, cell=best, factors=shown)


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
    simulated_near("samples", "rate", "interval_s", "series"),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE,
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
        "the live runs have the higher rate and the longest of its intervals alone.",
        "Tentative results are taken back and computed again here when the lost input is there, "
        "which the papers leave for later work.",
        f"Half of the tasks is the sink and the whole subtree above one of its two inputs: "
        f"{len(_recovery.half_of_the_trees())} of 15. Each repetition kills at another place of "
        "the checkpoint interval and is one sample; error bars are 95 % intervals of medians, from "
        "six samples on (--repeats 6).",
        *_topology.TWO_MEASURES,
    ),
    figure_size_in=(9.0, 7.2),
    smoke_covered_by="stock/worker-kill",
)
