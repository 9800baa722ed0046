"""Figure 9: Delay_new and N_tentative over αX, for a 5 s failure of one of three streams.

The paper: with Delay, N_tentative falls in proportion to αX; with Process it is almost a step,
because a node that has blocked for αX catches up and then processes whatever comes; Delay_new
rises linearly with αX for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.dpc import _shared
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.figures.style import BLUE, VERMILION, stamp
from harness.measurement import Context, Measurement, Origin
from harness.protocol.scheme import Policy
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAILURE_S = 5.0

RATE_PER_S = 3000

BOUNDS_S = tuple(round(0.5 * step, 1) for step in range(1, 13))

LOOKS = {"delay": ("Delay", BLUE, "s"), "process": ("Process", VERMILION, "o")}


def grid(bounds: tuple[float, ...]) -> list[Point]:
    return [{"bound_s": bound, "during_failure": policy} for bound in bounds for policy in LOOKS]


def run(point: Point, context: Context) -> Outcome:
    """One failure under one policy and bound."""
    setting = _shared.Setting(
        failure_s=FAILURE_S,
        settle_us=_shared.SETTLE_US[context.profile],
        rate_per_s=RATE_PER_S,
        bound_s=float(str(point["bound_s"])),
        during_failure=Policy(str(point["during_failure"])),
        during_stabilization=Policy.SUSPEND,
        seed=context.seed(),
        repeat=context.repeat,
    )
    measured = _shared.measure(setting)
    return Outcome(values={"delay_new_s": measured.delay_new_s, "tentative": measured.tentative})


MEASUREMENT = Measurement(
    id="dpc/availability-bound",
    origin=Origin.SIMULATED,
    grid={
        Profile.SMOKE: grid((0.5, 2.5, 6.0)),
        Profile.QUICK: grid(BOUNDS_S),
        Profile.PAPER: grid(BOUNDS_S),
    },
    repeats=_shared.THRICE,
    seconds_per_run={Profile.SMOKE: 0.1, Profile.QUICK: 0.2, Profile.PAPER: 0.2},
    run=run,
)

# Shown: no record depends on what follows.

AVAILABLE_PER_S = RATE_PER_S * 2 // 3

BUCKETS = 2
"""Tolerance, in buckets of available tuples: batches are cut before they are counted."""


def expected(policy: str, bound_s: float) -> float:
    """The analytic count: nothing while the bound covers the failure; then all that arrived
    during the failure (Process), or what had waited for the bound by its end (Delay)."""
    if bound_s >= FAILURE_S:
        return 0.0
    return AVAILABLE_PER_S * (FAILURE_S - (bound_s if policy == "delay" else 0.0))


def table(results: Results) -> pd.DataFrame:
    """A row per policy and bound, with the analytic count."""
    values = ("delay_new_s", "tentative")
    frame = _shared.averaged(results.frame, ["during_failure", "bound_s"], values)
    frame["expected"] = [
        expected(policy, bound)
        for policy, bound in zip(frame["during_failure"], frame["bound_s"], strict=True)
    ]
    columns = ["during_failure", "bound_s", "delay_new_s", "tentative", "expected", "runs"]
    return frame[columns]


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Delay above, tentative tuples below, over the bound."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    for policy, rows in table.groupby("during_failure"):
        label, colour, marker = LOOKS[str(policy)]
        style = {"color": colour, "marker": marker, "label": label}
        upper.plot(rows["bound_s"], rows["delay_new_s"], **style)
        lower.plot(rows["bound_s"], rows["tentative"] / 1000, **style)
        lower.plot(
            rows["bound_s"], rows["expected"] / 1000, color=colour, linestyle=":", linewidth=1.0
        )
    upper.set_ylabel("longest delay of\nnew tuples (s)")
    lower.set_ylabel("tentative tuples\n(thousands)")
    lower.set_xlabel("availability bound αX (s); dotted: analytic; " + _shared.runs_of(table))
    upper.legend(loc="upper left")
    stamp(figure, _shared.STAMP)


def claims(table: pd.DataFrame) -> list[Verdict]:
    """The step, the slope, the linear delay, and the analytic counts."""
    delay = table[table["during_failure"] == "delay"]
    process = table[table["during_failure"] == "process"]
    bucket = AVAILABLE_PER_S * _shared.BUCKET_US / 1e6
    error = float((table["tentative"] - table["expected"]).abs().max())
    below = table[table["bound_s"] < FAILURE_S]
    slopes = {
        str(policy): float(np.polyfit(rows["bound_s"], rows["delay_new_s"], 1)[0])
        for policy, rows in below.groupby("during_failure")
    }
    falling = delay[delay["bound_s"] < FAILURE_S]
    line = np.polyfit(falling["bound_s"], falling["tentative"], 1)
    fall = float(line[0])
    unevenness = float((falling["tentative"] - np.polyval(line, falling["bound_s"])).abs().max())
    steps = process[process["bound_s"] <= 4.0]["tentative"]
    return [
        Verdict(
            text="With Delay, N_tentative falls proportionally to αX: by as many tuples as come in "
            "that time",
            kind=ClaimKind.PAPER,
            held=abs(fall / AVAILABLE_PER_S + 1.0) <= 0.1 and unevenness <= BUCKETS * bucket,
            measured={
                "tentative": falling["tentative"].tolist(),
                "tuples_per_s": fall,
                "expected_tuples_per_s": -AVAILABLE_PER_S,
                "tolerance": 0.1,
                "largest_deviation_from_the_line_tuples": unevenness,
                "tolerance_tuples": BUCKETS * bucket,
            },
        ),
        Verdict(
            text="With Process, N_tentative is almost the whole failure for αX ≤ 4 s: a step",
            kind=ClaimKind.PAPER,
            held=bool((steps >= 0.9 * AVAILABLE_PER_S * FAILURE_S).all()),
            measured={"tentative": steps.tolist(), "at_least": 0.9 * AVAILABLE_PER_S * FAILURE_S},
        ),
        Verdict(
            text="Delay_new rises linearly with αX for both policies (slope 1)",
            kind=ClaimKind.PAPER,
            held=all(abs(slope - 1.0) <= 0.1 for slope in slopes.values()),
            measured={"slope": slopes, "tolerance": 0.1},
        ),
        Verdict(
            text="The counts are those of the analytic model, within two buckets",
            kind=ClaimKind.INVARIANT,
            held=error <= BUCKETS * bucket,
            measured={"largest_difference_tuples": error, "tolerance_tuples": BUCKETS * bucket},
        ),
    ]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 9",
    title="Delay and tentative tuples over the availability bound",
    statement=(
        "For a 5 s failure, Delay cuts tentative tuples in proportion to αX, Process yields almost "
        "all of the failure's until αX covers it; the delay of new tuples rises linearly with αX."
    ),
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        _shared.CHOSEN,
        "New tuples are suspended while the node reconciles, a third of a second.",
    ),
)
