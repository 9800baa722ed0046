"""The distance of planners from a proven optimum, where dynamic programming cannot finish.

The papers compare SA with the optimum on two small queries only. Here mixed-integer programming
gives the optimum, or at least a bound that no plan exceeds, on random topologies. SA, greedy and
the refined planner (`harness.planning.refined`: SA from many starts, improved) are compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.ppa import _random
from harness.claims import applied, hypothesis, invariant, rows
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, computed
from harness.figures.chart import Figure
from harness.figures.style import PLANNERS, not_measured, stamp
from harness.planning.optimum import Optimum
from harness.planning.planners import planner
from harness.topology.generate import Specification

COUNT = {Profile.SMOKE: 1, Profile.QUICK: 10, Profile.PAPER: 100}
TIME_LIMIT_S = {Profile.SMOKE: 0.3, Profile.QUICK: 2.0, Profile.PAPER: 20.0}
RATIOS = (0.2, 0.5, 0.8)
JOINS = (0.0, 0.5)

POINTS = [{"ratio": ratio, "join_fraction": joins} for joins in JOINS for ratio in RATIOS]

HEURISTICS = ("sa", "greedy", "refined")
PROVEN = 1e-6


def run(point: Point, context: Context) -> Outcome:
    """Find the bound, the best plan, and the plans of all heuristics on every topology."""
    joins, ratio = float(str(point["join_fraction"])), float(str(point["ratio"]))
    spec = Specification(operators=(3, 6), parallelism=(3, 8), zipf=0.1, join_fraction=joins)
    rows = []
    for number, topology in _random.in_turn(spec, context, COUNT[context.profile], "solving"):
        budget = _random.budget(topology, ratio)
        best = Optimum(time_limit_s=TIME_LIMIT_S[context.profile]).plan(topology, budget)
        for name in HEURISTICS:
            chosen = planner(name)
            plan, spent_ms = _random.timed(partial(chosen.plan, topology, budget))
            rows.append((number, name, plan.value, best.value, best.bound, spent_ms))
    columns = ["topology", "planner", "value", "best", "bound", "milliseconds"]
    frame = pd.DataFrame(rows, columns=columns)
    proven = float(((frame["bound"] - frame["best"]) <= PROVEN).mean())
    return Outcome(values={"proven_share": proven}, series={"gaps": frame})


MEASUREMENT = computed(
    "ppa/optimum-gap",
    grid={
        **dict.fromkeys(Profile, POINTS),
        Profile.QUICK: [p for p in POINTS if p["ratio"] != 0.5],
    },
    seconds=(0.4, 7.5, 700.0),
    run=run,
)

# Shown: no record depends on what follows.

OFFSETS = {"sa": -0.25, "greedy": 0.0, "refined": 0.25}
CLOSE = 0.1
"""Largest median share of the optimum's OF that SA may miss to be "close to the optimum"."""
WITHIN, WITHIN_MS = 0.01, 500.0
"""Aim of the refined planner: its gap and its time in ms, both at the 90th percentile."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per topology, planner and setting.

    ``gap`` is the share of the bound that the plan misses, an upper bound on the distance to the
    optimum; ``proven`` if it is the distance."""
    frame = results.series("gaps", ("ratio", "join_fraction"))
    frame = frame[frame["bound"] > PROVEN]
    return frame.assign(
        gap=1 - frame["value"] / frame["bound"],
        proven=(frame["bound"] - frame["best"]) <= PROVEN,
    ).drop(columns="run")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw every topology as a point, filled where the optimum is proven; medians as bars."""
    panels = figure.subplots(1, 2, sharey=True)
    legend = {}
    for axes, joins in zip(panels, JOINS, strict=True):
        for name, offset in OFFSETS.items():
            look = PLANNERS[name]
            for position, ratio in enumerate(RATIOS):
                own = _random.select(table, planner=name, ratio=ratio, join_fraction=joins)
                if own.empty:
                    continue
                x = position + offset
                spread = np.linspace(-0.1, 0.1, len(own)) if len(own) > 1 else 0.0
                legend[look.label] = axes.scatter(
                    np.full(len(own), x) + spread, own["gap"], s=16, edgecolors=look.color,
                    facecolors=[look.color if proven else "none" for proven in own["proven"]],
                    marker=look.marker, linewidths=0.8,
                )  # fmt: skip
                axes.hlines(
                    own["gap"].median(), x - 0.13, x + 0.13, color="black", linewidth=1.4, zorder=4
                )
        if not axes.has_data():
            not_measured(axes)
        axes.set_xticks(range(len(RATIOS)), [f"{ratio:g}" for ratio in RATIOS])
        axes.set_xlabel("replicated share of all resources")
        axes.set_title("no joins" if joins == 0 else "50 % joins", loc="left")
    panels[0].set_ylabel("share of the bound that is missed")
    panels[0].set_ylim(-0.03, 1.03)
    figure.legend(
        [*legend.values()], [*legend], loc="outside lower center", ncols=3, title_fontsize=8,
        title="filled: against the proven optimum; hollow: against a bound",
    )  # fmt: skip
    stamp(figure, "every random topology a point, bars are medians")


def _gaps(proven: pd.DataFrame) -> dict[str, Any]:
    """Return the gaps where the optimum is known; elsewhere they include the bound's own."""
    gap = proven["gap"]
    return {
        "gap_90th_percentile": gap.quantile(0.9),
        "largest_gap": gap.max(),
        "optimal_share": (gap <= PROVEN).mean(),
        "proven": len(proven),
    }


