"""Reasons for which the numbers of a run are worth nothing, as sentences for its record.

A run is invalid if its output cannot be compared, or if an event that was planned was not done, or
hit nothing.

A run is also invalid, and made again, if one of its passes was not on time, whatever it measures:
* more than 1 % of the records were sent more than 0.1 s late (`harness.load.lag`),
* the wall clock moved by more than `CLOCK_JUMP_S` against the monotonic one, or
* the first signal of a kill came later than `punctual_s` allows.

All other lateness counts: latencies start at the intended time. A clock that is known too badly
(`harness.judging.clocks`) makes the times null, and no run invalid. The smoke profile alone, which
decides nothing but equality, keeps a run with a late pass; its times are null."""

from __future__ import annotations

import pandas as pd

from harness.cluster.base import Action
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import ENDS, Schedule
from harness.judging.passes import PassRecord
from workloads.base import Workload

CLOCK_JUMP_S = 0.1
"""Largest difference that may arise between wall and monotonic clock during a pass. A clock that is
only slewed moves by at most 0.5 ms a second."""

PUNCTUAL_SHARE, PUNCTUAL_LEAST_S = 0.05, 0.02
"""Permitted lateness of a kill, as a share of the checkpoint interval, and at least: the phase
between two checkpoints decides what is lost. Fixed on 2026-11-23."""


def punctual_s(checkpoint_s: float) -> float:
    """Return the permitted lateness of a kill under this checkpoint interval."""
    return max(PUNCTUAL_LEAST_S, PUNCTUAL_SHARE * checkpoint_s)


def unpunctual(failed: PassRecord, limit_s: float) -> str | None:
    """Return the latest kill, if its first signal came later than the limit."""
    kills = [one for one in failed.injected if one.event.action is Action.KILL and one.felt]
    latest = max(kills, key=lambda one: one.lateness_s, default=None)
    if latest is None or latest.lateness_s <= limit_s:
        return None
    return (
        f"{failed.name}: the kill came {latest.lateness_s:.3f} s late, of {latest.event.target} at "
        f"{latest.event.at_s:g} s, and at most {limit_s:.3g} s are allowed: the machine is too busy"
    )


def late_pass(record: PassRecord, checkpoint_s: float, *, timed: bool) -> str | None:
    """Return why a pass without a twin lacks an event, or with ``timed`` why it was not on time.

    The rule is the judge's: its load, and its kills by the checkpoint interval."""
    return late_by(record, punctual_s(checkpoint_s), timed=timed)


def late_by(record: PassRecord, limit_s: float, *, timed: bool) -> str | None:
    """Return the same where kills may be late by ``limit_s``, whatever is checkpointed."""
    late = mistimed(record) or unpunctual(record, limit_s)
    return undone(record) or (late if timed else None)


def incomparable(
    twin: PassRecord, failed: PassRecord, truth: pd.DataFrame, workload: Workload
) -> str | None:
    """Return the reason why the output cannot be compared."""
    if not len(truth):
        return (
            "the batch query over the same input has no result, so there is nothing to compare: "
            "the load was too short, or nothing the query looks for is in it"
        )
    if dropped(twin) and not workload.late_data:
        return (
            f"{twin.name}: the watermark dropped {dropped(twin)} rows without a failure, so the "
            "query answered another question than the batch"
        )
    if not twin.drained:
        why = f": {twin.undelivered}" if twin.undelivered else ""
        return f"{twin.name}: the engine did not deliver everything in time without a failure{why}"
    for record in (twin, failed):
        sent, expected = record.load.records, record.plan.records
        if sent != expected:
            return f"{record.name}: {sent} of {expected} records were sent"
    return None


def undone(failed: PassRecord) -> str | None:
    """Return the first event that was tried and could not be done."""
    for one in failed.injected:
        if one.error is not None:
            return f"{_event(failed, one)} could not be done: {one.error}"
    return None


def missed(failed: PassRecord, schedule: Schedule) -> str | None:
    """Return the first planned event that was not done, or the failure that hit nothing.

    A second failure of what the schedule itself took away is part of the first one."""
    if why := undone(failed):
        return why
    away: set[str] = set()
    for one in failed.injected:
        reached = [victim.node for victim in one.victims if victim.reached]
        if one.event.action not in ENDS:
            away.difference_update(reached)
        elif one.felt:
            away.update(reached)
        elif reached or one.event.target not in away:
            return f"{_event(failed, one)} hit " + (
                f"{', '.join(reached)}, where nothing of the engine ran then"
                if reached
                else "nothing: no node of its target was there to be hit"
            )
    planned, tried = len(schedule.events), len(failed.injected)
    if tried < planned:
        return f"{failed.name}: the pass ended after {tried} of the {planned} planned events"
    return None


def _event(failed: PassRecord, one: InjectedFailure) -> str:
    event = one.event
    return f"{failed.name}: the {event.action.value} of {event.target} at {event.at_s:g} s"


def mistimed(*passes: PassRecord) -> str | None:
    """Return the first pass whose load or clock was not on time, and why."""
    for record in passes:
        if record.load.invalid is not None:
            return f"{record.name}: {record.load.invalid}"
        if record.clock_jump_s is not None and abs(record.clock_jump_s) > CLOCK_JUMP_S:
            return (
                f"{record.name}: the wall clock jumped by {record.clock_jump_s:.3f} s during the "
                "pass, and every latency rests on it"
            )
    return None


def unclear(*passes: PassRecord) -> str | None:
    """Return the first pass with a clock that is known too badly for times, and whose it is.

    Such a run keeps its output: only its times are worth nothing."""
    for record in passes:
        if record.unclear_clock is not None:
            return f"{record.name}: {record.unclear_clock}"
    return None


def dropped(record: PassRecord) -> int:
    """Return the number of rows that came too late to count, as the engine reports."""
    return int(record.batches["dropped_rows"].sum()) if len(record.batches) else 0
