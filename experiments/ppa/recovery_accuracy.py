"""ppa TKDE Fig. 20: OF and accuracy of Q1 and Q2 while resources come back, INC against TO.

All tasks have failed and resources arrive evenly. The paper: INC is better than TO, in OF and in
accuracy, and for both orders the accuracy follows OF. (Its text names crawled tweets as the
input, which neither query reads; here Q1 reads the World Cup's requests and Q2 the traffic.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.ppa import _accuracy, _random
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.figures.style import PLANNERS, stamp
from harness.measurement import Context, Measurement, Origin
from harness.planning.incremental import area, fidelity_curve
from harness.planning.planners import Decides, names, recovery_order
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = names(Decides.RECOVERY_ORDER)


def run(point: Point, context: Context) -> Outcome:
    """Both orders, task by task, on one input."""
    name = str(point["query"])
    query = _accuracy.query(name, context.profile, context.seed("input", name))
    rows, areas = [], {}
    for order_name in ORDERS:
        context.progress(f"restoring by {order_name}")
        order = recovery_order(order_name).order(query.topology)
        arrived, values = fidelity_curve(query.topology, order)
        worth = [query.accuracy(order[:count]) for count in range(len(order) + 1)]
        rows += [(order_name, *row) for row in zip(arrived, values, worth, strict=True)]
        areas[f"of_area_{order_name}"] = area(arrived, values)
        areas[f"accuracy_area_{order_name}"] = area(arrived, np.asarray(worth))
    frame = pd.DataFrame(rows, columns=["planner", "arrived", "value", "accuracy"])
    return Outcome(values={"records": query.records, **areas}, series={"curves": frame})


MEASUREMENT = Measurement(
    id="ppa/recovery-accuracy",
    origin=Origin.COMPUTED,
    grid=_random.everywhere(_accuracy.POINTS),
    repeats=_random.ONCE,
    seconds_per_run={Profile.SMOKE: 0.5, Profile.QUICK: 1.2, Profile.PAPER: 40.0},
    run=run,
)

# Shown: no record depends on what follows.

CLOSE = 0.15
"""Accuracy is close to OF if they are on the average no further apart."""


def table(results: Results) -> pd.DataFrame:
    """A row per query, engine, order and share of arrived resources: OF and accuracy then."""
    frame = results.series("curves", ("query", "engine"))
    frame["arrived"] = frame["arrived"].round(9)
    return _accuracy.mean_by(frame, ["query", "engine", "planner", "arrived"])


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """A panel per query: OF dashed, accuracy solid, steps as in the definition."""
    panels = figure.subplots(1, len(_accuracy.QUERIES), sharey=True)
    for axes, query in zip(panels, _accuracy.QUERIES, strict=True):
        for name in ORDERS:
            part = table[(table["query"] == query) & (table["planner"] == name)]
            look = PLANNERS[name]
            for measure, line, label in (("value", "--", "OF"), ("accuracy", "-", "accuracy")):
                axes.step(
                    part["arrived"], part[measure], where="post", color=look.color,
                    linestyle=line, label=f"{look.label}, {label}",
                )  # fmt: skip
        axes.set_title(query, loc="left")
        axes.set_xlabel("resources that have arrived (share)")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
    panels[0].set_ylabel("OF and query accuracy (share)")
    panels[-1].legend(loc="upper left")
    stamp(figure, _accuracy.STAMP)


def claims(table: pd.DataFrame) -> list[Verdict]:
    """INC ahead in both measures, and how far accuracy is from OF."""
    computed = table[table["engine"] == _accuracy.COMPUTED]
    wide = {
        measure: computed.pivot_table(index=["query", "arrived"], columns="planner", values=measure)
        for measure in ("value", "accuracy")
    }
    apart = (computed["accuracy"] - computed["value"]).abs()
    distance = apart.groupby([computed["query"], computed["planner"]]).mean()
    whole = computed[computed["arrived"] >= 1 - 1e-9]
    return [
        Verdict(
            text="With all resources back both orders give every answer",
            kind=ClaimKind.INVARIANT,
            held=bool((whole[["value", "accuracy"]] >= 1 - 1e-9).all(axis=None)),
            measured={"lowest": float(whole[["value", "accuracy"]].min().min())},
        ),
        _ahead(wide["value"], "INC outperforms TO in OF on both queries"),
        _ahead(wide["accuracy"], "INC outperforms TO in accuracy on both queries"),
        *(
            Verdict(
                text=f"The accuracy of {query} is close to its OF for both orders",
                kind=ClaimKind.PAPER,
                held=bool(distance[query].max() <= CLOSE),
                measured={**distance[query].to_dict(), "tolerance": CLOSE},
            )
            for query in _accuracy.QUERIES
        ),
    ]


def _ahead(values: pd.DataFrame, text: str) -> Verdict:
    margin = values["inc"] - values["to"]
    per_query = margin.groupby("query").mean()
    return Verdict(
        text=text,
        kind=ClaimKind.PAPER,
        held=bool((per_query > 0).all()),
        measured={
            "mean_margin": per_query.to_dict(),
            "steps_where_to_is_ahead": int((margin < -1e-12).sum()),
            "steps": len(margin),
        },
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.JOURNAL,
    figure="Figure 20",
    title="OF and accuracy of Q1 and Q2 while resources come back",
    statement="INC is better than TO in OF and in accuracy; the accuracy follows OF for both.",
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        *_accuracy.NOTES,
        "The paper's text says that the inputs are crawled tweets; its queries read other data.",
    ),
    figure_size_in=(10.0, 3.8),
)