def _known(proven: pd.DataFrame, held: bool) -> bool | None:
    return held if len(proven) else None


sa, refined = (rows[(rows["planner"] == name) & rows["proven"]] for name in ("sa", "refined"))
median_gap = sa["gap"].median()
spent_ms = refined["milliseconds"].quantile(0.9)
NO_OPTIMUM = "No optimum was proven."

CLAIMS = [
    invariant("bound", "No plan exceeds the proven bound").every(
        rows["value"] <= rows["bound"] + PROVEN,
        smallest_gap=rows["gap"].min(),
        plans=applied(len, rows),
    ),
    hypothesis(
        "sa-close",
        "SA is close to the optimum (the papers show it on Q1 and Q2 only)",
        unmeasured_because=NO_OPTIMUM,
    ).holds(
        applied(_known, sa, median_gap <= CLOSE),
        median_gap=median_gap,
        also=applied(_gaps, sa),
        of=(rows["planner"] == "sa").sum(),
        tolerance=CLOSE,
        median_gap_by_ratio=sa.groupby("ratio")["gap"].median().to_dict(),
    ),
    hypothesis("sa-nearer", "SA is nearer to the optimum than greedy")(
        _random.descending(rows.groupby("planner")["gap"].median()[["greedy", "sa"]])
    ),
    hypothesis(
        "refined",
        "Refined SA is within 1 % of the proven optimum at the 90th percentile, in 0.5 s",
        unmeasured_because=NO_OPTIMUM,
    ).holds(
        applied(
            _known, refined, (refined["gap"].quantile(0.9) <= WITHIN) & (spent_ms <= WITHIN_MS)
        ),
        also=applied(_gaps, refined),
        ms_90th_percentile=spent_ms,
        ms_largest=refined["milliseconds"].max(),
        tolerance=WITHIN,
        tolerance_ms=WITHIN_MS,
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beyond " + _random.JOURNAL,
    figure="SA against a proven optimum",
    title="Distance of planners from a proven optimum on random topologies",
    statement="SA is quite close to DP, which generates the optimal plan (shown on Q1 and Q2).",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "3 to 6 operators of 3 to 8 tasks, Zipf s = 0.1: small enough that most are solved in "
        "2 s (20 s in the paper profile). How many are depends on the machine.",
        "With joins the bound is of a relaxation, so the gap includes the relaxation's own.",
    ),
    figure_size_in=(9.0, 4.2),
)
