"""The interval tuned while running, which the utilization paper leaves as future work.

T* needs only λ and c (section 6 of the paper), and both can be observed: every completed
checkpoint shows its cost, every failure and every second without one is evidence about λ.
`IntervalTuner` keeps the two estimates and returns the next period; `simulate_policies` compares
it, fixed intervals and an oracle under the same drift with the same failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.intervals.utilization import Array, optimal_period_in_mttf

_HAZARD_GRID = 8192


class IntervalTuner:
    """Online estimates of λ and c for one system, or for many in parallel (arrays of one shape).

    λ is a Gamma-Poisson posterior mean with exponential forgetting. It starts from
    ``prior_failures`` failures in ``prior_failures * mttf_s`` seconds (``memory_s`` at most);
    failures and seconds fade with ``memory_s``, the prior's seconds too, but not its failures: a
    wrong first guess is forgotten, and a long time without failures never brings the estimate below
    prior_failures / memory_s. c is an exponential moving average that gives the newest
    checkpoint the weight ``cost_weight``."""

    def __init__(
        self,
        *,
        cost_s: float,
        mttf_s: float,
        memory_s: float,
        prior_failures: float = 0.5,
        cost_weight: float = 0.3,
        shape: tuple[int, ...] = (),
    ) -> None:
        for name, value in (
            ("cost_s", cost_s), ("mttf_s", mttf_s), ("memory_s", memory_s),
            ("prior_failures", prior_failures),
        ):  # fmt: skip
            if not (np.isfinite(value) and value > 0):
                raise UsageError(f"{name} is {value:g}", remedy="give a finite value above zero")
        if not 0.0 < cost_weight <= 1.0:
            raise UsageError(
                f"cost_weight is {cost_weight:g}", remedy="give a share above 0 and at most 1"
            )
        self._memory_s = memory_s
        self._cost_weight = cost_weight
        self._prior_failures = prior_failures
        self._failures = np.zeros(shape)
        self._seconds = np.full(shape, min(prior_failures * mttf_s, memory_s))
        self._cost_s = np.full(shape, float(cost_s))

    @property
    def failure_rate_per_s(self) -> Array:
        """The estimate of λ."""
        return np.asarray((self._prior_failures + self._failures) / self._seconds)

    @property
    def cost_s(self) -> Array:
        """The estimate of c."""
        return np.array(self._cost_s)

    def interval_s(self) -> Array:
        """Return T* at the present estimates: the next period, its checkpoint included."""
        rate = self.failure_rate_per_s
        return np.asarray(optimal_period_in_mttf(rate * self._cost_s) / rate)

    def observe(
        self,
        elapsed_s: Array | float,
        *,
        failed: NDArray[np.bool_] | bool,
        cost_s: Array | float | None = None,
    ) -> None:
        """Update the estimates with a period that ended with a failure or with a checkpoint.

        The period lasted ``elapsed_s``, the checkpoint ``cost_s``. Where ``failed``, ``cost_s`` is
        ignored: that checkpoint was never completed."""
        elapsed = np.asarray(elapsed_s, dtype=float)
        kept = np.exp(-elapsed / self._memory_s)
        # Seconds fade while they pass, so that the sum tends to memory_s and no higher.
        self._seconds = self._seconds * kept + self._memory_s * (1.0 - kept)
        self._failures = self._failures * kept + np.asarray(failed, dtype=float)
        if cost_s is not None:
            step = self._cost_weight * (np.asarray(cost_s) - self._cost_s)
            self._cost_s = self._cost_s + np.where(failed, 0.0, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A failure rate and a checkpoint cost that change with time (vectorized functions)."""

    failure_rate_per_s: Callable[[Array], Array]
    cost_s: Callable[[Array], Array]
    horizon_s: float

    def failure_times_s(self, generator: np.random.Generator, runs: int) -> Array:
        """Draw the instants of a Poisson process with that rate, one row per run.

        Instants past twice the horizon are infinite. The cumulative hazard is inverted on a grid.
        """
        grid = np.linspace(0.0, 2.0 * self.horizon_s, _HAZARD_GRID)
        rates = np.broadcast_to(self.failure_rate_per_s(grid), grid.shape)
        steps = np.diff(grid) * (rates[1:] + rates[:-1]) / 2.0
        hazard = np.concatenate([[0.0], np.cumsum(steps)])
        count = int(hazard[-1] + 10.0 * np.sqrt(hazard[-1]) + 30.0)
        arrivals = np.cumsum(generator.standard_exponential((runs, count)), axis=1)
        return np.interp(arrivals, hazard, grid, right=np.inf)


