"""The capacity with which an outage ends in time: its sum, solved for the capacity."""

from __future__ import annotations

from dataclasses import dataclass

from harness.advice.job import Job
from harness.advice.sums import Known
from harness.intervals.recovery import MEAN_PHASE, NOTHING, REPLAY, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Tuples a second that a job must be able to process, None where none is enough."""

    target_s: float
    """The longest outage, from the failure on."""
    interval_s: float
    downtime: Span
    """Until the job works again: no capacity makes it shorter."""
    mean_per_s: float | None
    """For an outage within the target on average."""
    worst_per_s: float | None
    """For one at worst."""
    catch_up_per_s: float
    """For catching up within the target once the job works again, on average; Flink's autoscaler
    counts like that."""


def needed(job: Job, facts: Known, interval_s: float, target_s: float | None) -> Needed | None:
    """Return the capacity for outages within ``target_s`` at an interval.

    An outage is ``downtime + (phase * interval + downtime) * rate / (capacity - rate)``. None
    without a target, and where the capacity is known."""
    if target_s is None or not facts.capacity_assumed:
        return None
    downtime = NOTHING
    for part in facts.outage(job, interval_s).parts:
        if part.name != REPLAY:
            downtime += part.span

    def within(down_s: float, phase: float, seconds: float) -> float | None:
        if seconds <= 0.0:
            return None
        return job.rate_per_s * (1.0 + (phase * interval_s + down_s) / seconds)

    catch_up = within(downtime.mean_s, MEAN_PHASE, target_s)
    assert catch_up is not None, "a target is above zero"
    return Needed(
        target_s=target_s,
        interval_s=interval_s,
        downtime=downtime,
        mean_per_s=within(downtime.mean_s, MEAN_PHASE, target_s - downtime.mean_s),
        worst_per_s=within(downtime.worst_s, 1.0, target_s - downtime.worst_s),
        catch_up_per_s=catch_up,
    )
