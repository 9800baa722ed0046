"""ppa ICDE Fig. 7 = TKDE Fig. 8: recovery latency of a single node's failure.

The papers: active replication is far faster than both passive ways, and window and rate have
little influence on it; Checkpoint and Storm grow in proportion to the rate, Checkpoint with its
interval, Storm with the window; Storm is in most cases slower than Checkpoint.
"""

from __future__ import annotations

import pandas as pd

from experiments.ppa import _latency, _random
from experiments.ppa._latency import CHECKPOINT, REPLAY
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile


def run(point: Point, context: Context) -> Outcome:
    """One contender at one window and rate."""
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
"""Twice the rate, about twice the latency."""


def claims(table: pd.DataFrame) -> list[Verdict]:
    """The papers' six sentences about this figure."""
    found = _latency.latencies(table)
    passive = _latency.of(found, (*CHECKPOINT, REPLAY))
    checkpoint = _latency.of(found, CHECKPOINT)
    growth = _latency.growth_with_rate(passive)
    slower = passive[REPLAY].to_numpy()[:, None] > checkpoint.to_numpy()
    replay = passive[REPLAY].unstack("window_s").dropna()
    longer = replay[30] > replay[10]
    return [
        _latency.much_faster(
            found, "Active replication has a much lower latency than the passive approaches"
        ),
        _latency.stable(
            found, "Window length and rate have little influence on active replication"
        ),
        Verdict(
            text="Checkpoint and Storm grow in proportion to the rate",
            kind=ClaimKind.PAPER,
            held=bool(((growth >= PROPORTION[0]) & (growth <= PROPORTION[1])).to_numpy().all()),
            measured={
                "factor_for_twice_the_rate": _latency.means(growth),
                "accepted": list(PROPORTION),
            },
        ),
        _latency.rises_with_interval(
            found, "The latency with Checkpoint increases with the checkpoint interval"
        ),
        Verdict(
            text="Storm takes longer with 30 s windows than with 10 s windows",
            kind=ClaimKind.PAPER,
            held=bool(longer.all()),
            measured={
                f"window_{w}_s": passive[REPLAY].xs(w, level="window_s").tolist() for w in (10, 30)
            },
        ),
        Verdict(
            text="Storm takes longer than Checkpoint in most of the cases",
            kind=ClaimKind.PAPER,
            held=bool(slower.mean() > 0.5),
            measured={"share_of_cases": float(slower.mean()), "needed_above": 0.5},
        ),
    ]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE + "; " + _random.JOURNAL,
    figure="Figure 7 (TKDE: 8)",
    title="Recovery latency of a single node's failure",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window, and is mostly slower."
    ),
    table=_latency.table,
    draw=_latency.draw,
    claims=claims,
    notes=(
        *_latency.NOTES,
        "Mean over the failed task's places; tasks of a level behave alike and one of each is run.",
    ),
    figure_size_in=(9.0, 4.8),
    smoke_covered_by="ppa/recovery-correlated",
)
