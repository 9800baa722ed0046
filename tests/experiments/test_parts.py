"""Any part of a grid gives tables, a picture and verdicts, and no claim holds on it.

The parts of an experiment are each point of its smoke grid, and each value of each parameter. Live
experiments are tried on the runs of the quick profile that ship."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import pytest

from harness.claims import ClaimKind
from harness.experiment import Experiment
from harness.figures.style import new_figure, styled
from harness.pages.assessment import verdicts
from harness.results.provenance import ROOT
from harness.results.record import Point, Profile
from harness.results.store import RecordStore
from harness.results.tables import Results
from harness.running.discovery import all_experiments
from tests.experiments.smoke import smoke_results
from tests.levels import by_cost

LAID_OUT = 2
"""Parts whose picture is laid out, too, which takes longer than all the rest."""
COMPUTED = [each for each in all_experiments() if not each.measurement.measured]
LIVE = [each for each in all_experiments() if each.group in ("dpc", "live", "stock")]
LIVE = [each for each in LIVE if each.measurement.measured]
SHIPPED = ROOT / "results" / "baselines"


def parts(points: Sequence[Point], whole: Results) -> Iterator[tuple[str, Results]]:
    """Yield each part once, with a name; a value that every point has makes no part."""
    chosen: dict[tuple[int, ...], str] = {}
    for number, point in enumerate(points):
        chosen[(number,)] = f"the point {point}"
        for name, value in point.items():
            own = tuple(n for n, other in enumerate(points) if other.get(name) == value)
            chosen.setdefault(own, f"{name} = {value}")
    for rows, name in chosen.items():
        if len(rows) < len(points):
            frame = whole.frame.iloc[list(rows)].reset_index(drop=True)
            yield name, Results(frame, whole.directories)


@pytest.mark.parametrize("experiment", by_cost(COMPUTED))
def test_any_part_of_a_grid_is_tabulated_drawn_and_judged(experiment: Experiment) -> None:
    whole = smoke_results(experiment.measurement)
    for each in verdicts(experiment, experiment.table(whole)):
        assert each.held is True or each.kind is not ClaimKind.INVARIANT, each
    try_parts(experiment, experiment.grid[Profile.SMOKE], whole)


@pytest.mark.parametrize("experiment", LIVE, ids=lambda each: each.id)
def test_any_part_of_a_live_grid_is_tabulated_drawn_and_judged(experiment: Experiment) -> None:
    name, grid = experiment.measurement.id, experiment.grid[Profile.QUICK]
    shipped = RecordStore(SHIPPED).records / name
    if not shipped.is_dir():
        pytest.skip("no record of it ships")
    (machine,) = shipped.iterdir()
    campaign = RecordStore(SHIPPED).newest_campaign(name, machine.name, Profile.QUICK, grid)
    if campaign is None or not campaign.valid:
        pytest.skip("no machine could make the runs")
    try_parts(experiment, [record.point for record in campaign.valid], campaign.results())


def try_parts(experiment: Experiment, points: Sequence[Point], whole: Results) -> None:
    judged = verdicts(experiment, experiment.table(whole))
    assert [each.problem for each in judged if each.problem] == []
    held = {each.id: each.held for each in judged}
    for number, (name, part) in enumerate(parts(points, whole)):
        tables = experiment.table(part)
        for table in [tables] if isinstance(tables, pd.DataFrame) else tables.values():
            assert len(table.columns), name
        with styled():
            figure = new_figure(experiment.figure_size_in)
            experiment.draw(tables, figure)
            if number < LAID_OUT:
                figure.draw_without_rendering()
        assert figure.axes, name
        for verdict in verdicts(experiment, tables, "a part"):
            assert verdict.held is not True, name
            assert verdict.held is None or held[verdict.id] is False, f"{name} refutes {verdict.id}"
