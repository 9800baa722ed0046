"""Table 3: what serializing costs: the average delay over the bucket size.

The paper: nine experiments of 20 s; the delay grows linearly with the boundary interval, which
equals the bucket size, because a bucket waits until it is stable. The values are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.dpc import _shared
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.figures.style import BLUE, stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKETS_MS = (10, 50, 100, 150, 200, 300, 500)

LENGTH_S = 20.0

REPEATS = 9


def run(point: Point, context: Context) -> Outcome:
    """Twenty seconds without a failure."""
    bucket_us = int(str(point["bucket_ms"])) * 1000
    setting = _shared.Setting(
        failure_s=0.0,
        settle_us=0,
        bucket_us=bucket_us,
        batches=int(LENGTH_S * 1e6) // bucket_us,
        seed=context.seed("network"),
    )
    return Outcome(values={"mean_delay_s": _shared.measure(setting).mean_delay_s})


def points(buckets: tuple[int, ...]) -> list[Point]:
    return [{"bucket_ms": bucket} for bucket in buckets]


MEASUREMENT = Measurement(
    id="dpc/serialization",
    origin=Origin.SIMULATED,
    grid={
        Profile.SMOKE: points((50, 200, 500)),
        Profile.QUICK: points(BUCKETS_MS),
        Profile.PAPER: points(BUCKETS_MS),
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: REPEATS, Profile.PAPER: REPEATS},
    seconds_per_run={Profile.SMOKE: 0.1, Profile.QUICK: 0.1, Profile.PAPER: 0.1},
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Mean and extremes of the average delay per bucket size."""
    grouped = results.frame.groupby("bucket_ms")["mean_delay_s"]
    frame = grouped.agg(["mean", "min", "max", "count"]).reset_index()
    return frame.sort_values("bucket_ms").reset_index(drop=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """The average over the bucket size, with the range of the repeats."""
    axes = figure.subplots()
    mean = table["mean"] * 1000
    spread = [mean - table["min"] * 1000, table["max"] * 1000 - mean]
    axes.errorbar(table["bucket_ms"], mean, yerr=spread, fmt="o-", color=BLUE, capsize=3)
    axes.set_xlabel(
        f"bucket size = boundary interval (ms); all of {int(table['count'].max())} runs of "
        f"{LENGTH_S:g} s"
    )
    axes.set_ylabel("average end-to-end delay (ms)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    stamp(figure, _shared.STAMP)


def claims(table: pd.DataFrame) -> list[Verdict]:
    """A straight line."""
    slope, offset = np.polyfit(table["bucket_ms"], table["mean"] * 1000, 1)
    fitted = slope * table["bucket_ms"] + offset
    worst = float((fitted - table["mean"] * 1000).abs().max())
    return [
        Verdict(
            text="The delay grows linearly with the boundary interval",
            kind=ClaimKind.PAPER,
            held=worst <= 5.0 and slope > 0,
            measured={
                "ms_per_ms": float(slope), "at_zero_ms": float(offset),
                "largest_deviation_ms": worst, "tolerance_ms": 5.0,
            },
        )
    ]  # fmt: skip


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Table 3",
    title="Delay that serialization adds, over the bucket size",
    statement="The average end-to-end delay grows linearly with the boundary interval.",
    table=table,
    draw=draw,
    claims=claims,
    notes=(_shared.CHOSEN, "Buckets chosen; the paper's, and its values, are lost."),
    figure_size_in=(7.0, 4.0),
)
