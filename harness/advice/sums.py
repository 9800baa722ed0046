"""The outage of a job as a sum, with the best source that there is for each part.

The start of a task, and the capacity, come from the user's own outages, else from live kills of
the system in the records, else they are assumed. What the user gives goes before everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from harness.advice.job import ASSUMED, Job
from harness.advice.judged import FEWEST_KILLS, observations
from harness.intervals.observed import Fitted, Observation, fit_observed
from harness.intervals.recovery import (
    DETECT,
    NOTHING,
    RESTART,
    RESTORE,
    TRANSACTION,
    Origin,
    Part,
    Recovery,
    exactly,
    recovery_of,
)
from harness.intervals.systems import START, Failure, System, system_named
from harness.text import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts about a job's outages that hold for every interval."""

    detect: Part
    restart: Sequence[Part]
    restore: Part
    transaction: Part | None
    """When the lost tasks' transactions are settled, from the failure on."""
    capacity_per_s: float
    capacity_why: str
    fitted: Fitted | None
    """What the user's own outages say; None without any."""
    notes: Sequence[str] = ()

    capacity_assumed: bool = False
    """True if neither the user nor an outage of the user's gives the capacity."""

    def outage(self, job: Job, interval_s: float) -> Recovery:
        """Return the sum for checkpoints so far apart."""
        load = job.load(interval_s, self.capacity_per_s)
        return recovery_of(self.detect, self.restart, self.restore, load, self.transaction)


def known(job: Job, kills: pd.DataFrame, observed: Sequence[Observation]) -> Known:
    """Return what settings, ``kills`` of `harness.advice.live` and observations say of a job."""
    system = system_named(job.system)
    plain = Known(
        detect=_given(DETECT, job.detection_s, "--detection")
        or Part(
            name=DETECT,
            span=system.detect[job.failure],
            origin=Origin.SETTING,
            why=system.why[job.failure],
        ),
        restart=[],
        restore=_given(RESTORE, job.restore_s, "--restore")
        or Part(
            name=RESTORE,
            span=exactly(job.transfer_s),
            origin=Origin.COMPUTED,
            why=f"a node's state, {job.task_state_bytes / 1e6:,.4g} MB, from the store",
        ),
        transaction=_transaction(job, system),
        capacity_per_s=job.most_per_s,
        capacity_why=_capacity_why(job),
        fitted=None,
        capacity_assumed=job.capacity_per_s is None or job.twice_the_rate,
    )
    if observed:
        return _observed(job, system, plain, observed)
    return replace(plain, restart=_restart(job, system, kills[kills["system"] == job.system]))


def _given(name: str, seconds: float | None, option: str) -> Part | None:
    if seconds is None:
        return None
    return Part(name=name, span=exactly(seconds), origin=Origin.GIVEN, why=option)


def _restart(job: Job, system: System, kills: pd.DataFrame) -> list[Part]:
    """Return the waits that settings impose, and the start of a task."""
    if given := _given(RESTART, job.restart_s, "--restart"):
        return [given]
    wait = Part(name=RESTART, span=system.wait, origin=Origin.SETTING, why=system.wait_why)
    waits = [] if system.wait == NOTHING else [wait]
    felt = observations(kills)
    if len(felt) < FEWEST_KILLS:
        why = "until a task runs (--restart)"
        return [*waits, Part(name=RESTART, span=START, origin=Origin.ASSUMED, why=why)]
    fitted = fit_observed(felt, rate_per_s=1.0)
    settings_s = system.detect[Failure.PROCESS].mean_s + system.wait.mean_s
    never = sum(not each.over for each in felt)
    ends = f", {never} of them not over" if never else ""
    start = Part(
        name=RESTART,
        span=fitted.downtimes.less(settings_s),
        origin=Origin.LIVE,
        why=f"{len(felt)} kills in the records{ends}, less what settings explain",
    )
    return [*waits, start]


def _transaction(job: Job, system: System) -> Part | None:
    given = _given(TRANSACTION, job.transaction_s, "--transaction")
    if given or not job.exactly_once or system.settled is None:
        return given
    return Part(
        name=TRANSACTION, span=system.settled, origin=Origin.SETTING, why=system.settled_why
    )


def _capacity_why(job: Job) -> str:
    if job.twice_the_rate:
        return "assumed: twice the rate"
    if job.capacity_per_s is not None:
        return "--capacity"
    assumed = job.speed_per_s == ASSUMED["speed_per_s"]
    speed = "assumed: give --capacity" if assumed else "--speed"
    return f"{job.nodes} nodes of {job.speed_per_s:,.6g} tuples/s each, {speed}"


def _observed(job: Job, system: System, plain: Known, observed: Sequence[Observation]) -> Known:
    """Return what is known with the restart, and the capacity, that the observations show."""
    given = None if plain.capacity_assumed else job.capacity_per_s
    fitted = fit_observed(observed, rate_per_s=job.rate_per_s, capacity_per_s=given)
    capacity = fitted.capacity_per_s
    why = "your outages" if plain.capacity_assumed else plain.capacity_why
    if capacity is None:
        capacity, why = plain.capacity_per_s, plain.capacity_why
        fitted = fit_observed(observed, rate_per_s=job.rate_per_s, capacity_per_s=capacity)
        fitted = replace(fitted, capacity_per_s=None)
    before = plain.outage(job, 0.0)
    explained = [before.part(name) for name in (DETECT, RESTORE, TRANSACTION)]
    count = f"{len(observed)} of your outages"
    seen = f"a downtime of {fitted.downtimes.describe()}"
    start = Part(
        name=RESTART,
        span=fitted.downtimes.less(sum(each.mean_s for each in explained)),
        origin=Origin.OWN,
        why=f"{count}: {seen}, less the other parts",
    )
    found = replace(
        plain, restart=[start], capacity_per_s=capacity, capacity_why=why, fitted=fitted,
        capacity_assumed=plain.capacity_assumed and fitted.capacity_per_s is None,
    )  # fmt: skip
    least_s = sum(each.best_s for each in explained)
    if fitted.downtimes.best_s >= least_s:
        return found
    # The settings cannot be the defaults: the whole downtime is what was seen.
    return replace(
        found,
        detect=replace(start, name=DETECT, span=fitted.downtimes, why=f"{count}: the downtime"),
        restart=[],
        restore=replace(plain.restore, span=NOTHING, origin=Origin.OWN, why="in the downtime"),
        transaction=None,
        notes=[
            f"a downtime of yours, {format_duration(fitted.downtimes.best_s)}, is shorter than the "
            f"defaults of {system.title} explain, {format_duration(least_s)} at least: give "
            "--detection and --storage as they are, and the sum is split"
        ],
    )
