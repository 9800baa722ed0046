"""Figures and claims as the report shows them, in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.experiment import Experiment
from harness.pages.assessment import Assessment, assess
from harness.pages.cards import card
from harness.pages.drawing import Undrawable, attempt, data_uri
from harness.pages.drawing import drawing as drawn_svg
from harness.pages.layout import templates
from harness.pages.walk import campaigns, named
from harness.results.library import SHIPPED
from harness.results.store import RecordStore
from harness.running.discovery import find

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Card:
    """Something to look at; a notebook shows its HTML."""

    content: str

    def _repr_html_(self) -> str:
        return self.content

    def __repr__(self) -> str:
        return "<a figure; show it in a notebook>"


def show(experiment: str, results: str | Path = SHIPPED) -> Card:
    """One experiment's figure and its claims, from the newest records of a results directory.

    Raises `UsageError` where the directory has no record of it."""
    (known,) = find([experiment])
    judged = _newest(known, Path(results))
    if judged is None:
        there = sorted({each.experiment.id for each in every(results)})
        raise UsageError(
            f"{results} has no record of {experiment}",
            remedy=f"run it (./faultline run {experiment} --out {results}), or show one of: "
            f"{', '.join(there)}",
        )
    drawn = None if judged.table is None else attempt(judged)
    figure = None if drawn is None or isinstance(drawn, Undrawable) else data_uri(*drawn)
    return _card(card=card(judged, None, drawn), figure=figure, alt=judged.experiment.title)


def every(results: str | Path = SHIPPED, group: str | None = None) -> Sequence[Assessment]:
    """Every experiment (of a group) that a results directory has records of, judged."""
    judged = [_newest(each, Path(results)) for each in named(group)]
    return [each for each in judged if each is not None]


def drawing(draw: Callable[[Figure], None], size_in: tuple[float, float] = (8.0, 4.0)) -> Card:
    """Draw a figure in the report's style: ``draw`` gets an empty one."""
    return _card(figure=data_uri("svg+xml", drawn_svg(draw, size_in)), alt="a figure")


def _newest(experiment: Experiment, root: Path) -> Assessment | None:
    """Return the newest campaign, of any machine and profile."""
    store = RecordStore(root)
    there = [
        each
        for machine in store.machines()
        for each in campaigns(store, [experiment], machine=machine)
    ]
    newest = max(there, key=lambda each: each[2].newest.started_unix_s, default=None)
    return None if newest is None else assess(*newest)


def _card(**content: object) -> Card:
    return Card(templates().get_template("notebook.html.j2").render(**{"card": None, **content}))
