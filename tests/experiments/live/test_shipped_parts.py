"""Any part of a live grid gives tables, a picture and verdicts, and no claim holds on it.

The records are those of the quick profile that ship. The parts are each point, and each value of
each parameter.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.experiment import Experiment
from harness.results.provenance import ROOT
from harness.results.record import Profile
from harness.results.store import RecordStore
from harness.results.tables import Results
from harness.running.discovery import all_experiments
from tests.experiments.live.judging import held, on_a_part, panels

SHIPPED = ROOT / "results" / "baselines"
EXPERIMENTS = [each for each in all_experiments() if each.group == "live"]


def shipped(experiment: Experiment) -> Results | None:
    """Return the shipped runs, or None where no machine could make them."""
    name, grid = experiment.measurement.id, experiment.grid[Profile.QUICK]
    (machine,) = (SHIPPED / "records" / name).iterdir()
    campaign = RecordStore(SHIPPED).newest_campaign(name, machine.name, Profile.QUICK, grid)
    return campaign.results() if campaign and campaign.valid else None


def parts(experiment: Experiment, whole: Results) -> Mapping[str, Results]:
    """Return each part by a name; a value that every run has makes no part."""
    found = {}
    names = list(experiment.grid[Profile.QUICK][0])
    for columns in ([name] for name in names):
        for value, rows in whole.frame.groupby(columns, sort=False):
            found[f"{columns}: {value}"] = rows
    for point, rows in whole.frame.groupby(names, sort=False):
        found[f"the point {point}"] = rows
    return {
        name: Results(rows.reset_index(drop=True), whole.directories)
        for name, rows in found.items()
        if len(rows) < len(whole.frame)
    }


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.id)
def test_any_part_of_a_grid_is_tabulated_drawn_and_judged(experiment: Experiment) -> None:
    whole = shipped(experiment)
    if whole is None:
        pytest.skip("no shipped run")
    whole_held = held(experiment, experiment.table(whole))
    for name, part in parts(experiment, whole).items():
        tables = experiment.table(part)
        assert panels(experiment, tables), name
        for verdict in on_a_part(experiment, tables):
            assert verdict.held is not True, name
            assert verdict.held is None or whole_held[verdict.id] is False, (name, verdict.id)
