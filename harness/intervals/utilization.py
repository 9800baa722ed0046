"""Utilization of a checkpointed system and the interval that maximizes it, in closed form.

Source: Jayasekara, Harwood, Karunasekera, "A Utilization Model for Optimization of Checkpoint
Intervals in Distributed Stream Processing Systems", FGCS 2020; equation numbers are theirs.

Everything is written in x = λT and p = λc, which have no unit, and in forms that neither
overflow nor cancel: x/(e^x - 1) as 1/exprel(x), and near the branch point of Lambert's W its
own power series. A utilization too small for a double is 0, never NaN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel, lambertw

from harness.errors import UsageError
from harness.text import format_duration

Array = NDArray[np.float64]
Numbers = float | Array
"""One number, or an array that broadcasts against the others."""

_SERIES_BELOW = 1e-2
# y(s) for y - 1 + e^-y = s²/2: the expansion of 1 + p + W0(-e^(-1-p)) about p = 0.
# The nearest singularity is at |s| = 3.5; at s = 0.14 twelve terms leave nothing.
_BRANCH_SERIES = (
    0.0, 1.0, 1 / 6, 1 / 36, 1 / 270, 1 / 4320, -1 / 17010, -139 / 5443200, -1 / 204120,
    -571 / 2351462400, 281 / 1515591000, 163879 / 2172751257600,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointedSystem:
    """The parameters of a checkpointed system's utilization, without its interval.

    Each field is one number or an array; arrays broadcast against each other and against the
    intervals. Raises `UsageError` naming the field and the value."""

    cost_s: Numbers
    """c: the cost of one checkpoint."""
    failure_rate_per_s: Numbers
    """λ of the whole system."""
    restart_s: Numbers = 0.0
    """R: from a failure until the restored system works, detection included."""
    depth: Numbers = 1.0
    """n: operators on the critical path; 1 is a single process."""
    delay_s: Numbers = 0.0
    """δ: a checkpoint token's way from one operator to the next."""

    def __post_init__(self) -> None:
        _check("cost_s", self.cost_s, np.greater, 0.0, "above zero")
        _check("failure_rate_per_s", self.failure_rate_per_s, np.greater, 0.0, "above zero")
        _check("restart_s", self.restart_s, np.greater_equal, 0.0, "zero or more")
        _check("depth", self.depth, np.greater_equal, 1.0, "at least 1 operator")
        _check("delay_s", self.delay_s, np.greater_equal, 0.0, "zero or more")

    @property
    def mttf_s(self) -> Numbers:
        """Mean time to failure, 1/λ."""
        return 1.0 / self.failure_rate_per_s

    @property
    def stagger_s(self) -> Numbers:
        """D = (n-1)δ: delay of the last operator's checkpoint after the source's."""
        return (np.asarray(self.depth, dtype=float) - 1.0) * self.delay_s

    def utilization(self, interval_s: Numbers) -> Array:
        """Return the share of time that is useful work (equation 10; equation 4 for depth 1).

        Exact for exponential failures, in [0, 1]; 0 where the interval is all checkpoint.
        Raises `UsageError` if an interval is shorter than the checkpoint's cost."""
        interval = self.checked_interval(interval_s)
        overhead = np.asarray(self.failure_rate_per_s * (self.restart_s + self.stagger_s))
        working = (interval - self.cost_s) / interval
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(
                working * np.exp(-overhead) / exprel(self.failure_rate_per_s * interval)
            )

    def log_utilization(self, interval_s: Numbers) -> Array:
        """Return the logarithm of `utilization`, finite where that has underflowed to 0."""
        interval = self.checked_interval(interval_s)
        with np.errstate(divide="ignore"):
            working = np.log((interval - self.cost_s) / interval)
        overhead = self.failure_rate_per_s * (self.restart_s + self.stagger_s)
        return np.asarray(working - overhead - _log_exprel(self.failure_rate_per_s * interval))

    def optimal_interval_s(self) -> Array:
        """Return T* = (1 + λc + W0(-e^(-1-λc))) / λ (sections 3.4, 4.3), whatever R, n and δ."""
        return np.asarray(
            optimal_period_in_mttf(self.failure_rate_per_s * self.cost_s) / self.failure_rate_per_s
        )

    def increase(self, interval_s: Numbers, *, over_s: Numbers) -> Array:
        """Return U(interval)/U(over) - 1, which is meaningful even if both have underflowed."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                np.expm1(self.log_utilization(interval_s) - self.log_utilization(over_s))
            )

    def checked_interval(self, interval_s: Numbers) -> Array:
        """Return ``interval_s`` as an array; `UsageError` where it cannot hold a checkpoint."""
        interval = np.asarray(interval_s, dtype=float)
        _check("interval_s", interval, np.greater, 0.0, "above zero")
        cost = np.broadcast_to(
            self.cost_s, np.broadcast_shapes(interval.shape, np.shape(self.cost_s))
        )
        short = np.broadcast_to(interval, cost.shape) < cost
        if short.any():
            given, least = np.broadcast_to(interval, cost.shape)[short][0], cost[short][0]
            raise UsageError(
                f"a checkpoint that costs {format_duration(least)} does not fit into an interval "
                f"of {format_duration(given)}",
                remedy=f"give an interval above {format_duration(least)}: it is the whole period, "
                "the checkpoint included",
            )
        return interval


def optimal_period_in_mttf(cost_in_mttf: Numbers) -> Array:
    """Return λT* as a function of p = λc: 1 + p + W0(-e^(-1-p)).

    Near p = 0 the argument of W comes to its branch point -1/e and W's digits are lost there
    (half of them at p = 1e-16); below 0.01 the power series in sqrt(2p) keeps all."""
    p = np.asarray(cost_in_mttf, dtype=float)
    series = np.polynomial.polynomial.polyval(
        np.sqrt(2.0 * np.minimum(p, _SERIES_BELOW)), _BRANCH_SERIES
    )
    by_lambert = 1.0 + p + lambertw(-np.exp(-1.0 - p), k=0).real
    return np.asarray(np.where(p < _SERIES_BELOW, series, by_lambert))


def system_failure_rate_per_s(nodes: Numbers, node_mttf_s: Numbers) -> Array:
    """Return the sum of the nodes' rates: any failure restarts everything (section 5.1)."""
    _check("nodes", nodes, np.greater_equal, 1.0, "at least 1")
    _check("node_mttf_s", node_mttf_s, np.greater, 0.0, "above zero")
    return np.asarray(nodes / np.asarray(node_mttf_s, dtype=float))


def _log_exprel(x: Numbers) -> Array:
    """Return log((e^x - 1)/x) for x > 0, without overflow."""
    values = np.asarray(x, dtype=float)
    large = np.maximum(values, 30.0)
    far = large - np.log(large) + np.log1p(-np.exp(-large))
    return np.asarray(np.where(values > 30.0, far, np.log(exprel(np.minimum(values, 30.0)))))


def _check(name: str, value: Numbers, relation: np.ufunc, bound: float, rule: str) -> None:
    array = np.asarray(value, dtype=float)
    bad = ~(np.isfinite(array) & relation(array, bound))
    if bad.any():
        raise UsageError(f"{name} is {array[bad].flat[0]:g}", remedy=f"give a finite value {rule}")
