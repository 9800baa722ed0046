"""The edge paper's figures: they run, draw, and their claims can fail."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from experiments.edge import _deployment, prediction
from harness.claims import Claim, ClaimKind
from harness.experiment import Experiment
from harness.figures.style import new_figure, styled
from harness.planning.schedulers import replica_of
from tests.experiments.smoke import smoke_table

FIGURES: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT for module in (prediction,)
}


def claims_of(name: str, table: pd.DataFrame | None = None) -> list[Claim]:
    shown = smoke_table(FIGURES[name]) if table is None else table
    return list(FIGURES[name].claims(shown.copy()))


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_is_judged_with_numbers(name: str) -> None:
    claims = claims_of(name)
    assert len({claim.text for claim in claims}) == len(claims) > 0
    for claim in claims:
        assert claim.measured
        assert claim.held is True or claim.kind is not ClaimKind.INVARIANT, claim


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_with_units(name: str) -> None:
    experiment = FIGURES[name]
    with styled():
        figure = new_figure(experiment.figure_size_in)
        experiment.draw(smoke_table(experiment).copy(), figure)
        figure.canvas.draw()
    assert all(axes.has_data() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()
    assert figure.axes[0].get_ylabel()
    assert experiment.notes


def swap(column: str, one: str, other: str) -> Callable[[pd.DataFrame], None]:
    def bend(table: pd.DataFrame) -> None:
        table[column] = table[column].replace({one: other, other: one})

    return bend


BENT = {
    "edge/prediction": (swap("predictor", "equal", "learned"), "Plans by rates learned"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENT)
def test_a_claim_fails_where_the_numbers_say_so(name: str) -> None:
    bend, text = BENT[name]
    table = smoke_table(FIGURES[name]).copy()
    (before,) = (claim for claim in claims_of(name, table) if claim.text.startswith(text))
    bend(table)
    (after,) = (claim for claim in claims_of(name, table) if claim.text.startswith(text))
    assert before.held is True
    assert after.held is False


@pytest.mark.parametrize("rate", _deployment.RATES)
def test_the_mechanisms_decide_as_the_paper_describes(rate: int) -> None:
    found = {name: _deployment.deploy(name, rate) for name in _deployment.MECHANISMS}
    assert found["ck-only+DRA"].replicated == ()
    for mechanism in ("RPPG+DRA", "RPPG+RAS"):
        assert {"aggregate0", "aggregate1"} <= set(found[mechanism].replicated)
        assert not any(name.startswith("source") for name in found[mechanism].replicated)
    shared = found["RPPG+DRA"].placement
    assert shared["aggregate0"] == shared["aggregate1"] == shared[replica_of("aggregate0")]
    assert "aggregate1" in found["RPPG+DRA"].useful()
    assert set(found["RPPG+RAS"].useful()) == set(found["RPPG+RAS"].replicated)
    cores = {name: deployment.cores for name, deployment in found.items()}
    assert max(cores, key=lambda name: cores[name]) == "full-rep+DRA"


def test_tasks_have_the_numbers_of_the_topology() -> None:
    topology = _deployment.topology(100)
    names = [task.name for task in _deployment.application(100)]
    expected = [topology.place(number) for number in range(topology.task_count)]
    assert names == [f"{o}{i}" if o != "sink" else "sink" for o, i in expected]
