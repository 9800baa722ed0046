"""Tables and claims that several live figures share: the judge's findings, and the simulator's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.live._topology import PACED, SIMULATED
from harness.claims import (
    Claim,
    Finding,
    Rule,
    Sample,
    at_least,
    at_most,
    every,
    hypothesis,
    invariant,
    median_of,
    unmeasured,
)
from harness.results.kills import Unrecovered
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tables = Mapping[str, pd.DataFrame]
CHECKED = ["output_equals_truth", "output_equals_twin", "contradictions", "kills_done"]
"""Columns of `harness.judging.run.together`'s table of passes that `equal_output` reads."""
FAR = 2.0
"""Simulated and measured latency are near if neither is more than this many times the other, or if
they are less than `NEAR_S` apart."""
NEAR_S = 0.1
"""Time of the measured run that finding and opening a checkpoint takes on Kafka and Redis, which
the simulator does not have."""
CHANGED = Rule(version=2, since="2026-11-22", seen_seeds=(DEFAULT_SEED,))
"""Rules that were changed after a set of results had been seen.

Recoveries of several nodes count from when all of them are found (version 1: the first), and the
task engine is compared with a stock engine that keeps up at any latency (version 1: at most 1 s).
A verdict on that seed is post hoc."""
SAMPLED = Rule(version=4, since="2026-11-26", seen_seeds=(DEFAULT_SEED, 71803, 71810, 71811))
"""Rules that compare medians of samples, each of another seed and phase, and leave a claim open if
an interval has the limit inside. Version 4 has exact intervals from six samples on, and one sample
of each run; version 3 had bootstrap intervals from five. Versions before compared the means of the
runs that were there."""
MACHINE = "6 nodes of 2 racks on one machine"


def worst_of(
    cells: Mapping[str, Sample | None],
    limit: float,
    *,
    least: bool,
    outside: Mapping[str, Sample | None] | None = None,
    **measured: Any,
) -> Finding:
    """Return whether every cell's sample is at least (or at most) ``limit``.

    A cell whose interval is beyond the limit refutes it. One with the limit inside, or without an
    interval, leaves it open. The cell that is worst in the median is the finding's sample; all are
    shown with their intervals and numbers of samples. So are those of the same kind as seen from
    ``outside``, which decide nothing."""
    if outside is not None:
        measured["seen_from_outside"] = {cell: described(one) for cell, one in outside.items()}
    known = {cell: sample for cell, sample in cells.items() if sample is not None}
    shown = {**measured, "limit": limit, "cells": {c: described(s) for c, s in known.items()}}
    if not known:
        return unmeasured(**measured, limit=limit)
    builder = at_least if least else at_most
    found = {cell: builder(sample, limit) for cell, sample in known.items()}
    order = sorted(known, key=lambda cell: known[cell].value, reverse=not least)
    for wanted in (False, None, True):
        for cell in order:
            if found[cell].held is wanted:
                complete = len(known) == len(cells) or wanted is False
                one = found[cell] if complete else replace(found[cell], held=None)
                return replace(one, measured={**one.measured, **shown}, per_cell=True)
    raise AssertionError("each finding has one of the three values")


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


def points_of(
    axes: Axes, x: float, cell: pd.DataFrame, measure: str, *, color: str, least: float
) -> None:
    """Draw each sample of a cell: a dot, or an arrow upwards where its time is a lower bound.

    ``least``: the begin of a logarithmic axis, at which smaller values are drawn."""
    bound = (cell["in_vain"] > 0) & (measure == "outside_s")
    for rows, marker, size in ((cell[~bound], ".", 2), (cell[bound], r"$\uparrow$", 8)):
        shown = rows[measure].astype(float).clip(lower=least)
        axes.plot([x] * len(shown), shown, linestyle="none", marker=marker, markersize=size,
                  color=color, alpha=0.5)  # fmt: skip


def bar_of(
    axes: Axes, x: float, values: Sequence[float], *, color: str, marker: str, least: float,
    **look: Any,
) -> None:  # fmt: skip
    """Draw the median of samples with its 95 % interval, where there are enough for one.

    ``least``: the begin of a logarithmic axis, at which smaller values are drawn."""
    sample = median_of(values)
    if sample is None:
        return
    at = max(sample.value, least)
    ends = None
    if sample.low is not None and sample.high is not None:
        low, high = max(sample.low, least), max(sample.high, least)
        ends = [[max(at - low, 0.0)], [max(high - at, 0.0)]]
    look = {"markersize": 6, "capsize": 2, "elinewidth": 1, "linestyle": "none", **look}
    axes.errorbar([x], [at], yerr=ends, color=color, marker=marker, **look)


def all_if(known: Any, cells: Any) -> bool | None:
    """Return True if every one of ``cells`` is; None unless ``known``."""
    return bool(np.all(cells)) if known else None


def numbers(values: Mapping[Any, Any], name: str = "{}") -> dict[str, Any]:
    """Return ``values`` with ``name``, formatted with their keys, as keys."""
    return {name.format(key): value for key, value in values.items()}


