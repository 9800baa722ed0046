"""Advice for a job: every scheme with its interval, cost and outage, and their sources.

The interval is T* of the utilization model (intervals), or a shorter one where results wait for it
and have to come in time, or where an outage has to end in time. The outage under checkpoints is a
sum of parts (`harness.advice.sums`), judged on kills that it was not fitted to
(`harness.advice.judged`). Source replay, and the takeover of a replica, are formulas fitted to
simulated runs of the papers' recovery topology (`harness.advice.evidence`): the sum has nothing to
say about them. PPA's plan is the structure-aware planner's (ppa ICDE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from harness.advice import options
from harness.advice.capacity import Needed, needed
from harness.advice.evidence import FailureKind, SchemeName, evidence, fit
from harness.advice.job import Job
from harness.advice.judged import Judged, judge, published_error
from harness.advice.live import kills_of
from harness.advice.options import SIMULATED
from harness.advice.options import Option as Option
from harness.advice.sums import Known, known
from harness.intervals.observed import Observation
from harness.intervals.recovery import REPLAY, Span
from harness.intervals.systems import System, system_named
from harness.intervals.utilization import CheckpointedSystem
from harness.planning.base import budget_of
from harness.planning.structure_aware import StructureAware
from harness.results.library import Library
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that is known for a job."""

    job: Job
    system: System
    known: Known
    assumed: Sequence[str]
    options: Sequence[Option]
    frontier: Sequence[Option]
    """Checkpoints at several intervals, from short to long."""
    best_interval_s: float
    """T*."""
    now: Option | None
    """Checkpoints at the interval that the job has; None if it was not given."""
    chosen: Option | None
    """The option with the most useful work per task that meets the target; None without a target,
    or if none does."""
    target_s: float | None
    needed: Needed | None
    """The capacity for an outage within the target; None without one, and where the capacity is
    known."""
    placement: Sequence[str]
    plan: Sequence[str]
    """The tasks that PPA replicates."""
    judged: Judged | None
    """The live kills of the system, each predicted without its run; None without any."""
    off_by: Mapping[str, float]
    """Simulated scheme and failure to the largest error, as a factor, on nine of ten unseen runs.
    """
    sources: Sequence[str]

    @property
    def choice(self) -> SchemeName | None:
        """The scheme of the chosen option."""
        return self.chosen.scheme if self.chosen else None

    @property
    def best(self) -> Option:
        """Checkpoints at T*, or at the longest interval with the wanted latency."""
        return next(o for o in self.options if o.scheme is SchemeName.CHECKPOINT)

    @property
    def for_latency(self) -> bool:
        """True if the wanted latency, and not T*, decides the interval."""
        return self.best.interval_s != self.best_interval_s

    @property
    def at_best(self) -> Option:
        """Checkpoints at T*."""
        return next(o for o in self.frontier if o.interval_s == self.best_interval_s)

    @property
    def live(self) -> pd.DataFrame:
        """Every outage of the system that was measured on real servers, with its prediction."""
        return self.judged.kills if self.judged else pd.DataFrame()

    @property
    def off_by_live(self) -> float | None:
        """The largest error, as a factor, on an unseen kill on real servers; None without any."""
        if self.judged is None or not len(found := self.judged.predicted):
            return None
        off = (found["predicted_s"] / found["outage_s"]).to_numpy(dtype=float)
        return float(np.exp(np.abs(np.log(off[found["over"] | (off < 1.0)])).max(initial=0.0)))

    @property
    def accuracy(self) -> Sequence[str]:
        """Return sentences about the error of its outages, where they could be checked."""
        lines = []
        if self.judged is not None and (error := self.judged.error) is not None:
            least = "" if error.known else "at least "
            ends = f", of which {error.not_over} had not ended" if error.not_over else ""
            lines.append(
                f"on {error.n} kills of {self.system.key} on real servers{ends}, each predicted "
                f"from the other runs, the sum is off by {least}{error.shown:.0%} at the median"
            )
        else:
            there = len(self.live)
            lines.append(
                f"{there or 'no'} kill{'' if there == 1 else 's'} of {self.system.key} on real "
                f"servers in these records{', too few to judge the sum by' if there else ''}"
            )
        lines.append(published_error())
        if self.off_by:
            lines.append(
                f"{' and '.join(SIMULATED)}: a formula fitted to simulated runs, off by a factor "
                f"of up to {max(self.off_by.values()):.2f} on nine of ten others"
            )
        return lines

    def table(self) -> pd.DataFrame:
        """Return the options, a row for each; seconds count from the failure on."""
        return pd.DataFrame(
            [
                {
                    "scheme": option.label,
                    "interval_s": option.interval_s,
                    "utilization": option.utilization,
                    "replicas": option.extra_tasks,
                    **_columns("outage", option.outage),
                    **_columns("outage_all", option.outage_all),
                    "first_output_s": option.first_output_s,
                    "output_fidelity": option.output_fidelity,
                }
                for option in self.options
            ]
        ).set_index("scheme")

    def document(self) -> dict[str, Any]:
        """Return the document of ``--json``."""
        inside = ("known", "judged", "chosen")
        own = {n.name: getattr(self, n.name) for n in fields(self) if n.name not in inside}
        return {
            **own,
            "choice": self.choice,
            "choice_interval_s": self.chosen.interval_s if self.chosen else None,
            "capacity_per_s": self.known.capacity_per_s,
            "capacity_why": self.known.capacity_why,
            "observed": self.known.fitted,
            "latency_s": self.job.latency_s if self.job.waits else None,
            "checkpoint_s": self.job.checkpoint_s,
            "accuracy": self.accuracy,
            "live": self.live.to_dict("records"),
            "off_by_live": self.off_by_live,
            "median_error_live": self.judged.median_error if self.judged else None,
        }


