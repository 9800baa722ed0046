"""Headroom: whether a machine had room for a load, so that times on it say something of an engine.

A pass counts for times only if its twin left `IDLE_SHARE` of the cores idle, over the load and in
every `SPAN_S` of it, and if the load generator, the broker and the judge had room, too. A twin
without that room was either disturbed, which another attempt in a calmer minute may mend, or the
machine has too few cores for that layout and rate, which none can."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from harness.judging.foreign import ForeignLoad, ForeignMeter, worst_of
from harness.judging.passes import PassRecord
from harness.results.record import TOO_FEW_CORES

IDLE_SHARE, SPAN_S = 0.25, 10.0
"""Least share of the cores that is idle, over the load and in every span of that length. Fixed on
2026-11-27, before any run that is judged by it."""
ROOM_CORES = 0.75
"""Most of one core that the load generator may use, and the process of the judge: each has one
thread for most of its work."""
ACKNOWLEDGED_S = 0.5
"""Longest time from the intended instant of a record until the broker has it, of 99 in 100: half of
the delay that makes a result late."""
CALMER_S, WAIT_S = 10.0, 120.0
"""Time for which others must leave the machine alone before a disturbed run is made again, and the
longest wait for it."""
TOO_FEW = "this machine has too few cores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The room during a load. ``None``: not known."""

    idle_share: float | None
    least_idle_share: float | None
    """Least share in any `SPAN_S` of the load."""
    load_cores: float
    """Cores that the load generator used."""
    judge_cores: float | None
    acknowledged_s: float
    cores: int

    def row(self) -> dict[str, float | None]:
        """Return the facts of a run."""
        return {
            "twin_idle_share": self.idle_share,
            "twin_least_idle_share": self.least_idle_share,
            "twin_load_cores": self.load_cores,
            "twin_judge_cores": self.judge_cores,
        }

    @property
    def short(self) -> str | None:
        """What was short, with its number; None if nothing was."""
        found = [
            f"{share:.0%} of {self.cores} cores were idle {when}, and {IDLE_SHARE:.0%} must be"
            for share, when in (
                (self.idle_share, "over the load"),
                (self.least_idle_share, f"in the busiest {SPAN_S:g} s of it"),
            )
            if share is not None and share < IDLE_SHARE
        ]
        found += [
            f"{name} used {cores:.2f} of a core, and {ROOM_CORES:g} is the limit"
            for name, cores in (
                ("the load generator", self.load_cores), ("the judge", self.judge_cores),
            )
            if cores is not None and cores > ROOM_CORES
        ]  # fmt: skip
        if self.acknowledged_s > ACKNOWLEDGED_S:
            found.append(
                f"the broker took up to {self.acknowledged_s:.2g} s for a record, and "
                f"{ACKNOWLEDGED_S:g} s is the limit"
            )
        return "; ".join(found) or None


def headroom(twin: PassRecord, *, settle_s: float = 0.0) -> Headroom:
    """Return the room during a pass without failures, after the first ``settle_s`` of its load."""
    cores = psutil.cpu_count() or 1
    idle_share = least = judge_cores = None
    if len(twin.machine):
        mine = twin.machine[twin.machine["at_s"].between(settle_s, twin.until_s)]
        at_s, idle_s = mine["at_s"].to_numpy(float), mine["idle_s"].to_numpy(float)
        if len(mine) > 1:
            lasted_s = at_s[-1] - at_s[0]
            idle_share = float((idle_s[-1] - idle_s[0]) / (lasted_s * cores))
            judge_s = mine["judge_s"].to_numpy(float)
            judge_cores = float((judge_s[-1] - judge_s[0]) / lasted_s)
            ends = at_s.searchsorted(at_s + SPAN_S)
            spans = [
                (idle_s[end] - idle_s[begin]) / ((at_s[end] - at_s[begin]) * cores)
                for begin, end in enumerate(ends)
                if end < len(at_s)
            ]
            least = float(min(spans, default=idle_share))
    return Headroom(
        idle_share=idle_share,
        least_idle_share=least,
        load_cores=twin.load.cpu_s / twin.until_s,
        judge_cores=judge_cores,
        acknowledged_s=float(twin.load.delivery["p99_s"]),
        cores=cores,
    )


def too_few_cores(room: Headroom, *passes: PassRecord) -> str | None:
    """Return why this machine cannot hold a load; None if it can, or if others disturbed it.

    A disturbed run is in doubt, and made again in a calmer minute (`harness.judging.foreign`)."""
    if room.short is None or worst_of([each.conditions for each in passes])["disturbed"]:
        return None
    return f"{TOO_FEW}: {room.short}"


def room_facts(
    twin: PassRecord, failed: PassRecord, *, settle_s: float, timed: bool
) -> dict[str, Any]:
    """Return the facts of a run's twin, with ``timed`` also what this machine lacks."""
    room = headroom(twin, settle_s=settle_s)
    return {**room.row(), TOO_FEW_CORES: too_few_cores(room, twin, failed) if timed else None}


def wait_for_calm(
    progress: Callable[[str], None],
    *,
    others: Callable[[float], ForeignLoad] | None = None,
    at_most_s: float = WAIT_S,
) -> bool:
    """Wait until nobody else has used the machine for `CALMER_S`; return False if that never came.

    ``others`` measures their load over some seconds."""
    measure = others or _others
    waited_s = 0.0
    while True:
        load = measure(CALMER_S)
        waited_s += CALMER_S
        if not load.high:
            return True
        if waited_s >= at_most_s:
            return False
        used = load.foreign_share or 0.0
        progress(f"waiting for a calmer minute: {used:.0%} of the machine is in use by others")


def _others(seconds: float) -> ForeignLoad:
    meter = ForeignMeter()
    meter.sample()
    time.sleep(seconds)
    meter.sample()
    return meter.load()