def in_time(faster: float) -> str:
    """Return an axis' addition where a run is ``faster`` than the papers'."""
    return "" if faster == 1 else f"\nall times are 1/{faster:g} of the papers'"


def fastest(table: pd.DataFrame) -> float:
    """Return how many times faster than in the papers the runs of a table are; 1 without runs."""
    return float(table["faster"].max()) if len(table) else 1.0


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


def simulated_near(kills: str, *cell: str) -> Claim:
    """Claim that simulated and measured latency are near, kill by kill.

    ``kills``: the table of kills; ``cell``: columns that name a case."""

    @hypothesis(
        "simulated-near-measured",
        f"Simulated and measured latency differ by at most a factor of {FAR:g} or {NEAR_S:g} s",
        rule=SAMPLED,
        because="Each simulated node has cores of its own. Here the cores of one machine presumably"
        " take back the memory of 15 killed processes while 15 tasks take over, or find, read and "
        "open their checkpoints. The simulator does not have that time, and it weighs more where "
        "all times are a part of the papers'.",
    )
    def claim(tables: Tables) -> Finding:
        rows = tables[kills]
        both = rows[rows["engine"] == PACED].dropna(subset=["latency_s", "simulated_s"])
        ratio = both["latency_s"] / both["simulated_s"].clip(lower=1e-6)
        factor = ratio.where(ratio >= 1, 1 / ratio)
        apart = (both["latency_s"] - both["simulated_s"]).abs()
        off = (apart / NEAR_S).where(apart / NEAR_S < factor / FAR, factor / FAR)
        by_run = off.groupby([both[name] for name in (*cell, "run")], sort=False).median()
        cells = {
            ", ".join(map(str, names)): median_of(one)
            for names, one in by_run.groupby(list(cell), sort=False)
        }
        return worst_of(
            cells,
            1.0,
            least=False,
            median_measured_by_simulated=float(ratio.median()) if len(both) else None,
            largest_difference_s=float(apart.max()) if len(both) else None,
            kills=len(both),
            tolerance=f"1: a factor of {FAR:g} or {NEAR_S} s",
        )

    return claim


MEASURED = ("latency_s", "outside_s", "simulated_s", "twin_s")
"""Measures of a recovery: the engine's, the one from outside, the simulator's of the same kill, and
what the rule from outside finds in the twin."""


def in_vain(rows: pd.DataFrame) -> pd.Series[float]:
    """Return 1 where output was not on time again while it was watched: a lower bound is known."""
    bounds = [one.value for one in Unrecovered if one.censored]
    return rows["outside_why_not"].isin(bounds).astype(float)


def weighted(
    rows: pd.DataFrame, weight: pd.Series[float], by: Sequence[str], measures: Sequence[str]
) -> pd.DataFrame:
    """Return the weighted means of measures, a row per group; null where one of a group is."""
    keys = [rows[name] for name in by]
    means = {}
    for name in measures:
        known = (rows[name].astype(float) * weight).groupby(keys, sort=False)
        total = known.sum(min_count=1) / weight.groupby(keys, sort=False).sum()
        means[name] = total.where(known.count() == known.size())
    return pd.DataFrame(means).reset_index()


def at_the_real_instants(rows: pd.DataFrame, engine: str, cell: Sequence[str]) -> pd.DataFrame:
    """Return the samples of an engine.

    Simulated ones are those of the live kills, at the instants at which they really were, in the
    cells (columns ``cell``) that have any. Nothing is seen of them from outside."""
    mine = rows[rows["engine"] == engine]
    if engine != SIMULATED:
        return mine
    live = rows[(rows["engine"] == PACED) & rows["simulated_s"].notna()]
    known = set(live[list(cell)].itertuples(index=False, name=None))
    left = [one not in known for one in mine[list(cell)].itertuples(index=False, name=None)]
    real = live.assign(
        latency_s=live["simulated_s"], engine=SIMULATED, outside_s=np.nan, in_vain=0.0
    )
    return pd.concat([real, mine[left]], ignore_index=True) if len(real) else mine


def summary_of(samples: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return a row per cell: ``n``, and of each of `MEASURED` the median and the interval's ends.

    The engine's measure is null if one of the samples never came back. ``in_vain`` is the number of
    samples of which the measure from outside is a lower bound (`in_vain`)."""
    rows = []
    for names, cell in samples.groupby(list(by), sort=False):
        row: dict[str, Any] = dict(zip(by, names, strict=True))
        for measure in MEASURED:
            row |= columns_of(measure, cell[measure].astype(float))
        row["n"] = len(cell)
        row["back"] = int(cell["latency_s"].notna().sum())
        row["in_vain"] = int((cell["in_vain"] > 0).sum())
        if row["back"] < row["n"]:
            row["latency_s"] = None
        rows.append(row)
    ends = [f"{measure}{end}" for measure in MEASURED for end in ("", "_low", "_high")]
    frame = pd.DataFrame(rows, columns=[*by, "n", "back", "in_vain", *ends])
    return frame.astype(dict.fromkeys(ends, float))
