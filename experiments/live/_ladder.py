"""One engine on a ladder of rates, from one that it holds up to those that saturate it.

A rung is a pass at one rate over seconds that count (`SETTLE_S` to its end), ten batches or more.
An engine holds a rate if the load was on time, every result was delivered, and the latency is
shorter than half of these seconds and does not grow from one half to the other. One that holds a
rate holds every lower one: what failed there was noise. So a ladder ends after two rates in a row
that are not held, and the lower one saturates the engine: there all records count, until the last
one is processed. A rung with a late load, with rows that came too late to count, or with batches
that are still becoming shorter, is made once more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pandas as pd

from experiments.live._cpu import BROKER, REDIS, CpuWatch, cpu_s, servers_cpu_s
from harness.experiment import Outcome, Profile
from harness.judging.climb import Climb

if TYPE_CHECKING:
    from harness.engines.base import Engine
    from harness.judging.passes import PassPlan, PassRecord
    from harness.judging.runner import Runner
    from workloads.base import Workload

SETTLE_S = 4.0
"""Time from the begin of the load until windows are full and the first ones have ended."""
WARM_S = {Profile.SMOKE: (2.0, 2.0), Profile.QUICK: (60.0, 120.0), Profile.PAPER: (90.0, 300.0)}
"""Least and most warm-up of the stock engine, for each workload on an application. It ends when the
time of a batch no longer falls (`Runner.warm_up`). The task engine's is `OURS_WARM_S`: it compiles
nothing."""
OURS_WARM_S = 6.0
UPDATES_WARM_S = 30.0
"""Warm-up of real-time mode, whose batches all last for a checkpoint interval."""
UPDATES_BATCH_S = 1.0
"""Time of a batch by which a rung of real-time mode lasts: two checkpoints or more are in it."""
WARM_RUNG = 1
"""The rung whose rate warms it up: at the lowest one, code runs too seldom to be compiled."""
LEAST_S = {Profile.SMOKE: 2.0, Profile.QUICK: 6.0, Profile.PAPER: 15.0}
"""Least number of seconds that count."""
BATCHED_S = 20.0
"""The same for the stock engine in micro-batches: a processor that others share is slower for
seconds, and a batch takes as much longer."""
BATCHES, MARGIN = 10, 1.2
"""Least number of batches in the seconds that count, and a margin for longer ones."""
MOST_RECORDS = 2_000_000
"""Most records of a rung: all of them are read again for the ground truth."""
KEPT_S, KEPT_BATCHES, STEADY_SHARE = 0.3, 0.5, 0.25
"""A latency is steady if the medians of both halves differ by at most this time, or this share of a
batch; the time of a batch, if they differ by at most the last share. Fixed on 2026-11-23."""
KEPT_GROWTH = 0.1
"""Or by this many seconds per second between the halves: an engine that falls behind faster does
less than nine tenths of the rate. Fixed on 2026-11-26."""
SERVERS = (BROKER, REDIS)
_WARMED: WeakKeyDictionary[Engine, dict[str, float]] = WeakKeyDictionary()
"""By running engine, the workloads that it is warm for, with the time of a batch."""


class Course(StrEnum):
    """The course of a value from the first half of a rung to the second."""

    STEADY = "steady"
    RISING = "rising"
    FALLING = "falling"


def course_of(
    early: float | None, late: float | None, *, within: float | None = None
) -> Course | None:
    """Return the course between two medians, None without both; by default by `STEADY_SHARE`."""
    if early is None or late is None:
        return None
    tolerance = STEADY_SHARE * early if within is None else within
    if late > early + tolerance:
        return Course.RISING
    return Course.FALLING if late < early - tolerance else Course.STEADY


def halves_apart_s(load_s: float) -> float:
    """Return the time from the middle of one half to that of the other."""
    return (load_s - SETTLE_S) / 2


def kept_s(batch_s: float | None, apart_s: float) -> float:
    """Return the difference within which the latencies of halves so far apart are steady."""
    return max(KEPT_S, KEPT_BATCHES * (batch_s or 0.0), KEPT_GROWTH * apart_s)


def why_not_held(rung: Mapping[str, Any]) -> str | None:
    """Return the reason why an engine does not hold a rate, None if it does."""
    if rung["load_late"] is not None:
        return f"the load was late: {rung['load_late']}"
    if rung["dropped"]:
        return "its watermark dropped rows, so it answered another question"
    if not rung["drained"]:
        return "it did not deliver everything in time"
    if rung["latency_course"] is None:
        return "no result came in one half of the run"
    if rung["latency_course"] == Course.RISING:
        return "its latency grows during the run"
    if rung["latency_p50_s"] > halves_apart_s(rung["load_s"]):
        return "a result takes longer than half of the run, in which growth would not show"
    return None


def climb(
    rates: Sequence[float], measure: Callable[[float], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rungs up to the second one in a row that is not held."""

    def attempt(rate: float) -> dict[str, Any]:
        rung = measure(rate)
        spoilt = rung["load_late"] is not None or bool(rung["dropped"])
        falling = Course.FALLING in (rung["latency_course"], rung["batch_course"])
        return {**rung, "why_not": why_not_held(rung), "settled": not spoilt and not falling}

    def in_doubt(rung: dict[str, Any]) -> bool:
        failing = bool(ladder.steps) and not ladder.steps[-1].held
        return not rung["settled"] and not failing

    ladder = Climb(attempt, lambda rung: rung["why_not"] is None, in_doubt=in_doubt)
    ladder.until_missed(rates, in_a_row=2)
    last = max((place for place, step in enumerate(ladder.steps) if step.held), default=-1)
    return [
        {**step.last, "tries": len(step.tries), "held": place <= last}
        for place, step in enumerate(ladder.steps)
    ]


