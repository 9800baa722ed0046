"""The schemes for a job, each as an `Option` with its interval, work and outage.

The outage under checkpoints is the sum of `harness.advice.sums`, in any system. Source replay and
the takeover of a replica are formulas fitted to simulated runs (`harness.advice.evidence`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.advice.evidence import FailureKind, Fit, SchemeName
from harness.advice.job import Job
from harness.advice.sums import Known
from harness.intervals.recovery import DETECT, Recovery, Span
from harness.intervals.systems import system_named
from harness.intervals.utilization import CheckpointedSystem
from harness.text import format_duration

_INSIDE = 1.0 - 1e-9
"""Share of the way to an interval that just meets the target: rounding must not miss it."""
_ROUND_S = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30), *(60 * n for n in (1, 2, 5, 10, 20, 30)),
    *(3600 * n for n in (1, 2, 4, 8, 12)), *(86_400 * n for n in (1, 2, 4, 7, 14, 30)),
)  # fmt: skip
"""Intervals of the frontier, in seconds."""
_SHOWN = 5
"""Number of those that are shown."""
SIMULATED = (SchemeName.REPLAY, SchemeName.ACTIVE)
"""Schemes whose recovery comes from simulated runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One scheme for the job."""

    scheme: SchemeName
    utilization: float | None
    """Share of the time left for useful work; None where the model says nothing."""
    outage: Span | None
    """After one node's failure, from the failure on; None where it is not known."""
    outage_all: Span | None
    """After the failure of every node at once."""
    parts: Recovery | None = None
    """The sum behind ``outage``; None for a formula of simulated runs."""
    first_output_s: float | None = None
    """Time to the first output after the worst failure, if replicas survive it."""
    output_fidelity: float = 0.0
    """Share of the output that is right in that time, by output fidelity; 0 without replicas."""
    extra_tasks: float = 0.0
    """Replicas, as a share of the tasks."""
    interval_s: float | None = None
    latency: Span | None = None
    """Latency of a result, where it waits for the interval."""
    stuck: str = ""
    """Reason why the job cannot go on like that for long; empty if it can."""
    shortened: bool = False
    """True if the interval is shorter than T*, so that an outage ends in time."""
    offered: bool = True
    """True if the system has this scheme."""
    unknown: str = "no runs"
    """Reason for an outage that is not known."""
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


def replay(job: Job, facts: Known, fits: Fits) -> Option:
    """Return source replay, from simulated runs."""
    notes = ["no checkpoint at all: the input of all windows must be in the log"]
    one: Span | None = None
    every: Span | None = None
    if job.window_s is None:
        notes.append("give the window (--window) to know its outage")
    else:
        process_s = job.rate_per_s * job.window_s / job.most_per_s  # a window's input again
        one, every = (
            _simulated(job, facts, fits[SchemeName.REPLAY, failure], process_s, restarts=True)
            for failure in (FailureKind.NODE, FailureKind.ALL)
        )
    utilization = max(1.0 - job.failure_rate_per_s * one.mean_s, 0.0) if one else None
    return Option(
        scheme=SchemeName.REPLAY,
        outage=one,
        outage_all=every,
        utilization=utilization,
        unknown="needs --window" if job.window_s is None else "no runs",
        offered=system_named(job.system).replicas,
        notes=notes,
    )


def _simulated(
    job: Job, facts: Known, found: Fit | None, process_s: float, *, restarts: bool
) -> Span | None:
    """Return detection, and restart if there is one, and a simulated recovery with its error."""
    if found is None:
        return None
    until = facts.outage(job, 0.0).part(DETECT)
    if restarts:
        for part in facts.restart:
            until += part.span
    took = found.predict(process_s, 0.0)
    return Span(
        mean_s=until.mean_s + took,
        best_s=until.best_s + took / found.off_by,
        worst_s=until.worst_s + took * found.off_by,
    )


def checkpoint(job: Job, facts: Known, system: CheckpointedSystem, interval_s: float) -> Option:
    """Return checkpoints at an interval, by the sum."""
    parts = facts.outage(job, interval_s)
    total = parts.total
    possible = interval_s >= job.checkpoint_s
    utilization = float(system.utilization(interval_s)) if possible else None
    notes = ["a shorter interval makes outages shorter and leaves less time for work"]
    if not possible:
        notes.append(
            f"a checkpoint of {format_duration(job.checkpoint_s)} does not fit into an interval "
            f"of {format_duration(interval_s)}: give --checkpoint-cost if yours are incremental"
        )
    return Option(
        scheme=SchemeName.CHECKPOINT,
        outage=total,
        # The whole pipeline goes back to a checkpoint, or each task does, at the same time.
        outage_all=total,
        parts=parts,
        utilization=utilization,
        interval_s=interval_s,
        latency=_latency(job, facts, interval_s),
        stuck=_stuck(job, facts, total.mean_s, utilization),
        notes=notes,
    )


