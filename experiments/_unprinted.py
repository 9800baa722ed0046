"""Figures over what a paper does not print: its lost parameters, and readings of its algorithms.

Everything here shows results; no record depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

import pandas as pd

from harness.claims import Claim, Rule, hypothesis, region, shares
from harness.figures.cells import draw_held
from harness.figures.chart import Figure
from harness.figures.style import not_measured, stamp

Place = tuple[Any, ...]
"""A combination of lost parameters: the values of `Regions.by`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A lost parameter, and its place in the figure."""

    column: str
    """Its column in the experiment's table."""
    values: Iterable[Any]
    """The values that are tried, in the figure's order."""
    label: str
    """The label of its axis; of the panels their title, with ``{}`` for the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The sentences of a paper, judged at each combination of three lost parameters.

    The table has a row per combination and ``sentence``."""

    columns: Parameter
    rows: Parameter
    panels: Parameter
    held: Callable[[pd.DataFrame], pd.Series[Any]]
    """Returns for each row of the table True, False, or null if the sentence is not decided."""
    named: Callable[[Place], str]
    """Returns a combination in words."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Sentences in words, by their name in the table, where it has names."""
    ours: Place | None = None
    """The combination of the paper's own figures as they are run here."""
    stamp: str = ""
    """The stamp of its picture."""
    legend_columns: int = 1

    @property
    def by(self) -> list[str]:
        """The columns of a combination, in the order of a `Place`."""
        return [self.columns.column, self.rows.column, self.panels.column]

    def holding(self, table: pd.DataFrame) -> dict[Place, dict[str, bool]]:
        """Return by combination the sentences that are decided there, True if they hold."""
        found: dict[Place, dict[str, bool]] = {}
        decided = table.assign(held=self.held(table)).dropna(subset="held")
        for *place, name, held in decided[[*self.by, "sentence", "held"]].itertuples(index=False):
            found.setdefault(tuple(place), {})[name] = bool(held)
        return found

    def shares(self, table: pd.DataFrame) -> dict[str, float]:
        """Return for each sentence the share of combinations where it holds."""
        return shares(self.holding(table))

    def claim(self, because: str | None = None, rule: Rule | None = None) -> Claim:
        """Claim that all sentences hold together somewhere."""
        sentence = hypothesis(
            "region",
            "There is a region of the lost parameters where all sentences hold together",
            because=because,
            rule=rule or Rule(),
        )
        return sentence(lambda table: region(self._in_words(table), self.named))

    def _in_words(self, table: pd.DataFrame) -> dict[Place, dict[str, bool]]:
        return {
            place: {self.sentences.get(name, name): held for name, held in cell.items()}
            for place, cell in self.holding(table).items()
        }

    def draw(self, table: pd.DataFrame, figure: Figure) -> None:
        """Draw a matrix per panel: the number of sentences that hold, letters for the others."""
        held = self.holding(table)
        names = list(self.sentences or dict.fromkeys(table["sentence"]))
        letters = dict(zip(names, ascii_uppercase, strict=False))
        values = list(self.panels.values)
        panels = figure.subplots(1, len(values), sharey=True, squeeze=False)[0]
        columns, rows = (
            [_shown(v) for v in each.values if v in set(table[each.column])]
            for each in (self.columns, self.rows)
        )
        for axes, value in zip(panels, values, strict=True):
            own = {place[:2]: cell for place, cell in held.items() if place[2] == value}
            ours = self.ours[:2] if self.ours and self.ours[2] == value else None
            if own:
                draw_held(
                    axes,
                    {(_shown(row), _shown(column)): cell for (column, row), cell in own.items()},
                    rows=rows,
                    columns=columns,
                    letters=letters,
                    marked=(_shown(ours[1]), _shown(ours[0])) if ours else None,
                )
            else:
                axes.set_xticks([])
                not_measured(axes)
            axes.set_title(self.panels.label.format(value), loc="left")
            axes.set_xlabel(self.columns.label)
        panels[0].set_ylabel(self.rows.label)
        lines = [f"{letters[name]}  {self.sentences.get(name, name)}" for name in names]
        height = -(-len(lines) // self.legend_columns)
        for column in range(self.legend_columns):
            text = "\n".join(lines[column * height : (column + 1) * height])
            figure.text(0.02 + column / self.legend_columns, -0.02, text, fontsize=7.5, va="top")
        if self.stamp:
            stamp(figure, self.stamp)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
