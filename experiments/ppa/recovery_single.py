"""ppa ICDE Fig. 7 = TKDE Fig. 8: recovery latency of a single node's failure."""

from __future__ import annotations

import pandas as pd

from experiments.ppa import _latency, _random
from experiments.ppa._latency import CHECKPOINT, REPLAY
from harness.claims import Cause, Finding, found, paper
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile


def run(point: Point, context: Context) -> Outcome:
    """Run one contender at one window and rate."""
    return Outcome(values={"latency_s": _latency.single_s(point, context)})


MEASUREMENT = Measurement(
    id="ppa/recovery-single",
    origin=Origin.SIMULATED,
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds_per_run={Profile.SMOKE: 0.1, Profile.QUICK: 1.2, Profile.PAPER: 1.2},
    run=run,
)

# Shown: no record depends on what follows.

PROPORTION = (1.6, 2.4)
"""Accepted factors of the latency at twice the rate."""


def _longer_s(table: pd.DataFrame) -> pd.Series[float]:
    """Return Storm's time with 30 s windows, less that with 10 s windows, by rate."""
    replay = _latency.passive(table)[REPLAY].unstack("window_s")
    return replay[30] - replay[10]


@paper("storm-slower", "Storm takes longer than Checkpoint in most of the cases")
def storm_slower(table: pd.DataFrame) -> Finding:
    checkpoint = _latency.latencies(table, CHECKPOINT)
    share = (_latency.passive(table)[[REPLAY]].to_numpy() > checkpoint.to_numpy()).mean()
    return found(bool(share > 0.5), share_of_cases=float(share), needed_above=0.5)


CLAIMS = [
    paper(
        "much-faster", "Active replication has a much lower latency than the passive approaches"
    ).at_least(_latency.lead, _latency.MUCH),
    paper("stable", "Window length and rate have little influence on active replication").at_most(
        _latency.swing_s, _latency.LITTLE_S
    ),
    paper(
        "rate",
        "Checkpoint and Storm grow in proportion to the rate",
        cause=Cause.READING,
        because=_latency.MOMENTS,
    )(lambda table: _latency.grows(table, *PROPORTION)),
    paper("interval", "The latency with Checkpoint increases with the checkpoint interval")(
        _latency.rises_with_interval
    ),
    paper("storm-window", "Storm takes longer with 30 s windows than with 10 s windows")(
        _random.ahead(_longer_s)
    ),
    storm_slower,
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.BOTH,
    figure="Figure 7 (TKDE: 8)",
    title="Recovery latency of a single node's failure",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window, and is mostly slower."
    ),
    table=_latency.table,
    draw=_latency.draw,
    claims=CLAIMS,
    notes=(
        *_latency.NOTES,
        "Mean over the failed task's places, as the papers have it for Storm; tasks of a level "
        "behave alike and one of each is run.",
    ),
    figure_size_in=(9.0, 4.8),
    smoke_covered_by="ppa/recovery-correlated",
)
