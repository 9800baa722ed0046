"""ppa ICDE Fig. 8 = TKDE Fig. 9: recovery latency when the nodes of all 15 tasks die at once.

The papers: active replication recovers far faster and hardly depends on window and rate, a
shorter synchronization period helping; Checkpoint and Storm grow rapidly with the rate,
Checkpoint with its interval; Storm with short windows beats a checkpoint every 30 s; active gains
more from replicas here than after a single failure, because neighbours need not wait for each
other.
"""

from __future__ import annotations

import pandas as pd

from experiments.ppa import _latency, _random, _recovery
from experiments.ppa._latency import ACTIVE, CHECKPOINT, REPLAY
from harness.claims import ClaimKind, Verdict
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results


def run(point: Point, context: Context) -> Outcome:
    """All synthetic tasks fail; beside it one of them alone, at the same instant."""
    return Outcome(
        values={
            "latency_s": _latency.latency_s(point, _recovery.SYNTHETIC, context),
            "single_s": _latency.single_s(point, context),
        }
    )


MEASUREMENT = Measurement(
    id="ppa/recovery-correlated",
    origin=Origin.SIMULATED,
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds_per_run={Profile.SMOKE: 0.3, Profile.QUICK: 0.6, Profile.PAPER: 0.6},
    run=run,
)

# Shown: no record depends on what follows.

RAPIDLY = 1.5
"""Latency "grows rapidly" with the rate if twice the rate costs at least so many times as much."""

FASTER_S = 0.01
"""A shorter synchronization period must gain at least this much to count."""


def table(results: Results) -> pd.DataFrame:
    """`_latency.table` with the mean latency of a single failure in ``single_s``."""
    by = ["engine", "window_s", "rate", "contender"]
    single = results.frame.groupby(by, sort=False)["single_s"].mean().reset_index()
    return _latency.table(results).merge(single, on=by)


def claims(table: pd.DataFrame) -> list[Verdict]:
    """The papers' sentences about this figure."""
    found = _latency.latencies(table)
    passive = _latency.of(found, (*CHECKPOINT, REPLAY))
    growth = _latency.growth_with_rate(passive)
    short = found.xs(10, level="window_s")
    return [
        _latency.much_faster(
            found, "Active replication recovers much faster than Checkpoint and Storm"
        ),
        _latency.stable(found, "Active replication is stable under different windows and rates"),
        _synchronization(found),
        Verdict(
            text="Checkpoint and Storm grow rapidly with the rate",
            kind=ClaimKind.PAPER,
            held=bool((growth.to_numpy() >= RAPIDLY).all()),
            measured={"factor_for_twice_the_rate": _latency.means(growth), "needed": RAPIDLY},
        ),
        _latency.rises_with_interval(
            found, "Checkpoint grows rapidly with the checkpoint interval"
        ),
        Verdict(
            text="With 10 s windows Storm is faster than Checkpoint with a 30 s interval",
            kind=ClaimKind.PAPER,
            held=bool((short[REPLAY] < short["CKP-30s"]).all()),
            measured={name: short[name].tolist() for name in (REPLAY, "CKP-30s")},
        ),
        _gains_more(table),
    ]


def _synchronization(found: pd.DataFrame) -> Verdict:
    """Shorter trimming, faster takeover; null where only one period was run."""
    both = [name for name in ACTIVE if name in found]
    gains = (found[both[-1]] - found[both[0]]) if len(both) == len(ACTIVE) else None
    return Verdict(
        text="A shorter synchronization period makes active recovery faster",
        kind=ClaimKind.PAPER,
        held=None if gains is None else bool(gains.mean() >= FASTER_S),
        measured={
            "mean_gain_s": None if gains is None else gains.mean(),
            "needed_s": FASTER_S,
        },
        why="a replica's neighbours had the same input as its primary's, so what it holds back was "
        "received already and is dropped unread",
    )


def _gains_more(table: pd.DataFrame) -> Verdict:
    """What active saves against checkpoints, after one failure and after all."""
    chosen = table[table["engine"] == _latency.SIMULATED]
    passive = chosen[chosen["contender"].isin(CHECKPOINT)]
    active = chosen[chosen["contender"] == ACTIVE[0]]
    saved = {
        column: float(passive[column].mean() - active[column].mean())
        for column in ("mean", "single_s")
    }
    return Verdict(
        text="Active saves more in a correlated failure than in a single one",
        kind=ClaimKind.PAPER,
        held=saved["mean"] > saved["single_s"],
        measured={"saved_correlated_s": saved["mean"], "saved_single_s": saved["single_s"]},
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE + "; " + _random.JOURNAL,
    figure="Figure 8 (TKDE: 9)",
    title="Recovery latency when all tasks fail at once",
    statement=(
        "Active is much faster than passive and stable; Checkpoint and Storm grow rapidly with "
        "the rate; Storm with short windows is faster than a checkpoint every 30 s."
    ),
    table=table,
    draw=_latency.draw,
    claims=claims,
    notes=_latency.NOTES,
    figure_size_in=(9.0, 4.8),
)
