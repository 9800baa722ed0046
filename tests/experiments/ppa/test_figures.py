"""Every figure of the planners: it runs, draws, and its claims can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pandas as pd
import pytest

from experiments.ppa import (
    _random,
    incremental_recovery,
    multi_query,
    optimum_gap,
    plan_runtime,
    query_accuracy,
    query_fidelity,
    random_topologies,
    recovery_accuracy,
)
from harness.claims import Claim, ClaimKind
from harness.experiment import Context, Experiment
from harness.figures.style import new_figure, styled
from tests.experiments.smoke import SmokeContext, smoke_table

FIGURES: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (
        incremental_recovery, multi_query, optimum_gap, plan_runtime, query_accuracy,
        query_fidelity, random_topologies, recovery_accuracy,
    )
}  # fmt: skip


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
        experiment.draw(smoke_table(FIGURES[name]).copy(), figure)
        figure.canvas.draw()
    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()
    assert figure.axes[0].get_ylabel()
    assert any(text.get_text() for text in figure.texts)
    assert experiment.notes


def swap(column: str, one: str, other: str) -> Callable[[pd.DataFrame], None]:
    def bend(table: pd.DataFrame) -> None:
        table[column] = table[column].replace({one: other, other: one})

    return bend


def above_the_bound(table: pd.DataFrame) -> None:
    table["value"] = table["bound"] + 0.1


BENT = {
    "ppa/random-topologies": (swap("planner", "sa", "greedy"), "SA outperforms the greedy"),
    "ppa/multi-query": (swap("planner", "sa", "greedy"), "Greedy falls behind"),
    "ppa/query-fidelity": (swap("planner", "dp", "greedy"), "No planner's OF exceeds"),
    "ppa/query-accuracy": (swap("objective", "of", "ic"), "On Q2 the accuracy of plans for IC"),
    "ppa/recovery-accuracy": (swap("planner", "inc", "to"), "INC outperforms TO in accuracy"),
    "ppa/plan-runtime": (swap("planner", "sa", "greedy"), "Greedy has a shorter runtime"),
    "ppa/incremental-recovery": (swap("planner", "inc", "to"), "INC outperforms TO"),
    "ppa/optimum-gap": (above_the_bound, "No plan exceeds the proven bound"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENT)
def test_a_claim_fails_where_the_numbers_say_so(name: str) -> None:
    bend, text = BENT[name]
    table = smoke_table(FIGURES[name]).copy()
    if name == "ppa/multi-query":  # three topologies do not always show what thirty do
        table.loc[table["planner"] == "sa", "mean"] += 1
    (before,) = (claim for claim in claims_of(name, table) if claim.text.startswith(text))
    bend(table)
    (after,) = (claim for claim in claims_of(name, table) if claim.text.startswith(text))
    assert before.held is True
    assert after.held is False


def test_the_same_shapes_for_every_variant() -> None:
    context = cast(Context, SmokeContext(FIGURES["ppa/random-topologies"]))
    joins = _random.PANELS["d"][1]
    plain, joined = (_random.topologies(spec, context, 3) for spec in joins.values())
    assert [each.edges for each in plain] == [each.edges for each in joined]
