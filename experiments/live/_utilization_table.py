"""Utilization at two intervals, printed and measured: what the live figures of Table 1 share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from experiments.live._judged import numbers, worst_of
from harness.claims import Finding, every, mean_of, unmeasured
from harness.claims.samples import FEWEST
from harness.figures.chart import Figure
from harness.figures.style import BLACK, BLUE, ORANGE, VERMILION, legend_below

OPTIMAL, LONG = "T*", "30 min"

# Shown: no record depends on what follows.

CLOSE = 0.1
"""Measured utilization is close to the model's if it is within this. Fixed on 2026-11-23, before a
kill of Flink had been measured."""
KILLS = FEWEST
"""Least number of kills of a cell: with fewer, its utilization is that of a system that hardly ever
fails, and a long interval costs nothing. Fixed on 2026-11-28."""
LOOKS = {
    "printed": ("printed: observed on the paper's Flink", ORANGE, "s"),
    "measured": ("measured", BLACK, "o"),
    "model": ("equation 4, measured c and R", BLUE, "D"),
    "replayed": ("the same for these very kills", VERMILION, "^"),
}


PRINTED = {
    (0.05, 5): {LONG: 0.4228, OPTIMAL: 0.9416},
    (0.05, 7): {LONG: 0.4069, OPTIMAL: 0.9223},
    (0.01, 5): {LONG: 0.8449, OPTIMAL: 0.9806},
    (0.01, 7): {LONG: 0.8447, OPTIMAL: 0.9686},
    (0.005, 5): {LONG: 0.9109, OPTIMAL: 0.9815},
    (0.005, 7): {LONG: 0.9118, OPTIMAL: 0.9755},
}
"""The paper's observed utilization by failures per minute and depth, for its own c and R."""


def draw_cells(
    figure: Figure, rows: pd.DataFrame,
    cells: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> None:  # fmt: skip
    """Draw a panel per interval: measured and modelled utilization beside what was printed.

    ``cells`` have by name the values of columns, and the printed numbers by interval."""
    rows = rows.reindex(columns=list(dict.fromkeys([*rows.columns, *LOOKS, "interval"])))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, label in zip(panels, (LONG, OPTIMAL), strict=True):
        for place, (own, numbers_of) in enumerate(cells.values()):
            mine = rows.assign(printed=numbers_of[label])
            for name, value in {"interval": label, **own}.items():
                mine = mine[mine[name] == value] if len(mine) else mine
            for shift, (column, (name, colour, marker)) in enumerate(LOOKS.items()):
                axes.plot(
                    [place + 0.12 * shift - 0.18] * len(mine), mine[column], marker, color=colour,
                    label=name if place == 0 else None,
                )  # fmt: skip
        axes.set_xticks(range(len(cells)), list(cells))
        axes.set_xlim(-0.5, len(cells) - 0.5)
        axes.set_ylim(0, 1)
        axes.set_title(f"T = {label}", loc="left")
    panels[0].set_ylabel("utilization U")
    legend_below(figure, panels[0], columns=4)


def _means(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the means of a cell's runs, measured and by the model."""
    columns = ["measured", "replayed", "model"]
    known = rows.reindex(columns=[*by, "interval", *columns])
    return known.astype(dict.fromkeys(columns, float)).groupby([*by, "interval"])[columns].mean()


def better_at_optimum(rows: pd.DataFrame, by: Sequence[str], name: str) -> Finding:
    """Return whether the runs of each cell gain from T* in the mean; ``name`` shows a cell.

    Both intervals of a run have the same kills. A cell with fewer than `KILLS` decides nothing."""
    if not len(rows):
        return unmeasured()
    known = rows.reindex(columns=[*by, "repeat", "kills", "interval", "measured"])
    known = known.astype({"kills": float, "measured": float})
    runs = known.pivot_table(index=[*by, "repeat"], columns="interval", values="measured")
    runs = runs.reindex(columns=[LONG, OPTIMAL])
    kills: Any = known.drop_duplicates([*by, "repeat"]).groupby(list(by))["kills"].sum()
    gains: Any = (runs[OPTIMAL] - runs[LONG]).unstack("repeat").reindex(kills.index)
    cells = {
        name.format(cell): mean_of(gains.loc[cell]) if count >= KILLS else None
        for cell, count in kills.items()
    }
    means = runs.groupby(list(by)).mean().round(3)
    judged = worst_of(
        cells,
        0.0,
        least=True,
        utilization=numbers(means.to_dict("index"), name),
        kills=numbers(kills.to_dict(), name),
    )
    few = [f"{name.format(cell)} has {count:g}" for cell, count in kills.items() if count < KILLS]
    if judged.held is None and few:
        return replace(judged, why=f"a cell takes {KILLS} kills: {', '.join(few)}")
    return judged


def close_to_the_model(rows: pd.DataFrame, by: Sequence[str], **shown: Any) -> Finding:
    """Return whether each cell is close to the model for its very kills.

    "model" in ``shown`` stands for the largest difference from the model for the mean kill."""
    means = _means(rows, by)
    away, from_mean = ((means["measured"] - means[one]).abs() for one in ("replayed", "model"))
    largest, other = (float(each.max()) if len(means) else None for each in (away, from_mean))
    shown = {name: other if value == "model" else value for name, value in shown.items()}
    return every(away <= CLOSE, largest_difference=largest, **shown)
