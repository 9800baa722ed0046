"""Figure 10, live: six ways to treat new tuples during a failure and during stabilization.

As `dpc/failure-duration`, on a real pair of nodes: while the replica stabilizes, the primary goes
on with new tuples, unless they are suspended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from experiments.dpc import _live, _shared, failure_duration
from experiments.dpc.failure_duration import BOUND_S, LOOKS, RATE_PER_S
from harness.experiment import Experiment
from harness.figures.style import stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMBINATIONS: Mapping[Profile, tuple[str, ...]] = {
    Profile.SMOKE: ("delay & suspend", "delay & process", "process & process"),
    Profile.QUICK: tuple(LOOKS),
    Profile.PAPER: tuple(LOOKS),
}
DURATIONS_S: Mapping[Profile, tuple[float, ...]] = {
    Profile.SMOKE: (6.0,),
    Profile.QUICK: (6.0,),
    Profile.PAPER: failure_duration.DURATIONS_S,
}


def run(point: Point, context: Context) -> Outcome:
    """Measure a failure of one duration under every combination."""
    chain = _live.Chain(rate_per_s=RATE_PER_S, failure_s=float(str(point["failure_s"])))
    cells = {name: _live.Cell.of(name, bound_s=BOUND_S) for name in COMBINATIONS[context.profile]}
    return _live.measure(chain, cells, context)


MEASUREMENT = Measurement(
    id="dpc/failure-duration-live",
    origin=Origin.MEASURED,
    grid={
        profile: [{"failure_s": duration_s} for duration_s in durations_s]
        for profile, durations_s in DURATIONS_S.items()
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 85.0, Profile.QUICK: 155.0, Profile.PAPER: 300.0},
    run=run,
    scheduling=_live.SCHEDULING,
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.


def table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, as `dpc/failure-duration` has them, and ``passes``."""
    passes = _live.cells_of(results, ["failure_s"]).rename(columns={"cell": "combination"})
    passes = passes.assign(cell=passes["combination"])
    by = ["combination", "failure_s"]
    points = _live.averaged(passes, by, failure_duration.VALUES)
    return {"points": points.sort_values(by, ignore_index=True), "passes": passes}


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw as `dpc/failure-duration` does."""
    failure_duration.draw_points(tables["points"], figure)
    stamp(figure, f"{_live.STAMP}; {_shared.runs_of(tables['points'])}")


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 10, live",
    title="Six policies over the duration of a failure, on a real pair",
    statement=failure_duration.EXPERIMENT.statement,
    table=table,
    draw=draw,
    claims=[_live.converges, *(_live.on_points(each) for each in failure_duration.SENTENCES)],
    notes=(_live.NOTE,),
    figure_size_in=(9.5, 4.2),
    fewest=_shared.FEWEST,
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