def _stuck(job: Job, facts: Known, outage_s: float, utilization: float | None) -> str:
    between_s = 1.0 / job.failure_rate_per_s
    if outage_s >= between_s:
        return (
            f"never makes progress: an outage lasts {format_duration(outage_s)} on average, and "
            f"a failure comes every {format_duration(between_s)}"
        )
    needed = job.rate_per_s / facts.capacity_per_s
    if utilization is not None and utilization <= needed:
        return (
            f"never keeps up: its input needs {needed:.1%} of the time, and {utilization:.1%} is "
            "left for work"
        )
    return ""


def _latency(job: Job, facts: Known, interval_s: float) -> Span | None:
    """Return the time from a record to its result, if that waits for the interval.

    The record comes at any time of the interval alike. In batches its result comes at the end of
    the next one, which processes the input of a whole interval."""
    if not job.waits:
        return None
    least_s = job.checkpoint_s + interval_s * _batch(job, facts)
    return Span(mean_s=least_s + interval_s / 2.0, best_s=least_s, worst_s=least_s + interval_s)


def _batch(job: Job, facts: Known) -> float:
    """Return the time to process the input of an interval after it, as a share of it."""
    in_batches = system_named(job.system).in_batches
    return job.rate_per_s / facts.capacity_per_s if in_batches else 0.0


def shortest_s(job: Job, facts: Known) -> float:
    """Return the shortest interval that leaves enough time for the input, without failures."""
    left = 1.0 - job.rate_per_s / facts.capacity_per_s
    return max(job.checkpoint_s / left, system_named(job.system).least_interval_s)


def for_latency_s(job: Job, facts: Known) -> float:
    """Return the longest interval with the wanted latency at worst; infinite if nothing waits.

    If none that keeps up has that latency, twice the shortest: half of the spare time is left."""
    if not job.waits:
        return math.inf
    longest_s = (job.latency_s - job.checkpoint_s) / (1.0 + _batch(job, facts))
    shortest = shortest_s(job, facts)
    return longest_s if longest_s > shortest else 2.0 * shortest


def frontier(
    job: Job, facts: Known, system: CheckpointedSystem, marked: Sequence[Option]
) -> Sequence[Option]:
    """Return checkpoints at a few intervals up to the longest of the ``marked`` ones, and those.

    Up to T* a longer interval leaves more work and a longer outage; after it, nothing is gained."""
    known = {option.interval_s: option for option in marked if option.interval_s is not None}
    shortest, longest = shortest_s(job, facts), max(known)
    between = [
        each
        for each in _ROUND_S
        if shortest < each < longest and all(not 0.7 * mark < each < 1.4 * mark for mark in known)
    ]
    spread = np.linspace(0, len(between) - 1, min(len(between), _SHOWN)).round().astype(int)
    for place in spread:
        known[between[place]] = checkpoint(job, facts, system, between[place])
    return [known[interval_s] for interval_s in sorted(known)]


def shortened(
    job: Job, facts: Known, system: CheckpointedSystem, usual: Option, target_s: float | None
) -> Option | None:
    """Return checkpoints at the longest interval whose outage ends in time even at worst.

    None if the usual one is short enough, or if the job could not go on with one so short.
    An outage grows with the interval on a straight line, so two points give the interval."""
    if target_s is None or usual.outage is None or usual.outage.worst_s <= target_s:
        return None
    assert usual.interval_s is not None
    least_s = shortest_s(job, facts)
    least = checkpoint(job, facts, system, least_s).outage
    assert least is not None
    if least.worst_s >= min(target_s, usual.outage.worst_s):
        return None
    share = (target_s - least.worst_s) / (usual.outage.worst_s - least.worst_s)
    interval_s = float(least_s + _INSIDE * share * (usual.interval_s - least_s))
    note = f"the longest interval with which an outage ends within {format_duration(target_s)}"
    found = checkpoint(job, facts, system, interval_s)
    return None if found.stuck else replace(found, shortened=True, notes=[f"{note} at worst"])


def _takeover(job: Job, facts: Known, fits: Fits) -> Span | None:
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
        first_output_s=takeover.mean_s if takeover and fidelity > 0 else None,
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
        outage=takeover,
        outage_all=takeover if job.racks > 1 else None,
        unknown="replicas fail, too" if takeover else "no runs",
        first_output_s=takeover.mean_s if takeover else None,
        output_fidelity=1.0,
        extra_tasks=1.0,
        utilization=checkpoint.utilization,
        offered=system_named(job.system).replicas,
        notes=["every tuple is processed twice", *_apart(job)],
    )


def choice(options: Sequence[Option], target_s: float | None) -> Option | None:
    """Return the option with the most useful work per task whose outage ends in time.

    Even the worst must, and the system must have the scheme. PPA counts only through its exact
    output; the value of some output sooner is for the user to judge."""
    in_time = [
        option
        for option in options
        if target_s is not None
        and option.offered
        and not option.stuck
        and option.outage
        and option.outage.worst_s <= target_s
    ]
    return max(in_time, key=lambda option: option.work_per_task, default=None)
