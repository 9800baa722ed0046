"""Figure 10: utilization of a DAG over the interval, for several message delays.

The paper: equation 10 for different values of a symbol that is lost, perhaps λ or δ; T* is at one
place. Here it is δ, on which T* does not depend."""

from __future__ import annotations

from experiments.intervals import _shared
from harness.claims import invariant
from harness.experiment import Experiment, computed

DELAYS_S = (0.0, 0.5, 1.5, 5.0)

POINTS = [
    {"failures_per_min": 0.05, "cost_s": 30.0, "restart_s": 30.0, "depth": 100, "delay_s": delay}
    for delay in DELAYS_S
]

MEASUREMENT = computed("intervals/dag-delay", POINTS, 0.05, run=_shared.run_curve)

# Shown: no record depends on what follows.

tops = _shared.peaks("delay_s")

CLAIMS = [
    invariant("t-star-fixed", "T* is independent of δ").every(
        tops["interval_min"] == tops["optimal_interval_min"].iloc[0],
        interval_min=tops["interval_min"].to_dict(),
    ),
    invariant("falls", "Utilization falls as the message delay grows").every(
        tops["utilization"].diff().iloc[1:] < 0, utilization=tops["utilization"].to_dict()
    ),
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 10",
    title="Utilization of a DAG over its checkpoint interval, by message delay",
    statement="A longer message delay lowers utilization and leaves T* where it is.",
    table=_shared.curves("delay_s"),
    draw=_shared.curve_chart(
        "delay_s",
        "δ = {:g} s",
        "chosen: λ = 0.05/min, c = 30 s, R = 30 s, n = 100, δ (the paper's are lost)",
    ),
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: λ = 0.05 per minute, c = 30 s, R = 30 s, "
        "n = 100 operators, δ = 0, 0.5, 1.5 and 5 s.",
    ),
)
