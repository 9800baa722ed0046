"""The tables of `experiments.live.matrix`, and the columns by which schemes are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from experiments.live import _matrix_stock
from experiments.live._judged import Tables
from experiments.live._matrix_failures import FAILURES
from experiments.live._matrix_network import DRA, RAS, SCHEMES
from harness.claims.samples import Sample, mean_of
from harness.experiment import Results
from harness.figures.style import GREY, ORANGE, Look
from harness.figures.style import SCHEMES as LOOK_OF
from harness.judging.failures import Unknown
from harness.results.kills import Kill


def slug(scheme: str) -> str:
    """Return a scheme's name as a part of a topic's, and of a claim's id."""
    return scheme.lower().replace(" ", "-").replace("+", "-")


# Shown: no record depends on what follows.

OURS = tuple(SCHEMES)
CONTENDERS = (*OURS, *_matrix_stock.SCHEMES)
LOOKS: Mapping[str, Look] = {
    **{name: replace(LOOK_OF[scheme], label=name) for name, scheme in SCHEMES.items()},
    RAS: replace(LOOK_OF["rppg"], label=RAS),
    DRA: Look(DRA, ORANGE, "v"),
    **{
        name: replace(LOOK_OF[scheme], label=name, color=GREY)
        for name, scheme in _matrix_stock.SCHEMES.items()
    },
}
CELL = ("workload", "scheme", "failures")
OF_A_KILL = (
    "paper_recovery_s", "paper_recovery_why_not", "recovery_s", "recovery_at_least_s",
    "recovery_why_not", "twin_recovery_s", "output_gap_s", "overlaps",
)  # fmt: skip
MEASURES = (
    "latency_p50_s", "latency_p99_s", "twin_latency_p50_s", "throughput_per_s", "accuracy_first",
    "accuracy_last", "paper_accuracy_first", "paper_accuracy_last", "tentative_share", "cpu_s",
    "twin_cpu_s", "resident_bytes", "network_bytes", "recovery_s", "recovery_at_least_s",
    "paper_recovery_s", "recovery_why_not", "detection_s", "output_gap_s", "replicas", "shared",
    "kills_done", "nodes_killed", "output_equals_truth", "output_equals_twin", "contradictions",
    "difference_from_truth", "difference_from_twin", "results", "uncorrected",
)  # fmt: skip
PASSES, KILLS = "cells", "kills"
"""Tables with a row per pass, and with one per failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the matrix. A sample is a pass, of whose failures it has the mean."""

    label: str
    source: str
    name: str
    """Of the table's column."""
    more_is_better: bool = False
    decimals: int = 2
    factor: float = 1.0
    decides: bool = True
    """False for what a scheme is given rather than what is measured of it."""
    relative: bool = False
    """True if samples of several cells are compared as shares of their cell's mean: workloads
    differ by more than schemes."""

    def of(self, rows: pd.DataFrame) -> pd.Series[float]:
        """Return the value of each row of its table, null where there is none, in its unit."""
        return pd.to_numeric(rows[self.name]) * self.factor


