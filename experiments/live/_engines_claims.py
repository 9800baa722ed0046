"""The curves of `experiments.live.engines`, and the comparisons that are read off them.

A line is one engine with one setting. A rung of a line counts as held if more than half of the
line's runs held it. The runs of a rung, each with a seed of its own, are the samples behind an
interval: all of them, also those that did not hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from experiments.live._engines_figure import LINE, TASKS
from experiments.live._judged import columns_of
from experiments.live._ladder import BATCHES
from experiments.live._rates import REAL_TIME
from harness.claims import (
    Finding,
    Sample,
    at_least,
    at_most,
    median_of,
    ratio_of,
    unmeasured,
)

BOUND_S = 1.0
"""Latency within which the best rates of both engines are compared."""
LIMITS = {
    "seen_p50_ms": 25.0,
    "seen_p99_ms": 50.0,
    "takeover_p50_ms": 10.0,
    "restored_replica_p50_ms": 100.0,
    "restored_checkpoint_p50_ms": 250.0,
    "same_rate": 5.0,
    "same_rate_whole": 2.0,
    "within_bound": 10.0,
    "own_saturation": 1.5,
    "share_of_latency": 0.1,
    "real_time_latency": 1.0,
    "real_time_tail": 0.5,
}
"""Fixed before measuring; those of real-time mode on 2026-11-23."""
DRAWN = (
    "records_per_core_s", "all_records_per_core_s", "latency_p50_s", "latency_p99_s", "done_per_s",
)  # fmt: skip
"""Columns of a rung that the curves have with an interval."""
_STOCK, _REAL_TIME = "stock Spark in micro-batches", "stock Spark in real-time mode"


def curves_of(rungs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per line and rate: medians over the runs, with the ends of their intervals."""
    if not len(rungs):
        ends = [f"{name}{end}" for name in DRAWN for end in ("", "_low", "_high")]
        return pd.DataFrame(columns=[*LINE, "rate_per_s", "runs", "held", "counts", *ends])
    rows = []
    for names, runs in rungs.groupby([*LINE, "rate_per_s"]):
        row: dict[str, Any] = dict(zip([*LINE, "rate_per_s"], names, strict=True))
        row |= {"runs": len(runs), "held": _most(runs["held"]), "counts": _most(_counts(runs))}
        for name in DRAWN:
            row |= columns_of(name, runs[name])
        rows.append(row)
    return pd.DataFrame(rows)


def _most(runs: pd.Series[Any]) -> bool:
    """Return whether more than half of them are true."""
    return 2 * int(runs.astype(bool).sum()) > len(runs)


def _counts(rungs: pd.DataFrame) -> pd.Series[bool]:
    """Return which runs of rungs may decide: held, settled, and with enough batches."""
    unbatched = (rungs["engine"] == TASKS) | (rungs["settings"] == REAL_TIME)
    enough = unbatched | (rungs["batches"] >= BATCHES)
    return rungs["held"].astype(bool) & rungs["settled"].astype(bool) & enough