def measure_ladder(
    runner: Runner,
    *,
    workload: Workload,
    rates: Sequence[float],
    interval_s: float,
    stock: bool,
    real_time: bool = False,
) -> Outcome:
    """Warm the engine up, and measure it at these rates until they saturate it.

    ``stock``: its batches are no shorter than they take; ``real_time``: it revises its results."""
    batched = stock and not real_time
    passes = _Rungs(runner, workload, interval_s)
    first = rates[: WARM_RUNG + 1][-1]
    if real_time:
        passes.warm_up_briefly(first, UPDATES_WARM_S)
        batch_s = UPDATES_BATCH_S
    else:
        batch_s = passes.warm_up(first) if stock else passes.warm_up_briefly(first, OURS_WARM_S)

    def measure(rate_per_s: float) -> dict[str, Any]:
        nonlocal batch_s
        seconds = counted_s(runner.context.profile, rate_per_s, batch_s, batched=batched)
        rung = passes.rung(rate_per_s, seconds)
        if batched and rung["batch_s"] is not None:
            batch_s = 2 * rung["batch_s"]  # the next rate is twice as high
        return rung

    frame = pd.DataFrame(climb(rates, measure))
    held = frame[frame["held"].astype(bool)]
    saturated = frame[~frame["held"].astype(bool)]
    return Outcome(
        values={
            "rungs": len(frame),
            "held_per_s": float(held["rate_per_s"].max()) if len(held) else None,
            "done_per_s": float(saturated["done_per_s"].max()) if len(saturated) else None,
            "wrong_results": int(frame["wrong"].max()) if frame["wrong"].notna().all() else None,
        },
        series={"ladder": frame},
    )


def counted_s(
    profile: Profile, rate_per_s: float, batch_s: float, *, batched: bool = False
) -> float:
    """Return the number of seconds that count: ten batches, within the limit of records."""
    least_s = LEAST_S[profile]
    if profile is Profile.SMOKE:
        return least_s
    most_s = max(least_s, MOST_RECORDS / rate_per_s - SETTLE_S)
    wanted_s = max(BATCHED_S if batched else least_s, MARGIN * BATCHES * batch_s)
    return min(max(least_s, wanted_s), most_s)


class _Rungs:
    """Rates of one engine over one workload."""

    def __init__(self, runner: Runner, workload: Workload, interval_s: float) -> None:
        self._runner, self._workload, self._interval_s = runner, workload, interval_s

    def warm_up(self, rate_per_s: float) -> float:
        """Send load until batches no longer become shorter; return the time of one."""
        from harness.judging.passes import WARM_UP

        warmed = _WARMED.setdefault(self._runner.engine, {})
        if self._workload.name in warmed:
            return warmed[self._workload.name]
        least_s, most_s = WARM_S[self._runner.context.profile]
        batch_s = self._runner.warm_up(
            lambda seconds: self._plan(WARM_UP, rate_per_s, seconds), least_s / 2, most_s
        )
        warmed[self._workload.name] = batch_s or self._interval_s
        return warmed[self._workload.name]

    def warm_up_briefly(self, rate_per_s: float, seconds: float) -> float:
        """Send load for these seconds, or less in smoke; return the interval of batches."""
        from harness.judging.passes import WARM_UP

        warmed = _WARMED.setdefault(self._runner.engine, {})
        if self._workload.name not in warmed:
            seconds = min(seconds, WARM_S[self._runner.context.profile][0])
            self._runner.run(self._plan(WARM_UP, rate_per_s, seconds))
            warmed[self._workload.name] = self._interval_s
        return self._interval_s

    def _plan(self, name: str, rate_per_s: float, seconds: float) -> PassPlan:
        from harness.judging.runner import steady_plan

        return steady_plan(name, self._workload, rate_per_s, seconds, self._interval_s)

    def rung(self, rate_per_s: float, seconds: float) -> dict[str, Any]:
        """Make one pass at a rate, and compare its results with the ground truth."""
        from harness.measure.versions import revises

        cluster, engine = self._runner.cluster, self._runner.engine
        watch = CpuWatch(lambda: {**cpu_s(cluster, engine), **servers_cpu_s(cluster)})
        plan = self._plan("rung", rate_per_s, SETTLE_S + seconds)
        made = self._runner.run(plan, truth=True, watch=watch)
        record, wrong = made.settled, made.wrong(made.record.until_s)
        revised = revises(made.record.deliveries)
        found = rung_of(record, self._workload, watch, rate_per_s, revised=revised)
        judged = record.drained and not found["dropped"]
        counted = sum(wrong.values()) if judged else None
        return {**found, **wrong, "wrong": counted, "results": len(record.deliveries)}


