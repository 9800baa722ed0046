"""Calibration of a machine: the shortest interval at which an engine keeps up, with a margin.

A ramp of rungs is climbed, on one warm engine, until one is held: longer and longer intervals, then
lower and lower rates. The margin is wider than what a no-failure twin must keep
(`harness.measure.windows`), so that a twin on the same machine, some minutes later, keeps up too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster
from harness.judging.climb import Climb
from harness.judging.outcome import first_latencies_s
from harness.judging.passes import PassRecord
from harness.judging.run import LiveRun, plan_of, warm_up
from harness.judging.runner import open_runner
from harness.judging.trust import mistimed
from harness.load.plan import EventTime
from harness.measure.windows import Normal
from harness.measurement import Context
from harness.results.record import Outcome
from workloads.base import Workload

MEDIAN_INTERVALS, TAIL_INTERVALS = 2.0, 3.0
"""Limits of a rung that is held, in its intervals: of the median window, and of the slowest. Fixed
on 2026-11-22; the median's limit was 1.5 until the first ramp was climbed. That ramp gave 1.8, 1.6,
1.6, 1.5 and 1.5 from 2 s to 8 s: a micro-batch engine closes a window one or two triggers after its
end, on a machine of any speed."""
LOAD_INTERVALS = 3.0
"""Addition to a rung's load, in its intervals, so that several batches count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """An interval and a rate to try."""

    interval_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of a rung that was tried."""

    rung: Rung
    normal: Normal | None
    why_not: str | None = None
    """The reason for a missing number."""

    @property
    def prompt(self) -> bool:
        """True if its median is within the margin."""
        limit_s = MEDIAN_INTERVALS * self.rung.interval_s
        return self.normal is not None and self.normal.median_s <= limit_s

    @property
    def held(self) -> bool:
        """True if its slowest window is, too."""
        limit_s = TAIL_INTERVALS * self.rung.interval_s
        return self.prompt and self.normal is not None and self.normal.slowest_s <= limit_s

    def row(self) -> dict[str, Any]:
        """Return the row of the stored ramp."""
        return {
            "interval_s": self.rung.interval_s,
            "rate_per_s": self.rung.rate_per_s,
            "latency_median_s": None if self.normal is None else self.normal.median_s,
            "latency_slowest_s": None if self.normal is None else self.normal.slowest_s,
            "held": self.held,
            "why_not": self.why_not,
        }


FINE, COARSE = ((1, 1.5, 2, 3, 4), (2, 4)), ((1, 2, 4), (4,))
"""Steps of a ramp: times of the shortest interval, then parts of the rate at the longest one."""


def ladder(
    least_s: float,
    rate_per_s: float,
    steps: tuple[Sequence[float], Sequence[float]] = FINE,
) -> list[Rung]:
    """Return the rungs: up to four times the interval, then down to a quarter of the rate."""
    times, parts = steps
    longer = [Rung(interval_s=least_s * n, rate_per_s=rate_per_s) for n in times]
    return [
        *longer,
        *(Rung(interval_s=longer[-1].interval_s, rate_per_s=rate_per_s / n) for n in parts),
    ]


def climb(rungs: Sequence[Rung], attempt: Callable[[Rung], Tried]) -> list[Tried]:
    """Try one rung after the other until one is held.

    One whose median alone was within the margin is tried a second time: a single hiccup of the
    machine must not make every grid longer."""
    ramp = Climb(attempt, lambda one: one.held, in_doubt=lambda one: one.prompt and not one.held)
    ramp.until_held(rungs)
    return ramp.results


def calibrate(
    run: LiveRun,
    rungs: Sequence[Rung],
    cluster: Cluster,
    context: Context,
    *,
    event_at: Callable[[float], EventTime] | None = None,
) -> Outcome:
    """Climb with the run's workload and setup, on its warm engine.

    The run's own interval, rate and schedule are not used; its load is lengthened for each rung.
    ``event_at`` gives the event time at a share of the first rung's rate, by default the run's."""
    runner = open_runner(run.engine, run.setup, cluster, context)

    def at(rung: Rung) -> LiveRun:
        share = rung.rate_per_s / rungs[0].rate_per_s
        event = run.event if event_at is None else event_at(share)
        return replace(run, interval_s=rung.interval_s, rate_per_s=rung.rate_per_s, event=event)

    def attempt(rung: Rung) -> Tried:
        load_s = run.load_s + LOAD_INTERVALS * rung.interval_s
        made = runner.run(plan_of(at(rung), "calibration", load_s, context))
        return judged(rung, made.record, run.workload, settle_s=run.settle_s)

    warm_up(runner, at(rungs[0]))
    return told(rungs[0], climb(rungs, attempt))


def judged(rung: Rung, record: PassRecord, workload: Workload, *, settle_s: float) -> Tried:
    """Return the lateness of the windows of a pass."""
    if (why := mistimed(record)) is not None:
        return Tried(rung=rung, normal=None, why_not=why)
    if not record.drained:
        why = f": {record.undelivered}" if record.undelivered else ""
        return Tried(rung=rung, normal=None, why_not=f"it did not deliver everything in time{why}")
    latency_s = first_latencies_s(record, workload, settle_s)
    if not len(latency_s):
        return Tried(rung=rung, normal=None, why_not="no window was closed by the load")
    windows = latency_s.groupby(record.deliveries["window_start_s"]).max()
    normal = Normal(median_s=float(windows.median()), slowest_s=float(windows.max()))
    return Tried(rung=rung, normal=normal)


def told(first: Rung, steps: Sequence[Tried]) -> Outcome:
    """Return the ramp as an outcome: the values of `GridScale.read`, and a row per pass."""
    held = next((step.rung for step in steps if step.held), None)
    return Outcome(
        values={
            "held_interval_s": None if held is None else held.interval_s,
            "held_rate_per_s": None if held is None else held.rate_per_s,
            "intervals_times": None if held is None else held.interval_s / first.interval_s,
            "rate_share": None if held is None else held.rate_per_s / first.rate_per_s,
            "tried": len(steps),
        },
        series={"ramp": pd.DataFrame([step.row() for step in steps])},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridScale:
    """Factors for the grids of a machine: longer intervals, lower rates."""

    intervals_times: float = 1.0
    rate_share: float = 1.0

    @staticmethod
    def read(values: Mapping[str, Any] | None) -> GridScale | None:
        """Read a calibration's values; factors of 1 without one, None if nothing is held."""
        if values is None:
            return GridScale()
        if values["intervals_times"] is None:
            return None
        return GridScale(
            intervals_times=float(values["intervals_times"]),
            rate_share=float(values["rate_share"]),
        )


NOTHING_HELD = (
    "this machine held no trigger and no rate of stock/calibration, so a failure could not be told "
    "from its ordinary lateness: end what else runs on it (./faultline doctor), or take a machine "
    "with more cores, and give the same command with --again"
)
