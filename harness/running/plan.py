"""The runs of one command: settings, order, execution and observers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.errors import UsageError
from harness.experiment import Experiment
from harness.results.record import Point, Profile, Record, point_key
from harness.results.speed import slower
from harness.results.store import Campaign
from harness.running.computed import AT_ONCE, ProcessPool, RunResult, Task, takes
from harness.seeds import DEFAULT_SEED
from workloads.packages import files_of

if TYPE_CHECKING:
    from harness.running.execution import Runner


class Deadline:
    """The end of all runs of a command: so many times the duration that it announced first.

    What would take longer is not begun, and not made again."""

    def __init__(
        self,
        times: float,
        *,
        least_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        alarm: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        """``alarm(seconds)`` interrupts what runs after that time, and ``alarm(0)`` cancels it.

        All runs have ``least_s`` together, however short they were announced."""
        self._times, self._least_s, self._clock, self._alarm = times, least_s, clock, alarm
        self._announced_s = self._until = math.inf
        self._run_s = 0.0

    @contextmanager
    def over(self, announced_s: float, runs: int) -> Iterator[None]:
        """End this number of runs in time. The first ones decide the end."""
        if self._until == math.inf and announced_s > 0:
            self._announced_s = announced_s
            self._until = self._clock() + max(self._times * announced_s, self._least_s)
        if self._until < math.inf:
            self._alarm(max(0.0, self.left_s))
        began_s = self._clock()
        try:
            yield
        finally:
            self._alarm(0.0)
            self._run_s = max(self._run_s, (self._clock() - began_s) / max(1, runs))

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return self._until - self._clock()

    @property
    def near(self) -> bool:
        """True if half of the announced duration would not end in time, or not one more run."""
        return self.left_s < max(self._announced_s / 2, self._run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The user's settings, apart from the choice of experiments."""

    profile: Profile = Profile.QUICK
    root_seed: int = DEFAULT_SEED
    repeats: int | None = None
    """Number of repetitions, in place of every experiment's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False
    """True to measure again what has a valid record."""
    deadline: Deadline | None = None
    """None: the runs take as long as they take."""
    only: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """The points to run, by experiment; without an entry all of its grid."""

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return math.inf if self.deadline is None else self.deadline.left_s

    def points(self, experiment: Experiment) -> Sequence[Point]:
        """Return the points to run."""
        return self.only.get(experiment.id, experiment.grid[self.profile])

    def beyond_grid(self, experiment: Experiment) -> Sequence[Point]:
        """Return the points to run that the experiment's grid lacks."""
        grid = experiment.grid[self.profile]
        return [point for point in self.points(experiment) if point not in grid]

    def __post_init__(self) -> None:
        if self.repeats is not None and self.repeats < 1:
            raise UsageError(f"--repeats {self.repeats} is below 1", remedy="repeat at least once")
        if self.root_seed < 0:
            raise UsageError(f"--seed {self.root_seed} is negative", remedy="use 0 or above")


class Stage(IntEnum):
    """The parts of a plan, in their order.

    No time of the smoke profile decides anything, so it measures first: while its servers start,
    other processes compute."""

    SMOKE_MEASURED = 0
    COMPUTED_SOON = 1
    """Computed in seconds: the first figures."""
    MEASURED_EARLY = 2
    """A measured figure to look at while the rest is made."""
    COMPUTED = 3
    MEASURED = 4


SOON_S = 15.0
"""Longest duration of an experiment in `Stage.COMPUTED_SOON`."""


