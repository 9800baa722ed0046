"""ppa ICDE Fig. 8 = TKDE Fig. 9: recovery latency when the nodes of all 15 tasks die at once.

The papers: active replication recovers far faster and hardly depends on window and rate, a
shorter synchronization period helping; Checkpoint and Storm grow rapidly with the rate,
Checkpoint with its interval; Storm with short windows beats a checkpoint every 30 s; active gains
more from replicas here than after a single failure, because neighbours need not wait for each
other.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.ppa import _latency, _random, _recovery
from experiments.ppa._latency import ACTIVE, CHECKPOINT, REPLAY
from harness.claims import Claim, ClaimKind
from harness.experiment import Context, Experiment, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

MUCH = 5.0
LITTLE_S = 0.1
RAPIDLY = 1.5
"""Latency "grows rapidly" with the rate if twice the rate costs at least so many times as much."""
FASTER_S = 0.01
"""A shorter synchronization period must gain at least this much to count."""


def run(point: Point, context: Context) -> Outcome:
    """All synthetic tasks fail; beside it one of them alone, at the same instant."""
    contender = _latency.CONTENDERS[str(point["contender"])]
    context.progress(contender.label)

    def latency_s(failed: tuple[int, ...]) -> float:
        options = _recovery.options_of(
            contender,
            window_s=int(str(point["window_s"])),
            rate=int(str(point["rate"])),
            failed=failed,
            phase=_recovery.phase_of(context.repeat),
            seed=context.seed("network"),
        )
        return _recovery.measure(options).latency_s()

    smoke = context.profile is Profile.SMOKE
    places = _recovery.one_location() if smoke else _recovery.locations()
    single = sum(weight * latency_s(failed) for failed, weight in places)
    return Outcome(values={"latency_s": latency_s(_recovery.SYNTHETIC), "single_s": single})


def table(results: Results) -> pd.DataFrame:
    """`_latency.table` with the mean latency of a single failure in ``single_s``."""
    by = ["engine", "window_s", "rate", "contender"]
    single = results.frame.groupby(by, sort=False)["single_s"].mean().reset_index()
    return _latency.table(results).merge(single, on=by)


def claims(table: pd.DataFrame) -> list[Claim]:
    """The papers' sentences about this figure."""
    found = _latency.latencies(table)
    active = found[[name for name in ACTIVE if name in found]]
    checkpoint = found[[name for name in CHECKPOINT if name in found]]
    passive = found[[name for name in (*CHECKPOINT, REPLAY) if name in found]]
    smallest = float((passive.min(axis=1) / active.max(axis=1)).min())
    swing_s = float((active.max() - active.min()).max())
    growth = _latency.growth_with_rate(passive)
    short = found.xs(10, level="window_s")
    return [
        Claim(
            text="Active replication recovers much faster than Checkpoint and Storm",
            kind=ClaimKind.PAPER,
            held=smallest >= MUCH,
            measured={"smallest_factor": smallest, "needed": MUCH},
        ),
        Claim(
            text="Active replication is stable under different windows and rates",
            kind=ClaimKind.PAPER,
            held=swing_s <= LITTLE_S,
            measured={"largest_difference_s": swing_s, "tolerance_s": LITTLE_S},
        ),
        _synchronization(found),
        Claim(
            text="Checkpoint and Storm grow rapidly with the rate",
            kind=ClaimKind.PAPER,
            held=bool((growth.to_numpy() >= RAPIDLY).all()),
            measured={"factor_for_twice_the_rate": _latency.means(growth), "needed": RAPIDLY},
        ),
        Claim(
            text="Checkpoint grows rapidly with the checkpoint interval",
            kind=ClaimKind.PAPER,
            held=bool((np.diff(checkpoint.to_numpy(), axis=1) > 0).all()),
            measured=_latency.means(checkpoint),
        ),
        Claim(
            text="With 10 s windows Storm is faster than Checkpoint with a 30 s interval",
            kind=ClaimKind.PAPER,
            held=bool((short[REPLAY] < short["CKP-30s"]).all()),
            measured={name: short[name].tolist() for name in (REPLAY, "CKP-30s")},
        ),
        _gains_more(table),
    ]


def _synchronization(found: pd.DataFrame) -> Claim:
    """Shorter trimming, faster takeover; null where only one period was run."""
    both = [name for name in ACTIVE if name in found]
    gains = (found[both[-1]] - found[both[0]]) if len(both) == len(ACTIVE) else None
    return Claim(
        text="A shorter synchronization period makes active recovery faster",
        kind=ClaimKind.PAPER,
        held=None if gains is None else bool(gains.mean() >= FASTER_S),
        measured={
            "mean_gain_s": None if gains is None else gains.mean(),
            "needed_s": FASTER_S,
            "why": "a replica's neighbours had the same input as its primary's, so what it holds "
            "back was received already and is dropped unread",
        },
    )


def _gains_more(table: pd.DataFrame) -> Claim:
    """What active saves against checkpoints, after one failure and after all."""
    chosen = table[table["engine"] == _latency.SIMULATED]
    passive = chosen[chosen["contender"].isin(CHECKPOINT)]
    active = chosen[chosen["contender"] == ACTIVE[0]]
    saved = {
        column: float(passive[column].mean() - active[column].mean())
        for column in ("mean", "single_s")
    }
    return Claim(
        text="Active saves more in a correlated failure than in a single one",
        kind=ClaimKind.PAPER,
        held=saved["mean"] > saved["single_s"],
        measured={"saved_correlated_s": saved["mean"], "saved_single_s": saved["single_s"]},
    )


EXPERIMENT = Experiment(
    id="ppa/recovery-correlated",
    paper=_random.CONFERENCE + "; " + _random.JOURNAL,
    figure="Figure 8 (TKDE: 9)",
    title="Recovery latency when all tasks fail at once",
    statement=(
        "Active is much faster than passive and stable; Checkpoint and Storm grow rapidly with "
        "the rate; Storm with short windows is faster than a checkpoint every 30 s."
    ),
    origin=Origin.SIMULATED,
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds_per_run={Profile.SMOKE: 1.0, Profile.QUICK: 1.2, Profile.PAPER: 1.2},
    run=run,
    table=table,
    draw=_latency.draw,
    claims=claims,
    notes=_latency.NOTES,
    figure_size_in=(9.0, 4.8),
)
