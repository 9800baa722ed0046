"""The minute of the edge paper's experiments (section V-B): its times, its grid, its tables.

Input for 60 s, then 30 s to finish; at 30 s a failure, which is not described further: here the
node of the aggregators dies and stays away. The
runs themselves are `experiments.edge._storm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.edge._deployment import MECHANISMS, RATES, Deployment
from harness.claims.samples import FEWEST
from harness.experiment import Context, Measurement, Outcome, Point, Profile, Results, simulated
from harness.seeds import DEFAULT_SEED

INPUT_S, DRAIN_S = 60, 30
FAILURE_S = 30
STRIKES_AFTER_S = 0.6
"""The node dies this long after second `FAILURE_S`: between two windows. (At 0.3 s a window is
still on its way, and what happens to it would stand in the figure beside the scheme.)"""
LAG_S = 1.0
"""The time that the aggregator waits for late tuples."""
TIMEOUT_S = 5.0
"""The paper's tuple timeout."""
RECOVERY_S = 10
""""During recovery" is this long after the failure: the paper's "within about 10 seconds"."""
HEARTBEAT_TIMEOUT_S, RESTART_S = 5.0, 1.0
"""The paper's example of the timeout; and how long a worker takes to start in the live runs."""
CHECKPOINT_S = 12
"""The paper names 10 s in an example; with 12 the failure at 30 s falls into the
middle of an interval."""
SEEN = (DEFAULT_SEED, 71701, 71804, 71805, 71806, 71811, 71821, 71822, 71823, 71824)
"""Root seeds whose results had been seen when the rules since 2026-11-26 were fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run."""

    mechanism: str
    rate: int
    failure: bool
    seed: int = 0


def nearest(deployment: Deployment, failed: int) -> int:
    """Return the datacenter nearest to the one that fails."""
    network = deployment.network
    here = network.nodes[failed]
    others = [
        (network.latency_s(here.name, node.name), number)
        for number, node in enumerate(network.nodes)
        if node.tier is here.tier and number != failed
    ]
    return min(others)[1]


def weighted(latency_s: pd.Series[float], weight: pd.Series[float]) -> tuple[float, float, float]:
    """Return the mean, the 5th and the 95th percentile by weight."""
    order = np.argsort(latency_s.to_numpy())
    ranked, heavy = latency_s.to_numpy()[order], weight.to_numpy()[order]
    share = np.cumsum(heavy) / heavy.sum()
    low, high = (float(ranked[np.searchsorted(share, q)]) for q in (0.05, 0.95))
    return float((ranked * heavy).sum() / heavy.sum()), low, high


def per_run(results: Results, columns: Sequence[str]) -> pd.DataFrame:
    """Return a row per run: ``mechanism``, ``rate``, ``repeat`` and each column.

    A column that no run has is empty."""
    frame = results.frame.reindex(columns=["mechanism", "rate", "repeat", *columns])
    return frame.astype(dict.fromkeys(columns, float))


def averaged(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per mechanism and rate: each column's mean over the repetitions."""
    columns = [name for name in runs if name != "repeat"]
    return runs[columns].groupby(["mechanism", "rate"], sort=False).mean().reset_index()


def means(results: Results, columns: Sequence[str]) -> pd.DataFrame:
    """Return `averaged` of `per_run`."""
    return averaged(per_run(results, columns))


def grid(rates: Sequence[int]) -> list[Point]:
    """Every mechanism at every rate, simulated."""
    return [
        {"mechanism": name, "rate": rate, "engine": "simulated"}
        for rate in rates
        for name in MECHANISMS
    ]


def over_rates(id: str, run: Callable[[Point, Context], Outcome]) -> Measurement:  # noqa: A002
    """Return the measurement of every mechanism at every rate; smoke takes one rate."""
    grids = {Profile.SMOKE: RATES[1:2], Profile.QUICK: RATES, Profile.PAPER: RATES}
    points = {profile: grid(rates) for profile, rates in grids.items()}
    return simulated(id, points, 0.5, run=run, repeats=(1, FEWEST, 10))


def by_mechanism(frame: pd.DataFrame, value: str) -> Mapping[str, pd.Series]:
    """Return each mechanism's ``value`` by rate, from a table with ``mechanism`` and ``rate``."""
    wide = frame.pivot_table(index="rate", columns="mechanism", values=value)
    return {str(name): wide[name] for name in wide.columns}


def mean_of(frame: pd.DataFrame, value: str) -> dict[str, Any]:
    """Return each mechanism's mean over the rates."""
    return {name: float(each.mean()) for name, each in by_mechanism(frame, value).items()}
