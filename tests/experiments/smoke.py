"""The smoke grid of experiments that need no servers, run once, and its table."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from harness.experiment import Experiment
from harness.measurement import Context, Measurement
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED, run_seed

_FOLDER = tempfile.TemporaryDirectory(prefix="faultline-smoke-")
"""The series of all smoke grids of this process; removed when it ends."""


class Unrecorded:
    """The part of a `Context` that records and reports, for a run that leaves no record."""

    profile = Profile.SMOKE
    repeat = 0

    def measures(self, setting: Any) -> None:
        """Keep no record."""

    def surroundings(self, name: str, conditions: object, **_: object) -> bool:
        """Keep no record."""
        return False

    def progress(self, stage: str, **_: object) -> None:
        assert stage


class SmokeContext(Unrecorded):
    """The part of a `Context` that these experiments use."""

    def __init__(self, experiment: Experiment | Measurement) -> None:
        self._id = experiment.id

    def seed(self, *names: str | int) -> int:
        return run_seed(DEFAULT_SEED, self._id, 0, *names)


def results_of(outcomes: Sequence[tuple[Point, Outcome]], directory: Path) -> Results:
    """Return outcomes of points as the results of their runs."""
    rows, directories = [], {}
    for number, (point, outcome) in enumerate(outcomes):
        run = f"run-{number}"
        directories[run] = directory / run
        directories[run].mkdir(parents=True)
        for name, series in outcome.series.items():
            series.to_parquet(directories[run] / f"{name}.parquet", index=False)
        rows.append({**outcome.values, **point, "repeat": 0, "run": run})
    return Results(pd.DataFrame(rows), directories)


@functools.cache
def smoke_results(measurement: Measurement) -> Results:
    """Return the runs of the whole smoke grid."""
    outcomes = []
    for point in measurement.grid[Profile.SMOKE]:
        outcome = measurement.run(point, cast(Context, SmokeContext(measurement)))
        assert outcome.invalid is None
        outcomes.append((point, outcome))
    return results_of(outcomes, Path(_FOLDER.name) / measurement.id)


@functools.cache
def smoke_table(experiment: Experiment) -> pd.DataFrame:
    """Return the only table of an experiment."""
    table = experiment.table(smoke_results(experiment.measurement))
    assert isinstance(table, pd.DataFrame), "one of several tables: call its `table` yourself"
    return table