def stage_of(experiment: Experiment, cost_s: float, *, smoke: bool) -> Stage:
    """Return the stage of an experiment with this estimated duration."""
    if not experiment.measurement.measured:
        return Stage.COMPUTED_SOON if cost_s <= SOON_S else Stage.COMPUTED
    if smoke:
        return Stage.SMOKE_MEASURED
    early = experiment.measurement.scheduling.early
    return Stage.MEASURED_EARLY if early else Stage.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run that is to be made, or has a record."""

    experiment: Experiment
    point: Point
    repeat: int
    done: bool
    seconds: float
    """Estimated duration, from earlier runs on this machine if there are any."""
    skipped: str | None = None
    """The reason why this cluster cannot make it."""
    patient: bool = False
    """True if its duration decides nothing: in the smoke profile. Nothing is computed during any
    other measurement."""

    @property
    def to_make(self) -> bool:
        """True if there is something to measure or compute."""
        return self.skipped is None and not self.done

    @property
    def computed(self) -> bool:
        """True if another process may make it, at the same time as others."""
        alone = self.experiment.measurement.scheduling.alone and not self.patient
        return self.to_make and not alone and takes(self.experiment)

    @property
    def bears_others(self) -> bool:
        """True if computed runs may run during it."""
        return self.to_make and self.patient


class RunObserver(Protocol):
    """An observer of runs: the progress display, or none."""

    def planned(self, runs: Sequence[PlannedRun], estimate_s: float) -> None:
        """Report the plan and its estimated duration."""

    def run_started(self, run: PlannedRun) -> None:
        """Report the start of a run."""

    def stage(
        self,
        text: str,
        fraction: float | None,
        throughput_per_s: float | None,
        latency_s: float | None,
    ) -> None:
        """Report the present stage of a run, with numbers if it has any."""

    def run_finished(self, run: PlannedRun, record: Record) -> None:
        """Report the end of a run, with its record."""

    def experiment_finished(self, experiment: Experiment, campaign: Campaign) -> None:
        """Report the end of all runs of an experiment."""


MEANWHILE_S = 0.3
"""Longest interruption of a smoke run while results of computed runs are taken."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that another process makes, and the directory of its files."""

    scratch: Path
    result: Future[RunResult]


class Execution:
    """The runs of one command in their order, and the processes that compute at the same time."""

    def __init__(
        self, runner: Runner, runs: Sequence[PlannedRun], settings: RunSettings, others: ProcessPool
    ) -> None:
        self._runner, self._runs, self._settings = runner, runs, settings
        self._others = others
        self._records: list[Record] = []
        self._ahead: dict[int, PendingRun] = {}
        """Requested runs, by their place among all."""
        self._settled: set[int] = set()
        """Places of the runs that need no more work."""

    def all(self) -> Sequence[Record]:
        """Make every missing run, or those that end in time; return their records."""
        deadline = self._settings.deadline
        missing = sum(run.to_make for run in self._runs)
        with deadline.over(seconds_left(self._runs), missing) if deadline else nullcontext():
            self._in_order()
        return self._records

    def _in_order(self) -> None:
        for number, run in enumerate(self._runs):
            if (run.computed or run.bears_others) and number not in self._ahead:
                self._begin_others(number)
            if number in self._settled:
                continue
            if number in self._ahead:
                self._runner.observer.run_started(run)
            self._settle(number)

    def _begin_others(self, first: int) -> None:
        """Request the computed runs from place ``first`` to the next undisturbed run.

        A single run is not worth a process."""
        places = [number for number in ahead_of(self._runs, first) if number not in self._ahead]
        for number in places if len(places) > 1 else ():
            run, scratch = self._runs[number], self._runner.store.scratch()
            task = Task(
                experiment=run.experiment.id,
                point=run.point,
                profile=self._settings.profile,
                root_seed=self._settings.root_seed,
                repeat=run.repeat,
                options=options_for(run.experiment, self._settings.options),
                directory=scratch,
            )
            self._ahead[number] = PendingRun(scratch, self._others.submit(task))

    def _settle(self, number: int) -> None:
        """Make or take a missing run, and report the end of its experiment."""
        run = self._runs[number]
        if not run.done:
            brief = self._settings.profile is Profile.SMOKE and run.bears_others
            meanwhile = self._take_what_is_there if brief else None
            ahead = self._ahead.get(number)
            if run.seconds <= self._settings.left_s:
                rest_s = sum(run_s(each) for each in self._runs[number + 1 :] if each.to_make)
                made = self._runner.attempts(run, self._settings, ahead, meanwhile, rest_s)
                for record in made:  # each is there also if a later one is interrupted
                    self._records.append(record)
        self._settled.add(number)
        mine = (n for n, each in enumerate(self._runs) if each.experiment is run.experiment)
        if self._settled.issuperset(mine):
            campaign = self._runner.campaign(run.experiment, self._settings)
            if run.to_make and run.experiment.measurement.scheduling.in_turns:
                self._make_alike(run.experiment, campaign)
                campaign = self._runner.campaign(run.experiment, self._settings)
            self._runner.observer.experiment_finished(run.experiment, campaign)

    def _make_alike(self, experiment: Experiment, campaign: Campaign) -> None:
        """Make the runs once more whose processor was slower than that of the others."""
        slow = {point_key(one.point, one.repeat) for one in slower(campaign.records)}
        for run in self._runs if self._settings.profile is not Profile.SMOKE else ():
            if run.seconds > self._settings.left_s:
                return
            if run.experiment is experiment and point_key(run.point, run.repeat) in slow:
                self._records.extend(self._runner.attempts(run, self._settings, None, None))

    def _take_what_is_there(self) -> None:
        """Take finished results for a moment, while a measured run waits."""
        until = time.monotonic() + MEANWHILE_S
        for number, ahead in self._ahead.items():
            if number not in self._settled and ahead.result.done():
                self._settle(number)
                if time.monotonic() > until:
                    return


