"""The table of an experiment that needs no servers, after its smoke grid was run once."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import cast

import pandas as pd

from harness.experiment import Experiment
from harness.measurement import Context, run_seed
from harness.results.record import Profile
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED


class SmokeContext:
    """What these experiments use of a `Context`."""

    profile = Profile.SMOKE
    repeat = 0

    def __init__(self, experiment: Experiment) -> None:
        self._id = experiment.id

    def seed(self, *names: str | int) -> int:
        return run_seed(DEFAULT_SEED, self._id, 0, *names)

    def measures(self, engine: str) -> None:
        """Nobody keeps a record."""

    def progress(self, stage: str, **_: object) -> None:
        assert stage


@functools.cache
def smoke_table(experiment: Experiment) -> pd.DataFrame:
    rows, directories = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for number, point in enumerate(experiment.grid[Profile.SMOKE]):
            outcome = experiment.measurement.run(point, cast(Context, SmokeContext(experiment)))
            assert outcome.invalid is None
            run = f"run-{number}"
            directories[run] = Path(folder) / run
            directories[run].mkdir()
            for series, frame in outcome.series.items():
                frame.to_parquet(directories[run] / f"{series}.parquet")
            rows.append({**point, **outcome.values, "repeat": 0, "run": run})
        table = experiment.table(Results(pd.DataFrame(rows), directories))
        assert isinstance(table, pd.DataFrame), "one of several tables: call its `table` yourself"
        return table
