"""Borealis' figures, from the smallest grid to claims and pictures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from experiments.dpc import (
    _shared,
    availability_bound,
    chain_length,
    checkpoint_overhead,
    failure_duration,
    properties,
    reconciliation,
    serialization,
)
from experiments.ppa import scale
from harness.claims import ClaimKind
from harness.experiment import Experiment
from harness.figures.style import new_figure, styled
from harness.protocol.scheme import Policy
from harness.results.record import Profile
from harness.results.tables import Results
from harness.seeds import derive_seed

EXPERIMENTS = [
    module.EXPERIMENT
    for module in (
        availability_bound,
        chain_length,
        checkpoint_overhead,
        failure_duration,
        properties,
        reconciliation,
        serialization,
        scale,
    )
]


def smoke(experiment: Experiment, tmp_path: Path) -> pd.DataFrame:
    """The experiment's table from its smoke grid."""
    context: Any = SimpleNamespace(
        profile=Profile.SMOKE,
        seed=lambda *names: derive_seed(1, *names),
        progress=lambda *_, **__: None,
        directory=tmp_path,
        options={},
    )
    rows = [
        {**point, "repeat": 0, "run": str(number), **experiment.run(point, context).values}
        for number, point in enumerate(experiment.grid[Profile.SMOKE])
    ]
    table = experiment.table(Results(pd.DataFrame(rows), {}))
    assert isinstance(table, pd.DataFrame)
    return table


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.id)
def test_an_experiment_from_run_to_picture(experiment: Experiment, tmp_path: Path) -> None:
    table = smoke(experiment, tmp_path)
    claims = experiment.claims(table)
    assert claims
    for claim in claims:
        if claim.kind is ClaimKind.INVARIANT:
            assert claim.held, f"{claim.text}: {claim.measured}"
    with styled():
        figure = new_figure(experiment.figure_size_in)
        experiment.draw(table, figure)
        figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000


def test_analytic_count_of_tentative_tuples() -> None:
    assert availability_bound.expected("process", 4.0) == 10_000
    assert availability_bound.expected("delay", 4.0) == 2_000
    assert availability_bound.expected("delay", 5.0) == 0


def test_table_2_by_hand() -> None:
    # S = 1000, Dλ = 5000, λ = 1000/s, l = 0.2 s; 22, 2 and 2 µs
    assert reconciliation.analytic("checkpoint", 1000, 5000, 1000) == pytest.approx(
        1000 * 2e-6 + 5100 * 22e-6
    )
    assert reconciliation.analytic("undo", 1000, 5000, 1000) == pytest.approx(6000 * 24e-6)


@pytest.mark.slow
def test_a_failure_shorter_than_the_bound_leaves_no_trace() -> None:
    measured = _shared.measure(_shared.Setting(failure_s=2.0, settle_us=8_000_000, bound_s=2.7))
    assert measured.tentative == 0
    assert measured.delay_new_s == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
def test_suspending_throughout_blocks_for_the_whole_failure() -> None:
    measured = _shared.measure(
        _shared.Setting(
            failure_s=4.0, settle_us=8_000_000, bound_s=1.0, during_failure=Policy.SUSPEND
        )
    )
    assert measured.tentative == 0
    assert measured.delay_new_s >= 3.9


def test_claims_can_fail() -> None:
    table = pd.DataFrame(
        {
            "during_failure": ["delay"] * 3 + ["process"] * 3,
            "bound_s": [1.0, 2.0, 3.0] * 2,
            "delay_new_s": [1.0, 1.0, 1.0] * 2,
            "tentative": [5, 5, 5] * 2,
            "expected": [8000.0, 6000.0, 4000.0] * 2,
        }
    )
    assert not any(claim.held for claim in availability_bound.claims(table))
