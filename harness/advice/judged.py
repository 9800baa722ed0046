"""The sum judged on what it was not fitted to: each live kill by a fit without its run.

For each system the downtime and the capacity are fitted to the kills of all other runs
(`harness.intervals.observed`), and the outage of each kill of the run left out is predicted for
its interval. Kills after which no result was late have no relative error and are counted. Of one
that was not over the error is known to be at least what is missing at the end of watching, and
counts so in the median (`harness.claims.samples.lasting`). The aim is the one of the published
outages, and was fixed with it: a median error within 25 %."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.claims.samples import Lasting, lasting
from harness.intervals.observed import Observation, fit_observed, predict_s

AIM = 0.25
"""Most that the median error of a system may be."""
FEWEST_KILLS = 3
"""Least number of kills, of other runs, from which a system's downtime is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The kills of one system with their predictions."""

    system: str
    kills: pd.DataFrame
    """As of `harness.advice.live`, with ``predicted_s``, null if too few others are there."""

    @property
    def predicted(self) -> pd.DataFrame:
        """The predicted kills that cost something, with ``error``, the size of the relative error.

        It is a lower bound where the kill was not over."""
        known = self.kills.dropna(subset=["predicted_s"])
        known = known[known["outage_s"] > 0]
        off = known["predicted_s"] / known["outage_s"] - 1.0
        return known.assign(error=off.abs().where(known["over"] | (off < 0), 0.0))

    @property
    def error(self) -> Lasting | None:
        """The median of the errors; None without any."""
        known = self.predicted
        return lasting(known["error"], known["over"], passes=known["run"])

    @property
    def median_error(self) -> float | None:
        """The median of the errors, or what it is at least; None without any."""
        return self.error.shown if self.error else None


def judge(kills: pd.DataFrame) -> Mapping[str, Judged]:
    """Predict every kill by a fit to the kills of the system's other runs."""
    found = {}
    for name, mine in kills.groupby("system"):
        system = str(name)
        predicted = pd.Series(np.nan, index=mine.index)
        for run, left_out in mine.groupby("run"):
            others = observations(mine[mine["run"] != run])
            if len(others) < FEWEST_KILLS:
                continue
            fitted = fit_observed(others, rate_per_s=1.0)
            for place in left_out.index:
                interval_s = float(mine.loc[place, "interval_s"])
                predicted[place] = predict_s(
                    fitted.downtime_s, fitted.capacity_per_s, interval_s, 1.0
                )
        found[system] = Judged(system=system, kills=mine.assign(predicted_s=predicted))
    return found


def published() -> pd.DataFrame:
    """Return the table of `experiments.intervals.published_recoveries`, computed now."""
    from experiments.intervals import published_recoveries as experiment

    return experiment.predictions()


def published_error() -> str:
    """Return how far the sum is off outages that others published, in a sentence."""
    table = published()
    error = float((table["ratio"] - 1.0).abs().median())
    return (
        f"on {len(table)} outages that others published, from documented settings alone, it is "
        f"off by {error:.0%} at the median and by a factor of up to "
        f"{np.exp(np.abs(np.log(table['ratio'])).max()):.1f}"
    )


def observations(kills: pd.DataFrame) -> Sequence[Observation]:
    """Return the kills that cost something as observations."""
    felt = kills[kills["outage_s"] > 0]
    return [
        Observation(interval_s=float(interval_s), outage_s=float(outage_s), over=bool(over))
        for interval_s, outage_s, over in zip(
            felt["interval_s"], felt["outage_s"], felt["over"], strict=True
        )
    ]
