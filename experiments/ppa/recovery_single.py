"""ppa ICDE Fig. 7 = TKDE Fig. 8: recovery latency of a single node's failure.

The papers: active replication is far faster than both passive ways, and window and rate have
little influence on it; Checkpoint and Storm grow in proportion to the rate, Checkpoint with its
interval, Storm with the window; Storm is in most cases slower than Checkpoint.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.ppa import _latency, _random, _recovery
from experiments.ppa._latency import ACTIVE, CHECKPOINT, REPLAY
from harness.claims import Claim, ClaimKind
from harness.experiment import Context, Experiment, Origin
from harness.results.record import Outcome, Point, Profile

MUCH = 5.0
"""Active is "much lower" if the passive ways take at least so many times as long."""
LITTLE_S = 0.1
"""Window and rate "have little influence" if they change a latency by no more."""
PROPORTION = (1.6, 2.4)
"""Twice the rate, about twice the latency."""


def run(point: Point, context: Context) -> Outcome:
    """The mean over the places in the topology where the failed task may stand, as the papers
    take it for Storm."""
    contender = _latency.CONTENDERS[str(point["contender"])]
    smoke = context.profile is Profile.SMOKE
    places = _recovery.one_location() if smoke else _recovery.locations()
    latency_s = 0.0
    for failed, weight in places:
        context.progress(f"{contender.label}, task {failed[0]}")
        options = _recovery.options_of(
            contender,
            window_s=int(str(point["window_s"])),
            rate=int(str(point["rate"])),
            failed=failed,
            phase=_recovery.phase_of(context.repeat),
            seed=context.seed("network"),
        )
        latency_s += weight * _recovery.measure(options).latency_s()
    return Outcome(values={"latency_s": latency_s})


def claims(table: pd.DataFrame) -> list[Claim]:
    """The papers' six sentences about this figure."""
    found = _latency.latencies(table)
    active = found[[name for name in ACTIVE if name in found]]
    passive = found[[name for name in (*CHECKPOINT, REPLAY) if name in found]]
    checkpoint = found[[name for name in CHECKPOINT if name in found]]
    smallest = float((passive.min(axis=1) / active.max(axis=1)).min())
    swing_s = float((active.max() - active.min()).max())
    growth = _latency.growth_with_rate(passive)
    slower = passive[REPLAY].to_numpy()[:, None] > checkpoint.to_numpy()
    replay = passive[REPLAY].unstack("window_s").dropna()
    longer = replay[30] > replay[10]
    return [
        Claim(
            text="Active replication has a much lower latency than the passive approaches",
            kind=ClaimKind.PAPER,
            held=smallest >= MUCH,
            measured={"smallest_factor": smallest, "needed": MUCH},
        ),
        Claim(
            text="Window length and rate have little influence on active replication",
            kind=ClaimKind.PAPER,
            held=swing_s <= LITTLE_S,
            measured={"largest_difference_s": swing_s, "tolerance_s": LITTLE_S},
        ),
        Claim(
            text="Checkpoint and Storm grow in proportion to the rate",
            kind=ClaimKind.PAPER,
            held=bool(((growth >= PROPORTION[0]) & (growth <= PROPORTION[1])).to_numpy().all()),
            measured={
                "factor_for_twice_the_rate": _latency.means(growth),
                "accepted": list(PROPORTION),
            },
        ),
        Claim(
            text="The latency with Checkpoint increases with the checkpoint interval",
            kind=ClaimKind.PAPER,
            held=bool((np.diff(checkpoint.to_numpy(), axis=1) > 0).all()),
            measured=_latency.means(checkpoint),
        ),
        Claim(
            text="Storm takes longer with 30 s windows than with 10 s windows",
            kind=ClaimKind.PAPER,
            held=bool(longer.all()),
            measured={
                f"window_{w}_s": passive[REPLAY].xs(w, level="window_s").tolist() for w in (10, 30)
            },
        ),
        Claim(
            text="Storm takes longer than Checkpoint in most of the cases",
            kind=ClaimKind.PAPER,
            held=bool(slower.mean() > 0.5),
            measured={"share_of_cases": float(slower.mean()), "needed_above": 0.5},
        ),
    ]


EXPERIMENT = Experiment(
    id="ppa/recovery-single",
    paper=_random.CONFERENCE + "; " + _random.JOURNAL,
    figure="Figure 7 (TKDE: 8)",
    title="Recovery latency of a single node's failure",
    statement=(
        "Active is much faster than passive and hardly depends on window and rate; Checkpoint "
        "grows with rate and interval, Storm with rate and window, and is mostly slower."
    ),
    origin=Origin.SIMULATED,
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds_per_run={Profile.SMOKE: 0.8, Profile.QUICK: 1.0, Profile.PAPER: 1.0},
    run=run,
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
