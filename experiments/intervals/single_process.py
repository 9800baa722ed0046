"""Figure 4: utilization of a single process over its checkpoint interval.

The paper: with harsh values (their symbols are lost), equation 4 has one maximum, at T*, and T* is
"interestingly not a function of R". Drawn for three restart times to show exactly that."""

from __future__ import annotations

import pandas as pd

from experiments.intervals import _shared
from harness.claims import invariant, quantity
from harness.experiment import Experiment, computed
from harness.text import format_duration

POINTS = [
    {"failures_per_min": 0.05, "cost_s": 30.0, "restart_s": restart} for restart in (0.0, 30.0, 240)
]

MEASUREMENT = computed("intervals/single-process", POINTS, 0.05, run=_shared.run_curve)

# Shown: no record depends on what follows.

tops = _shared.peaks("restart_s")


@quantity
def _rises_then_falls(table: pd.DataFrame) -> list[bool]:
    """Return whether each curve has one maximum."""
    held = []
    for _, curve in table.groupby("restart_s"):
        steps = curve["utilization"].diff().to_numpy()[1:]
        peak = int(curve["utilization"].to_numpy().argmax())
        held.append(bool((steps[:peak] > 0).all() and (steps[peak:] < 0).all()))
    return held


CLAIMS = [
    invariant(
        "one-maximum",
        "Utilization is greatest at T* = (1 + λc + W0(-e^(-1-λc)))/λ and nowhere else",
    ).every(
        [tops["interval_min"] == tops["optimal_interval_min"], _rises_then_falls()],
        peaks_min=tops["interval_min"].tolist(),
        t_star_min=tops["optimal_interval_min"].iloc[0],
    ),
    invariant("not-of-r", "T* is not a function of R").every(
        tops["interval_min"] == tops["interval_min"].iloc[0],
        t_star_min=tops["interval_min"].to_dict(),
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 4",
    title="Utilization of a single process over its checkpoint interval",
    statement="Utilization has one maximum, at T*, and T* is not a function of the restart time.",
    table=_shared.curves("restart_s"),
    draw=_shared.curve_chart(
        "restart_s",
        lambda restart: f"R = {format_duration(restart)}",
        "chosen: λ = 0.05/min, c = 30 s, R (the paper's values are lost)",
    ),
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.05 per minute (the highest of its "
        "Table 1), c = 30 s, R = 0, 30 s and 4 min.",
    ),
)
