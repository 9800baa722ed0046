"""ppa TKDE Fig. 20: OF and accuracy of Q1 and Q2 while resources come back, INC against TO.

All tasks have failed and resources arrive evenly. The paper names crawled tweets as the input,
which neither query reads; here Q1 reads the World Cup's requests and Q2 the traffic.

Live, all nodes are killed at once and come back in turn, each with room for its share of the tasks,
so that the tasks are restored in the planner's order: INC's, which completes one MC-tree after the
other, or TO's, which goes down the topology. Nothing is replicated; the tasks that are back compute
tentative output. Its accuracy between two arrivals is the share of the twin's answers that it
has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.live._judged import MACHINE, Tables, equal_output, passes_of, worst_of
from experiments.live._runs import outcome_of, task_run
from experiments.live._six_nodes import KEPT, SPEC
from experiments.ppa import _accuracy, _live, _random
from experiments.ppa._live import (
    BATCH_S,
    GRID,
    KILL_AT_S,
    LATE_S,
    QUERIES,
    LiveQuery,
    accuracy_within,
    all_at_once,
    on_time,
    topology_of,
)
from experiments.ppa.query_accuracy import MORE, TOP_100
from harness.claims import (
    Cause,
    Claim,
    Finding,
    Rule,
    applied,
    hypothesis,
    invariant,
    median_of,
    paper,
    rows,
)
from harness.claims.rules import Sentence
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Results, computed, measured
from harness.figures.chart import Chart, Line
from harness.figures.style import PLANNERS
from harness.judging.run import Variant, measure_each
from harness.planning.incremental import area, fidelity_curve
from harness.planning.planners import recovery_order
from harness.results.record import Outcome, Point, Profile
from harness.seeds import DEFAULT_SEED
from harness.topology.model import Topology

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


MEASUREMENT = computed(
    "ppa/recovery-accuracy", grid=_accuracy.POINTS, seconds=(0.5, 1.2, 40.0), run=run
)


NODES = len(SPEC.node_names)
FIRST_S = 2.5
"""Time from the kill until the first nodes are back: longer than a process needs to start."""
SETTLE_S = 1.5
"""Time after an arrival in which tasks are restored: a window that begins in it does not count."""
WINDOWS_S = {"Q1": 2.0, "Q2": 4.0}
"""Shorter than in `live/query-accuracy`, so that whole windows fit between two arrivals."""
CHECKPOINT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The return of the nodes, in groups."""

    steps: int
    """Number of groups, which are of equal size."""
    window_s: float
    slide_s: float

    @property
    def each_s(self) -> float:
        """Time between two of them: restored tasks have settled, and a window fits behind that."""
        return float(np.ceil(SETTLE_S + self.window_s + self.slide_s))

    @property
    def away_s(self) -> tuple[float, ...]:
        """Time that each node stays away."""
        per = NODES // self.steps
        return tuple(FIRST_S + (node // per) * self.each_s for node in range(NODES))

    @property
    def over_s(self) -> float:
        """Time from the kill until the end of the last step."""
        return FIRST_S + self.steps * self.each_s

    def inside(self, step: int) -> tuple[float, float]:
        """Return from when windows may begin, and until when they must end, in one ``step``.

        That many groups are back then; seconds of the pass."""
        back_s = KILL_AT_S + FIRST_S + (step - 1) * self.each_s if step else KILL_AT_S
        end_s = KILL_AT_S + FIRST_S + step * self.each_s
        return back_s + (SETTLE_S if step else 0.0), end_s


STEPS = {Profile.SMOKE: 2, Profile.QUICK: 3, Profile.PAPER: 6}


def shortened(name: str, seed: int) -> LiveQuery:
    """Return a query of `live/query-accuracy` with `WINDOWS_S`."""
    return _live.query(name, seed, windows_s=WINDOWS_S)


def setup(tasks: int, order: Sequence[int], away_s: Sequence[float]) -> Setup:
    """Deal the tasks to all nodes, with no more room on each than its own tasks take."""
    placement = [task % NODES for task in range(tasks)]
    slots = [placement.count(node) for node in range(NODES)]
    return Setup(
        scheme="ppa",
        parameters=TaskParameters(
            recovery_order=order,
            placement=placement,
            slots=slots,
            checkpoint_s=CHECKPOINT_S,
            restart_s=tuple(each_s + LATE_S for each_s in away_s),
        ),
    )


def run_live(point: Point, context: Context) -> Outcome:
    """Measure both orders of one query: a twin, and the same input once for each."""
    name = str(point["query"])
    chosen = shortened(name, context.seed("input", name))
    arrivals = Arrivals(
        steps=STEPS[context.profile],
        window_s=chosen.workload.window_s,
        slide_s=chosen.workload.slide_s,
    )
    topology = topology_of(chosen)
    orders = {who: list(recovery_order(who).order(topology)) for who in ORDERS}
    kill = all_at_once(SPEC.node_names)
    setups = {
        who: setup(topology.task_count, order, arrivals.away_s) for who, order in orders.items()
    }
    wanted = task_run(
        workload=chosen.workload,
        setup=setups[ORDERS[0]],
        interval_s=BATCH_S,
        rate_per_s=chosen.rate_per_s,
        load_s=KILL_AT_S + arrivals.over_s + 1,
    )
    variants = {who: Variant(setup=each, schedule=kill) for who, each in setups.items()}
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    rows = []
    for who, order in orders.items():
        windows = on_time(outcomes[who].series["accuracy"], outcomes[who].series["results"])
        for step in range(arrivals.steps + 1):
            fidelity = restored_fidelity(topology, order, step, arrivals.steps)
            rows.append((who, step / arrivals.steps, fidelity, accuracy(windows, arrivals, step)))
    frame = pd.DataFrame(rows, columns=["planner", "arrived", "value", "measured"])
    return outcome_of(outcomes, {"tasks": topology.task_count}, curves=frame)


def restored_fidelity(topology: Topology, order: Sequence[int], step: int, steps: int) -> float:
    """Return the OF of the first tasks in ``order`` for which the nodes that are back have room."""
    per = NODES // steps
    placement = [task % NODES for task in range(topology.task_count)]
    room = sum(node < step * per for node in placement)
    _, values = fidelity_curve(topology, order)
    return float(values[room])


def accuracy(windows: pd.DataFrame, arrivals: Arrivals, step: int) -> float | None:
    """Return the accuracy of the windows between two arrivals of nodes; None without one.

    Of their first versions. A result that came after the next arrival is missing."""
    return accuracy_within(windows, arrivals.inside(step), window_s=arrivals.window_s)


LIVE_MEASUREMENT = measured(
    "live/recovery-accuracy",
    grid={Profile.SMOKE: GRID[:1], Profile.QUICK: GRID, Profile.PAPER: GRID},
    seconds=(70.0, 90.0, 300.0),
    run=run_live,
    keeps=KEPT,
)


# Shown: no record depends on what follows.
CLOSE = 0.15
"""Largest mean distance of the accuracy from OF that is "close"."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per query, engine, order and share of arrived resources: OF and accuracy."""
    frame = results.series("curves", ("query", "engine"))
    frame["arrived"] = frame["arrived"].round(9)
    return _accuracy.mean_by(frame, ["query", "engine", "planner", "arrived"])


def _label(measure: str, name: str) -> str:
    return f"{PLANNERS[name].label}, {measure}"


def _steps(measures: Mapping[str, tuple[str, str]], **style: Any) -> list[Line]:
    """Return the steps of each order; ``measures``: label and line of each."""
    return [
        Line(
            x="arrived",
            y=measure,
            by="planner",
            looks={name: {"color": PLANNERS[name].color} for name in ORDERS},
            label=partial(_label, label),
            style={"drawstyle": "steps-post", "linestyle": line, **style},
        )
        for measure, (label, line) in measures.items()
    ]


ARRIVED = "resources that have arrived (share)"
SHARES = "OF and query accuracy (share)"
draw = Chart(
    _accuracy.by_query(
        _steps({"value": ("OF", "--"), "accuracy": ("accuracy", "-")}), ARRIVED, SHARES
    ),
    layout={"sharey": True},
    stamp=_accuracy.STAMP,
)


def _lead(measure: str) -> Any:
    """Return INC's mean lead over TO by query."""
    printed = rows[rows["query"].isin(_accuracy.PRINTED_QUERIES)]
    values = printed.pivot_table(index=["query", "arrived"], columns="planner", values=measure)
    return (values["inc"] - values["to"]).groupby("query").mean()


def _close(sentence: Sentence, query: str) -> Claim:
    mine = rows[rows["query"] == query]
    distance = (mine["accuracy"] - mine["value"]).abs().groupby(mine["planner"]).mean()
    return sentence.every(distance <= CLOSE, also=applied(_random.named, distance), tolerance=CLOSE)


back = rows[rows["arrived"] >= 1 - 1e-9][["value", "accuracy"]].min(axis=1)

CLAIMS = [
    invariant("all-back", "With all resources back both orders give every answer").every(
        back >= 1 - 1e-9, lowest=back.min()
    ),
    paper("ahead-in-of", "INC outperforms TO in OF on both queries", rule=_accuracy.RESTRICTED)(
        _random.ahead(_lead("value"))
    ),
    hypothesis(
        "ahead-in-accuracy",
        "INC outperforms TO in accuracy on both queries, as follows if accuracy is close to OF",
        rule=_accuracy.RESTRICTED,
    )(_random.ahead(_lead("accuracy"))),
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
    sentences={"close/q1-4x5": "ppa/recovery-accuracy/close/q1"},
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


BY, MEASURES = ["query", "planner", "arrived"], ["value", "measured"]
SAMPLED = Rule(version=3, since="2026-11-28", seen_seeds=(DEFAULT_SEED, 71701, 71804, 71811))
"""Medians over the runs while a part of the tasks is back. Version 2 of closeness also counted the
ends, at which none or all are back: half of the four points of quick, at which accuracy is OF by
itself. Version 2 of INC's lead judged the mean of all runs."""


def tabulate_live(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``curves``, OF and accuracy by share of nodes back, and ``passes`` (`passes_of`).

    ``curves`` has a row per repetition, too."""
    rows = results.series("curves", ("query", "repeat")).reindex(columns=[*BY, "repeat", *MEASURES])
    return {
        "curves": rows.astype({"measured": float}),
        "passes": passes_of(results, ["query"], "tentative", "uncorrected"),
    }


draw_live = Chart(
    _accuracy.by_query(
        _steps({"value": ("OF", "--"), "measured": ("accuracy, live", "-")}, marker="o"),
        ARRIVED,
        SHARES,
        queries=QUERIES,
    ),
    prepare=lambda tables: tables["curves"].groupby(BY)[MEASURES].mean().reset_index(),
    layout={"sharey": True},
    stamp=f"{MACHINE}, all killed at once, back one after the other",
)


def _between_the_ends(tables: Tables) -> pd.DataFrame:
    """Return the accuracies while a part of the tasks is back.

    With none or all of them, both orders are alike and OF is 0 or 1."""
    curves = tables["curves"]
    return curves[(curves["arrived"] > 0) & (curves["arrived"] < 1)]


@hypothesis(
    "inc-ahead",
    "INC outperforms TO in accuracy on both queries, as follows if accuracy is close to OF",
    rule=SAMPLED,
)
def inc_ahead(tables: Tables) -> Finding:
    """Judge the runs' median lead while a part of the tasks is back, of the query with less."""
    wide = _between_the_ends(tables).pivot_table(
        index=["query", "repeat", "arrived"], columns="planner", values="measured"
    )
    wide = wide.reindex(columns=list(ORDERS)).dropna()
    leads = (wide["inc"] - wide["to"]).groupby(["query", "repeat"]).mean()
    cells = {
        query: median_of(leads[leads.index.get_level_values("query") == query]) for query in QUERIES
    }
    return worst_of(cells, MORE, least=True)


def _live_close(query: str, because: str | None) -> Claim:
    text = f"The accuracy of {query} is close to its OF for both orders"

    @paper(f"{query.lower()}-close-to-of", text, because=because, cause=Cause.READING, rule=SAMPLED)
    def close(tables: Tables) -> Finding:
        """Judge the runs' median distance while a part of the tasks is back, of the worse order."""
        rows = _random.select(_between_the_ends(tables), query=query)
        samples = {
            who: median_of(
                _accuracy.distances(_random.select(rows, planner=who), "measured", "value")
            )
            for who in ORDERS
        }
        return worst_of(samples, CLOSE, least=False)

    return close


LIVE_EXPERIMENT = EXPERIMENT.live(
    LIVE_MEASUREMENT,
    sentences={
        "inc-ahead": "ppa/recovery-accuracy/ahead-in-accuracy",
        "q1-close-to-of": "ppa/recovery-accuracy/close/q1",
        "q2-close-to-of": "ppa/recovery-accuracy/close/q2",
    },
    title="Accuracy of Q1 and Q2 while resources come back, live",
    table=tabulate_live,
    draw=draw_live,
    claims=[equal_output, inc_ahead, _live_close("Q1", TOP_100), _live_close("Q2", None)],
    notes=(
        "Q1 has 20-4-1 tasks and windows of 2 s, Q2 8-8-8-1 and windows of 4 s every 2 s on a "
        f"clock {_live.QUICKER:g} times the papers'. Six nodes; quick: two come back at a "
        "time.",
        f"Measured on the first versions of windows that begin {SETTLE_S} s after an arrival or "
        "later and end before the next one. Restored tasks go back to their last checkpoint and "
        "catch up; a result after the next arrival counts as missing. Sentences are judged while a "
        "part of the tasks is back.",
    ),
    figure_size_in=(10.0, 4.2),
)
