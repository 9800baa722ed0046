"""ppa ICDE Fig. 13 = TKDE Fig. 15: DP, SA and greedy on the papers' two queries, OF and accuracy.

The paper: SA is quite close to DP, which is optimal, in OF and in the actual query accuracy;
greedy is the worst for both queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.ppa import _accuracy, _random
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.figures.style import PLANNERS, stamp
from harness.measurement import Context, Measurement, Origin
from harness.planning.planners import planner
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTESTANTS = ("dp", "sa", "greedy")

RATIOS = {**_random.RATIOS, Profile.SMOKE: (0.2, 0.4)}


def _by(name: str) -> _accuracy.Choice:
    return lambda topology, budget: planner(name).plan(topology, budget)


def run(point: Point, context: Context) -> Outcome:
    """All three planners at every ratio, and what their plans are worth on one input."""
    choices = {name: _by(name) for name in CONTESTANTS}
    return _accuracy.run_plans(point, context, RATIOS[context.profile], choices, "planner")


MEASUREMENT = Measurement(
    id="ppa/query-fidelity",
    origin=Origin.COMPUTED,
    grid=_random.everywhere(_accuracy.POINTS),
    repeats=_random.ONCE,
    seconds_per_run={Profile.SMOKE: 0.3, Profile.QUICK: 4.0, Profile.PAPER: 40.0},
    run=run,
)

# Shown: no record depends on what follows.

MEASURES = {"value": "output fidelity", "accuracy": "query accuracy"}

CLOSE = 0.05
"""SA is "quite close" to DP if it is nowhere further below it than this."""


def table(results: Results) -> pd.DataFrame:
    """A row per query, engine, planner and ratio: the plan's OF and its accuracy."""
    frame = results.series("plans", ("query", "engine"))
    return _accuracy.mean_by(frame, ["query", "engine", "planner", "ratio"])


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """A column per query: OF above, accuracy below."""
    panels = figure.subplots(2, len(_accuracy.QUERIES), sharex=True, sharey=True)
    for row, (measure, label) in zip(panels, MEASURES.items(), strict=True):
        for axes, query in zip(row, _accuracy.QUERIES, strict=True):
            for name in CONTESTANTS:
                part = table[(table["query"] == query) & (table["planner"] == name)]
                under = {"linewidth": 5, "markersize": 9, "alpha": 0.45} if name == "dp" else {}
                axes.plot(part["ratio"], part[measure], **PLANNERS[name].kwargs(), **under)
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.02)
        row[0].set_ylabel(f"{label} (share)")
    for axes, query in zip(panels[0], _accuracy.QUERIES, strict=True):
        axes.set_title(query, loc="left")
    for axes in panels[1]:
        axes.set_xlabel("resource consumption (share)")
    panels[0][-1].legend(loc="upper left")
    stamp(figure, _accuracy.STAMP)


def claims(table: pd.DataFrame) -> list[Verdict]:
    """DP first, SA near it, greedy last: in OF and in accuracy."""
    computed = table[table["engine"] == _accuracy.COMPUTED]
    values, accuracy = (
        computed.pivot_table(index=["query", "ratio"], columns="planner", values=measure)
        for measure in MEASURES
    )
    excess = values.sub(values["dp"], axis=0).max().max()
    return [
        Verdict(
            text="No planner's OF exceeds that of DP",
            kind=ClaimKind.INVARIANT,
            held=bool(excess <= 1e-9),
            measured={"largest_excess": excess},
        ),
        _near(values, "SA is quite close to DP in OF"),
        _near(accuracy, "SA is quite close to DP in the actual query accuracy"),
        _last(values, "Greedy has the worst OF for both queries"),
        _last(accuracy, "Greedy has the worst accuracy for both queries"),
        _last_on_average(accuracy),
    ]


def _last_on_average(accuracy: pd.DataFrame) -> Verdict:
    means = accuracy.groupby("query")[["dp", "sa", "greedy"]].mean()
    return Verdict(
        text="Read over all ratios: greedy has the worst mean accuracy for both queries",
        kind=ClaimKind.PAPER,
        held=bool((means["greedy"] < means[["dp", "sa"]].min(axis=1)).all()),
        measured={str(query): row.to_dict() for query, row in means.iterrows()},
    )


def _near(values: pd.DataFrame, text: str) -> Verdict:
    behind = values["dp"] - values["sa"]
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=bool(behind.max() <= CLOSE),
        measured={
            "largest_gap": behind.max(),
            "where": _random.place(behind.idxmax()),
            "mean_gap": behind.mean(),
            "tolerance": CLOSE,
        },
    )


def _last(values: pd.DataFrame, text: str) -> Verdict:
    last = values["greedy"] <= values[["dp", "sa"]].min(axis=1) + 1e-9
    behind = values["greedy"] < values["sa"] - 1e-9
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=bool(last.all() and behind.groupby("query").any().all()),
        measured={
            "mean_sa": values["sa"].groupby("query").mean().to_dict(),
            "mean_greedy": values["greedy"].groupby("query").mean().to_dict(),
            "ratios_where_greedy_is_not_last": int((~last).sum()),
            "ratios": len(last),
        },
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE + "; " + _random.JOURNAL,
    figure="Figure 13 (TKDE: 15)",
    title="OF and accuracy of DP, SA and greedy on Q1 and Q2",
    statement="SA is quite close to DP, which is optimal; greedy has the worst performance.",
    table=table,
    draw=draw,
    claims=claims,
    notes=_accuracy.NOTES,
    figure_size_in=(10.0, 6.0),
)
