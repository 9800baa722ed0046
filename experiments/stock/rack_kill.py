"""A rack is killed at once: the stock engine under checkpoint and under active replication.

All workers of one of the two racks are killed at once, and restarted some seconds later. The runs
are those of `experiments.stock.worker_kill`: the rack is killed some time after the worker. Under
``checkpoint`` the tasks run again on the other rack."""

from __future__ import annotations

from experiments.stock import worker_kill
from experiments.stock._figure import kill_experiment

# Shown: no record depends on what follows.

EXPERIMENT = kill_experiment(
    "rack",
    scope="rack",
    measurement=worker_kill.MEASUREMENT,
    name="stock/rack-kill",
    title="Output around the kill of a whole rack",
    statement=(
        "When a rack is killed at once, output stops until its tasks run again on "
        "the other rack under checkpoint, and goes on under active replication."
    ),
    smoke_covered_by=worker_kill.EXPERIMENT.id,
)
