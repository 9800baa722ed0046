"""A rack is killed at once: the stock engine under checkpoint and under active replication.

Structured Streaming counts words in sliding windows while all workers of one of its two racks
are killed at once, and restarted some seconds later. Under ``checkpoint`` one application spans
both racks: its tasks run again on the other one, from the last checkpoint. Under ``active`` two
applications, one per rack, both read everything, and the reader takes the first copy of each
result. Output must be equal to that of the same input without a failure, and to the batch query
over it. The runs are those of `stock/worker-kill`: the rack is killed some time after the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments.stock import calibration, worker_kill
from experiments.stock._figure import draw_kills
from experiments.stock._kills import NOTES, check, tabulate
from harness.claims import Verdict
from harness.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shown: no record depends on what follows.

VICTIM = "rack"


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Output over time around the kill, and what every run cost."""
    draw_kills(tables, figure, victim=VICTIM)


def claims(tables: Mapping[str, pd.DataFrame]) -> Sequence[Verdict]:
    """Equal output and real kills in every run; what the schemes are said to do."""
    return check(tables, victim=VICTIM)


EXPERIMENT = Experiment(
    measurement=worker_kill.MEASUREMENT,
    name="stock/rack-kill",
    paper="Faultline",
    figure="rack kill",
    title="Output around the kill of a whole rack",
    statement=(
        "When a rack is killed at once, output stops until its tasks run again on "
        "the other rack under checkpoint, and goes on under active replication."
    ),
    table=partial(tabulate, scope="rack"),
    draw=draw,
    claims=claims,
    notes=NOTES,
    figure_size_in=(9.0, 7.0),
    scaled_by=calibration.EXPERIMENT,
    smoke_covered_by=worker_kill.EXPERIMENT.id,
)
