"""The readings of Q1 under which all sentences about its accuracy hold together.

ppa ICDE Fig. 12 and 13, TKDE Fig. 14, 15 and 20. Of Q1's tasks the papers print one at the end and
"20 MC-trees" in all. These are 20 tasks of O1 that merge into O2 (the reading of the other
figures), or |O1| × |O2| = 20 tasks between which every edge is there. The length of the window and
the servers that hold a page are not printed either. The sentences are judged at every combination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments._unprinted import Parameter, Regions
from experiments.ppa import _accuracy, _random
from experiments.ppa._accuracy import Reading, read_as
from harness.claims import Finding, found, hypothesis
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, computed
from harness.planning.incremental import fidelity_curve
from harness.planning.planners import planner, recovery_order
from harness.topology.fidelity import Objective

TASKS: Mapping[str, tuple[int, int | None]] = {
    "20 merged": (20, None),
    "10 × 2": (10, 2),
    "5 × 4": (5, 4),
    "4 × 5": (4, 5),
    "2 × 10": (2, 10),
}
"""Tasks of O1 and O2; None: the default, each task of O1 sends to one of O2."""
WINDOWS_S = (4, 10)
PAGES = {"on all servers": False, "on one server each": True}
RATIOS = {**_random.RATIOS, Profile.SMOKE: (0.3, 0.6)}
PLANNERS = ("dp", "sa", "greedy")
ORDERS = ("inc", "to")


def run(point: Point, context: Context) -> Outcome:
    """Plan and restore at one combination, on one input."""
    slicers, mergers = TASKS[str(point["tasks"])]
    reading = Reading(
        slicers=slicers,
        mergers=mergers,
        own_pages=PAGES[str(point["pages"])],
        window_s=float(str(point["window_s"])),
    )
    context.progress("reading the input")
    query = read_as(reading, context.profile, context.seed("input"))
    rows: list[tuple[str, float, float, float]] = []
    for ratio in RATIOS[context.profile]:
        context.progress("planning and running", fraction=ratio)
        budget = _random.budget(query.topology, ratio)
        chosen = {name: planner(name).plan(query.topology, budget) for name in PLANNERS}
        chosen["ic"] = planner("sa").plan(query.topology, budget, Objective.IC)
        rows += [(n, ratio, p.value, query.accuracy(p.tasks)) for n, p in chosen.items()]
    for name in ORDERS:
        order = recovery_order(name).order(query.topology)
        arrived, values = fidelity_curve(query.topology, order)
        worth = [query.accuracy(order[:count]) for count in range(len(order) + 1)]
        rows += [(name, *each) for each in zip(arrived, values, worth, strict=True)]
    frame = pd.DataFrame(rows, columns=["choice", "x", "value", "accuracy"])
    return Outcome(values={"records": query.records}, series={"choices": frame})


def _grid(tasks: Sequence[str], windows_s: Sequence[float]) -> Sequence[Point]:
    return [
        {"tasks": name, "window_s": window_s, "pages": pages}
        for pages in PAGES
        for window_s in windows_s
        for name in tasks
    ]


MEASUREMENT = computed(
    "ppa/query-readings",
    grid={
        Profile.SMOKE: _grid([*TASKS][::4], WINDOWS_S[:1]),
        Profile.QUICK: _grid([*TASKS], WINDOWS_S[1:]),
        Profile.PAPER: _grid([*TASKS], WINDOWS_S),
    },
    seconds=(0.5, 4.0, 15.0),
    run=run,
)

# Shown: no record depends on what follows.

CLOSE, BESIDE_DP = 0.15, 0.05
"""As in ``ppa/query-accuracy`` and ``ppa/query-fidelity``."""
SENTENCES: Mapping[str, str] = {
    "of": "Fig. 12: OF predicts the accuracy well",
    "ic": "Fig. 12: IC predicts the accuracy well",
    "beside-dp": "Fig. 13: SA is quite close to DP in OF and in accuracy",
    "greedy-last": "Fig. 13: greedy's mean OF and accuracy are the worst",
    "inc": "Fig. 20: INC outperforms TO in OF (and so in accuracy)",
    "follows": "Fig. 20: the accuracy is close to OF for both orders",
}
REGIONS = Regions(
    columns=Parameter(column="tasks", values=TASKS, label="tasks of O1 and O2"),
    rows=Parameter(column="window_s", values=WINDOWS_S, label="window (s)"),
    panels=Parameter(column="pages", values=PAGES, label="pages {}"),
    held=lambda table: (table["margin"] >= 0).astype(object),
    named=_random.place,
    sentences=SENTENCES,
    ours=("20 merged", 10, "on all servers"),
    stamp="sentences that hold, with the letters of those that do not; outlined: ours",
)


def table(results: Results) -> pd.DataFrame:
    """Return a row per combination and sentence, with its margin; 0 or more holds."""
    frame = results.series("choices", REGIONS.by)
    rows: list[tuple[Any, ...]] = []
    for place, mine in frame.groupby(REGIONS.by, sort=False):
        by_choice = {str(name): each for name, each in mine.groupby("choice", sort=False)}
        rows += [(*place, name, margin) for name, margin in _margins(by_choice).items()]
    return pd.DataFrame(rows, columns=[*REGIONS.by, "sentence", "margin"])


def _margins(choices: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    def apart(name: str) -> float:
        rows = choices[name]
        return float((rows["accuracy"] - rows["value"]).abs().mean())

    def both(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return choices[name][["value", "accuracy"]].to_numpy(float)

    sa, dp, greedy = (both(name) for name in ("sa", "dp", "greedy"))
    last = np.minimum(sa.mean(axis=0), dp.mean(axis=0)) - greedy.mean(axis=0)
    return {
        "of": CLOSE - apart("sa"),
        "ic": CLOSE - apart("ic"),
        "beside-dp": BESIDE_DP - float((dp - sa).max()),
        "greedy-last": float(last.min()) - 1e-9,
        "inc": float((both("inc").mean(axis=0) - both("to").mean(axis=0)).min()) - 1e-9,
        "follows": CLOSE - max(apart(name) for name in ORDERS),
    }


@hypothesis("full-edge", "A full edge brings accuracy nearer to OF than 20 slicers that merge")
def full_edge(table: pd.DataFrame) -> Finding:
    rows = table[(table["sentence"] == "of") & (table["pages"] == "on all servers")]
    apart = CLOSE - rows.groupby("tasks", sort=False)["margin"].mean()
    ours = apart.get("20 merged")
    others = apart.drop("20 merged", errors="ignore")
    held = None if ours is None or others.empty else bool((others < ours).all())
    return found(held, mean_distance=_random.named(apart))


CLAIMS = [
    REGIONS.claim(because="The measured shares show which sentences hold where."),
    full_edge,
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _random.BOTH,
    figure="Figures 12 and 13 (TKDE: 14, 15, 20), over Q1's readings",
    title="Where all sentences about Q1's accuracy hold together",
    statement='Of Q1\'s tasks "20 MC-trees" and one task at the end are printed.',
    table=table,
    draw=REGIONS.draw,
    claims=CLAIMS,
    notes=(
        *_accuracy.NOTES[:1],
        "One window length and one distribution of pages are in the other figures: 10 s and all "
        'pages on all servers. "10 × 2" is 10 tasks of O1, each of which sends to both of O2.',
    ),
    figure_size_in=(10.0, 3.6),
)
