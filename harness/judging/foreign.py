"""Foreign load of the machine during a pass: CPU of other people's processes, and steal.

The harness's own are its process and every one below it: servers, workers, executors, drivers, the
load generator. A process of its own that lost its parent, or that ended between two samples, counts
its last second as foreign. Containers belong to their daemon, so with such a cluster only steal is
known.

A core that shares its execution units with another machine's is slower, and neither share shows it:
so a fixed computation is timed with every sample."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd
import psutil

from harness.results.record import Outcome, Profile

HIGH_FOREIGN, HIGH_STEAL = 0.10, 0.05
"""Shares of the machine above which a pass counts as disturbed. Its run is made again; if it stays
disturbed, its record is marked. Fixed on 2026-11-22, with that consequence since 2026-11-23."""
_LOOP = 10_000
"""Steps of the fixed computation. Times of other numbers cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLoad:
    """Shares of all cores over the time between the first and the last sample, 0 to 1."""

    foreign_share: float | None
    steal_share: float | None
    """The hypervisor's time for other machines; None where it is not reported."""
    load_average: float | None = None
    """Mean number of processes that ran or waited in the last minute, by core, ours included."""
    loop_cpu_ms: float | None = None
    """CPU time of a fixed computation, the median of the samples: the lower, the faster a core."""

    @property
    def high(self) -> bool:
        """True if a share is above its limit."""
        foreign, steal = self.foreign_share or 0.0, self.steal_share or 0.0
        return foreign > HIGH_FOREIGN or steal > HIGH_STEAL

    def conditions(self) -> dict[str, float | None]:
        """Return the values of a record."""
        return asdict(self)


def worst_of(passes: Sequence[Mapping[str, float | None]]) -> dict[str, float | str | None]:
    """Return the largest value of every condition over the passes of a run.

    ``disturbed`` is the reason why the run counts as disturbed, None if it does not."""
    names = dict.fromkeys(name for one in passes for name in one)
    worst = {
        name: max((v for one in passes if (v := one.get(name)) is not None), default=None)
        for name in names
    }
    load = ForeignLoad(
        foreign_share=worst.get("foreign_share"), steal_share=worst.get("steal_share")
    )
    why = (
        f"other processes used {load.foreign_share or 0:.0%} of the machine during a pass, and the "
        f"hypervisor kept {load.steal_share or 0:.0%}; at most {HIGH_FOREIGN:.0%} and "
        f"{HIGH_STEAL:.0%} are allowed"
    )
    return {**worst, "disturbed": why if load.high else None}


def under_conditions(
    outcome: Outcome, passes: Sequence[Mapping[str, float | None]], profile: Profile
) -> Outcome:
    """Return the outcome with the state of the machine during its passes, the worst of each value.

    A disturbed run is in doubt (`worst_of`), except in the smoke profile,
    whose times decide nothing."""
    if outcome.skipped:
        return outcome
    worst = worst_of(passes)
    again = outcome.again
    if again is None and profile is not Profile.SMOKE:
        again = None if worst["disturbed"] is None else str(worst["disturbed"])
    return replace(outcome, values={**worst, **outcome.values}, again=again)


class ForeignMeter:
    """A meter of the time between the first call of `sample` and the last."""

    def __init__(self, *, ours_are_below: bool = True) -> None:
        """Prepare a meter; ``ours_are_below``: the cluster's processes descend from this one."""
        self._counted = ours_are_below
        self._began: tuple[float, Any] | None = None
        self._ended: tuple[float, Any] | None = None
        self._ours_s = 0.0
        self._known: dict[tuple[int, float], float] = {}
        self._loops_ms: list[float] = []
        self._machine: list[dict[str, float]] = []

    def sample(self) -> None:
        """Take a sample; cheap enough for every second."""
        now = time.monotonic(), psutil.cpu_times()
        ours = _descendants_cpu_s()
        self._loops_ms.append(_loop_cpu_ms())
        self._machine.append(_machine_now(now[1]))
        if self._began is None:
            self._began = now
        else:
            self._ours_s += sum(
                max(0.0, used_s - self._known.get(process, 0.0)) for process, used_s in ours.items()
            )
        self._ended, self._known = now, ours

    def machine(self) -> pd.DataFrame:
        """Return the samples: ``at_unix_s``, and CPU seconds that only grow.

        ``idle_s`` are those of all cores without work, ``judge_s`` those of this process."""
        return pd.DataFrame(self._machine)

    def load(self) -> ForeignLoad:
        """Return the shares, which are None with fewer than two samples."""
        if self._began is None or self._ended is None or self._ended[0] <= self._began[0]:
            return ForeignLoad(foreign_share=None, steal_share=None)
        (began_s, before), (ended_s, after) = self._began, self._ended
        whole_s = (ended_s - began_s) * (psutil.cpu_count() or 1)
        busy_s = sum(
            getattr(after, name) - getattr(before, name)
            for name in ("user", "nice", "system", "irq", "softirq")
            if hasattr(after, name)
        )
        steal = getattr(after, "steal", None)
        return ForeignLoad(
            foreign_share=max(0.0, busy_s - self._ours_s) / whole_s if self._counted else None,
            steal_share=None if steal is None else (steal - before.steal) / whole_s,
            load_average=os.getloadavg()[0] / (psutil.cpu_count() or 1),
            loop_cpu_ms=statistics.median(self._loops_ms),
        )


def _machine_now(times: Any) -> dict[str, float]:
    judge = psutil.Process().cpu_times()
    return {
        "at_unix_s": time.time(),
        "idle_s": times.idle + getattr(times, "iowait", 0.0),
        "judge_s": judge.user + judge.system,
    }


def _loop_cpu_ms() -> float:
    """Return the CPU time of some half a millisecond's work of the interpreter."""
    began_ns = time.thread_time_ns()
    sum(number * number for number in range(_LOOP))
    return (time.thread_time_ns() - began_ns) / 1e6


def _descendants_cpu_s() -> dict[tuple[int, float], float]:
    """Return the CPU seconds by (pid, start) of this process and all living ones below it."""
    here = psutil.Process()
    found: dict[tuple[int, float], float] = {}
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid, process.create_time()] = times.user + times.system
    return found
