"""Distributions of times between failures and of restart times.

The closed form of `harness.intervals.utilization` assumes exponential gaps and a constant
restart. Real systems fail in clusters (Weibull gaps of shape below 1, lognormal repairs;
Schroeder and Gibson, DSN 2006), and a trace has its own order.

Tests: ``tests/intervals/test_simulator.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import gamma

from harness.errors import UsageError
from harness.intervals.utilization import Array


class FailureModel(ABC):
    """A source of the gaps between the failures of a whole system."""

    @property
    @abstractmethod
    def mean_s(self) -> float:
        """The mean gap: the system's mean time to failure."""

    @abstractmethod
    def gaps_s(self, generator: np.random.Generator, runs: int, failures: int) -> Array:
        """Draw ``failures`` gaps for each of ``runs`` runs, shape (runs, failures)."""

    def survival(self, elapsed_s: Array) -> Array:
        """Return P(gap > elapsed), where it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no closed-form survival function")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(FailureModel):
    """Memoryless failures, as in the utilization paper."""

    mttf_s: float

    def __post_init__(self) -> None:
        _positive("mttf_s", self.mttf_s)

    @property
    def mean_s(self) -> float:
        return self.mttf_s

    def gaps_s(self, generator: np.random.Generator, runs: int, failures: int) -> Array:
        gaps = generator.standard_exponential((runs, failures))
        gaps *= self.mttf_s
        return gaps

    def survival(self, elapsed_s: Array) -> Array:
        return np.asarray(np.exp(-np.asarray(elapsed_s) / self.mttf_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weibull(FailureModel):
    """Weibull gaps; a shape below 1 is a hazard that falls with time since the last failure."""

    mttf_s: float
    shape: float

    def __post_init__(self) -> None:
        _positive("mttf_s", self.mttf_s)
        _positive("shape", self.shape)

    @property
    def mean_s(self) -> float:
        return self.mttf_s

    @property
    def scale_s(self) -> float:
        """The scale that gives the mean."""
        return float(self.mttf_s / gamma(1.0 + 1.0 / self.shape))

    def gaps_s(self, generator: np.random.Generator, runs: int, failures: int) -> Array:
        gaps = generator.standard_exponential((runs, failures))
        np.power(gaps, 1.0 / self.shape, out=gaps)
        gaps *= self.scale_s
        return gaps

    def survival(self, elapsed_s: Array) -> Array:
        return np.asarray(np.exp(-((np.asarray(elapsed_s) / self.scale_s) ** self.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class Trace(FailureModel):
    """Recorded gaps replayed in their order, each run from a start of its own, cyclically.

    The order matters: gaps of real systems are not independent."""

    recorded_gaps_s: Array

    def __post_init__(self) -> None:
        gaps = np.asarray(self.recorded_gaps_s, dtype=float)
        if gaps.ndim != 1 or len(gaps) < 2 or not np.isfinite(gaps).all() or gaps.sum() <= 0:
            raise UsageError(
                f"a trace needs at least two finite gaps between failures, got {gaps.shape}",
                remedy="give a longer stretch of the failure records",
            )
        if (gaps < 0).any():
            raise UsageError(
                f"the trace has a gap of {gaps.min():g} s", remedy="sort its failures by time"
            )
        object.__setattr__(self, "recorded_gaps_s", gaps)

    @property
    def mean_s(self) -> float:
        return float(self.recorded_gaps_s.mean())

    def gaps_s(self, generator: np.random.Generator, runs: int, failures: int) -> Array:
        starts = generator.integers(len(self.recorded_gaps_s), size=(runs, 1))
        order = (starts + np.arange(failures)) % len(self.recorded_gaps_s)
        return np.asarray(self.recorded_gaps_s[order])


class RestartModel(ABC):
    """The duration of a restart, from the failure until the restored system works."""

    @property
    @abstractmethod
    def mean_s(self) -> float:
        """The mean restart."""

    @abstractmethod
    def restarts_s(self, generator: np.random.Generator, shape: tuple[int, int]) -> Array | float:
        """Draw a restart time for each failure, or return the one that they all share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRestart(RestartModel):
    """Every restart takes R, as in the paper."""

    restart_s: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.restart_s) and self.restart_s >= 0):
            raise UsageError(
                f"restart_s is {self.restart_s:g}", remedy="give a finite time, zero or more"
            )

    @property
    def mean_s(self) -> float:
        return self.restart_s

    def restarts_s(self, generator: np.random.Generator, shape: tuple[int, int]) -> float:
        return self.restart_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LognormalRepair(RestartModel):
    """Lognormal restarts: repairs of LANL's systems have log-σ about 1.4."""

    median_s: float
    sigma: float

    def __post_init__(self) -> None:
        _positive("median_s", self.median_s)
        _positive("sigma", self.sigma)

    @property
    def mean_s(self) -> float:
        return float(self.median_s * np.exp(self.sigma**2 / 2.0))

    def restarts_s(self, generator: np.random.Generator, shape: tuple[int, int]) -> Array:
        return generator.lognormal(np.log(self.median_s), self.sigma, size=shape)


def _positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value:g}", remedy="give a finite value above zero")
