"""ppa ICDE Fig. 8 = TKDE Fig. 9: recovery latency when the nodes of all 15 tasks die at once.

The papers' reason why active gains more from replicas here than after a single failure: neighbours
need not wait for each other."""

from __future__ import annotations

import pandas as pd

from experiments.ppa import _latency, _random, _recovery
from experiments.ppa._latency import ACTIVE, CHECKPOINT, REPLAY
from harness.claims import Cause, Finding, Rule, every, found, paper, quantity, unmeasured
from harness.experiment import Context, Experiment, Outcome, Point, Results, simulated
from harness.seeds import DEFAULT_SEED


def run(point: Point, context: Context) -> Outcome:
    """Let all synthetic tasks fail, and in runs of their own one alone at the same instant."""
    recovered = _latency.recovered(point, _recovery.SYNTHETIC, context)
    return Outcome(
        values={
            "latency_s": recovered.latency_s(),
            "resumed_s": recovered.resumed_s,
            "single_s": _latency.single_s(point, context),
        }
    )


MEASUREMENT = simulated(
    "ppa/recovery-correlated",
    grid=_latency.grid(),
    repeats=_latency.REPEATS,
    seconds=(0.3, 1.4, 1.4),
    run=run,
)

# Shown: no record depends on what follows.

RAPIDLY = 1.5
"""Factor at twice the rate from which a latency "grows rapidly" with it."""
FASTER_S = 0.01
"""A shorter synchronization period must gain at least this much to count."""


def table(results: Results) -> pd.DataFrame:
    """Return `_latency.table` with two more means.

    ``single_s``: latency of a single failure; ``resumed_s``: time until every task has processed
    more than before the failure."""
    by = ["engine", "window_s", "rate", "contender"]
    more = results.frame.groupby(by, sort=False)[["single_s", "resumed_s"]].mean().reset_index()
    return _latency.table(results).merge(more, on=by)


REPLACED = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""Version 1 compared the latencies, which end where the replica is promoted."""


@paper(
    "synchronization",
    "A shorter synchronization period makes active recovery faster (until all tasks go on)",
    rule=REPLACED,
    unmeasured_because="Only one synchronization period was run.",
)
def synchronization(table: pd.DataFrame) -> Finding:
    resumed = _random.wide(table, ("window_s", "rate"), "contender", "resumed_s")
    if not {*ACTIVE} <= {*resumed}:
        return unmeasured(needed_s=FASTER_S)
    gain_s = resumed[ACTIVE[1]] - resumed[ACTIVE[0]]
    return every(
        gain_s.dropna() >= FASTER_S,
        mean_gain_s=float(gain_s.mean()),
        smallest_gain_s=float(gain_s.min()),
        needed_s=FASTER_S,
    )


@quantity
def _storm_lead_s(table: pd.DataFrame) -> pd.Series[float]:
    short = _latency.passive(table).xs(10, level="window_s")
    return short["CKP-30s"] - short[REPLAY]


def _grows_with_window(table: pd.DataFrame) -> Finding:
    growth = _latency.growth_over(_latency.passive(table), "window_s", _recovery.WINDOWS_S)
    return _latency.every_entry(growth > 1, growth, factor_for_the_window=_latency.means(growth))


@paper("saves-more", "Active saves more in a correlated failure than in a single one")
def saves_more(table: pd.DataFrame) -> Finding:
    passive, active = (
        table[table["contender"].isin(names)][["mean", "single_s"]].mean()
        for names in (CHECKPOINT, ACTIVE[:1])
    )
    correlated_s, single_s = (passive - active).tolist()
    return found(correlated_s > single_s, saved_correlated_s=correlated_s, saved_single_s=single_s)


CLAIMS = [
    paper(
        "much-faster", "Active replication recovers much faster than Checkpoint and Storm"
    ).at_least(_latency.lead, _latency.MUCH),
    paper("stable", "Active replication is stable under different windows and rates").at_most(
        _latency.swing_s, _latency.LITTLE_S
    ),
    synchronization,
    paper("rate", "Checkpoint and Storm grow rapidly with the rate")(
        lambda table: _latency.grows(table, RAPIDLY)
    ),
    paper("interval", "Checkpoint grows with the checkpoint interval (rapidly, in the paper)")(
        _latency.rises_with_interval
    ),
    paper("window", "Checkpoint and Storm grow with the window (TKDE: rapidly)")(
        _grows_with_window
    ),
    paper(
        "storm-short-windows",
        "Storm is faster than Checkpoint with a 30 s interval, where windows are short (10 s)",
        cause=Cause.READING,
        because=_latency.MOMENTS,
    )(_random.ahead(_storm_lead_s())),
    saves_more,
]

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.BOTH,
    figure="Figure 8 (TKDE: 9)",
    title="Recovery latency when all tasks fail at once",
    statement=(
        "Active is much faster than passive and stable; Checkpoint and Storm grow rapidly with "
        "the rate; Storm with short windows is faster than a checkpoint every 30 s."
    ),
    table=table,
    draw=_latency.draw,
    claims=CLAIMS,
    notes=(
        *_latency.NOTES,
        "By the papers' definition a replica is back where its primary was as soon as it is "
        "promoted, whatever it must send again. The synchronization period is therefore judged by "
        "the time until every task has processed something new: what comes over a link waits for "
        "what was sent before, and a duplicate takes 10 µs to recognize (chosen). As in the papers "
        "the replica sends all that its primary had not reported when it was last synchronized.",
        "The papers name no window for Storm against a checkpoint every 30 s; they say that the "
        "windows are relatively short. The shorter of the two is taken.",
    ),
    figure_size_in=(9.0, 4.8),
)
