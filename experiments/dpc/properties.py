"""Properties 1 to 4 of section 3.5, over random schedules.

1. In a static failure state results come within kX, k being the SUnions on the longest path: one a
   node here.
2. Switching between copies never causes duplicates and loses at most tentative tuples.
3. As long as one replica of each node never fails, and what is produced during a failure is
   buffered, the destination receives the complete stable stream when all failures heal.
4. Stable tuples are never undone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pandas as pd

from experiments.dpc import _shared
from harness.claims import invariant, quantity
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results
from harness.figures.chart import Axes, Chart, Panel
from harness.figures.style import BLUE
from harness.protocol.scheme import Policy
from harness.simulator.draw import draw as draw_schedule
from harness.simulator.run import simulate

X_OVER_BOUND = 0.9
"""α: a node holds tuples back for αX."""

PROPERTY_OF = {
    "output-lateness": 1, "needless-tentative": 1, "stable-once": 4, "no-late-tentative": 2,
    "equal-message": 2, "equal-output": 3, "equal-state": 3, "every-correction": 3,
    "convergence": 3, "no-tentative": 3, "machine": 3,
}  # fmt: skip

PROPERTIES = (1, 2, 3, 4)

STATIC = {Profile.SMOKE: 4, Profile.QUICK: 40, Profile.PAPER: 200}
RANDOM = {Profile.SMOKE: 10, Profile.QUICK: 500, Profile.PAPER: 5000}


def run(point: Point, context: Context) -> Outcome:
    """Run all schedules of one kind."""
    if point["kind"] == "static failure":
        return _static(context)
    return _random(context)


def _static(context: Context) -> Outcome:
    random = Random(context.seed("static"))
    worst, broken = 0.0, 0
    for number in range(STATIC[context.profile]):
        bound_s = random.choice((0.5, 1.0, 2.7, 4.0))
        chain = random.randint(1, 4)
        setting = _shared.Setting(
            failure_s=random.choice((1.0, 3.0, 8.0, 15.0)),
            settle_us=_shared.SETTLE_US[context.profile],
            bound_s=bound_s,
            chain=chain,
            rate_per_s=random.choice((990, 3000)),
            during_failure=random.choice((Policy.DELAY, Policy.PROCESS)),
            during_stabilization=random.choice((Policy.DELAY, Policy.PROCESS)),
            seed=context.seed("network", number),
        )
        share = _shared.measure(setting).delay_new_s / (chain * bound_s / X_OVER_BOUND)
        worst, broken = max(worst, share), broken + (share > 1.0)
        context.progress("static failures", fraction=(number + 1) / STATIC[context.profile])
    schedules = STATIC[context.profile]
    return Outcome(values={"schedules": schedules, "worst_share_of_kX": worst, "broken_1": broken})


def _random(context: Context) -> Outcome:
    count = RANDOM[context.profile]
    broken: Counter[int] = Counter()
    faults = tentative = 0
    for number in range(count):
        seed = context.seed("schedule", number)
        report = simulate(draw_schedule(seed, scheme="dpc"))
        faults += sum(report.faults.values())
        tentative += report.tentative_outputs > 0
        if report.violation is not None:
            # a violation of none of the four still breaks the complete stable stream
            broken[PROPERTY_OF.get(report.violation.invariant, 3)] += 1
        context.progress("random schedules", fraction=(number + 1) / count)
    return Outcome(
        values={
            "schedules": count,
            "faults": faults,
            "with_tentative": tentative,
            **{f"broken_{number}": broken[number] for number in PROPERTIES},
        }
    )


MEASUREMENT = _shared.simulated(
    "dpc/properties",
    run=run,
    grid=[{"kind": "static failure"}, {"kind": "random schedule"}],
    repeats=1,
    seconds=(0.5, 12.0, 100.0),
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per property: the number of schedules, and of those that broke it.

    Property 1 is checked end to end in static failures and task by task in random schedules."""
    kinds = results.frame
    static, random = (kinds[(kinds["kind"] == "static failure") == each] for each in (True, False))
    rows = [
        {
            "property": number,
            "schedules": int(counted["schedules"].sum()),
            "broken": int(counted[f"broken_{number}"].sum()) if len(counted) else 0,
            "worst_share_of_kX": (
                static["worst_share_of_kX"].max() if number == 1 and len(static) else None
            ),
            "with_tentative": int(random["with_tentative"].sum()) if len(random) else 0,
        }
        for number in PROPERTIES
        for counted in [kinds if number == 1 else random]
    ]
    return pd.DataFrame(rows)


def _draw(axes: Axes, table: pd.DataFrame) -> None:
    names = [f"Property {number}" for number in table["property"]]
    bars = axes.barh(names, table["schedules"], color=BLUE, height=0.5)
    counted = zip(table["schedules"], table["broken"], strict=True)
    labels = [f" {schedules} schedules, {broken} broke it" for schedules, broken in counted]
    axes.bar_label(bars, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.5 * table["schedules"].max())
    axes.grid(visible=False, axis="y")


SENTENCES = {
    1: ("within-kx", "In a static failure state results come within kX"),
    2: ("no-duplicates", "Switching between copies never causes duplicate results"),
    3: (
        "complete",
        "When all failures heal, the complete stable stream is received, as one copy of each node "
        "never failed",
    ),
    4: ("stable-stays", "Stable tuples are never undone"),
}


@quantity
def _counted(table: pd.DataFrame, number: int) -> dict[str, Any]:
    """Return the schedules of a property."""
    row = table.set_index("property").loc[number]
    return {str(name): value for name, value in row.dropna().items()}


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Properties 1-4 (section 3.5)",
    title="The four properties over random schedules",
    statement="Results within kX, no duplicates, eventual completeness, stable tuples stay.",
    table=table,
    draw=Chart([Panel([_draw], "schedules run")], stamp=_shared.STAMP),
    claims=[
        invariant(name, f"Property {number}: {text}").every(
            [_counted(number)["broken"] == 0], also=_counted(number)
        )
        for number, (name, text) in SENTENCES.items()
    ],
    notes=(
        _shared.CHOSEN,
        "Property 1 is checked end to end on chains with one cut stream, Delay or Process in both "
        "states and α = 0.9; task by task, like 2 to 4, on random "
        "topologies with crashes, cuts, pauses, lost messages and more.",
    ),
    figure_size_in=(7.5, 3.0),
)