def _lines(rungs: pd.DataFrame, side: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the lines of one side of a comparison with equal durability, by a name."""
    ours, updates = rungs["engine"] == TASKS, rungs["settings"] == REAL_TIME
    sides = {TASKS: ours, _STOCK: ~ours & ~updates, _REAL_TIME: ~ours & updates}
    mine = rungs[sides[side] & rungs["durable"].astype(bool)]
    for (settings, interval_s), line in mine.groupby(["settings", "interval_s"]):
        yield f"{settings}, {interval_s:g} s".removeprefix(", "), line


def _held(rungs: pd.DataFrame, side: str) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """Yield line, rate and runs of every rung that each run made, and that counts in most."""
    for name, line in _lines(rungs, side):
        for _, runs in line.groupby("rate_per_s"):
            if len(runs) == line["run"].nunique() and _most(_counts(runs)):
                yield name, float(runs["rate_per_s"].iloc[0]), runs


def _common_rate(rungs: pd.DataFrame, other: str) -> float | None:
    """Return the highest rate that the task engine and the other side hold."""
    rates = [{rate for _, rate, _ in _held(rungs, side)} for side in (TASKS, other)]
    return max(rates[0] & rates[1], default=None)


def _best(
    found: Sequence[tuple[str, float, pd.DataFrame]], column: str, *, least: bool = False
) -> tuple[str, float, pd.DataFrame] | None:
    """Return the rung with the largest or the least median of a column."""
    known = [(median, one) for one in found if (median := median_of(one[2][column])) is not None]
    if not known:
        return None
    chosen = min if least else max
    return chosen(known, key=lambda two: two[0].value)[1]


def _compared(
    ours: tuple[str, float, pd.DataFrame] | None,
    theirs: tuple[str, float, pd.DataFrame] | None,
    column: str,
    limit: str,
) -> Finding:
    """Return whether the ratio of two medians reaches its limit, from above for a latency.

    Below the samples of an interval it stays open."""
    if ours is None or theirs is None:
        return unmeasured(limit=LIMITS[limit])
    both = [one[2][column] for one in (ours, theirs)]
    ratio, medians = ratio_of(*both), [median_of(each) for each in both]
    assert ratio is not None, column
    decide = at_most if column.startswith("latency") else at_least
    return decide(
        ratio,
        LIMITS[limit],
        tasks=_value(medians[0]),
        stock=_value(medians[1]),
        tasks_rate_per_s=ours[1],
        stock_rate_per_s=theirs[1],
        tasks_setting=ours[0],
        stock_setting=theirs[0],
        tasks_latency_s=_value(median_of(ours[2]["latency_p50_s"])),
        stock_latency_s=_value(median_of(theirs[2]["latency_p50_s"])),
    )


def _value(sample: Sample | None) -> float | None:
    return None if sample is None else sample.value


def _at_common_rate(
    rungs: pd.DataFrame, column: str, limit: str, *, least: bool = False, other: str = _STOCK
) -> Finding:
    rate = _common_rate(rungs, other)
    ours, theirs = (
        _best([one for one in _held(rungs, side) if one[1] == rate], column, least=least)
        for side in (TASKS, other)
    )
    return _compared(ours, theirs, column, limit)


def same_rate(rungs: pd.DataFrame) -> Finding:
    """Compare records per core-second at the highest rate that both hold."""
    return _at_common_rate(rungs, "records_per_core_s", "same_rate")


def same_rate_whole(rungs: pd.DataFrame) -> Finding:
    """Compare them with the servers' processor time."""
    return _at_common_rate(rungs, "all_records_per_core_s", "same_rate_whole")


def same_rate_latency(rungs: pd.DataFrame) -> Finding:
    """Compare median latencies at that rate."""
    return _at_common_rate(rungs, "latency_p50_s", "share_of_latency", least=True)


def real_time_latency(rungs: pd.DataFrame) -> Finding:
    """Compare median latencies with real-time mode's at the highest rate that both hold."""
    return _at_common_rate(
        rungs, "latency_p50_s", "real_time_latency", least=True, other=_REAL_TIME
    )


def real_time_tail(rungs: pd.DataFrame) -> Finding:
    """Compare the 99th percentiles at that rate."""
    return _at_common_rate(rungs, "latency_p99_s", "real_time_tail", least=True, other=_REAL_TIME)


def within_bound(rungs: pd.DataFrame) -> Finding:
    """Compare the best rungs whose median latency is within `BOUND_S`."""
    column = "records_per_core_s"

    def prompt(engine: str) -> Sequence[tuple[str, float, pd.DataFrame]]:
        return [
            one
            for one in _held(rungs, engine)
            if (latency := median_of(one[2]["latency_p50_s"])) is not None
            and latency.value <= BOUND_S
        ]

    ours, theirs = (_best(prompt(engine), column) for engine in (TASKS, _STOCK))
    return _compared(ours, theirs, column, "within_bound")


def own_saturation(rungs: pd.DataFrame) -> Finding:
    """Compare the lowest rungs that each engine does not hold, whatever their rates."""
    column = "records_per_core_s"

    def full(engine: str) -> Sequence[tuple[str, float, pd.DataFrame]]:
        found = []
        for name, line in _lines(rungs, engine):
            above = line[~line["held"].astype(bool)].sort_values("rate_per_s")
            top = above.drop_duplicates("run")
            if len(top) == line["run"].nunique():
                found.append((name, float(top["rate_per_s"].median()), top))
        return found

    ours, theirs = (_best(full(engine), column) for engine in (TASKS, _STOCK))
    return _compared(ours, theirs, column, "own_saturation")
