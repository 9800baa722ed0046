"""A worker is killed: the stock engine under checkpoint and under active replication.

Structured Streaming counts words in sliding windows while one of its workers is killed, and
restarted some seconds later. Under ``checkpoint`` one application spans both racks: its tasks
run again on what is left, from the last checkpoint. Under ``active`` two applications, one per
rack, both read everything, and the reader takes the first copy of each result. Output must be
equal to that of the same input without a failure, and to the batch query over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments.stock import calibration
from experiments.stock._figure import draw_kills
from experiments.stock._kills import NOTES, check, point, run_kill, tabulate
from experiments.stock._scale import check_options, keeps, lasts
from harness.claims import Verdict
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(point: Point, context: Context) -> Outcome:
    """One scheme at one interval: twin, both kills, truth."""
    return run_kill(point, context, racks=True)


MEASUREMENT = Measurement(
    id="stock/worker-kill",
    origin=Origin.MEASURED,
    grid={
        # Every scheme opens applications of its own, which is most of what a smoke run takes; the
        # other one is in the smoke profile of stock/workload-kill.
        Profile.SMOKE: [point("checkpoint", 1)],
        Profile.QUICK: [point("active", 2), point("checkpoint", 2)],
        Profile.PAPER: [
            point(scheme, interval_s)
            for scheme in ("active", "checkpoint")
            for interval_s in (1, 2, 5, 10)
        ],
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 45, Profile.QUICK: 150, Profile.PAPER: 330},
    run=run,
    scheduling=Scheduling(keeps=keeps),
    chooses=["harness.engines.structured.engine"],
    accepts=frozenset({"conf", "failures", "text", "workload"}),
    check=check_options,
    lasts=lasts,
)

# Shown: no record depends on what follows.

VICTIM = "worker"


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Output over time around the kill, and what every run cost."""
    draw_kills(tables, figure, victim=VICTIM)


def claims(tables: Mapping[str, pd.DataFrame]) -> Sequence[Verdict]:
    """Equal output and real kills in every run; what the schemes are said to do."""
    return check(tables, victim=VICTIM)


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="worker kill",
    title="Output around the kill of one worker",
    statement=(
        "When one worker is killed, output stops until its tasks run again elsewhere "
        "under checkpoint, and goes on under active replication."
    ),
    table=partial(tabulate, scope="node"),
    draw=draw,
    claims=claims,
    notes=NOTES,
    figure_size_in=(9.0, 7.0),
    scaled_by=calibration.EXPERIMENT,
)
