"""Verdicts by id, on the tables of runs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.claims import Verdict
from harness.experiment import Experiment, Tables
from harness.pages.assessment import verdicts
from harness.results.record import Outcome, Point
from harness.results.tables import Results


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


def judged(experiment: Experiment, tables: Tables) -> dict[str, Verdict]:
    """Return the verdicts on the tables of a complete campaign; no rule may fail there."""
    found = {verdict.id: verdict for verdict in verdicts(experiment, tables)}
    assert [each.problem for each in found.values() if each.problem] == []
    return found


def held(experiment: Experiment, tables: Tables) -> dict[str, bool | None]:
    """Return by claim True if it holds."""
    return {name: verdict.held for name, verdict in judged(experiment, tables).items()}


def failing(experiment: Experiment, tables: Tables) -> set[str]:
    """Return the claims that do not hold."""
    return {name for name, value in held(experiment, tables).items() if value is False}
