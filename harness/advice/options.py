"""The schemes for a job, each as an `Option` with its interval, work and recovery.

Checkpoints recover by the sum of `harness.advice.sums`, in any system. Source replay and the
takeover of a replica come from formulas fitted to simulated runs (`harness.advice.evidence`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.advice.evidence import FailureKind, Fit, SchemeName
from harness.advice.job import Job
from harness.advice.sums import Known
from harness.intervals.recovery import DETECT, Recovery
from harness.intervals.systems import system_named
from harness.intervals.utilization import CheckpointedSystem
from harness.text import format_duration

_INSIDE = 1.0 - 1e-9
"""Share of the way to an interval that just meets the target: rounding must not miss it."""
SIMULATED = (SchemeName.REPLAY, SchemeName.ACTIVE)
"""Schemes whose recovery comes from simulated runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A mean number of seconds, and the best and the worst."""

    expected_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One scheme for the job."""

    scheme: SchemeName
    utilization: float | None
    """Share of the time left for useful work; None where the model says nothing."""
    recovery: Range | None
    """After one node's failure, from the failure on; None where it is not known."""
    recovery_all: Range | None
    """After the failure of every node at once."""
    parts: Recovery | None = None
    """The sum behind ``recovery``; None for a formula of simulated runs."""
    first_output_s: float | None = None
    """Time to the first output after the worst failure, if replicas survive it."""
    output_fidelity: float = 0.0
    """Share of the output that is right in that time, by output fidelity; 0 without replicas."""
    extra_tasks: float = 0.0
    """Replicas, as a share of the tasks."""
    interval_s: float | None = None
    shortened: bool = False
    """True if the interval is shorter than T*, so that recovery ends in time."""
    offered: bool = True
    """True if the system has this scheme."""
    unknown: str = "no runs"
    """Reason for a recovery that is not known."""
    notes: Sequence[str] = ()

    @property
    def label(self) -> str:
        """The scheme's name in a list that may hold it twice."""
        return f"{self.scheme}, sooner" if self.shortened else self.scheme.value

    @property
    def work_per_task(self) -> float:
        """Useful work as a share of all tasks' time, replicas included."""
        return (self.utilization or 0.0) / (1.0 + self.extra_tasks)


Fits = Mapping[tuple[SchemeName, FailureKind], Fit | None]


def _again_s(job: Job, since_s: float) -> float:
    """Return the time to process the input of ``since_s`` seconds again."""
    return job.rate_per_s * since_s / job.most_per_s


def replay(job: Job, facts: Known, fits: Fits) -> Option:
    """Return source replay, from simulated runs."""
    ranges: dict[FailureKind, Range | None] = dict.fromkeys(FailureKind)
    notes = ["no checkpoint at all: the input of all windows must be in the log"]
    if job.window_s is None:
        notes.append("give the window (--window) to know its recovery")
    else:
        for failure in FailureKind:
            found = fits[SchemeName.REPLAY, failure]
            again_s = _again_s(job, job.window_s)
            ranges[failure] = _simulated(job, facts, found, again_s, restarts=True)
    expected = ranges[FailureKind.NODE]
    lost = job.failure_rate_per_s * expected.expected_s if expected else 0.0
    return Option(
        scheme=SchemeName.REPLAY,
        recovery=ranges[FailureKind.NODE],
        recovery_all=ranges[FailureKind.ALL],
        utilization=max(1.0 - lost, 0.0),
        unknown="needs --window" if job.window_s is None else "no runs",
        offered=system_named(job.system).replicas,
        notes=notes,
    )


def _simulated(
    job: Job, facts: Known, found: Fit | None, process_s: float, *, restarts: bool
) -> Range | None:
    """Return detection, and restart if there is one, and a simulated recovery with its error."""
    if found is None:
        return None
    outage = facts.recovery(job, 0.0)
    until = outage.part(DETECT)
    if restarts:
        for part in facts.restart:
            until += part.span
    took = found.predict(process_s, 0.0)
    return Range(
        expected_s=until.mean_s + took,
        low_s=until.best_s + took / found.off_by,
        high_s=until.worst_s + took * found.off_by,
    )