class IntervalPolicy(ABC):
    """A rule for the next period of every run."""

    @abstractmethod
    def interval_s(self, now_s: Array) -> Array:
        """Return the next period of each run at its own time, shape (runs,)."""

    def observe(  # noqa: B027 (most policies have nothing to learn)
        self, elapsed_s: Array, failed: NDArray[np.bool_], cost_s: Array
    ) -> None:
        """Learn from the period that just ended."""


@dataclass(frozen=True, slots=True)
class Fixed(IntervalPolicy):
    """A constant interval."""

    period_s: float

    def interval_s(self, now_s: Array) -> Array:
        return np.full(now_s.shape, self.period_s)


@dataclass(frozen=True, slots=True)
class Oracle(IntervalPolicy):
    """T* at the true λ and c of this instant, which no estimator has."""

    drift: Drift

    def interval_s(self, now_s: Array) -> Array:
        rate = self.drift.failure_rate_per_s(now_s)
        return np.asarray(optimal_period_in_mttf(rate * self.drift.cost_s(now_s)) / rate)


@dataclass(frozen=True, slots=True)
class Tuned(IntervalPolicy):
    """An `IntervalTuner` with one entry per run."""

    tuner: IntervalTuner

    def interval_s(self, now_s: Array) -> Array:
        return self.tuner.interval_s()

    def observe(self, elapsed_s: Array, failed: NDArray[np.bool_], cost_s: Array) -> None:
        self.tuner.observe(elapsed_s, failed=failed, cost_s=cost_s)


def simulate_policies(
    drift: Drift,
    policies: Mapping[str, IntervalPolicy],
    *,
    restart_s: float,
    stagger_s: float = 0.0,
    runs: int,
    generator: np.random.Generator,
) -> dict[str, Array]:
    """Return the utilization of each run under each policy; all get the same failures.

    Each array has shape (runs,). The process is that of `harness.intervals.simulator`; a run ends
    with the first period that ends after the horizon, so no period is cut off."""
    failures = drift.failure_times_s(generator, runs)
    return {
        name: _run_policy(drift, policy, failures, restart_s, stagger_s)
        for name, policy in policies.items()
    }


def _run_policy(
    drift: Drift, policy: IntervalPolicy, failures: Array, restart_s: float, stagger_s: float
) -> Array:
    rows = np.arange(len(failures))
    now, useful = np.zeros(len(rows)), np.zeros(len(rows))
    upcoming = np.zeros(len(rows), dtype=int)
    # The first checkpoint of a run completes T + D after its start, as after a restart.
    lead = np.full(len(rows), stagger_s)
    running = np.ones(len(rows), dtype=bool)
    while running.any():
        cost = np.broadcast_to(drift.cost_s(now), now.shape)
        period = np.maximum(policy.interval_s(now), cost)
        end = now + lead + period
        failure = failures[rows, upcoming]
        failed = failure < end
        ended = np.where(failed, failure, end)
        policy.observe(ended - now, failed, np.asarray(cost))
        useful += np.where(running & ~failed, period - cost, 0.0)
        now = np.where(running, ended, now)
        upcoming += running & failed
        lead = np.where(failed, restart_s + stagger_s, 0.0)
        running = now < drift.horizon_s
    assert (useful <= now * (1 + 1e-9)).all(), "no more work than time"
    return np.asarray(useful / now)
