"""Tables and claims that several live figures share: the judge's findings, and the simulator's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from harness.claims import (
    Claim,
    Finding,
    Rule,
    Sample,
    at_least,
    at_most,
    every,
    invariant,
    median_of,
    unmeasured,
)
from harness.experiment import Results
from harness.figures.chart import Axes
from harness.figures.style import not_measured
from harness.seeds import DEFAULT_SEED

Tables = Mapping[str, pd.DataFrame]
CHECKED = ["output_equals_truth", "output_equals_twin", "contradictions", "kills_done"]
"""Columns of `harness.judging.run.together`'s table of passes that `equal_output` reads."""
SAMPLED = Rule(version=4, since="2026-11-26", seen_seeds=(DEFAULT_SEED, 71803, 71810, 71811))
"""Rules that compare medians of samples, each of another seed and phase, and leave a claim open if
an interval has the limit inside. Version 4 has exact intervals from six samples on, and one sample
of each run; version 3 had bootstrap intervals from five. Versions before compared the means of the
runs that were there."""
FROM_OUTSIDE = replace(SAMPLED, version=5, since="2026-11-27")
"""The outage as a user sees it decides, and what the engine reports stands beside it. Version 4 had
it the other way round."""
MACHINE = "6 nodes of 2 racks on one machine"


def worst_of(
    cells: Mapping[str, Sample | None],
    limit: float,
    *,
    least: bool,
    engine: Mapping[str, Sample | None] | None = None,
    **measured: Any,
) -> Finding:
    """Return whether every cell's sample is at least (or at most) ``limit``.

    A cell whose interval is beyond the limit refutes it. One with the limit inside, or without an
    interval, leaves it open. The cell that is worst in the median is the finding's sample; all are
    shown with their intervals and numbers of samples. So are those of the same kind as the
    ``engine`` reports, which decide nothing where a user's view does.

    To hold in all cells needs no correction for their number. To fail in one does: its chance if
    all hold, at most 2.5 % a cell, is shown."""
    if engine is not None:
        measured["as_the_engine_reports"] = {cell: described(one) for cell, one in engine.items()}
    known = {cell: sample for cell, sample in cells.items() if sample is not None}
    shown = {**measured, "limit": limit, "cells": {c: described(s) for c, s in known.items()}}
    shown["fails_by_chance"] = min(1.0, 0.025 * len(known))
    if not known:
        return unmeasured(**measured, limit=limit)
    builder = at_least if least else at_most
    found = {cell: builder(sample, limit) for cell, sample in known.items()}
    order = sorted(known, key=lambda cell: known[cell].value, reverse=not least)
    one = found[min(order, key=lambda cell: (False, None, True).index(found[cell].held))]
    if len(known) < len(cells) and one.held:
        one = replace(one, held=None)
    return replace(one, measured={**one.measured, **shown}, per_cell=True)


def described(sample: Sample | None) -> list[float | None] | None:
    """Return the median, both ends of the interval, and the number of samples."""
    return None if sample is None else [sample.value, sample.low, sample.high, sample.n]


def columns_of(name: str, values: Iterable[float | None]) -> dict[str, float | None]:
    """Return the median of samples as the column ``name``, and the ends of its interval."""
    found = median_of(values)
    return {
        name: None if found is None else found.value,
        f"{name}_low": None if found is None else found.low,
        f"{name}_high": None if found is None else found.high,
    }


def stacked(
    axes: Axes, names: Sequence[str], table: pd.DataFrame, looks: Mapping[str, tuple[str, str]]
) -> None:
    """Draw a bar for each row of a table, of columns with a label and a colour one after another.

    A column that the table lacks has no length."""
    left = np.zeros(len(names))
    for column, (label, color) in looks.items():
        values = table.reindex(columns=[column])[column].astype(float).fillna(0.0).to_numpy()
        axes.barh(names, values, left=left, color=color, label=label)
        left = left + values
    if len(names):
        axes.legend(fontsize=7)
    else:
        not_measured(axes)


def all_if(known: Any, cells: Any) -> bool | None:
    """Return True if every one of ``cells`` is; None unless ``known``."""
    return bool(np.all(cells)) if known else None


def numbers(values: Mapping[Any, Any], name: str = "{}") -> dict[str, Any]:
    """Return ``values`` with ``name``, formatted with their keys, as keys."""
    return {name.format(key): value for key, value in values.items()}


def passes_of(results: Results, by: Sequence[str], *more: str) -> pd.DataFrame:
    """Return the judge's findings by pass: the parameters ``by``, `CHECKED`, and ``more``."""
    wanted = [*by, "variant", *CHECKED, "difference_from_truth", *more]
    return results.series("variants", by).reindex(columns=wanted)


@invariant(
    "equal-output",
    "In every pass nodes were really killed, and the stable output equals the twin's and the truth",
)
def equal_output(tables: Tables) -> Finding:
    """Judge the passes, without those for which no failure was planned."""
    passes = tables["passes"]
    if "failures_planned" in passes:
        passes = passes[pd.to_numeric(passes["failures_planned"]) > 0]
    good = passes["output_equals_truth"].eq(True) & passes["output_equals_twin"].eq(True)
    good &= passes["contradictions"].eq(0) & (pd.to_numeric(passes["kills_done"]) >= 1)
    bad = passes[~good].to_dict("records")
    others = [f"{one['variant']}: {one['difference_from_truth']}" for one in bad]
    return every(good, passes=len(passes), equal=int(good.sum()), others=others)


def right_output(kills_of: Callable[[Any], pd.DataFrame]) -> Claim:
    """Claim that output under the kills in ``kills_of(table)`` is right."""
    text = "Stable output under kills equals every batch computed once and in order."

    @invariant("right-output", text)
    def claim(table: pd.DataFrame) -> Finding:
        kills = kills_of(table)
        wrong = int(kills["failures"].max()) if len(kills) else None
        return every(kills["failures"].eq(0), wrong=wrong, kills=len(kills))

    return claim
