"""The regions of the lost parameters: judged as the figures themselves, drawn, and can fail."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.dpc import regions
from harness.figures.style import new_figure, styled
from tests.experiments.smoke import smoke_table


@pytest.mark.slow
def test_every_sentence_is_judged_and_drawn() -> None:
    table = smoke_table(regions.EXPERIMENT).copy()
    assert set(table["sentence"].str.split(":").str[0]) == {"Fig. 9", "Fig. 10"}
    with styled():
        figure = new_figure(regions.EXPERIMENT.figure_size_in)
        regions.draw(table, figure)
        figure.canvas.draw()
    assert all(axes.has_data() for axes in figure.axes)
    whole, dependent = regions.claims(table)
    assert whole.held is False
    table["held"] = True
    whole, dependent = regions.claims(table)
    assert whole.held is True
    assert dependent.held is True
    twice = pd.concat([table, table.assign(bucket_ms=50)], ignore_index=True)
    twice.loc[0, "held"] = False
    _, dependent = regions.claims(twice)
    assert dependent.held is False