FIGURE_S = 1.0
"""Time to judge and draw an experiment, and to write the report with it. Measured on two idle
cores, for the 69 experiments of the quick profile, on 2026-11-23."""


def run_s(run: PlannedRun) -> float:
    """Return the estimated duration of a run, as a share of what is made in parallel."""
    return 0.0 if run.done else run.seconds / (AT_ONCE if run.computed else 1)


def figure_s(experiment: Experiment, runs: Sequence[PlannedRun]) -> float:
    """Return the estimated time after the last run of an experiment; 0 if none is to be made.

    In the smoke profile figures are drawn in parallel."""
    mine = [run for run in runs if run.experiment is experiment and run.to_make]
    return 0.0 if not mine else FIGURE_S / (AT_ONCE if mine[0].patient else 1)


def seconds_left(runs: Sequence[PlannedRun]) -> float:
    """Return the estimated duration of the missing runs and of their figures."""
    experiments = dict.fromkeys(run.experiment for run in runs)
    figures_s = sum(figure_s(experiment, runs) for experiment in experiments)
    return sum(run_s(run) for run in runs) + figures_s


def ahead_of(runs: Sequence[PlannedRun], first: int) -> Sequence[int]:
    """Return the places of computed runs from ``first`` to the next undisturbed run."""
    found = []
    for number in range(first, len(runs)):
        run = runs[number]
        if run.computed:
            found.append(number)
        elif run.to_make and not run.patient:
            break
    return found


def options_for(experiment: Experiment, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user's options that the experiment accepts."""
    return {
        name: value for name, value in options.items() if name in experiment.measurement.accepts
    }


def fingerprints(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options as a record has them.

    A file is its name and a hash of its content, so an edited file is another campaign. What Python
    compiles beside the files of a package is not its content."""
    return {name: _fingerprint(value) for name, value in sorted(options.items())}


def _fingerprint(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_fingerprint(item) for item in value]
    if isinstance(value, Path):
        digest = sha256()
        for file in files_of(value):
            digest.update(file.read_bytes())
        return {"path": str(value), "sha256": digest.hexdigest()}
    return value


def grouped(runs: Sequence[PlannedRun]) -> Sequence[PlannedRun]:
    """Return the runs in groups with the same warm object (`Scheduling.keeps`).

    Runs without one come first. The groups, and the runs of each, keep their order."""
    opens = [run.experiment.measurement.scheduling.keeps for run in runs]
    keys = [
        keeps(run.point) if callable(keeps) else keeps
        for keeps, run in zip(opens, runs, strict=True)
    ]
    order = {key: number for number, key in enumerate(dict.fromkeys([None, *keys]))}
    return [run for _, run in sorted(zip(keys, runs, strict=True), key=lambda two: order[two[0]])]


def once(runs: Sequence[PlannedRun]) -> Sequence[PlannedRun]:
    """Mark a run that several experiments show as done in all but the first of them."""
    seen: set[tuple[str, str]] = set()
    planned = []
    for run in runs:
        key = run.experiment.measurement.id, point_key(run.point, run.repeat)
        planned.append(replace(run, done=True) if key in seen else run)
        seen.add(key)
    return planned
