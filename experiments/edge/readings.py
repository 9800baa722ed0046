"""How RPPG's choice depends on how the equation for a task's recovery is read.

Equation 1 of the edge paper has the way to the checkpoint store in every task's recovery, and the
time to fetch a checkpoint as a matter of its size alone. A task without a state has nothing to
fetch, and a checkpoint comes no faster than the narrowest link on its way. Both readings are tried
on the testbed as printed, and with gateways at 1 Mbit/s, as in the authors' earlier set-up. What
counts is the recovery to expect of the tasks that have no replica, both things considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.edge import _deployment, prediction
from experiments.edge._deployment import MASTER
from harness.claims import all_of, hypothesis, rows
from harness.experiment import Context, Experiment, Outcome, Point, Results, computed
from harness.figures.chart import Chart, Line, Panel
from harness.figures.style import BLACK, BLUE, GREEN, ORANGE
from harness.planning.planners import scheduler
from harness.planning.rppg import rppg
from harness.planning.schedulers import STORE
from harness.planning.tiers import PlacedTask, RecoveryModel, TieredNetwork, recovery_time_s
from harness.seeds import generator

PRINTED = "as printed"

READINGS: Mapping[str, RecoveryModel] = {
    PRINTED: RecoveryModel(),
    "nothing to fetch without a state": RecoveryModel(stateless_tasks_ask_the_store=False),
    "no faster than the narrowest link": RecoveryModel(by_bandwidth=True),
    "both": RecoveryModel(stateless_tasks_ask_the_store=False, by_bandwidth=True),
}

TRUE = READINGS["both"]

GATEWAY_BYTES_PER_S = {"100 Mbit/s": 12.5e6, "1 Mbit/s": 0.125e6}

STATE_S = 30.0
"""Seconds of input in an aggregator's state; more than the figures' own second, so that fetching
it takes a time that can matter."""


def run(point: Point, context: Context) -> Outcome:
    """One budget on one network: every assignment of recorded nodes, planned by every reading."""
    budget = float(str(point["budget"]))
    tasks, network = _case(GATEWAY_BYTES_PER_S[str(point["gateways"])])
    random = generator(context.seed("assignments"))
    count = prediction.ASSIGNMENTS[context.profile]
    rows = []
    for number in range(count):
        context.progress("planning", fraction=number / count)
        rates = np.asarray(prediction.SECOND_HALF)[random.permutation(len(prediction.SECOND_HALF))]
        fails = 1 - np.exp(-rates / prediction.HALF_DAYS * prediction.SLOT_DAYS)
        names = [node.name for node in network.nodes]
        known = _deployment.with_probabilities(
            network, dict(zip(names, fails.tolist(), strict=True))
        )
        chosen = {name: _chosen(tasks, known, budget, model) for name, model in READINGS.items()}
        rows += [
            (number, name, _left_s(tasks, known, left), left == chosen[PRINTED])
            for name, left in chosen.items()
        ]
    columns = ["assignment", "reading", "left_s", "same"]
    return Outcome(values={}, series={"left": pd.DataFrame(rows, columns=columns)})


def _case(gateway_bytes_per_s: float) -> tuple[tuple[PlacedTask, ...], TieredNetwork]:
    tasks = tuple(
        replace(task, state_bytes=task.state_bytes * STATE_S)
        for task in _deployment.application(prediction.RATE)
    )
    network = _deployment.testbed(tasks)
    links = tuple(
        replace(link, bandwidth_bytes_per_s=gateway_bytes_per_s)
        if any(end.startswith("gateway") for end in link.ends)
        else link
        for link in network.links
    )
    return tasks, replace(network, links=links)


def _chosen(
    tasks: Sequence[PlacedTask], network: TieredNetwork, budget: float, model: RecoveryModel
) -> frozenset[str]:
    """Return the tasks that get a replica."""
    placement = scheduler("dra")(tasks, network, ackers=1)
    plan = rppg(
        [task for task in tasks if task.pinned is None],
        budget=budget * sum(task.demand for task in tasks),
        placement=placement,
        network=network,
        # on a gateway, as where a small edge has no other storage: the way there is what differs
        store="gateway0",
        monitor=MASTER,
        model=model,
    )
    return frozenset(plan.replicated)


def _left_s(
    tasks: Sequence[PlacedTask], network: TieredNetwork, replicated: frozenset[str]
) -> float:
    """Seconds of recovery to expect in a slot from the tasks without a replica."""
    placement = scheduler("dra")(tasks, network, ackers=1)
    assert STORE in placement
    return sum(
        network.node(placement[task.name]).failure_probability
        * recovery_time_s(
            task, placement=placement, network=network, store="gateway0", monitor=MASTER, model=TRUE
        )
        for task in tasks
        if task.pinned is None and task.name not in replicated
    )


MEASUREMENT = computed(
    "edge/readings",
    [
        {"gateways": gateways, "budget": budget}
        for gateways in GATEWAY_BYTES_PER_S
        for budget in prediction.BUDGETS
    ],
    (0.1, 0.33, 15.0),
    run=run,
)

# Shown: no record depends on what follows.

LOOKS = {
    name: {"color": colour, "marker": marker, "alpha": 0.8}
    for name, colour, marker in zip(READINGS, (BLACK, ORANGE, BLUE, GREEN), "ovsD", strict=True)
}

SLIGHT = 0.02
"""A reading matters little if the mean of what is left changes by at most this share."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per network, budget and reading.

    It has the expected recovery, and the share of choices that equal the printed equation's."""
    frame = results.series("left", ("gateways", "budget"))
    grouped = frame.groupby(["gateways", "budget", "reading"], sort=False)
    return grouped.agg(
        left_s=("left_s", "mean"), same=("same", "mean"), count=("left_s", "count")
    ).reset_index()


