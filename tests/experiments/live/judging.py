"""Helpers of the tests of live figures: passes made by hand, and verdicts by id."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from harness.claims import Verdict
from harness.experiment import Experiment, Tables
from harness.figures.style import new_figure, styled
from harness.pages.assessment import verdicts
from harness.results.record import plain


def passes(*rows: dict[str, Any], **every: Any) -> pd.DataFrame:
    """Return a row per pass in which nothing went wrong, with the columns given."""
    right = {"output_equals_truth": True, "output_equals_twin": True, "contradictions": 0,
             "kills_done": 4, "difference_from_truth": ""}  # fmt: skip
    return pd.DataFrame([{**right, **every, **row} for row in rows or [{}]])


def judged(experiment: Experiment, table: Tables) -> dict[str, Verdict]:
    """Return the verdicts on a table of a complete campaign; no rule may fail on it.

    What a rule measured can be written into a report."""
    found = {verdict.id: verdict for verdict in verdicts(experiment, table)}
    assert [each.problem for each in found.values() if each.problem] == []
    json.dumps([each.measured for each in found.values()], default=plain)
    return found


def held(experiment: Experiment, table: Tables) -> dict[str, bool | None]:
    """Return by claim whether it holds."""
    return {name: verdict.held for name, verdict in judged(experiment, table).items()}


def failing(experiment: Experiment, table: Tables) -> set[str]:
    """Return the claims that do not hold; those that the table leaves open are not among them."""
    return {name for name, value in held(experiment, table).items() if value is False}


def panels(experiment: Experiment, table: Tables) -> list[Any]:
    """Draw the figure, without the slow search for a layout, and return its axes."""
    with styled():
        figure = new_figure(experiment.figure_size_in)
        experiment.draw(table, figure)
        figure.set_layout_engine("none")
        figure.draw_without_rendering()
    return list(figure.axes)
