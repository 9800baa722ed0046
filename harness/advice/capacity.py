"""The capacity with which a job recovers in time: the sum of a recovery, solved for it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.advice.job import Job
from harness.advice.sums import Known
from harness.intervals.recovery import MEAN_PHASE, NOTHING, REPLAY, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Tuples a second that a job must be able to process, None where none is enough."""

    target_s: float
    """The longest recovery, from the failure on."""
    interval_s: float
    outage: Span
    """Until the job works again: no capacity makes it shorter."""
    mean_per_s: float | None
    """For a recovery within the target on average."""
    worst_per_s: float | None
    """For one at worst."""
    catch_up_per_s: float
    """For catching up within the target once the job works again, on average; Flink's autoscaler
    counts like that."""


def needed(job: Job, facts: Known, interval_s: float, target_s: float | None) -> Needed | None:
    """Return the capacity for recoveries within ``target_s`` at an interval.

    A recovery is ``outage + (phase * interval + outage) * rate / (capacity - rate)``. None without
    a target, and where the capacity is known."""
    if target_s is None or not facts.capacity_assumed:
        return None
    outage = NOTHING
    for part in facts.recovery(job, interval_s).parts:
        if part.name != REPLAY:
            outage += part.span

    def within(outage_s: float, phase: float, seconds: float) -> float | None:
        if seconds <= 0.0:
            return None
        return job.rate_per_s * (1.0 + (phase * interval_s + outage_s) / seconds)

    catch_up = within(outage.mean_s, MEAN_PHASE, target_s)
    assert catch_up is not None, "a target is above zero"
    return Needed(
        target_s=target_s,
        interval_s=interval_s,
        outage=outage,
        mean_per_s=within(outage.mean_s, MEAN_PHASE, target_s - outage.mean_s),
        worst_per_s=within(outage.worst_s, 1.0, target_s - outage.worst_s),
        catch_up_per_s=catch_up,
    )