COLUMNS = (
    Column(label="latency,\nmedian (s)", source=PASSES, name="latency_p50_s", relative=True),
    Column(label="latency,\np99 (s)", source=PASSES, name="latency_p99_s", relative=True),
    Column(
        label="results\nin time (/s)", source=PASSES, name="throughput_per_s",
        more_is_better=True, relative=True,
    ),
    Column(
        label="accuracy,\nfirst (%)", source=PASSES, name="paper_accuracy_first",
        more_is_better=True, decimals=1, factor=100,
    ),
    Column(
        label="accuracy,\nlast (%)", source=PASSES, name="paper_accuracy_last",
        more_is_better=True, decimals=1, factor=100,
    ),
    Column(
        label="tentative\n(%)", source=PASSES, name="tentative_share", decimals=1, factor=100,
    ),
    Column(label="back,\ninside (s)", source=KILLS, name="inside_s"),
    Column(label="outage,\noutside (s)", source=KILLS, name="outside_s"),
    Column(label="silence\n(s)", source=KILLS, name="output_gap_s"),
    Column(
        label="tentative\nafter a\nfailure (%)", source=KILLS, name="tentative_after", decimals=1,
        factor=100,
    ),
    Column(
        label="accuracy\nafter a\nfailure (%)", source=KILLS, name="accuracy_after",
        more_is_better=True, decimals=1, factor=100,
    ),
    Column(label="CPU\n(cores)", source=PASSES, name="cores", relative=True),
    Column(
        label="memory\n(GB)", source=PASSES, name="resident_bytes", factor=1e-9, relative=True,
    ),
    Column(
        label="network\n(MB)", source=PASSES, name="network_bytes", decimals=1, factor=1e-6,
        relative=True,
    ),
    Column(
        label="replicas", source=PASSES, name="replicas", decimals=0, decides=False,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Column] = {column.name: column for column in COLUMNS}


def cells_of(results: Results) -> pd.DataFrame:
    """Return a row per pass with failures: its cell, its repetition, and what the judge found."""
    rows = _named(results, "variants")
    cells = rows.reindex(columns=["run", *CELL, "repeat", "tentative", "load_s", *MEASURES])
    share = pd.to_numeric(cells["tentative"]) / pd.to_numeric(cells["results"])
    cores = pd.to_numeric(cells["cpu_s"]) / pd.to_numeric(cells["load_s"])
    return cells.assign(tentative_share=share, cores=cores).drop(columns="tentative")


def kills_of(results: Results) -> pd.DataFrame:
    """Return a row per failure: both recoveries, and what came between it and the next one.

    ``planned_at_s`` names a failure: all schemes of a run have the same.
    ``inside_s`` is the engine's own recovery, 0 where the dead nodes were no task's primary.
    ``outside_s`` is the time for which a user saw late output, relapses included (a lower bound
    where it was not ``over``), null for a failure in an outage that had begun before.
    ``tentative_after`` is the tentative share of the first versions that came, ``accuracy_after``
    the accuracy of those of the windows that ended."""
    rows = _named(results, "recoveries")
    kills = rows.reindex(
        columns=["run", *CELL, "repeat", "target", "planned_at_s", "at_s", *OF_A_KILL]
    )
    keys = ["run", *CELL, "at_s"]
    after = _named(results, "following").reindex(columns=[*keys, "came", "came_tentative"])
    kills = kills.merge(after.astype({"at_s": float}), on=keys, how="left")
    seen = [Kill.from_row(each) for each in rows.to_dict("records")]
    outside_s = pd.Series([each.late_for_s for each in seen], kills.index, dtype=float)
    ends_s = pd.Series([each.seen_s for each in seen], kills.index, dtype=float)
    came = pd.to_numeric(kills["came"])
    unharmed = kills["paper_recovery_why_not"].eq(Unknown.NOTHING_LOST.value)
    return kills.assign(
        inside_s=pd.to_numeric(kills["paper_recovery_s"]).mask(unharmed, 0.0),
        outside_s=outside_s.mask(_in_an_earlier_outage(kills, ends_s)),
        over=[each.over for each in seen],
        tentative_after=pd.to_numeric(kills["came_tentative"]) / came.where(came > 0),
        accuracy_after=_accuracy_after(kills, _named(results, "accuracy")),
    )


def _in_an_earlier_outage(kills: pd.DataFrame, ends_s: pd.Series[float]) -> pd.Series[bool]:
    """Return which failures came while output was still late after an earlier one of the pass.

    All of these end together, so that they are one outage, and the first of them has all of it."""
    at_s = pd.to_numeric(kills["at_s"])
    until_s = (at_s + ends_s).groupby([kills[name] for name in ("run", *CELL)])
    before_s = until_s.transform(lambda ends: ends.cummax().shift())
    return kills["overlaps"].eq(True) & (at_s < before_s)


def _named(results: Results, series: str) -> pd.DataFrame:
    """Return a series of all runs with the columns of `CELL`.

    A run of the stock engine has its scheme in the point, and its passes are called as the
    failures; one of ours has ten passes, called by scheme and failures."""
    rows = results.series(series, ("workload", "scheme", "repeat"))
    if not len(rows):
        return rows.reindex(columns=list(dict.fromkeys([*rows.columns, *CELL])))
    parts = [
        _parted(str(variant), str(scheme))
        for variant, scheme in zip(rows["variant"], rows["scheme"], strict=True)
    ]
    return rows.assign(scheme=[one for one, _ in parts], failures=[two for _, two in parts])


def _parted(variant: str, scheme: str) -> tuple[str, str]:
    """Return scheme and failures of a pass."""
    if scheme in CONTENDERS:
        return scheme, variant
    slugged, _, failures = variant.rpartition("-")
    return _SLUGS.get(slugged, slugged), failures


_SLUGS = {slug(name): name for name in OURS}


def _accuracy_after(kills: pd.DataFrame, windows: pd.DataFrame) -> Sequence[float]:
    """Return the accuracy of first versions of the windows from each failure to the next.

    A window belongs to the last failure before the next window begins."""
    if not {"first", "members", "window_start_s"} <= set(windows.columns):
        return [np.nan] * len(kills)
    by = ["run", *CELL]
    of_pass = dict(iter(windows.groupby(by, sort=False)))
    found = pd.Series(np.nan, index=kills.index)
    for name, mine in kills.groupby(by, sort=False):
        rows = of_pass.get(name)
        if rows is None:
            continue
        at_s = mine["at_s"].astype(float)
        place = np.searchsorted(at_s.to_numpy(), rows["window_start_s"] + _slide_s(rows)) - 1
        sums = rows[["first", "members"]].groupby(place).sum()
        share = sums["first"] / sums["members"].where(sums["members"] > 0)
        found[mine.index] = share.reindex(range(len(mine))).to_numpy()
    return [float(value) for value in found]


def _slide_s(windows: pd.DataFrame) -> float:
    """Return the distance of a pass's windows."""
    steps = windows["window_start_s"].drop_duplicates().sort_values().diff()
    return float(steps.min()) if len(steps.dropna()) else 0.0


def of_cell(tables: Tables, column: Column, **cell: str) -> Sample | None:
    """Return the mean of a column over the passes of a cell, or of all cells left open."""
    rows = tables[column.source]
    for name, value in cell.items():
        rows = rows[rows[name] == value]
    return _mean(_by_pass(rows.assign(value=column.of(rows)), ["run", *CELL]))


def of_scheme(
    tables: Tables, column: Column, scheme: str, failures: Sequence[str] = FAILURES
) -> Sample | None:
    """Return the mean of a column over all cells of a scheme under these failures."""
    rows = _comparable(tables, column, failures)
    return _mean(_by_pass(rows[rows["scheme"] == scheme], PASS))


def differences_of(
    tables: Tables, column: Column, one: str, other: str, failures: Sequence[str] = FAILURES
) -> Sequence[float]:
    """Return what a scheme has more than another in each pass, in the mean of equal failures."""
    return _by_pass(failure_by_failure(tables, column, one, other, failures).reset_index(), PASS)


def failure_by_failure(
    tables: Tables, column: Column, one: str, other: str, failures: Sequence[str] = FAILURES
) -> pd.Series[float]:
    """Return what a scheme has more than another, in the same pass or after the same failure."""
    rows = _comparable(tables, column, failures)
    sides = [rows[rows["scheme"] == scheme].set_index(_SAME)["value"] for scheme in (one, other)]
    return (sides[0] - sides[1]).dropna()


def _by_pass(rows: pd.DataFrame, by: Sequence[str]) -> tuple[float, ...]:
    """Return the mean of ``value`` in each pass that has one."""
    means = rows.groupby(list(by), sort=False)["value"].mean()
    return tuple(float(mean) for mean in means.dropna())


PASS = ("workload", "failures", "repeat")
_SAME = [*PASS, "planned_at_s"]


def _comparable(tables: Tables, column: Column, failures: Sequence[str]) -> pd.DataFrame:
    """Return the ``value`` of a column in every cell of ours, named by scheme and `_SAME`.

    That of a relative column is the share of the mean of all schemes of ours in the same workload,
    failures and repetition, so that 1 is the mean scheme."""
    rows = tables[column.source]
    rows = rows[rows["failures"].isin(failures) & rows["scheme"].isin(OURS)]
    known = column.of(rows)
    if column.relative:
        known /= known.groupby([rows[name] for name in PASS]).transform("mean")
    named = rows.reindex(columns=["scheme", *_SAME]).assign(value=known)
    return named.fillna({"planned_at_s": 0.0})  # a pass has none


@lru_cache(maxsize=8192)
def _mean(values: tuple[float, ...]) -> Sample | None:
    """Return their mean with its interval; claims and figure ask for the same ones."""
    return mean_of(values)


def outages(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the failures as seen from outside, for the report's first table."""
    kills = tables["kills"]
    return pd.DataFrame(
        {
            "engine": "tasks",
            "scheme": kills["scheme"],
            "failures": kills["failures"],
            "pass": kills[["run", *CELL]].astype(str).agg("/".join, axis=1),
            "outage_s": kills["outside_s"],
            "not_over": ~kills["over"].astype(bool),
        }
    ).dropna(subset="outage_s")