def _columns(name: str, span: Span | None) -> dict[str, float | None]:
    return {
        f"{name}_s": span.mean_s if span else None,
        f"{name}_low_s": span.best_s if span else None,
        f"{name}_high_s": span.worst_s if span else None,
    }


def advise(
    job: Job,
    results: Library,
    *,
    target_s: float | None = None,
    assumed: Sequence[str] = (),
    topology: Topology | None = None,
    observed: Sequence[Observation] = (),
) -> Advice:
    """Judge every scheme for ``job``, with what settings, ``results`` and observations tell.

    ``topology`` is the job's own; without it, ``depth`` operators in a row, fully connected, with
    a task per node. ``assumed`` names the job's values that the user did not give; ``observed``
    are the user's own outages."""
    kills = kills_of(results, job.system).frame
    facts = known(job, kills, observed)
    rows = evidence(results)
    fits = {
        (scheme, failure): fit(rows, scheme, failure)
        for scheme in SIMULATED
        for failure in FailureKind
    }
    system = _checkpointed(job, facts)
    interval_s = float(system.optimal_interval_s())
    topology = topology or chain(job)
    plan = StructureAware().plan(topology, budget_of(topology, job.budget))
    names = [f"{operator}[{index}]" for operator, index in map(topology.place, plan.tasks)]
    interval_s = max(interval_s, system_named(job.system).least_interval_s)
    at_best = options.checkpoint(job, facts, system, interval_s)
    usual_s = min(options.for_latency_s(job, facts), interval_s)
    usual = options.checkpoint(job, facts, system, usual_s)
    sooner = options.shortened(job, facts, system, usual, target_s)
    share = plan.cost / topology.total_cost
    now = None
    if job.interval_s is not None:
        now = options.checkpoint(job, facts, system, job.interval_s)
    schemes = [
        options.replay(job, facts, fits),
        usual,
        *([sooner] if sooner else []),
        options.ppa(job, facts, fits, usual, plan.value, share),
        options.active(job, facts, fits, usual),
    ]
    return Advice(
        job=job,
        system=system_named(job.system),
        known=facts,
        assumed=assumed,
        options=schemes,
        frontier=options.frontier(
            job, facts, system, [each for each in (at_best, usual, sooner, now) if each]
        ),
        best_interval_s=interval_s,
        now=now,
        chosen=options.choice(schemes, target_s),
        target_s=target_s,
        needed=needed(job, facts, job.interval_s or usual_s, target_s),
        placement=_placement(job),
        plan=names,
        judged=judge(kills).get(job.system),
        off_by={
            f"{scheme}, {failure}": found.off_by
            for (scheme, failure), found in fits.items()
            if found is not None
        },
        sources=_sources(system_named(job.system), rows),
    )


def _checkpointed(job: Job, facts: Known) -> CheckpointedSystem:
    """Return the utilization model of the job; its restart is the downtime."""
    outage = facts.outage(job, 0.0)
    return CheckpointedSystem(
        cost_s=job.checkpoint_s,
        failure_rate_per_s=job.failure_rate_per_s,
        restart_s=outage.total.mean_s - outage.part(REPLAY).mean_s,
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


def _placement(job: Job) -> list[str]:
    if job.racks == 1:
        return ["one rack: spread tasks over its nodes; nothing survives the rack"]
    return [
        f"put each replica, and each task's checkpoints, in another of the {job.racks} racks than "
        "its task",
        "spread the tasks of one operator over all racks, so that a rack takes "
        f"1/{job.racks} of each",
    ]


def _sources(system: System, rows: pd.DataFrame) -> list[str]:
    found = [
        "interval and utilization: Jayasekara, Harwood, Karunasekera, FGCS 2020 (T*, equation 4)",
        *(f"{each.name} = {each.value}: {each.source}" for each in system.settings),
        "plan and output fidelity: Su and Zhou, ICDE 2016 and TKDE 2019, structure-aware planner",
    ]
    if len(rows):
        runs = int(rows.loc[rows["scheme"].isin(SIMULATED), "runs"].sum())
        found.append(
            f"{' and '.join(SIMULATED)}: {runs} simulated runs of "
            f"{' and '.join(sorted(set(rows['experiment'])))}"
        )
    return found
