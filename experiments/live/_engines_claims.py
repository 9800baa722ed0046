"""The curves of `experiments.live.engines`, and the comparisons that are read off them.

A line is one engine with one setting. A rung of a line counts as held if more than half of the
line's runs held it. The runs of a rung, each with a seed of its own, are the samples behind an
interval: all of them, also those that did not hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.live._engines_figure import LINE, TASKS
from experiments.live._judged import columns_of
from experiments.live._ladder import BATCHES
from experiments.live._rates import REAL_TIME
from harness.claims import Finding, at_least, at_most, median_of, ratio_of, unmeasured

_STOCK, _REAL_TIME = "stock Spark in micro-batches", "stock Spark in real-time mode"
BOUND_S = 1.0
"""Latency within which the best rates of both engines are compared."""
_NOT_HELD = (
    "There is no rate that both engines hold in most runs, with ten batches or more and without "
    "results that still come sooner and sooner. The paper profile, with more rates, may have one."
)
_NO_BOUND = (
    f"One of the engines has no rate that it holds with a median latency of {BOUND_S:g} s or less."
)
_NOT_SATURATED = "One of the engines holds the highest rate of the ladder."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A claim about each workload: how many times what one engine does the other one does.

    The ratio is at most the limit for a latency, and at least the limit otherwise."""

    name: str
    """The end of the claim's id."""
    text: str
    column: str
    limit: float
    """Fixed before measuring; those of real-time mode on 2026-11-23."""
    other: str = _STOCK
    unmeasured_because: str = _NOT_HELD

    @property
    def latency(self) -> bool:
        """True if less is better."""
        return self.column.startswith("latency")


COMPARISONS = (
    Comparison(
        name="same-rate",
        text="at the highest rate that both engines hold, a core of the task engine does at least "
        "5 times the records of the best setting of stock Spark in micro-batches.",
        column="records_per_core_s",
        limit=5.0,
    ),
    Comparison(
        name="same-rate-whole",
        text="at that rate it does at least twice the records where the broker's and Redis's "
        "processor time counts, too.",
        column="all_records_per_core_s",
        limit=2.0,
    ),
    Comparison(
        name="efficiency",
        text=f"at a median latency of {BOUND_S:g} s or less, each at its best rate, a core of the "
        "task engine does at least 10 times the records.",
        column="records_per_core_s",
        limit=10.0,
        unmeasured_because=_NO_BOUND,
    ),
    Comparison(
        name="saturated",
        text="each at the rate that saturates it, a core of the task engine does at least "
        "1.5 times the records.",
        column="records_per_core_s",
        limit=1.5,
        unmeasured_because=_NOT_SATURATED,
    ),
    Comparison(
        name="latency",
        text="at the highest rate that both engines hold, the task engine's median latency is at "
        "most a tenth of that of the fastest setting of stock Spark in micro-batches.",
        column="latency_p50_s",
        limit=0.1,
    ),
    Comparison(
        name="real-time-latency",
        text="at the highest rate that it holds with stock Spark in real-time mode, the task "
        "engine's median latency is no higher.",
        column="latency_p50_s",
        limit=1.0,
        other=_REAL_TIME,
    ),
    Comparison(
        name="real-time-tail",
        text="at that rate its 99th percentile is at most half.",
        column="latency_p99_s",
        limit=0.5,
        other=_REAL_TIME,
    ),
)
DRAWN = (
    "records_per_core_s", "all_records_per_core_s", "latency_p50_s", "latency_p99_s", "done_per_s",
)  # fmt: skip
"""Columns of a rung that the curves have with an interval."""


Rung = tuple[str, float, pd.DataFrame]
"""A line's name, a rate, and the runs at that rate."""


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


def _held(rungs: pd.DataFrame, side: str) -> Iterator[Rung]:
    """Yield line, rate and runs of every rung that each run made, and that counts in most."""
    for name, line in _lines(rungs, side):
        for _, runs in line.groupby("rate_per_s"):
            if len(runs) == line["run"].nunique() and _most(_counts(runs)):
                yield name, float(runs["rate_per_s"].iloc[0]), runs


def _saturating(rungs: pd.DataFrame, side: str) -> Iterator[Rung]:
    """Yield the lowest rung of each line that it does not hold in any run."""
    for name, line in _lines(rungs, side):
        above = line[~line["held"].astype(bool)].sort_values("rate_per_s")
        top = above.drop_duplicates("run")
        if len(top) == line["run"].nunique():
            yield name, float(top["rate_per_s"].median()), top


def _compared_rungs(rungs: pd.DataFrame, one: Comparison, side: str) -> Sequence[Rung]:
    if one.name == "saturated":
        return list(_saturating(rungs, side))
    held = list(_held(rungs, side))
    if one.name == "efficiency":
        latencies = [_median(each, "latency_p50_s") for each in held]
        known = zip(held, latencies, strict=True)
        return [each for each, s in known if s is not None and s <= BOUND_S]
    rates = [{rate for _, rate, _ in _held(rungs, each)} for each in (TASKS, one.other)]
    rate = max(rates[0] & rates[1], default=None)
    return [each for each in held if each[1] == rate]


def _median(rung: Rung, column: str) -> float | None:
    sample = median_of(rung[2][column])
    return None if sample is None else sample.value


def compared(rungs: pd.DataFrame, one: Comparison) -> Finding:
    """Return whether the ratio of two medians reaches its limit, from above for a latency.

    Of each side the rung with the best median counts. Below the samples of an interval it stays
    open."""
    best: dict[str, Rung] = {}
    for name, side in (("tasks", TASKS), ("stock", one.other)):
        known = [
            (median, each)
            for each in _compared_rungs(rungs, one, side)
            if (median := _median(each, one.column)) is not None
        ]
        if not known:
            return unmeasured(limit=one.limit)
        best[name] = (min if one.latency else max)(known, key=lambda two: two[0])[1]
    ratio = ratio_of(*(rung[2][one.column] for rung in best.values()))
    assert ratio is not None, one.column
    shown: dict[str, Any] = {
        **{name: _median(rung, one.column) for name, rung in best.items()},
        **{f"{name}_rate_per_s": rung[1] for name, rung in best.items()},
        **{f"{name}_setting": rung[0] for name, rung in best.items()},
        **{f"{name}_latency_s": _median(rung, "latency_p50_s") for name, rung in best.items()},
    }
    return (at_most if one.latency else at_least)(ratio, one.limit, **shown)
