from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from experiments.stock import worldcup_fit as fit
from harness.figures.style import new_figure, styled
from harness.measurement import Context
from harness.results.tables import Results
from harness.seeds import derive_seed
from tests.experiments.stock import judging


class SeedsOnly:
    """The part of a `Context` that this experiment uses."""

    def seed(self, *names: str | int) -> int:
        return derive_seed(1, *names)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    outcome = fit.run({}, cast(Context, SeedsOnly()))
    directory = tmp_path_factory.mktemp("run")
    outcome.series["fit"].to_parquet(directory / "fit.parquet")
    frame = pd.DataFrame([{"run": "a", "repeat": 0, **outcome.values}])
    return fit.table(Results(frame, {"a": Path(directory)}))


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
