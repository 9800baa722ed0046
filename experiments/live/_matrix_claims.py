"""The claims of `experiments.live.matrix`, fixed on 2026-11-23 before any run on its network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd

from experiments.live._judged import Tables, described
from experiments.live._matrix_failures import BATCH_S, CORRELATED, EXPONENTIAL, FAILURES
from experiments.live._matrix_network import CHECKPOINT, DRA, FULL, PPA, RAS
from experiments.live._matrix_table import (
    BY_NAME,
    COLUMNS,
    CONTENDERS,
    KILLS,
    OURS,
    PASS,
    PASSES,
    differences_of,
    failure_by_failure,
    of_scheme,
    slug,
)
from experiments.stock._workloads import WORKLOADS
from harness.claims import (
    Claim,
    Finding,
    Rule,
    at_most,
    difference_of,
    every,
    found,
    hypothesis,
    invariant,
    mean_of,
    not_asked,
    too_few,
    unmeasured,
)
from harness.claims.samples import differing, fewest_pairs
from harness.results.kills import Unrecovered

# Shown: no record depends on what follows.

MEANS = Rule(version=6, since="2026-11-26", seen_seeds=(20160516, 71801, 71802, 71805))
"""Means over the passes of both models on the network of the edge paper; schemes by the mean
difference in the same ones. Versions before compared medians on six nodes, left out failures that
cost nothing, or took failures for samples, which share their pass and often one outage."""


def _stalled(table: pd.DataFrame) -> pd.Series[bool]:
    """Return True for stock cells that stalled: they have lost nothing yet (`stock-goes-on`)."""
    return ~table["scheme"].isin(OURS) & table["recovery_why_not"].eq(Unrecovered.STALLED.value)


def _cell(workload: str, scheme: str, failures: str) -> Claim:
    """Claim that the output of one cell is right."""

    @invariant(
        f"{workload}/{slug(scheme)}/{failures}",
        f"{WORKLOADS[workload].label}, {scheme}, {failures}: processes were really killed, and the "
        "stable output equals the twin's and the ground truth",
    )
    def right(tables: Tables) -> Finding:
        table = tables[PASSES]
        mine = (table["workload"] == workload) & (table["scheme"] == scheme)
        rows = table[mine & (table["failures"] == failures) & ~_stalled(table)]
        if not len(rows):
            return not_asked()
        good = rows["output_equals_truth"].eq(True) & rows["output_equals_twin"].eq(True)
        good &= rows["contradictions"].eq(0) & (pd.to_numeric(rows["kills_done"]) >= 1)
        columns = ["results", "kills_done", "difference_from_truth", "difference_from_twin"]
        measured: dict[str, Any] = {name: rows[name].tolist() for name in columns}
        return every(good, None, **measured)

    return right


def _pair(one: str, other: str) -> Claim:
    """Claim that two schemes differ in what is measured of them."""

    @hypothesis(
        f"differ/{slug(one)}/{slug(other)}",
        f"{one} and {other} differ: in a column of the matrix more than chance allows for, of "
        "that many columns",
        rule=MEANS,
    )
    def differ(tables: Tables) -> Finding:
        pairs = {
            column: more
            for column in COLUMNS
            if column.decides and (more := differences_of(tables, column, one, other))
        }
        if not pairs:
            return unmeasured("no column was measured under both schemes")
        passes, needed = max(map(len, pairs.values())), fewest_pairs(len(pairs))
        if passes < needed:
            why = f"for {len(pairs)} comparisons {too_few(passes, needed)}"
            return Finding(held=None, why=why, samples=passes)
        shown = {
            column.label.replace("\n", " "): {
                name: described(of_scheme(tables, column, name)) for name in (one, other)
            }
            for column in differing(pairs)
        }
        if shown:
            return found(True, columns_apart=shown, comparisons=len(pairs))
        return found(False, why_equal(tables, one, other, len(pairs)), comparisons=len(pairs))

    return differ


def why_equal(tables: Tables, one: str, other: str, columns: int) -> str:
    """Return the sentence about two schemes that no column separates, from their records."""
    parts = []
    for scheme in (one, other):
        rows = tables[PASSES][tables[PASSES]["scheme"] == scheme].drop_duplicates("workload")
        replicas, shared = (int(pd.to_numeric(rows[n]).sum()) for n in ("replicas", "shared"))
        back = of_scheme(tables, _BACK, scheme)
        mean = "not known" if back is None else f"{back.value:.2f} s"
        parts.append(
            f"{scheme} has {replicas} replicas, {shared} of them on their primary's own node, "
            f"where both die together, and is back after {mean}"
        )
    more = failure_by_failure(tables, _BACK, one, other)
    sooner, later = (sum(sign * each > BATCH_S for each in more) for sign in (-1, 1))
    parts.append(
        f"of {len(more)} equal failures {one} was back sooner after {sooner} and later after "
        f"{later}; in the others presumably a task without a replica elsewhere had to wait for its "
        "node under both"
    )
    return f"by Holm's procedure none of {columns} columns differs: " + "; ".join(parts)


_BACK = BY_NAME["inside_s"]


_LESS = (
    ("replication-back-sooner", "inside_s", FULL, CHECKPOINT, FAILURES,
     "With full replication all tasks are back sooner than with checkpoints alone"),
    ("near-back-sooner", "inside_s", RAS, DRA, (EXPONENTIAL,),
     "Where nodes fail one by one, RPPG's tasks are back sooner with RAS than with DRA"),
    ("far-back-sooner", "inside_s", FULL, RAS, (CORRELATED,),
     "Where racks fail, full replication on the next rack is back sooner than replicas near "
     "their primaries"),
    ("ppa-shorter-silence", "output_gap_s", PPA, RAS, FAILURES,
     "Output stops for less long under PPA than under RPPG+RAS, which has nothing tentative"),
    ("first-versions-less-accurate", "accuracy_after", PPA, CHECKPOINT, FAILURES,
     "Where output goes on without what is lost, its first versions are less accurate"),
    ("ppa-cheaper", "cores", PPA, FULL, FAILURES,
     "PPA spends less processor time than full replication"),
)  # fmt: skip
"""Claims about two schemes: id, column, the scheme with less, the other one, failures, text."""


def _less(
    claim: str, column: str, one: str, other: str, failures: Sequence[str], text: str
) -> Claim:
    """Claim that a scheme has less than another on average, in the same failures or passes."""

    @hypothesis(claim, text, rule=MEANS)
    def less(tables: Tables) -> Finding:
        chosen = BY_NAME[column]
        means: dict[str, Any] = {
            f"{column}, {name}": described(of_scheme(tables, chosen, name, failures))
            for name in OURS
        }
        pairs = differences_of(tables, chosen, one, other, failures)
        decided = at_most(mean_of(pairs), 0.0, **means)
        named = {"median": "mean difference"}
        measured = {named.get(name, name): value for name, value in decided.measured.items()}
        return replace(decided, measured=measured)

    return less


def _stock(decide: Callable[[Tables, pd.DataFrame], Finding]) -> Callable[[Tables], Finding]:
    """Ask only where there are cells of the stock engine, which are handed over."""

    def of_theirs(tables: Tables) -> Finding:
        table = tables[PASSES]
        theirs = table[~table["scheme"].isin(OURS)]
        return decide(tables, theirs) if len(theirs) else not_asked()

    return of_theirs


@hypothesis(
    "stock-goes-on", "The stock engine goes on after the failures in every cell", counted=True
)
@_stock
def stock_goes_on(tables: Tables, theirs: pd.DataFrame) -> Finding:
    stalled = _stalled(theirs)
    rows = theirs[stalled].to_dict("records")
    cells = [f"{row['workload']}, {row['scheme']}, {row['failures']}" for row in rows]
    return every(~stalled, cells=len(theirs), stalled_for_good=cells)


@hypothesis(
    "stock-tentative-replaced",
    "Every tentative result of the second query was replaced by a stable one",
    counted=True,
)
@_stock
def stock_tentative_replaced(tables: Tables, theirs: pd.DataFrame) -> Finding:
    """Judge PPA as a Spark user can have it, where the first query was hit."""
    mine = theirs[theirs["scheme"] == "stock PPA"]
    left, share = (pd.to_numeric(mine[name]) for name in ("uncorrected", "tentative_share"))
    return every(left.eq(0), tentative_share=share.round(4).tolist(), left=left.tolist())


@hypothesis(
    "stock-second-query-shorter-gap",
    "With a second, smaller query on the other rack the stock engine's output stops for less long "
    "than with one query over both",
    rule=MEANS,
)
@_stock
def stock_shorter_gap(tables: Tables, theirs: pd.DataFrame) -> Finding:
    kills = tables[KILLS]
    gap_s = pd.to_numeric(kills["output_gap_s"])
    gaps = [
        gap_s[kills["scheme"] == scheme].groupby([kills[name] for name in PASS]).median()
        for scheme in ("stock PPA", "stock checkpoint")
    ]
    return at_most(difference_of(*gaps), 0.0)


CLAIMS = [
    *(
        _cell(workload, scheme, failures)
        for scheme in CONTENDERS
        for workload in WORKLOADS
        for failures in FAILURES
    ),
    *(_pair(one, other) for one, other in combinations(OURS, 2)),
    *(_less(*each) for each in _LESS),
    stock_goes_on,
    stock_tentative_replaced,
    stock_shorter_gap,
]
