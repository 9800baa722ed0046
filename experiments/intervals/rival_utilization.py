"""Figure 15(b): utilization at the interval that each model calls optimal.

The paper: with c fixed, the utilization at its T* against that at Daly's first-order and
Zhuang et al.'s intervals, evaluated by equation 10, over the failure rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.intervals import _rivals, _shared
from harness.claims import Finding, every, invariant
from harness.experiment import Experiment
from harness.figures.style import stamp
from harness.intervals.utilization import CheckpointedSystem
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES_PER_MIN = np.round(np.linspace(0.05, 2.0, 40), 10)

POINTS: list[Point] = [{"cost_s": 30.0}]


def run(point: Point, context: Context) -> Outcome:
    """Every model's interval and its utilization at every failure rate, for one cost."""
    system = CheckpointedSystem(
        cost_s=float(point["cost_s"] or 0.0),
        failure_rate_per_s=RATES_PER_MIN / 60.0,
        restart_s=_rivals.RESTART_S,
        depth=_rivals.DEPTH,
        delay_s=_rivals.DELAY_S,
    )
    frame = _rivals.intervals(system).drop(columns="cost_s")
    return Outcome(values={}, series={"utilization": frame})


MEASUREMENT = Measurement(
    id="intervals/rival-utilization",
    origin=Origin.COMPUTED,
    grid=_shared.everywhere(POINTS),
    repeats=_shared.ONCE,
    seconds_per_run=_shared.seconds(0.02),
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per cost, model and failure rate."""
    frame = results.series("utilization", ("cost_s",)).drop(columns="run")
    return frame.sort_values(["cost_s", "model", "failures_per_min"], ignore_index=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Left: utilization; right: what is lost against the best possible, where one sees it."""
    left, right = figure.subplots(1, 2)
    _rivals.draw_models(left, table, "failures_per_min", "utilization")
    left.set_ylabel("utilization U")
    left.set_ylim(bottom=0)
    left.legend()
    best = table[table["model"] == "ours"].set_index("failures_per_min")["utilization"]
    lost = table[table["model"] != "ours"].copy()
    lost["lost"] = best.reindex(lost["failures_per_min"]).to_numpy() - lost["utilization"]
    _rivals.draw_models(right, lost, "failures_per_min", "lost")
    right.set_ylabel("utilization lost against T*")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("failures per minute, λ")
    stamp(figure, "chosen: c = 30 s, R = 30 s, n = 5, δ = 27 ms; Zhuang et al.: a reconstruction")


@invariant("never-below", "Utilization at our T* is at least that at any other model's interval")
def never_below(table: pd.DataFrame) -> Finding:
    by_model = table.pivot_table(
        index=["cost_s", "failures_per_min"], columns="model", values="utilization"
    )
    lead = by_model.drop(columns="ours").rsub(by_model["ours"], axis=0)
    shown: dict[str, Any] = {f"least_lead_{name}": float(lead[name].min()) for name in lead}
    shown |= {f"largest_lead_{name}": float(lead[name].max()) for name in lead}
    return every((lead >= -1e-12).stack(), **shown)


CLAIMS = [never_below]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 15(b)",
    title="Utilization at the interval that each model calls optimal",
    statement="No other model's interval gives a higher utilization than T*.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Chosen, because the paper's values are lost: c = 30 s, R = 30 s, n = 5, δ = 27 ms, λ "
        "from 0.05 to 2 per minute.",
        _rivals.PERIOD_NOTE,
        _rivals.ZHUANG_NOTE,
        "Dashed: models that the paper does not compare with.",
    ),
    figure_size_in=(9.5, 4.2),
)