def rung_of(
    record: PassRecord,
    workload: Workload,
    watch: CpuWatch,
    rate_per_s: float,
    *,
    revised: bool = False,
) -> dict[str, Any]:
    """Return the numbers of one pass, without those of its results' values.

    ``revised``: its deliveries are settled revisions."""
    from harness.judging.trust import dropped, mistimed

    latency_s = (final_latency_s if revised else latency_from_end_s)(record, workload)
    ended_s = record.deliveries["window_start_s"].reindex(latency_s.index) + workload.window_s
    early = ended_s < SETTLE_S + (record.until_s - SETTLE_S) / 2
    early_s, late_s = _median(latency_s[early]), _median(latency_s[~early])
    batch_early_s, batch_late_s = batch_halves_s(record, from_s=SETTLE_S)
    times = _batch_times_s(record, SETTLE_S)
    batch_s = _median(times["duration_s"]) if len(times) else None
    within_s = kept_s(batch_s, halves_apart_s(record.until_s))
    found = {
        "rate_per_s": rate_per_s,
        "load_s": record.until_s,
        "latency_p50_s": _median(latency_s),
        "latency_p99_s": float(latency_s.quantile(0.99)) if len(latency_s) else None,
        "latency_early_s": early_s,
        "latency_late_s": late_s,
        "latency_course": course_of(early_s, late_s, within=within_s),
        "batches": len(times),
        "batch_s": batch_s,
        "batch_early_s": batch_early_s,
        "batch_late_s": batch_late_s,
        "batch_course": course_of(batch_early_s, batch_late_s),
        "drained": record.drained,
        "dropped": dropped(record),
        "load_late": mistimed(record),
        **{name: record.conditions.get(name) for name in ("foreign_share", "steal_share")},
    }
    return {**found, **cost_of(record, watch, rate_per_s, held=why_not_held(found) is None)}


def cost_of(
    record: PassRecord, watch: CpuWatch, rate_per_s: float, *, held: bool
) -> dict[str, Any]:
    """Return the CPU of a record: of the seconds that count, or of all where a rate saturates."""
    began = record.start_unix_s
    last_s = max([record.until_s, *record.deliveries["arrival_s"].tail(1)])
    if held:
        records = rate_per_s * (record.until_s - SETTLE_S)
        used = watch.between(began + SETTLE_S, began + record.until_s)
    else:
        records = float(record.load.records)
        used = watch.between(began, began + last_s)
    own = sum(seconds for name, seconds in used.items() if name not in SERVERS)
    whole = sum(used.values()) if BROKER in used else None
    return {
        "records": records,
        "done_per_s": record.load.records / last_s,
        "cpu_s": own,
        "records_per_core_s": records / own if own else None,
        "all_records_per_core_s": records / whole if whole else None,
        **{f"cpu_us_{name}": seconds / records * 1e6 for name, seconds in used.items()},
    }


def _batch_times_s(record: PassRecord, from_s: float) -> pd.DataFrame:
    """Return the batches with records that ended in the seconds that count."""
    batches = record.batches
    if "duration_s" not in batches.columns:
        return batches.iloc[:0]
    within = batches["at_s"].between(from_s, record.until_s) & (batches["rows"] > 0)
    return batches[within]


def batch_halves_s(record: PassRecord, *, from_s: float) -> tuple[float | None, float | None]:
    """Return the median time of a batch in either half; None where an engine reports none."""
    times = _batch_times_s(record, from_s)
    if not len(times):
        return None, None
    early = times["at_s"] < from_s + (record.until_s - from_s) / 2
    return _median(times["duration_s"][early]), _median(times["duration_s"][~early])


def latency_from_end_s(record: PassRecord, workload: Workload) -> pd.Series[float]:
    """Return arrival minus the end of the result's window, from `SETTLE_S` on: a user's wait."""
    found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S - workload.window_s]
    ended = found["window_start_s"] + workload.window_s <= record.until_s
    return (found["arrival_s"] - found["window_start_s"] - workload.window_s)[ended]


def final_latency_s(record: PassRecord, workload: Workload) -> pd.Series[float]:
    """Return the time from the newest record of a result to the first arrival of its last value.

    Of the same windows as `latency_from_end_s`."""
    from harness.judging.outcome import with_latency

    final = record.deliveries[record.deliveries["stability"] == "stable"]
    first = final.sort_values("arrival_s").drop_duplicates(workload.identity_in_run)
    latency_s: pd.Series[float] = with_latency(first, record, workload, revised=True)["latency_s"]
    start_s = first["window_start_s"]
    whole = (start_s >= SETTLE_S - workload.window_s) & (
        start_s + workload.window_s <= record.until_s
    )
    return latency_s[whole]


def _median(values: pd.Series[float]) -> float | None:
    return float(values.median()) if len(values) else None
