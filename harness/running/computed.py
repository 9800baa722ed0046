"""Runs that need no server, made by processes of their own, several at a time.

What is computed or simulated uses one core; a machine has two, and a Spark cluster has many
(`harness.running.on_spark`). The runner asks for all such runs before it measures times and takes
their outcomes in its own order, so records, messages and progress come as if they had been made
one after the other. An experiment that measures its own processor time is left out, except in the
smoke profile, which says nothing of times.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, TypeVar

from harness.cluster.base import Cluster, ClusterSpec
from harness.errors import FaultlineError
from harness.experiment import Experiment
from harness.measurement import Kept, Origin, run_seed
from harness.results.record import Outcome, Point, Profile
from harness.running.discovery import all_experiments

Answer = TypeVar("Answer")

AT_ONCE = 2
"""Processes, on a machine that has the cores: a simulated campaign holds up to a gigabyte."""
_NICE = 10
"""By how much they stand back from what is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run, as another process can be told of it."""

    experiment: str
    point: Point
    profile: Profile
    root_seed: int
    repeat: int
    options: Mapping[str, Any]
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of it."""

    outcome: Outcome | None
    why: str
    """The error, where there is no outcome."""
    started_unix_s: float
    seconds: float


class Others(Protocol):
    """Who makes computed runs for the runner; a context manager. Nothing is started before the
    first run is asked for."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | object) -> None: ...

    def submit(self, task: Task) -> Future[Made]:
        """Ask for one run."""


def takes(experiment: Experiment) -> bool:
    """Whether its runs can be made elsewhere: it computes, and another process finds it by its
    name. Where times count, not those that measure their own (`Scheduling.alone`)."""
    known = {each.id: each for each in all_experiments()}
    same = (
        experiment.id in known
        and known[experiment.id].measurement.run is experiment.measurement.run
    )
    return same and experiment.origin is not Origin.MEASURED


class SideBySide:
    """Processes of this machine, as `Others`."""

    def __init__(self, *, stand_back: bool = True) -> None:
        """``stand_back``: what is measured meanwhile comes first. Where nothing is (no time of the
        smoke profile decides anything), whoever stands back on a busy machine gets nothing of it.
        """
        self._pool: ProcessPoolExecutor | None = None
        self._nice = _NICE if stand_back else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | object) -> None:
        """After an interruption what is under way is not waited for."""
        if self._pool is None:
            return
        running = list(self._pool._processes.values()) if kind is not None else []
        self._pool.shutdown(wait=kind is None, cancel_futures=kind is not None)
        for process in running:
            process.terminate()

    def submit(self, task: Task) -> Future[Made]:
        """Ask for one run."""
        return self.do(make, task)

    def do(self, function: Callable[..., Answer], *given: object) -> Future[Answer]:
        """Ask for what a function of a module makes of what another process can be told."""
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
    """Interruptions are the runner's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)


def make(task: Task) -> Made:
    """One run, in the process that this is called in."""
    (experiment,) = (each for each in all_experiments() if each.id == task.experiment)
    started_unix_s, started = time.time(), time.monotonic()
    outcome, why = None, ""
    try:
        outcome = experiment.measurement.run(task.point, _Context(task, experiment))
    except FaultlineError as error:
        why = str(error)
    except Exception:
        why = traceback.format_exc()
    return Made(
        outcome=outcome,
        why=why,
        started_unix_s=started_unix_s,
        seconds=time.monotonic() - started,
    )


def make_elsewhere(task: Task) -> Made:
    """One run, on a machine that sees no directory of the harness's."""
    with tempfile.TemporaryDirectory() as directory:
        made = make(replace(task, directory=Path(directory)))
        files = sorted(os.listdir(directory))
    if not files:
        return made
    why = f"it wrote {', '.join(files)}, and files do not come back from another machine"
    return replace(made, outcome=None, why=why)


class _Context:
    """`harness.measurement.Context` without servers, and with nobody who watches."""

    calibration = None

    def __init__(self, task: Task, experiment: Experiment) -> None:
        self.profile, self.root_seed, self.repeat = task.profile, task.root_seed, task.repeat
        self.directory, self.options = task.directory, task.options
        self._source = experiment.measurement.id

    def seed(self, *names: str | int) -> int:
        return run_seed(self.root_seed, self._source, self.repeat, *names)

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

    def measures(self, engine: str) -> None:
        self._refuse()

    def progress(self, stage: str, **_: float | None) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise AssertionError(f"{self._source} is no measured experiment and asks for a cluster")
