"""Figure 10: utilization of a DAG over the interval, for several message delays.

The paper: equation 10 for different values of a symbol that is lost, perhaps λ or δ; T* is at one
place. Here it is δ, on which T* does not depend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.intervals import _shared
from harness.claims import Finding, every, invariant
from harness.experiment import Experiment
from harness.figures.style import label_line_ends, stamp
from harness.measurement import Measurement, Origin
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELAYS_S = (0.0, 0.5, 1.5, 5.0)

POINTS = [
    {"failures_per_min": 0.05, "cost_s": 30.0, "restart_s": 30.0, "depth": 100, "delay_s": delay}
    for delay in DELAYS_S
]

MEASUREMENT = Measurement(
    id="intervals/dag-delay",
    origin=Origin.COMPUTED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run=_shared.seconds(0.05),
    run=_shared.run_curve,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per delay and interval."""
    return _shared.curve_table(results, "delay_s")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """One curve per delay, the common T* marked."""
    axes = _shared.draw_curves(figure, table, "delay_s", lambda delay: f"δ = {delay:g} s")
    label_line_ends(axes)
    stamp(figure, "chosen: λ = 0.05/min, c = 30 s, R = 30 s, n = 100, δ (the paper's are lost)")


def _peaks(table: pd.DataFrame) -> pd.DataFrame:
    return table.loc[table.groupby("delay_s")["utilization"].idxmax()].set_index("delay_s")


@invariant("t-star-fixed", "T* is independent of δ")
def t_star_fixed(table: pd.DataFrame) -> Finding:
    peaks = _peaks(table)
    at_t_star = peaks["interval_min"] == peaks["optimal_interval_min"].iloc[0]
    return every(at_t_star, interval_min=peaks["interval_min"].to_dict())


@invariant("falls", "Utilization falls as the message delay grows")
def falls(table: pd.DataFrame) -> Finding:
    heights = _peaks(table)["utilization"]
    return every(heights.diff().iloc[1:] < 0, utilization=heights.to_dict())


CLAIMS = [t_star_fixed, falls]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 10",
    title="Utilization of a DAG over its checkpoint interval, by message delay",
    statement="A longer message delay lowers utilization and leaves T* where it is.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.05 per minute, c = 30 s, R = 30 s, "
        "n = 100 operators, δ = 0, 0.5, 1.5 and 5 s.",
    ),
)
