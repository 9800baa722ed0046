"""A worker is killed: the stock engine under checkpoint and under active replication.

Structured Streaming counts words in sliding windows while one of its workers is killed, and
restarted some seconds later. Under ``checkpoint`` one application spans both racks: its tasks
run again on what is left, from the last checkpoint. Under ``active`` two applications, one per
rack, both read everything, and the reader takes the first copy of each result. Output must be
equal to that of the same input without a failure, and to the batch query over it."""

from __future__ import annotations

from experiments.stock._figure import kill_experiment
from harness.experiment import Context, Outcome, Point, Profile, measured
from harness.stock_kills.measure import point, run_kill
from harness.stock_kills.own import OPTIONS
from harness.stock_kills.scale import check_options, keeps, lasts


def run(point: Point, context: Context) -> Outcome:
    """Measure one scheme at one interval: twin, both kills, truth."""
    return run_kill(point, context, racks=True)


MEASUREMENT = measured(
    "stock/worker-kill",
    run=run,
    grid={
        # Every scheme opens applications of its own, which takes most of a smoke run. The other
        # scheme is in the smoke profile of stock/workload-kill.
        Profile.SMOKE: [point("checkpoint", 1)],
        Profile.QUICK: [point("active", 2), point("checkpoint", 2)],
        Profile.PAPER: [
            point(scheme, interval_s)
            for scheme in ("active", "checkpoint")
            for interval_s in (1, 2, 5, 10)
        ],
    },
    seconds=(75, 150, 330),
    keeps=keeps,
    chooses=["harness.engines.structured.engine"],
    accepts=OPTIONS | {"failures", "text"},
    check=check_options,
    lasts=lasts,
)

# Shown: no record depends on what follows.

EXPERIMENT = kill_experiment(
    "worker",
    scope="node",
    measurement=MEASUREMENT,
    main=True,
    title="Output around the kill of one worker",
    statement=(
        "When one worker is killed, output stops until its tasks run again elsewhere "
        "under checkpoint, and goes on under active replication."
    ),
)
