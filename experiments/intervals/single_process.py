"""Figure 4: utilization of a single process over its checkpoint interval.

The paper: with harsh values (their symbols are lost), equation 4 has one maximum, at T*, and T* is
"interestingly not a function of R". Drawn for three restart times to show exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.intervals import _shared
from harness.claims import Finding, every, invariant
from harness.experiment import Experiment
from harness.figures.style import label_line_ends, stamp
from harness.measurement import Measurement, Origin
from harness.results.tables import Results
from harness.text import format_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = [
    {"failures_per_min": 0.05, "cost_s": 30.0, "restart_s": restart} for restart in (0.0, 30.0, 240)
]

MEASUREMENT = Measurement(
    id="intervals/single-process",
    origin=Origin.COMPUTED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run=_shared.seconds(0.05),
    run=_shared.run_curve,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per restart time and interval."""
    return _shared.curve_table(results, "restart_s")


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """One curve per restart time, the common T* marked."""
    axes = _shared.draw_curves(
        figure, table, "restart_s", lambda restart: f"R = {format_duration(restart)}"
    )
    label_line_ends(axes)
    stamp(figure, "chosen: λ = 0.05/min, c = 30 s, R (the paper's values are lost)")


def _peaks(table: pd.DataFrame) -> pd.DataFrame:
    return table.loc[table.groupby("restart_s")["utilization"].idxmax()].set_index("restart_s")


@invariant(
    "one-maximum", "Utilization is greatest at T* = (1 + λc + W0(-e^(-1-λc)))/λ and nowhere else"
)
def one_maximum(table: pd.DataFrame) -> Finding:
    peaks = _peaks(table)
    at_t_star = peaks["interval_min"] == peaks["optimal_interval_min"]
    single = [_rises_then_falls(curve["utilization"]) for _, curve in table.groupby("restart_s")]
    return every(
        [*at_t_star, *single],
        peaks_min=peaks["interval_min"].tolist(),
        t_star_min=peaks["optimal_interval_min"].iloc[0],
    )


@invariant("not-of-r", "T* is not a function of R")
def not_of_r(table: pd.DataFrame) -> Finding:
    intervals = _peaks(table)["interval_min"]
    return every(intervals == intervals.iloc[0], t_star_min=intervals.to_dict())


def _rises_then_falls(values: pd.Series[float]) -> bool:
    peak = int(values.to_numpy().argmax())
    steps = values.diff().to_numpy()[1:]
    return bool((steps[:peak] > 0).all() and (steps[peak:] < 0).all())


CLAIMS = [one_maximum, not_of_r]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 4",
    title="Utilization of a single process over its checkpoint interval",
    statement="Utilization has one maximum, at T*, and T* is not a function of the restart time.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.05 per minute (the highest of its "
        "Table 1), c = 30 s, R = 0, 30 s and 4 min.",
    ),
)
