"""Table 3, live: the average delay over the bucket size, without a failure.

As `dpc/serialization`, through Kafka: every bucket waits until it is complete, on a real pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.dpc import _live, _shared
from harness.claims import Finding, Rule, found, hypothesis, paper, unmeasured
from harness.engines.base import Setup
from harness.experiment import Experiment
from harness.failures.schedule import NO_FAILURES
from harness.figures.style import BLUE, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH_S: Mapping[Profile, float] = {
    Profile.SMOKE: 5.0,
    Profile.QUICK: 8.0,
    Profile.PAPER: 20.0,
}
"""The paper has 20 s."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one bucket size twice, in two passes over the same input."""
    chain = _live.Chain(bucket_s=int(str(point["bucket_ms"])) / 1000, failure_s=0.0)
    wanted = chain.run(context, load_s=LENGTH_S[context.profile])
    setup: Setup = wanted.setup
    again = {"again": Variant(setup=setup, schedule=NO_FAILURES)}
    one = measure_each(wanted, again, context.cluster(_live.SPEC), context)["again"]
    rows = [
        {"pass": name, **_live.seen(one, chain, name), **_live.judged(one)}
        for name in ("twin", "failed")
    ]
    return Outcome(
        values={"passes": 2},
        series={"cells": pd.DataFrame(rows).rename(columns={"pass": "cell"})},
        invalid=one.invalid,
        again=one.again,
    )


MEASUREMENT = Measurement(
    id="dpc/serialization-live",
    origin=Origin.MEASURED,
    grid={
        profile: [{"bucket_ms": bucket_ms} for bucket_ms in buckets]
        for profile, buckets in {
            Profile.SMOKE: (100, 500),
            Profile.QUICK: (50, 200, 500),
            Profile.PAPER: (10, 50, 100, 150, 200, 300, 500),
        }.items()
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 25.0, Profile.QUICK: 28.0, Profile.PAPER: 55.0},
    run=run,
    scheduling=_live.SCHEDULING,
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

NEAR = 0.3
"""Largest relative difference of the slope from a half (half a bucket is waited for its end).
Fixed on 2026-11-23, before anything was measured."""


def table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, the average delay by bucket size, and ``passes``."""
    passes = _live.cells_of(results, ["bucket_ms"])
    points = _live.averaged(passes, ["bucket_ms"], ["mean_delay_s"])
    return {"points": points.sort_values("bucket_ms", ignore_index=True), "passes": passes}


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw the average over the bucket size, with every pass."""
    axes = figure.subplots()
    points, passes = tables["points"], tables["passes"]
    axes.plot(points["bucket_ms"], 1000 * points["mean_delay_s"], "o-", color=BLUE)
    every_pass = 1000 * passes["mean_delay_s"].astype(float)
    axes.plot(passes["bucket_ms"], every_pass, ".", color=BLUE, alpha=0.5)
    axes.set_xlabel("bucket size = boundary interval (ms); dots: passes")
    axes.set_ylabel("average end-to-end delay (ms)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    stamp(figure, _live.STAMP)


STRAIGHT = Rule(version=2, since="2026-11-25", seen_seeds=(71804,))
"""A straight line that rises, as printed. Version 1 asked for its slope, whatever its shape."""


def _line(tables: Mapping[str, pd.DataFrame]) -> Any:
    """Return the straight line of the delay over the bucket size (ms), None for few sizes."""
    from scipy.stats import linregress  # loading it takes a second

    points = tables["points"]
    if len(points) < _shared.LEAST_POINTS:
        return None
    return linregress(points["bucket_ms"], 1000 * points["mean_delay_s"])


TOO_FEW = f"a line needs {_shared.LEAST_POINTS} bucket sizes"


@paper("linear", "The delay grows linearly with the boundary interval", rule=STRAIGHT)
def linear(tables: Mapping[str, pd.DataFrame]) -> Finding:
    if (line := _line(tables)) is None:
        return unmeasured(TOO_FEW)
    fit = float(line.rvalue**2)
    held = line.slope > 0 and fit >= _shared.STRAIGHT
    return found(held, r_squared=fit, at_least=_shared.STRAIGHT)


@hypothesis("half-a-bucket", "It grows by half of the interval", rule=STRAIGHT)
def half_a_bucket(tables: Mapping[str, pd.DataFrame]) -> Finding:
    if (line := _line(tables)) is None:
        return unmeasured(TOO_FEW)
    held = abs(line.slope / 0.5 - 1.0) <= NEAR
    return found(
        held, ms_per_ms=float(line.slope), at_zero_ms=float(line.intercept), tolerance=NEAR
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Table 3, live",
    title="Delay that serialization adds, over the bucket size, live",
    statement="The average end-to-end delay grows linearly with the boundary interval.",
    table=table,
    draw=draw,
    claims=[linear, half_a_bucket, _live.equal_output],
    notes=(
        _live.NOTE,
        "From the middle of a bucket until its result is in Kafka: half a bucket, and the way "
        "through Kafka, the node and the client. The paper's buckets and values are lost.",
    ),
    figure_size_in=(7.0, 4.0),
    fewest=_shared.FEWEST,
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