def checkpoint(job: Job, facts: Known, system: CheckpointedSystem, interval_s: float) -> Option:
    """Return checkpoints at an interval, by the sum."""
    parts = facts.recovery(job, interval_s)
    total = parts.total
    found = Range(expected_s=total.mean_s, low_s=total.best_s, high_s=total.worst_s)
    possible = interval_s >= job.checkpoint_s
    notes = ["a shorter interval recovers faster and leaves less time for work"]
    if not possible:
        notes.append(
            f"a checkpoint of {format_duration(job.checkpoint_s)} does not fit into an interval "
            f"of {format_duration(interval_s)}: give --checkpoint-cost if yours are incremental"
        )
    return Option(
        scheme=SchemeName.CHECKPOINT,
        recovery=found,
        # The whole pipeline goes back to a checkpoint, or each task does, at the same time.
        recovery_all=found,
        parts=parts,
        utilization=float(system.utilization(interval_s)) if possible else None,
        interval_s=interval_s,
        notes=notes,
    )


def shortened(
    job: Job, facts: Known, system: CheckpointedSystem, usual: Option, target_s: float | None
) -> Option | None:
    """Return checkpoints at the longest interval whose recovery ends in time even at worst.

    None if T* is short enough, or if not even a checkpoint after the other is: recovery grows with
    the interval on a straight line, so two points give the interval."""
    if target_s is None or usual.recovery is None or usual.recovery.high_s <= target_s:
        return None
    assert usual.interval_s is not None
    least_s = float(job.checkpoint_s)
    least = checkpoint(job, facts, system, least_s).recovery
    assert least is not None
    if least.high_s >= target_s:
        return None
    share = (target_s - least.high_s) / (usual.recovery.high_s - least.high_s)
    interval_s = float(least_s + _INSIDE * share * (usual.interval_s - least_s))
    note = f"the longest interval with which recovery ends within {format_duration(target_s)}"
    found = checkpoint(job, facts, system, interval_s)
    return replace(found, shortened=True, notes=[f"{note} at worst"])


def _takeover(job: Job, facts: Known, fits: Fits) -> Range | None:
    return _simulated(job, facts, fits[SchemeName.ACTIVE, FailureKind.NODE], 0.0, restarts=False)


def _apart(job: Job) -> list[str]:
    if job.racks > 1:
        return []
    return ["with one rack, whatever takes the rack takes the replicas too"]


def ppa(
    job: Job, facts: Known, fits: Fits, complete: Option, fidelity: float, share: float
) -> Option:
    """Return PPA with a plan of this fidelity and share of replicas: ``complete`` afterwards."""
    takeover = _takeover(job, facts, fits)
    return replace(
        complete,
        scheme=SchemeName.PPA,
        first_output_s=takeover.expected_s if takeover and fidelity > 0 else None,
        output_fidelity=fidelity,
        extra_tasks=share,
        offered=system_named(job.system).replicas,
        notes=["tentative output until recovery is complete; then exact output", *_apart(job)],
    )


def active(job: Job, facts: Known, fits: Fits, checkpoint: Option) -> Option:
    """Return a replica of every task; ``checkpoint`` has the work of the same job."""
    takeover = _takeover(job, facts, fits)
    return Option(
        scheme=SchemeName.ACTIVE,
        recovery=takeover,
        recovery_all=takeover if job.racks > 1 else None,
        unknown="replicas fail, too" if takeover else "no runs",
        first_output_s=takeover.expected_s if takeover else None,
        output_fidelity=1.0,
        extra_tasks=1.0,
        utilization=checkpoint.utilization,
        offered=system_named(job.system).replicas,
        notes=["every tuple is processed twice", *_apart(job)],
    )


def choice(options: Sequence[Option], target_s: float | None) -> Option | None:
    """Return the option with the most useful work per task whose recovery ends in time.

    Even the worst must, and the system must have the scheme. PPA counts only through its exact
    output; the value of some output sooner is for the user to judge."""
    in_time = [
        option
        for option in options
        if target_s is not None
        and option.offered
        and option.recovery
        and option.recovery.high_s <= target_s
    ]
    return max(in_time, key=lambda option: option.work_per_task, default=None)
