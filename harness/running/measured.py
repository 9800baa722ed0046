"""The surroundings of a run on servers: its cluster, and other load of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.cluster.base import Cluster, ClusterSpec
from harness.judging.foreign import worst_of
from harness.judging.passes import WARM_UP
from harness.measurement import Kept
from harness.results.record import Profile
from harness.results.setting import NOT_SET, Setting
from harness.running.computed import RunContext
from harness.running.warm_cluster import ClusterPool

if TYPE_CHECKING:
    from harness.running.plan import RunObserver

PASSES_AGAIN = 3
"""Largest number of a run's passes that are made again one by one, as other load disturbed them.
Fixed on 2026-11-27: a run of 18 passes was made again for one."""


@dataclass(slots=True, kw_only=True)
class MeasuredContext(RunContext):
    """The `harness.measurement.Context` of one run on servers."""

    pool: ClusterPool
    observer: RunObserver
    setting: Setting = NOT_SET
    """What all passes so far have alike; empty before and without one."""
    meanwhile: Callable[[], None] | None = None
    """Callback for each progress report of the run."""
    calm: Callable[[], bool] = lambda: False
    """Waits for a calmer minute; False if none comes, or if there is no time for more passes."""
    passes: list[Mapping[str, float | None]] = field(default_factory=list)
    """Other load of the machine, of each pass that counts."""
    again: int = 0
    """Passes that were made again."""

    def cluster(self, spec: ClusterSpec) -> Cluster:
        return self.pool.get(spec, self.progress)

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        *,
        check: Callable[[Kept], None],
    ) -> Kept:
        return self.pool.keep(key, start, check, self.progress)

    def measures(self, setting: Setting) -> None:
        first = self.setting == NOT_SET
        self.setting = setting if first else self.setting.common(setting)
        assert self.setting.engine, f"{setting.engine} is not the only engine of this run"

    def surroundings(
        self, name: str, conditions: Mapping[str, float | None], *, repeatable: bool
    ) -> bool:
        if name == WARM_UP:
            return False
        repeatable = repeatable and self.profile is not Profile.SMOKE and self.again < PASSES_AGAIN
        if repeatable and worst_of([conditions])["disturbed"] is not None and self.calm():
            self.again += 1
            return True
        self.passes.append(conditions)
        return False

    def progress(
        self,
        stage: str,
        *,
        fraction: float | None = None,
        throughput_per_s: float | None = None,
        latency_s: float | None = None,
    ) -> None:
        self.observer.stage(stage, fraction, throughput_per_s, latency_s)
        if self.meanwhile is not None:
            self.meanwhile()
