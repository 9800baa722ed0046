"""Advice for a job: every scheme with its interval, cost and recovery, and the evidence for them.

The interval is T* of the utilization model (intervals), or a shorter one where recovery must end in
time. Recovery is the formula of `harness.advice.evidence`, whose constants come from measured runs.
Its range covers the place of the failure in the interval, and the error of the formula on runs that
it was not fitted to. PPA's plan is the structure-aware planner's (ppa ICDE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from harness.advice.evidence import FailureKind, Fit, SchemeName, evidence, fit, live
from harness.advice.job import Job
from harness.intervals.utilization import CheckpointedSystem
from harness.planning.structure_aware import StructureAware
from harness.results.library import Library
from harness.text import format_duration
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning

NEAREST = 3
_INSIDE = 1.0 - 1e-9
"""Share of the way to an interval that just meets the target: rounding must not miss it."""
_EARLY, _LATE = 0.05, 0.95
"""Shares of the interval between which nine of ten failures strike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """An expected number of seconds, and a range for nine of ten cases."""

    expected_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One scheme for the job."""

    scheme: SchemeName
    utilization: float
    """Share of the time left for useful work."""
    recovery: Range | None
    """After one node's failure, from the failure on; None where it is not known."""
    recovery_all: Range | None
    """After the failure of every node at once."""
    first_output_s: float | None = None
    """Time to the first output after the worst failure, if replicas survive it."""
    output_fidelity: float = 0.0
    """Share of the output that is right in that time, by output fidelity; 0 without replicas."""
    extra_tasks: float = 0.0
    """Replicas, as a share of the tasks."""
    interval_s: float | None = None
    shortened: bool = False
    """True if the interval is shorter than T*, so that recovery ends in time."""
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
        return self.utilization / (1.0 + self.extra_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misjudged:
    """An interval that was chosen for a wrong mean time to failure."""

    factor: float
    """The believed mean time to failure over the real one."""
    interval_s: float
    lost: float
    """Utilization at the right interval minus utilization at this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that is known for a job."""

    job: Job
    assumed: Sequence[str]
    options: Sequence[Option]
    chosen: Option | None
    """The option with the most useful work per task that meets the target; None without a target,
    or if none does."""
    target_s: float | None
    interval_if_wrong: Sequence[Misjudged]
    """The loss if T* is chosen for half or twice the real mean time to failure."""
    placement: Sequence[str]
    plan: Sequence[str]
    """The tasks that PPA replicates."""
    nearest: pd.DataFrame
    """The most similar runs, with the prediction for each by a formula fitted without it."""
    live: pd.DataFrame
    """Every recovery that was measured on real servers, with its prediction."""
    off_by: Mapping[str, float]
    """Scheme and failure to the largest error, as a factor, on nine of ten unseen runs."""
    sources: Sequence[str]

    @property
    def choice(self) -> SchemeName | None:
        """The scheme of the chosen option."""
        return self.chosen.scheme if self.chosen else None

    @property
    def off_by_live(self) -> float | None:
        """The largest error, as a factor, on a run on real servers; None without such runs."""
        off = self.live["off"].dropna().to_numpy(dtype=float)
        return float(np.exp(np.abs(np.log(off)).max())) if len(off) else None

    def table(self) -> pd.DataFrame:
        """Return the options, a row for each; seconds count from the failure on."""
        return pd.DataFrame(
            [
                {
                    "scheme": option.label,
                    "interval_s": option.interval_s,
                    "utilization": option.utilization,
                    "replicas": option.extra_tasks,
                    **_columns("recovery", option.recovery),
                    **_columns("recovery_all", option.recovery_all),
                    "first_output_s": option.first_output_s,
                    "output_fidelity": option.output_fidelity,
                }
                for option in self.options
            ]
        ).set_index("scheme")

    def document(self) -> dict[str, Any]:
        """Return the document of ``--json``."""
        names = (
            "assumed",
            "choice",
            "target_s",
            "placement",
            "plan",
            "off_by",
            "off_by_live",
            "sources",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "choice_interval_s": self.chosen.interval_s if self.chosen else None,
            "interval_if_wrong": [asdict(each) for each in self.interval_if_wrong],
            "job": asdict(self.job),
            "options": [asdict(option) for option in self.options],
            "nearest": self.nearest.to_dict("records"),
            "live": self.live.to_dict("records"),
        }  # fmt: skip


def _columns(name: str, found: Range | None) -> dict[str, float | None]:
    return {
        f"{name}_s": found.expected_s if found else None,
        f"{name}_low_s": found.low_s if found else None,
        f"{name}_high_s": found.high_s if found else None,
    }


def advise(
    job: Job,
    results: Library,
    *,
    target_s: float | None = None,
    assumed: Sequence[str] = (),
    topology: Topology | None = None,
) -> Advice:
    """Judge every scheme for ``job``, with the constants that ``results`` give.

    ``topology`` is the job's own; without it, ``depth`` operators in a row, fully connected, with
    a task per node. ``assumed`` names the job's values that the user did not give."""
    rows = evidence(results)
    fits = {
        (scheme, failure): fit(rows, scheme, failure)
        for scheme in (SchemeName.REPLAY, SchemeName.CHECKPOINT, SchemeName.ACTIVE)
        for failure in FailureKind
    }
    interval_s, system = _interval(job)
    utilization = float(system.utilization(interval_s))
    topology = topology or chain(job)
    plan = StructureAware().plan(topology, int(job.budget * topology.total_cost))
    names = [f"{operator}[{index}]" for operator, index in map(topology.place, plan.tasks)]
    checkpoint = _checkpoint(job, fits, interval_s, utilization)
    shortened = _shortened(job, fits, system, checkpoint, target_s)
    options = [
        _replay(job, fits),
        checkpoint,
        *([shortened] if shortened else []),
        _ppa(job, fits, interval_s, utilization, plan.value, plan.cost / topology.total_cost),
        _active(job, fits, utilization),
    ]
    return Advice(
        job=job,
        assumed=assumed,
        options=options,
        chosen=_choice(options, target_s),
        target_s=target_s,
        interval_if_wrong=_if_wrong(job, system, interval_s),
        placement=_placement(job),
        plan=names,
        nearest=_nearest(job, interval_s, fits),
        live=live(results, fits[SchemeName.CHECKPOINT, FailureKind.NODE]),
        off_by={
            f"{scheme}, {failure}": found.off_by
            for (scheme, failure), found in fits.items()
            if found is not None
        },
        sources=_sources(rows),
    )


def chain(job: Job) -> Topology:
    """Return a topology for a job of known depth: operators in a row, fully connected."""
    width = min(job.nodes, 50)
    names = ["source", *(f"operator-{number}" for number in range(1, job.depth + 1))]
    return Topology(
        operators=tuple(
            Operator(name=name, parallelism=width, rate=(job.rate_per_s / width,) * width)
            if name == "source"
            else Operator(name=name, parallelism=width)
            for name in names
        ),
        edges=tuple(
            Edge(upstream=up, downstream=down, partitioning=Partitioning.FULL)
            for up, down in pairwise(names)
        ),
    )


def _interval(job: Job) -> tuple[float, CheckpointedSystem]:
    system = CheckpointedSystem(
        cost_s=job.transfer_s,
        failure_rate_per_s=job.failure_rate_per_s,
        restart_s=job.detection_s + job.restart_s + job.transfer_s,
    )
    return float(system.optimal_interval_s()), system


def _if_wrong(job: Job, system: CheckpointedSystem, interval_s: float) -> Sequence[Misjudged]:
    found = []
    best = float(system.utilization(interval_s))
    for factor in (0.5, 2.0):
        believed = CheckpointedSystem(
            cost_s=system.cost_s, failure_rate_per_s=job.failure_rate_per_s / factor
        )
        chosen = float(believed.optimal_interval_s())
        lost = best - float(system.utilization(chosen))
        found.append(Misjudged(factor=factor, interval_s=chosen, lost=lost))
    return found


Fits = Mapping[tuple[SchemeName, FailureKind], Fit | None]


def _range(
    job: Job, found: Fit | None, process_s: tuple[float, float, float], load_s: float
) -> Range | None:
    """Return the recovery early, in the middle and late in the interval, widened by the error."""
    if found is None:
        return None
    until = job.detection_s + job.restart_s
    early, middle, late = (found.predict(each, load_s) for each in process_s)
    return Range(
        expected_s=until + middle,
        low_s=until + early / found.off_by,
        high_s=until + late * found.off_by,
    )


def _again_s(job: Job, since_s: float) -> float:
    """Return the time to process the input of ``since_s`` seconds again."""
    return job.task_rate_per_s * since_s / job.speed_per_s


def _replay(job: Job, fits: Fits) -> Option:
    ranges: dict[FailureKind, Range | None] = dict.fromkeys(FailureKind)
    notes = ["no checkpoint at all: the input of all windows must still be in the log"]
    if job.window_s is None:
        notes.append("give the window (--window) to know its recovery")
    else:
        for failure in FailureKind:
            depth = (job.depth + 1) / 2 if failure is FailureKind.NODE else job.depth
            again_s = _again_s(job, job.window_s * depth)
            ranges[failure] = _range(
                job, fits[SchemeName.REPLAY, failure], (again_s, again_s, again_s), 0.0
            )
    expected = ranges[FailureKind.NODE]
    lost = job.failure_rate_per_s * expected.expected_s if expected else 0.0
    return Option(
        scheme=SchemeName.REPLAY,
        recovery=ranges[FailureKind.NODE],
        recovery_all=ranges[FailureKind.ALL],
        utilization=max(1.0 - lost, 0.0),
        unknown="needs --window" if job.window_s is None else "no runs",
        notes=notes,
    )


def _checkpoint(job: Job, fits: Fits, interval_s: float, utilization: float) -> Option:
    process = tuple(_again_s(job, share * interval_s) for share in (_EARLY, 0.5, _LATE))
    ranges = {
        failure: _range(
            job,
            fits[SchemeName.CHECKPOINT, failure],
            (process[0], process[1], process[2]),
            job.transfer_s,
        )
        for failure in FailureKind
    }
    return Option(
        scheme=SchemeName.CHECKPOINT,
        recovery=ranges[FailureKind.NODE],
        recovery_all=ranges[FailureKind.ALL],
        utilization=utilization,
        interval_s=interval_s,
        notes=["a shorter interval recovers faster and leaves less time for work"],
    )


def _shortened(
    job: Job, fits: Fits, system: CheckpointedSystem, usual: Option, target_s: float | None
) -> Option | None:
    """Return checkpoints at the longest interval whose recovery ends in time nine times of ten.

    None if T* is short enough, or if not even a checkpoint after the other is: recovery grows with
    the interval on a straight line, so two points give the interval."""
    if target_s is None or usual.recovery is None or usual.recovery.high_s <= target_s:
        return None
    assert usual.interval_s is not None
    least_s = float(system.cost_s)
    least = _checkpoint(job, fits, least_s, 0.0).recovery
    assert least is not None
    if least.high_s >= target_s:
        return None
    share = (target_s - least.high_s) / (usual.recovery.high_s - least.high_s)
    interval_s = float(least_s + _INSIDE * share * (usual.interval_s - least_s))
    found = _checkpoint(job, fits, interval_s, float(system.utilization(interval_s)))
    note = f"the longest interval with which recovery ends within {format_duration(target_s)}"
    return replace(found, shortened=True, notes=[f"{note}, nine times of ten"])


def _takeover(job: Job, fits: Fits) -> Range | None:
    found = fits[SchemeName.ACTIVE, FailureKind.NODE]
    if found is None:
        return None
    took = found.predict(0.0, 0.0)
    return Range(
        expected_s=job.detection_s + took,
        low_s=job.detection_s + took / found.off_by,
        high_s=job.detection_s + took * found.off_by,
    )


def _apart(job: Job) -> list[str]:
    if job.racks > 1:
        return []
    return ["with one rack, whatever takes the rack takes the replicas too"]


def _ppa(
    job: Job, fits: Fits, interval_s: float, utilization: float, fidelity: float, share: float
) -> Option:
    complete = _checkpoint(job, fits, interval_s, utilization)
    takeover = _takeover(job, fits)
    return Option(
        scheme=SchemeName.PPA,
        recovery=complete.recovery,
        recovery_all=complete.recovery_all,
        first_output_s=takeover.expected_s if takeover and fidelity > 0 else None,
        output_fidelity=fidelity,
        extra_tasks=share,
        utilization=utilization,
        interval_s=interval_s,
        notes=[
            "tentative output until recovery is complete; exact output as with checkpoints",
            *_apart(job),
        ],
    )


def _active(job: Job, fits: Fits, utilization: float) -> Option:
    takeover = _takeover(job, fits)
    return Option(
        scheme=SchemeName.ACTIVE,
        recovery=takeover,
        recovery_all=takeover if job.racks > 1 else None,
        unknown="replicas fail, too" if takeover else "no runs",
        first_output_s=takeover.expected_s if takeover else None,
        output_fidelity=1.0,
        extra_tasks=1.0,
        utilization=utilization,
        notes=["every tuple is processed twice", *_apart(job)],
    )


def _choice(options: Sequence[Option], target_s: float | None) -> Option | None:
    """Return the option with the most useful work per task whose recovery ends in time.

    Nine of ten recoveries must. PPA counts only through its exact output; the value of some output
    sooner is for the user to judge."""
    in_time = [
        option
        for option in options
        if target_s is not None and option.recovery and option.recovery.high_s <= target_s
    ]
    return max(in_time, key=lambda option: option.work_per_task, default=None)


def _placement(job: Job) -> list[str]:
    if job.racks == 1:
        return ["one rack: spread tasks over its nodes; nothing survives the rack"]
    return [
        f"put each replica, and each task's checkpoints, in another of the {job.racks} racks than "
        "its task",
        "spread the tasks of one operator over all racks, so that a rack takes "
        f"1/{job.racks} of each",
    ]


def _nearest(job: Job, interval_s: float, fits: Fits) -> pd.DataFrame:
    """Return, for each scheme, the runs whose work is nearest to the job's."""
    wanted = {
        SchemeName.CHECKPOINT: _again_s(job, interval_s / 2) + job.transfer_s,
        SchemeName.REPLAY: _again_s(job, (job.window_s or 0.0) * (job.depth + 1) / 2),
        SchemeName.ACTIVE: 0.0,
    }
    parts = []
    for (scheme, failure), found in fits.items():
        if found is None or failure is not FailureKind.NODE:
            continue
        work = found.runs["process_s"] + found.runs["load_s"]
        distance = (work - wanted[scheme]).abs()
        parts.append(found.runs.loc[distance.nsmallest(NEAREST).index])
    columns = ["experiment", "point", "origin", "scheme", "recovery_s", "predicted_s", "off"]
    if not parts:
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)[columns]


def _sources(rows: pd.DataFrame) -> list[str]:
    found = [
        "interval and utilization: Jayasekara, Harwood, Karunasekera, FGCS 2020 (T*, equation 4)",
        "plan and output fidelity: Su and Zhou, ICDE 2016 and TKDE 2019, structure-aware planner",
    ]
    if len(rows):
        origins = ", ".join(sorted(set(rows["origin"])))
        found.append(
            f"recovery: a formula fitted to {int(rows['runs'].sum())} {origins} runs of "
            f"{' and '.join(sorted(set(rows['experiment'])))}"
        )
    else:
        found.append("recovery: nothing to fit a formula to; run ppa/recovery-single first")
    return found
