"""The abstract system of the utilization paper, failing at random.

The process (sections 3 and 4): work is done in periods T, the last c of each spent on the
checkpoint; the last operator completes it D = (n-1)δ after the source. A failure throws the
whole system back to its last completed checkpoint. A restart lasts R and starts again if a
failure comes meanwhile. So after a restart the first checkpoint completes T + D later, and
each further one T after the one before.

Between two failures X apart the system restarts for R and then completes floor((X-R-D)/T)
checkpoints (none if that is negative), each worth T-c of useful work. Nothing else carries over
from one gap to the next, so a run is a row of gaps and needs no event loop; and all intervals share
one drawing of the gaps (common random numbers)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from harness.errors import UsageError
from harness.intervals.failure_models import ConstantRestart, FailureModel, RestartModel
from harness.intervals.utilization import Array, CheckpointedSystem, Numbers

_GAPS_AT_ONCE = 1 << 15
"""Number of gaps that fit a core's cache while every interval passes over them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """The result of a simulation: a row per run, a column per interval."""

    interval_s: Array
    """Shape (intervals,)."""
    useful_s: Array
    """Useful work of each run at each interval, shape (runs, intervals)."""
    elapsed_s: Array
    """Duration of each run, shape (runs,)."""
    failures: int
    """Failures per run."""

    @property
    def per_run(self) -> Array:
        """Utilization of each run at each interval, shape (runs, intervals)."""
        return np.asarray(self.useful_s / self.elapsed_s[:, None])

    @property
    def utilization(self) -> Array:
        """All useful work over all time, per interval: the estimate with the least bias."""
        return np.asarray(self.useful_s.sum(axis=0) / self.elapsed_s.sum())

    @property
    def standard_error(self) -> Array:
        """Standard error of `utilization`, by linearizing the ratio over independent runs."""
        runs = len(self.elapsed_s)
        residual = self.useful_s - self.utilization * self.elapsed_s[:, None]
        spread = np.sqrt((residual**2).sum(axis=0) / (runs * (runs - 1)))
        return np.asarray(spread / self.elapsed_s.mean())

    def confidence(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the low and high end of the two-sided confidence interval of `utilization`."""
        width = float(stdtrit(len(self.elapsed_s) - 1, 0.5 + level / 2.0)) * self.standard_error
        return self.utilization - width, self.utilization + width

    def frame(self) -> pd.DataFrame:
        """Return a row per interval, with errors over the runs.

        ``sd`` is the deviation between runs, which the paper's error bars show."""
        low, high = self.confidence()
        return pd.DataFrame(
            {
                "interval_s": self.interval_s,
                "utilization": self.utilization,
                "standard_error": self.standard_error,
                "sd": self.per_run.std(axis=0, ddof=1),
                "low": low,
                "high": high,
                "runs": len(self.elapsed_s),
                "failures": len(self.elapsed_s) * self.failures,
            }
        )


def simulate(
    system: CheckpointedSystem,
    interval_s: Numbers,
    *,
    failures: FailureModel,
    generator: np.random.Generator,
    runs: int = 250,
    failures_per_run: int = 1000,
    restart: RestartModel | None = None,
) -> Simulation:
    """Run the system ``runs`` times through ``failures_per_run`` failures each.

    ``system`` is one system (scalar fields); its failure rate is not used, ``failures`` is.
    ``restart`` replaces its constant restart. Raises `UsageError` for fewer than two runs, no
    failure, or an interval that does not hold its checkpoint."""
    if runs < 2 or failures_per_run < 1:
        raise UsageError(
            f"{runs} runs of {failures_per_run} failures give no error bar",
            remedy="ask for at least 2 runs of at least 1 failure",
        )
    intervals = np.atleast_1d(system.checked_interval(interval_s))
    restarts = restart or ConstantRestart(restart_s=float(np.asarray(system.restart_s)))
    checkpoints = np.zeros((runs, len(intervals)))
    elapsed = np.zeros(runs)
    # A trace keeps its order within a run, so a block is whole runs.
    block = max(1, _GAPS_AT_ONCE // failures_per_run)
    for start in range(0, runs, block):
        rows = slice(start, min(start + block, runs))
        gaps = failures.gaps_s(generator, rows.stop - rows.start, failures_per_run)
        elapsed[rows] = gaps.sum(axis=1)
        gaps -= restarts.restarts_s(generator, gaps.shape)
        gaps -= float(np.asarray(system.stagger_s))
        checkpoints[rows] = _completed_checkpoints(gaps, intervals)
    return Simulation(
        interval_s=intervals,
        useful_s=checkpoints * (intervals - float(np.asarray(system.cost_s))),
        elapsed_s=elapsed,
        failures=failures_per_run,
    )


def _completed_checkpoints(working_s: Array, intervals: Array) -> Array:
    """Return checkpoints per row of ``working_s`` (overwritten), shape (rows, intervals)."""
    np.maximum(working_s, 0.0, out=working_s)
    periods = np.empty_like(working_s)
    completed = np.empty((len(working_s), len(intervals)))
    for column, interval in enumerate(intervals):
        np.divide(working_s, interval, out=periods)
        np.floor(periods, out=periods)
        periods.sum(axis=1, out=completed[:, column])
    return completed
