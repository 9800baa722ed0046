from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.stock import worldcup_fit as fit
from harness.figures.style import new_figure, styled
from tests.experiments.smoke import smoke_table
from tests.experiments.stock import judging


@pytest.fixture
def table() -> pd.DataFrame:
    return smoke_table(fit.EXPERIMENT).copy()


def test_the_generator_fits(table: pd.DataFrame) -> None:
    assert table.groupby("panel").size().to_dict() == {
        "time": 144, "server": 30, "popularity": 7, "type": 13,
    }  # fmt: skip
    assert [*judging.held(fit.EXPERIMENT, table).values()] == [True] * 4


@pytest.mark.parametrize("panel", fit.PANELS)
def test_a_generator_that_does_not_fit_is_seen(table: pd.DataFrame, panel: str) -> None:
    bent: Any = table.copy()
    first = bent.index[bent["panel"] == panel][0]
    bent.loc[first, "high"] = bent.loc[first, "published"] * 1.2 + 0.07
    assert judging.failing(fit.EXPERIMENT, bent) == {panel}


def test_every_panel_is_drawn(table: pd.DataFrame) -> None:
    with styled():
        figure = new_figure(fit.EXPERIMENT.figure_size_in)
        fit.draw(table, figure)
    assert len(figure.axes) == 4
    assert all(axes.get_ylabel() for axes in figure.axes)
