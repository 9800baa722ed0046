"""Computed and simulated runs in processes of their own, several at a time.

Such a run uses one core, and a machine has two or more. The runner requests all of them before it
measures times and takes the results in its own order. Records, messages and progress are the same
as if the runs had been made one after the other. A run that measures its own processor time is left
out, except in the smoke profile, whose times decide nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from harness.errors import FaultlineError
from harness.experiment import Experiment
from harness.measurement import Kept, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.setting import Setting
from harness.running.discovery import all_experiments
from harness.running.peaks import PeakMemory, size_of
from harness.seeds import run_seed

if TYPE_CHECKING:  # no record of a computed run depends on clusters
    from harness.cluster.base import Cluster, ClusterSpec

Answer = TypeVar("Answer")

AT_ONCE = 2
"""Number of processes on a machine with enough cores. A simulated campaign holds up to a gigabyte.
"""
_NICE = 10
"""Niceness of these processes, so that measurements come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run, as a value that another process can receive."""

    experiment: str
    point: Point
    profile: Profile
    root_seed: int
    repeat: int
    options: Mapping[str, Any]
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of one run."""

    outcome: Outcome | None
    why: str
    """The error, if there is no outcome."""
    started_unix_s: float
    seconds: float
    peak_memory_bytes: int | None = None
    disk_bytes: int | None = None


def takes(experiment: Experiment) -> bool:
    """Return True if other processes can make the experiment's runs.

    They must compute, and be found by their experiment's name."""
    known = any(
        each.id == experiment.id and each.measurement.run is experiment.measurement.run
        for each in all_experiments()
    )
    return known and experiment.origin is not Origin.MEASURED


class ProcessPool:
    """Processes of this machine."""

    def __init__(self, *, stand_back: bool = True) -> None:
        """Create a pool.

        ``stand_back``: give way to measurements. In the smoke profile no time decides anything, and
        on a busy machine a process that gives way makes no progress."""
        self._pool: ProcessPoolExecutor | None = None
        self._nice = _NICE if stand_back else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the requested runs; after an interruption end them."""
        if self._pool is None:
            return
        running = list(self._pool._processes.values()) if kind is not None else []
        self._pool.shutdown(wait=kind is None, cancel_futures=kind is not None)
        for process in running:
            process.terminate()

    def submit(self, task: Task) -> Future[RunResult]:
        """Request one run."""
        return self.do(make, task)

    def do(self, function: Callable[..., Answer], *given: object) -> Future[Answer]:
        """Call a function of a module in another process."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                min(AT_ONCE, os.cpu_count() or 1),
                # Forked processes would share locks with the threads of the progress display.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(self._nice,),
            )
        return self._pool.submit(function, *given)


def _begin(nice: int) -> None:
    """Ignore interruptions, which the runner handles, and lower the priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)


def make(task: Task) -> RunResult:
    """Make one run in this process."""
    (experiment,) = (each for each in all_experiments() if each.id == task.experiment)
    context = RunContext(
        measurement=experiment.measurement.id,
        profile=task.profile,
        root_seed=task.root_seed,
        repeat=task.repeat,
        directory=task.directory,
        options=task.options,
    )
    started_unix_s, started = time.time(), time.monotonic()
    outcome, why = None, ""
    with PeakMemory() as memory:
        try:
            outcome = experiment.measurement.run(task.point, context)
        except FaultlineError as error:
            why = str(error)
        except Exception:
            why = traceback.format_exc()
    return RunResult(
        outcome=outcome,
        why=why,
        started_unix_s=started_unix_s,
        seconds=time.monotonic() - started,
        peak_memory_bytes=memory.largest_bytes,
        disk_bytes=size_of(task.directory),
    )


@dataclass(slots=True, kw_only=True)
class RunContext:
    """The `harness.measurement.Context` of a run without servers and without an observer."""

    measurement: str
    profile: Profile
    root_seed: int
    repeat: int
    directory: Path
    options: Mapping[str, Any]
    calibration: Mapping[str, Any] | None = None

    def seed(self, *names: str | int) -> int:
        return run_seed(self.root_seed, self.measurement, self.repeat, *names)

    def cluster(self, spec: ClusterSpec) -> Cluster:
        return self._refuse()

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        *,
        check: Callable[[Kept], None],
    ) -> Kept:
        return self._refuse()

    def measures(self, setting: Setting) -> None:
        self._refuse()

    def surroundings(
        self, name: str, conditions: Mapping[str, float | None], *, repeatable: bool
    ) -> bool:
        return self._refuse()

    def progress(
        self,
        stage: str,
        *,
        fraction: float | None = None,
        throughput_per_s: float | None = None,
        latency_s: float | None = None,
    ) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise AssertionError(f"{self.measurement} is no measured experiment and asks for a cluster")
