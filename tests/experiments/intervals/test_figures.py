"""Figures of the utilization paper: worked numbers, and what is known of their claims."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from experiments.intervals import _shared, agreement, flink, single_process_simulated
from harness.claims import ClaimKind
from harness.experiment import Context, Profile
from harness.running.discovery import find
from tests.experiments.judging import judged
from tests.experiments.smoke import SmokeContext, smoke_table


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("dag-delay", "t-star-fixed"),
        ("dag-depth", "t-star-same"),
        ("rival-utilization", "never-below"),
        ("single-process", "not-of-r"),
        ("dag-depth", "decrease"),  # matched by choosing a lost parameter
        ("deep-topologies", "printed"),
    ],
)
def test_what_follows_from_the_formula_or_a_choice_is_no_finding(name: str, claim: str) -> None:
    (experiment,) = find([f"intervals/{name}"])
    kinds = {each.id: each.kind for each in experiment.claims}
    assert kinds[claim] is ClaimKind.INVARIANT


def test_many_points_are_judged_together() -> None:
    """Of 82 right points, one is beyond three standard errors in a fifth of all seeds."""
    assert _shared.together(1) == pytest.approx(3.0, abs=0.01)
    assert _shared.together(82) == pytest.approx(4.15, abs=0.01)
    shown = smoke_table(agreement.EXPERIMENT).copy()
    shown["deviation"] = 0.0
    for worst, held in ((3.34, True), (4.5, False)):
        shown.loc[0, "deviation"] = worst
        assert judged(agreement.EXPERIMENT, shown)["agree"].held is held


def test_table_1s_last_column_is_reported_as_it_is() -> None:
    claim = judged(flink.EXPERIMENT, smoke_table(flink.EXPERIMENT))["theory-t-star"]
    assert claim.held is False
    assert claim.measured["ours"] == [0.9311, 0.9115, 0.9774, 0.9732, 0.9841, 0.9775]
    assert np.sign(claim.measured["difference"]).tolist() == [-1, -1, -1, 1, -1, -1]


def test_no_point_of_a_figure_is_simulated_twice_with_the_same_failures() -> None:
    context = SmokeContext(single_process_simulated.EXPERIMENT)
    seeds = {
        context.seed("failures", repr(point["failures_per_min"]))
        for point in single_process_simulated.POINTS
    }
    assert len(seeds) == len(single_process_simulated.POINTS)


def test_the_paper_profile_has_250_runs_per_point() -> None:
    experiment = single_process_simulated.EXPERIMENT
    context = SmokeContext(experiment)
    context.profile = Profile.PAPER
    point = experiment.grid[Profile.PAPER][-1]
    outcome = experiment.measurement.run(point, cast(Context, context))
    runs = outcome.series["simulated"]["runs"].dropna()
    assert set(runs) == {250.0}
