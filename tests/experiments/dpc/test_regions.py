"""The regions of the lost parameters: judged as the figures themselves, drawn, and can fail."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.dpc import regions
from harness.figures.style import new_figure, styled
from harness.pages.assessment import verdicts
from tests.experiments.smoke import smoke_table


@pytest.mark.slow
def test_every_sentence_is_judged_and_drawn() -> None:
    table = smoke_table(regions.EXPERIMENT).copy()
    assert set(table["sentence"].str.split(":").str[0]) == {"Fig. 9", "Fig. 10"}
    with styled():
        figure = new_figure(regions.EXPERIMENT.figure_size_in)
        regions.draw(table, figure)
        figure.canvas.draw()
    assert [axes.has_data() for axes in figure.axes] == [False, True], "one release is in smoke"
    assert held(table)["region"] is False
    table["held"] = True
    assert held(table) == {"region": True, "independent": True}
    twice = pd.concat([table, table.assign(bucket_ms=50)], ignore_index=True)
    twice.loc[0, "held"] = False
    assert held(twice) == {"region": True, "independent": False}


def held(table: pd.DataFrame) -> dict[str, bool | None]:
    return {each.id: each.held for each in verdicts(regions.EXPERIMENT, table)}
