"""Recoveries of live figures: tables, pictures with intervals, the simulator beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.live._judged import SAMPLED, Tables, columns_of, worst_of
from experiments.ppa._topology import LIVE, PACED, SIMULATED
from harness.claims import Claim, Finding, hypothesis, median_of, rows
from harness.figures.chart import Line, Looks, Panel
from harness.results.kills import Unrecovered

# Shown: no record depends on what follows.

FAR = 2.0
"""Simulated and measured latency are near if neither is more than this many times the other, or if
they are less than `NEAR_S` apart."""


NEAR_S = 0.1
"""Time of the measured run that finding and opening a checkpoint takes on Kafka and Redis, which
the simulator does not have."""


MEASURED = ("latency_s", "outside_s", "simulated_s", "twin_s")
"""Measures of a recovery: the engine's, the one from outside, the simulator's of the same kill, and
what the rule from outside finds in the twin."""


LEAST_S = 1e-3
"""Begin of the logarithmic axes: a recovery that was seen by nobody is drawn there."""


def in_time(faster: float) -> str:
    """Return a stamp's addition where a run is ``faster`` than the papers'."""
    return "" if faster == 1 else f"; all times are 1/{faster:g} of the papers'"


def fastest(table: pd.DataFrame) -> float:
    """Return how many times faster than in the papers the runs of a table are; 1 without runs."""
    return float(table["faster"].max()) if len(table) else 1.0


def both_measures(
    by: str, looks: Looks, over: str, columns: Mapping[Any, str], x: str, **given: Any
) -> list[Panel]:
    """Return two rows of panels: above as the engine reports it, below seen from outside.

    ``columns``: the values of the column ``over``, a panel each, with their titles. Medians with
    intervals are at ``at``, a series for each value of ``by``; simulated ones are hollow, those
    without the declared speed pale. An arrow marks a lower bound. ``given``: more of each panel."""
    each: dict[str, Any] = {"x": "at", "by": by, "looks": looks}

    def median(measure: str, engine: str, **style: Any) -> Line:
        ends = (rows[f"{measure}_low"], rows[f"{measure}_high"])
        middle, low, high = (end.clip(lower=LEAST_S) for end in (rows[measure], *ends))
        shown = (rows["engine"] == engine) & rows[measure].notna()
        return Line(y=middle, ends=(low, high), where=shown, style=style, **each)

    hollow = {"markerfacecolor": "none", "linestyle": "none"}
    pale = {"alpha": 0.5, "label": "_"}
    arrow = {"marker": r"$\uparrow$", "markersize": 9, "linestyle": "none", "label": "_"}
    bound = Line(y="outside_s", where=rows["in_vain"] > 0, style=arrow, **each)
    shown = {
        "as the engine reports it; hollow:\nsimulated (s, logarithmic)": [
            median("latency_s", SIMULATED, **hollow),
            median("latency_s", PACED),
            median("latency_s", LIVE, **pale),
        ],
        "seen from outside\n(s, logarithmic)": [
            median("outside_s", PACED),
            median("outside_s", LIVE, **pale),
            bound,
        ],
    }
    return [
        Panel(
            lines,
            "" if label.startswith("as") else x,
            label if number == 0 else "",
            title=title if label.startswith("as") else "",
            log="y",
            where=rows[over] == value,
            **given,
        )
        for label, lines in shown.items()
        for number, (value, title) in enumerate(columns.items())
    ]


HELD_OUT = replace(SAMPLED, version=5, since="2026-11-27")
"""The simulator gets the time that it lacks from passes that are not judged by it. Version 4 gave
it none."""


def simulated_near(kills: str, *cell: str) -> Claim:
    """Claim that simulated and measured latency are near, kill by kill.

    ``kills``: the table of kills; ``cell``: columns that name a case."""

    @hypothesis(
        "simulated-near-measured",
        f"Simulated and measured latency differ by at most a factor of {FAR:g} or {NEAR_S:g} s, "
        "with the overhead of the case's other passes",
        rule=HELD_OUT,
        because="Each simulated node has cores of its own. Here the cores of one machine presumably"
        " take back the memory of 15 killed processes while 15 tasks take over, or find, read and "
        "open their checkpoints. The overhead of the other passes covers what all of them have "
        "alike, not what differs from one to the next.",
        unmeasured_because="The overhead comes from another pass of the same case, and there is "
        "none.",
    )
    def claim(tables: Tables) -> Finding:
        rows = tables[kills]
        both = calibrated(rows[rows["engine"] == PACED], cell)
        factor = both["latency_s"] / both["calibrated_s"].clip(lower=1e-6)
        factor = factor.where(factor >= 1, 1 / factor)
        apart = (both["latency_s"] - both["calibrated_s"]).abs()
        off = (apart / NEAR_S).where(apart / NEAR_S < factor / FAR, factor / FAR)
        by_pass = off.groupby([both[name] for name in (*cell, *PASS)], sort=False).median()
        cells = {
            ", ".join(map(str, names)): median_of(one)
            for names, one in by_pass.groupby(list(cell), sort=False)
        }
        ratio = both["latency_s"] / both["simulated_s"].clip(lower=1e-6)
        return worst_of(
            cells,
            1.0,
            least=False,
            median_measured_by_simulated=float(ratio.median()) if len(both) else None,
            median_overhead_s=float(both["overhead_s"].median()) if len(both) else None,
            largest_difference_s=float(apart.max()) if len(both) else None,
            kills=len(both),
            tolerance=f"1: a factor of {FAR:g} or {NEAR_S} s",
        )

    return claim


PASS = ("run", "sample")
"""Columns that name a pass; without the second one a run has one pass of a case."""


def calibrated(rows: pd.DataFrame, cell: Sequence[str]) -> pd.DataFrame:
    """Return the rows with both latencies, with ``overhead_s`` and ``calibrated_s``.

    The overhead is what the simulator does not have: the median over the case's other passes of
    measured less simulated latency, not below 0. A case with one pass has no row."""
    both = rows.dropna(subset=["latency_s", "simulated_s"])
    both = both if "sample" in both else both.assign(sample=0)
    found = [both.iloc[:0].assign(overhead_s=0.0)]
    for _, case in both.groupby(list(cell), sort=False):
        more_s = case["latency_s"] - case["simulated_s"]
        by_pass = more_s.groupby([case[name] for name in PASS]).median()
        for key, mine in case.groupby(list(PASS), sort=False):
            others = by_pass.drop(index=[key])
            if len(others):
                found.append(mine.assign(overhead_s=max(0.0, float(others.median()))))
    judged = pd.concat(found)
    return judged.assign(calibrated_s=judged["simulated_s"] + judged["overhead_s"])


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
