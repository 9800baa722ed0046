"""What prediction gains over equal probabilities, with real failures.

RPPG weighs a task's recovery time by the probability that it fails. The paper assumes a predictor
and evaluates without one. Here the predictor learns each node's rate from the first half of the
records of a Los Alamos system (20 nodes of system 2, 1997 to 2005) and plans for the second half;
beside it RPPG with equal probabilities, and with the second half's own rates, which no predictor
knows. What counts is the recovery time to expect of the tasks that have no replica."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.edge import _deployment
from experiments.edge._deployment import MASTER
from experiments.ppa import _random
from harness.claims import hypothesis, rows
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, computed
from harness.figures.chart import Chart, Line, Panel
from harness.figures.style import BLACK, BLUE, GREY, Look
from harness.planning.planners import scheduler
from harness.planning.rppg import rppg
from harness.planning.schedulers import STORE
from harness.planning.tiers import RecoveryModel, recovery_time_s
from harness.seeds import generator

FIRST_HALF = (
    361, 212, 169, 204, 188, 189, 187, 210, 91, 139, 98, 160, 105, 128, 113, 126, 100, 81, 95, 77,
)  # fmt: skip

SECOND_HALF = (
    154, 33, 18, 39, 23, 42, 31, 45, 14, 45, 23, 44, 33, 27, 33, 37, 51, 24, 40, 38,
)  # fmt: skip
"""Failures of nodes 1 to 20 of LANL's system 2 in either half of its 3,151 days (LA-UR-05-7318)."""

HALF_DAYS = 3151 / 2

SLOT_DAYS = 1.0
"""The time slot t of the paper's risk."""

BUDGETS = (0.05, 0.1, 0.15, 0.2)

RATE = 100

Floats = NDArray[np.float64]

ASSIGNMENTS: Mapping[Profile, int] = {Profile.SMOKE: 5, Profile.QUICK: 100, Profile.PAPER: 1000}
"""How many ways to deal the 20 recorded nodes out to the testbed's 20."""

PREDICTORS = ("equal", "learned", "known")


def run(point: Point, context: Context) -> Outcome:
    """One budget: every assignment of recorded nodes, planned three ways."""
    budget = float(str(point["budget"]))
    random = generator(context.seed("assignments"))
    count = ASSIGNMENTS[context.profile]
    rows = []
    for number in range(count):
        context.progress("planning", fraction=number / count)
        order = random.permutation(len(FIRST_HALF))
        past, future = (np.asarray(half)[order] / HALF_DAYS for half in (FIRST_HALF, SECOND_HALF))
        rates = {"equal": np.full(len(past), past.mean()), "learned": past, "known": future}
        rows += [(number, name, _left_s(budget, rates[name], future)) for name in PREDICTORS]
    frame = pd.DataFrame(rows, columns=["assignment", "predictor", "left_s"])
    return Outcome(values={}, series={"left": frame})


def _left_s(budget: float, believed: Floats, true: Floats) -> float:
    """Return the expected seconds of recovery in a slot, of tasks without a replica.

    The true rates (per day) decide; the plan follows the believed ones."""
    tasks = _deployment.application(RATE)
    network = _deployment.testbed(tasks)
    nodes = [node.name for node in network.nodes]
    network = _deployment.with_probabilities(
        network, dict(zip(nodes, _within(believed), strict=True))
    )
    placement = scheduler("dra")(tasks, network, ackers=1)
    replicable = [task for task in tasks if task.pinned is None]
    plan = rppg(
        replicable,
        budget=budget * sum(task.demand for task in tasks),
        placement=placement,
        network=network,
        store=placement[STORE],
        monitor=MASTER,
    )
    fails = dict(zip(nodes, _within(true), strict=True))
    return sum(
        fails[placement[task.name]]
        * recovery_time_s(
            task,
            placement=placement,
            network=network,
            store=placement[STORE],
            monitor=MASTER,
            model=RecoveryModel(),
        )
        for task in replicable
        if task.name not in plan.replicated
    )


def _within(rates: Floats) -> list[float]:
    """Return the probability of a failure within a slot at these rates per day."""
    return [float(p) for p in 1 - np.exp(-rates * SLOT_DAYS)]


MEASUREMENT = computed(
    "edge/prediction",
    run=run,
    grid=[{"budget": budget} for budget in BUDGETS],
    seconds=(0.1, 0.6, 10.0),
)

# Shown: no record depends on what follows.

LOOKS = {
    "equal": Look("equal probabilities", GREY, "o"),
    "learned": Look("learned from the past", BLUE, "s"),
    "known": Look("known in advance", BLACK, "*"),
}


def table(results: Results) -> pd.DataFrame:
    """Return a row per budget and predictor: mean over assignments with its 95 % interval.

    ``gain_percent`` is the gain over equal probabilities."""
    frame = results.series("left", ("budget",)).rename(columns={"left_s": "value"})
    found = _random.summary(frame, ("budget", "predictor"))
    equal = found[found["predictor"] == "equal"].set_index("budget")["mean"]
    return found.assign(gain_percent=100 * (1 - found["mean"] / found["budget"].map(equal)))


expected, half = rows["mean"], rows["half_width"]
draw = Chart(
    [
        Panel(
            [
                Line(
                    x=100 * rows["budget"],
                    y="mean",
                    by="predictor",
                    looks=LOOKS,
                    ends=(expected - half, expected + half),
                )
            ],
            "budget for fault tolerance (% of the application)",
            "expected recovery of tasks\nwithout a replica (s a day)",
            y_range=(0, None),
            legend={"loc": "lower left"},
        )
    ],
    stamp=lambda table: (
        f"computed from LANL's records; mean of {table['count'].max()} assignments, 95 % interval"
    ),
)
left = rows.pivot_table(index="budget", columns="predictor", values="mean")
gains = rows[rows["predictor"] == "learned"].set_index("budget")["gain_percent"]
gain = rows.groupby("predictor")["gain_percent"].mean()

CLAIMS = [
    hypothesis(
        "learned-better",
        "Plans by rates learned from the past leave less risk than by equal probabilities",
    ).every(left["learned"] < left["equal"], gain_percent=gains.to_dict()),
    hypothesis(
        "half-of-knowing", "Learning gains at least half of what knowing the future would"
    ).holds(
        gain["learned"] >= 0.5 * gain["known"],
        learned_percent=gain["learned"],
        known_percent=gain["known"],
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beyond " + _deployment.PAPER,
    figure="failure prediction, section III",
    title="What learned failure rates gain over equal probabilities",
    statement=(
        "The paper assumes a predictor of failures and plans by risk; here it learns from the "
        "first half of a real system's failures and is judged on the second."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        "Failures of nodes 1 to 20 of LANL's system 2 (LA-UR-05-7318), counted in two halves of "
        "its life; which recorded node stands for which of the testbed's is drawn many times. The "
        "predictor that the paper cites (an LSTM) needs data that these records do not have.",
    ),
    figure_size_in=(7.5, 4.4),
)