draw = Chart(
    [
        Panel(
            [Line(x=100 * rows["budget"], y="left_s", by="reading", looks=LOOKS)],
            "budget for fault tolerance (% of the application)",
            "" if number else "expected recovery of tasks\nwithout a replica (s a day)",
            title=f"gateways at {gateways}",
            y_range=(0, None),
            legend=None if number else {"loc": "lower left"},
            where=rows["gateways"] == gateways,
        )
        for number, gateways in enumerate(GATEWAY_BYTES_PER_S)
    ],
    layout={"sharey": True},
    stamp=lambda table: f"computed from LANL's records; mean of {table['count'].max()} assignments",
)


left = rows.pivot_table(index=["gateways", "budget"], columns="reading", values="left_s")
apart = {
    name: (left[name] / left[PRINTED] - 1).abs().mean() for name in READINGS if name != PRINTED
}

CLAIMS = [
    hypothesis(
        "changes-little", "How equation 1 is read changes little of what RPPG leaves at risk"
    ).holds(
        all_of([each <= SLIGHT for each in apart.values()]),
        mean_change=apart,
        tolerance=SLIGHT,
        same_choice=rows.groupby("reading")["same"].mean().to_dict(),
    ),
    hypothesis(
        "both-no-worse",
        "Planning by both things leaves no more than planning by the printed equation",
        because="RPPG takes the riskiest tasks first and does not ask what a replica costs. With "
        "truer times it presumably puts larger tasks first, for which fewer fit the budget, so a "
        "better estimate may leave a little more. With replicas of equal cost it could not.",
    ).every(
        left["both"] <= left[PRINTED] * (1 + 1e-9),
        mean_gain=(1 - left["both"] / left[PRINTED]).mean(),
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _deployment.PAPER,
    figure="equation 1, other readings",
    title="What RPPG's choice owes to how a task's recovery is estimated",
    statement="The recovery time has the way to the store in it, and the size of the checkpoint.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        "The store is on a gateway, and an aggregator's state holds 30 s of its input, so that "
        "the readings differ at all: with the figures' own state of a second they do not.",
    ),
    figure_size_in=(10.0, 4.0),
)
