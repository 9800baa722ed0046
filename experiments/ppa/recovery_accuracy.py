"""ppa TKDE Fig. 20: OF and accuracy of Q1 and Q2 while resources come back, INC against TO.

All tasks have failed and resources arrive evenly. The paper names crawled tweets as the input,
which neither query reads; here Q1 reads the World Cup's requests and Q2 the traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.ppa import _accuracy, _random
from harness.claims import Cause, Claim, Finding, every, hypothesis, invariant, paper
from harness.claims.rules import Sentence
from harness.experiment import Experiment
from harness.figures.style import PLANNERS, stamp
from harness.measurement import Context, Measurement, Origin
from harness.planning.incremental import area, fidelity_curve
from harness.planning.planners import recovery_order
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = ("inc", "to")


def run(point: Point, context: Context) -> Outcome:
    """Restore in both orders, task by task, on one input."""
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
"""Largest mean distance of the accuracy from OF that is "close"."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per query, engine, order and share of arrived resources: OF and accuracy."""
    frame = results.series("curves", ("query", "engine"))
    frame["arrived"] = frame["arrived"].round(9)
    return _accuracy.mean_by(frame, ["query", "engine", "planner", "arrived"])


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw a panel per query: OF dashed, accuracy solid, steps as in the definition."""
    (panels,) = _accuracy.panels_of(figure)
    for axes, query in zip(panels, _accuracy.QUERIES, strict=True):
        for name in ORDERS:
            rows = _random.select(table, query=query, planner=name)
            look = PLANNERS[name]
            for measure, line, label in (("value", "--", "OF"), ("accuracy", "-", "accuracy")):
                if len(rows):
                    axes.step(
                        rows["arrived"], rows[measure], where="post", color=look.color,
                        linestyle=line, label=f"{look.label}, {label}",
                    )  # fmt: skip
        axes.set_xlabel("resources that have arrived (share)")
    panels[0].set_ylabel("OF and query accuracy (share)")
    _random.legends(panels[::-1], loc="upper left")
    stamp(figure, _accuracy.STAMP)


@invariant("all-back", "With all resources back both orders give every answer")
def all_back(table: pd.DataFrame) -> Finding:
    rows = _accuracy.computed(table)
    lowest = rows[rows["arrived"] >= 1 - 1e-9][["value", "accuracy"]].min(axis=1)
    return every(lowest >= 1 - 1e-9, lowest=float(lowest.min()))


def _margin(table: pd.DataFrame, measure: str) -> pd.Series[float]:
    """Return INC's mean lead over TO by query."""
    rows = _accuracy.computed(table)
    rows = rows[rows["query"].isin(_accuracy.PRINTED_QUERIES)]
    values = rows.pivot_table(index=["query", "arrived"], columns="planner", values=measure)
    return (values["inc"] - values["to"]).groupby("query").mean()


def _close(sentence: Sentence, query: str) -> Claim:
    @sentence
    def close(table: pd.DataFrame) -> Finding:
        rows = _accuracy.computed(table, query=query)
        distance = (rows["accuracy"] - rows["value"]).abs().groupby(rows["planner"]).mean()
        return every(distance <= CLOSE, **_random.named(distance), tolerance=CLOSE)

    return close


CLAIMS = [
    all_back,
    paper("ahead-in-of", "INC outperforms TO in OF on both queries", rule=_accuracy.RESTRICTED)(
        _random.ahead(lambda table: _margin(table, "value"))
    ),
    hypothesis(
        "ahead-in-accuracy",
        "INC outperforms TO in accuracy on both queries, as follows if accuracy is close to OF",
        rule=_accuracy.RESTRICTED,
    )(_random.ahead(lambda table: _margin(table, "accuracy"))),
    _close(
        paper(
            "close/q1",
            "The accuracy of Q1 is close to its OF for both orders",
            because=_accuracy.TOP_100,
            cause=Cause.READING,
        ),
        "Q1",
    ),
    _close(
        paper(
            "close/q1-4x5",
            "The accuracy of Q1 is close to its OF for both orders (4 × 5 tasks)",
            cause=Cause.READING,
            rule=_accuracy.AS_4_X_5,
        ),
        _accuracy.FULL_EDGE,
    ),
    _close(
        hypothesis(
            "close/q1-own-pages",
            "The accuracy of Q1, own pages is close to its OF for both orders",
            because="INC brings the busiest servers back first, and these presumably hold most of "
            "the pages of the top 100: the accuracy runs ahead of the OF, which counts requests. "
            "Under TO no output comes until the last task is back: both are 0.",
        ),
        _accuracy.OWN_PAGES,
    ),
    _close(
        paper(
            "close/q2",
            "The accuracy of Q2 is close to its OF for both orders",
            cause=Cause.LOST,
        ),
        "Q2",
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.JOURNAL,
    figure="Figure 20",
    title="OF and accuracy of Q1 and Q2 while resources come back",
    statement="INC is better than TO in OF; the accuracy is very similar to OF for both.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_accuracy.NOTES,
        "The paper's text says that the inputs are crawled tweets; its queries read other data.",
    ),
    figure_size_in=(13.0, 3.8),
)
