"""The smoke grid of experiments that need no servers, run once, and its table."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import cast

import pandas as pd

from harness.experiment import Experiment
from harness.measurement import Context, Measurement
from harness.results.record import Profile
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED, run_seed

_FOLDER = tempfile.TemporaryDirectory(prefix="faultline-smoke-")
"""The series of all smoke grids of this process; removed when it ends."""


class SmokeContext:
    """The part of a `Context` that these experiments use."""

    profile = Profile.SMOKE
    repeat = 0

    def __init__(self, experiment: Experiment | Measurement) -> None:
        self._id = experiment.id

    def seed(self, *names: str | int) -> int:
        return run_seed(DEFAULT_SEED, self._id, 0, *names)

    def measures(self, setting: object) -> None:
        """Keep no record."""

    def surroundings(self, name: str, conditions: object, **_: object) -> bool:
        """Keep no record."""
        return False

    def progress(self, stage: str, **_: object) -> None:
        assert stage


@functools.cache
def smoke_results(measurement: Measurement) -> Results:
    """Return the runs of the whole smoke grid."""
    rows, directories = [], {}
    for number, point in enumerate(measurement.grid[Profile.SMOKE]):
        outcome = measurement.run(point, cast(Context, SmokeContext(measurement)))
        assert outcome.invalid is None
        run = f"{measurement.id}/{number}"
        directories[run] = Path(_FOLDER.name) / run
        directories[run].mkdir(parents=True)
        for series, frame in outcome.series.items():
            frame.to_parquet(directories[run] / f"{series}.parquet")
        rows.append({**point, **outcome.values, "repeat": 0, "run": run})
    return Results(pd.DataFrame(rows), directories)


@functools.cache
def smoke_table(experiment: Experiment) -> pd.DataFrame:
    """Return the only table of an experiment."""
    table = experiment.table(smoke_results(experiment.measurement))
    assert isinstance(table, pd.DataFrame), "one of several tables: call its `table` yourself"
    return table
