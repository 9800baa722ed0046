"""Table 3: the cost of serializing, the average delay over the bucket size.

The paper: nine experiments of 20 s. The delay grows linearly with the boundary interval, which
equals the bucket size, because a bucket waits until it is stable. The values are lost. The memory
of SUnions, which the paper gives in a sentence, is measured on chains and at other rates, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.dpc import _shared
from harness.claims import Finding, every, found, paper
from harness.experiment import Experiment
from harness.figures.style import BLUE, stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH_S = 20.0


def run(point: Point, context: Context) -> Outcome:
    """Measure twenty seconds without a failure."""
    bucket_us = int(str(point["bucket_ms"])) * 1000
    setting = _shared.Setting(
        failure_s=0.0,
        settle_us=0,
        chain=int(str(point["chain"])),
        rate_per_s=int(str(point["rate_per_s"])),
        bucket_us=bucket_us,
        batches=round(LENGTH_S * 1e6) // bucket_us,
        seed=context.seed("network"),
    )
    return _shared.outcome(setting, ("mean_delay_s", "buffered_tuples"))


RATE_PER_S = 3000
MEMORY = ((200, 2, RATE_PER_S), (200, 4, RATE_PER_S), (200, 1, 1500), (200, 1, 6000))
"""More points for the memory: bucket in ms, nodes in the chain, aggregate rate."""


def points(buckets: tuple[int, ...]) -> list[Point]:
    chosen = [*((bucket, 1, RATE_PER_S) for bucket in buckets), *MEMORY]
    return [{"bucket_ms": b, "chain": chain, "rate_per_s": rate} for b, chain, rate in chosen]


MEASUREMENT = Measurement(
    id="dpc/serialization",
    origin=Origin.SIMULATED,
    grid=_shared.profiles(points((50, 200, 500)), points((10, 50, 100, 150, 200, 300, 500))),
    repeats=_shared.profiles(1, 9),
    seconds_per_run=_shared.profiles(0.1, 0.25),
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """Return a row per bucket size, chain and rate: average delay with extremes, most tuples."""
    grouped = results.frame.groupby(["bucket_ms", "chain", "rate_per_s"], sort=False)
    delay = grouped["mean_delay_s"].agg(["mean", "min", "max", "count"])
    return delay.assign(buffered_tuples=grouped["buffered_tuples"].mean()).reset_index()


def _table_3(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["chain"] == 1) & (table["rate_per_s"] == RATE_PER_S)]


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the average over the bucket size, with the range of the repeats."""
    axes = figure.subplots()
    table = _table_3(table)
    mean = table["mean"] * 1000
    spread = [(mean - table["min"] * 1000).to_numpy(), (table["max"] * 1000 - mean).to_numpy()]
    axes.errorbar(table["bucket_ms"], mean, yerr=spread, fmt="o-", color=BLUE, capsize=3)
    runs = f"; all of {table['count'].max():.0f} runs of {LENGTH_S:g} s" if len(table) else ""
    axes.set_xlabel(f"bucket size = boundary interval (ms){runs}")
    axes.set_ylabel("average end-to-end delay (ms)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    stamp(figure, _shared.STAMP)


@paper("linear", "The delay grows linearly with the boundary interval")
def linear(table: pd.DataFrame) -> Finding:
    from scipy.stats import linregress  # loading it takes a second

    table = _table_3(table)
    delay_ms = 1000 * table["mean"]
    line = linregress(table["bucket_ms"], delay_ms)
    worst = float((line.slope * table["bucket_ms"] + line.intercept - delay_ms).abs().max())
    return found(
        worst <= 5.0 and line.slope > 0,
        ms_per_ms=float(line.slope),
        at_zero_ms=float(line.intercept),
        largest_deviation_ms=worst,
        tolerance_ms=5.0,
    )


NEAR = 0.05


@paper("memory", "The memory of SUnions is proportional to their number, the bucket and the rate")
def memory(table: pd.DataFrame) -> Finding:
    expected = table["chain"] * table["rate_per_s"] * table["bucket_ms"] / 1000
    ratio = table["buffered_tuples"] / expected
    named = {
        f"{b:g} ms, {n} nodes, {r}/s": float(each)
        for b, n, r, each in zip(
            table["bucket_ms"], table["chain"], table["rate_per_s"], ratio, strict=True
        )
    }
    return every((ratio - 1).abs() <= NEAR, per_bucket_of_each=named, tolerance=NEAR)


CLAIMS = [linear, memory]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Table 3",
    title="Delay that serialization adds, over the bucket size",
    statement="The average end-to-end delay grows linearly with the boundary interval.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(_shared.CHOSEN, "Buckets chosen; the paper's, and its values, are lost."),
    figure_size_in=(7.0, 4.0),
)
