"""A worker is killed: the stock engine under checkpoint and under active replication.

Structured Streaming counts words in sliding windows while one of its workers is killed, and
restarted some seconds later. Under ``checkpoint`` one application spans both racks: its tasks
run again on what is left, from the last checkpoint. Under ``active`` two applications, one per
rack, both read everything, and the reader takes the first copy of each result. Output must be
equal to that of the same input without a failure, and to the batch query over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.stock._figure import kill_experiment
from harness.errors import UsageError
from harness.experiment import Context, Outcome, Point, Profile, measured
from harness.failures.files import read_schedule
from harness.stock_kills.measure import point, run_kill
from harness.stock_kills.own import OPTIONS
from harness.stock_kills.scale import check_options, keeps, lasts, scale_of


def run(point: Point, context: Context) -> Outcome:
    """Measure one scheme at one interval: twin, both kills, truth."""
    return run_kill(point, context, racks=True)


def _check(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse options that cannot be used, and a schedule that the shortest load would not hold."""
    check_options(profile, options)
    if "failures" not in options:
        return
    last_s = read_schedule(Path(options["failures"])).events[-1].at_s
    load_s = scale_of(profile, options).whole_load_s
    if last_s >= load_s:
        raise UsageError(
            f"{options['failures']}: its last event, at {last_s:g} s, lies after the end of the "
            f"load at {load_s:.3g} s",
            remedy="plan it earlier (of a log: ./faultline failures --load), or take a longer "
            "--profile",
        )


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
    seconds=(45, 150, 330),
    keeps=keeps,
    chooses=["harness.engines.structured.engine"],
    accepts=OPTIONS | {"failures", "text"},
    check=_check,
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
