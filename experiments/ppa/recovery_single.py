"""ppa ICDE Fig. 7 = TKDE Fig. 8: recovery latency of a single node's failure.

The papers: active replication is far faster than both passive ways, and window and rate have
little influence on it; Checkpoint and Storm grow in proportion to the rate, Checkpoint with its
interval, Storm with the window; Storm is in most cases slower than Checkpoint.
"""

from __future__ import annotations

import pandas as pd

from experiments.ppa import _latency, _random
from experiments.ppa._latency import CHECKPOINT, REPLAY
from harness.claims import Finding, every, found, paper
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
    seconds_per_run={Profile.SMOKE: 0.1, Profile.QUICK: 0.5, Profile.PAPER: 0.5},
    run=run,
)

# Shown: no record depends on what follows.

PROPORTION = (1.6, 2.4)
"""Accepted factors of the latency at twice the rate."""


@paper("in-proportion", "Checkpoint and Storm grow in proportion to the rate")
def in_proportion(table: pd.DataFrame) -> Finding:
    growth = _latency.growth_with_rate(_latency.passive(table))
    return _latency.every_entry(
        (growth >= PROPORTION[0]) & (growth <= PROPORTION[1]),
        growth,
        factor_for_twice_the_rate=_latency.means(growth),
        accepted=list(PROPORTION),
    )


@paper("storm-window", "Storm takes longer with 30 s windows than with 10 s windows")
def storm_window(table: pd.DataFrame) -> Finding:
    replay = _latency.passive(table)[REPLAY].unstack("window_s")
    by_window = {f"window_{window}_s": replay[window].dropna().tolist() for window in (10, 30)}
    return every((replay[30] - replay[10]).dropna() > 0, **by_window)


@paper("storm-slower", "Storm takes longer than Checkpoint in most of the cases")
def storm_slower(table: pd.DataFrame) -> Finding:
    checkpoint = _latency.latencies(table, CHECKPOINT)
    share = (_latency.passive(table)[[REPLAY]].to_numpy() > checkpoint.to_numpy()).mean()
    return found(share > 0.5, share_of_cases=float(share), needed_above=0.5)


CLAIMS = [
    _latency.much_faster(
        "much-faster",
        "Active replication has a much lower latency than the passive approaches",
    ),
    _latency.stable("stable", "Window length and rate have little influence on active replication"),
    in_proportion,
    _latency.rises_with_interval(
        "rises-with-interval",
        "The latency with Checkpoint increases with the checkpoint interval",
    ),
    storm_window,
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
        "Mean over the failed task's places; tasks of a level behave alike and one of each is run.",
    ),
    figure_size_in=(9.0, 4.8),
    smoke_covered_by="ppa/recovery-correlated",
)
