"""A matrix of parameters: each cell counts the claims that hold and names the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DARKEST = 1.6
"""Share at the dark end of the colour map: black is easy to read on all that occur."""

Held = Mapping[str, bool]
"""Sentence to True if it holds."""


def draw_held(
    axes: Axes,
    cells: Mapping[tuple[str, str], Held],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    letters: Mapping[str, str],
    marked: tuple[str, str] | None = None,
) -> None:
    """Draw ``cells``, by (row, column): the greener, the more sentences hold.

    Below their number are the ``letters`` of those that do not. The cell ``marked`` is ours.
    Combinations without a cell stay empty."""
    import seaborn

    share = pd.DataFrame(index=list(rows), columns=list(columns), dtype=float)
    words = pd.DataFrame("", index=list(rows), columns=list(columns))
    for (row, column), held in cells.items():
        failed = "".join(letters[sentence] for sentence, holds in held.items() if not holds)
        ours = "\n(ours)" if (row, column) == marked else ""
        share.loc[row, column] = sum(held.values()) / len(held)
        words.loc[row, column] = f"{sum(held.values())} of {len(held)}\n{failed or 'all'}{ours}"
    seaborn.heatmap(
        share,
        ax=axes,
        vmin=0,
        vmax=_DARKEST,
        cmap="Greens",
        annot=words,
        fmt="",
        annot_kws={"fontsize": 8, "color": "black"},
        cbar=False,
    )
    axes.tick_params(axis="y", rotation=0)
    axes.grid(visible=False)
