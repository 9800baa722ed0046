"""Many schedules on all cores: run, count, and make what failed small."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from time import perf_counter

from harness.errors import UsageError
from harness.simulator.draw import draw
from harness.simulator.options import Options
from harness.simulator.run import SimulatedRun, shrink, simulate

CHUNK = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The schedules of a campaign: one per seed; None leaves an option to the seed."""

    first_seed: int
    last_seed: int
    scheme: str | None = None
    topology: str | None = None
    faults: tuple[int, ...] | None = None
    """The selected faults of a schedule, by number; None for all."""

    def options(self, seed: int) -> Options:
        options = draw(seed, scheme=self.scheme, topology=self.topology)
        if self.faults is None:
            return options
        beyond = [number for number in self.faults if number >= len(options.faults)]
        if beyond:
            raise UsageError(
                f"the schedule of seed {seed} has {len(options.faults)} faults, and none numbered "
                f"{beyond[0]}",
                remedy=f"name faults from 0 to {len(options.faults) - 1}, or leave --faults out",
            )
        return replace(options, faults=tuple(options.faults[n] for n in self.faults))

    @property
    def seeds(self) -> range:
        """Every seed of the campaign."""
        return range(self.first_seed, self.last_seed + 1)


@dataclass(slots=True)
class Tally:
    """The results of a campaign so far."""

    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[SimulatedRun] = field(default_factory=list)
    events: int = 0
    tentative_schedules: int = 0
    elapsed_s: float = 0.0

    def add(self, report: SimulatedRun) -> None:
        """Count one more schedule."""
        self.schedules += 1
        self.faults.update(report.faults)
        self.events += report.events
        self.tentative_schedules += report.tentative_outputs > 0
        if report.violation is not None:
            self.failed.append(report)

    @property
    def schedules_per_minute(self) -> float:
        """Over the whole campaign so far."""
        return 60 * self.schedules / self.elapsed_s if self.elapsed_s else 0.0


def run_seed(task: tuple[Choice, int]) -> SimulatedRun:
    """One schedule."""
    choice, seed = task
    return simulate(choice.options(seed))


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers


def reports(choice: Choice, workers: int) -> Iterator[SimulatedRun]:
    """One report per seed, in the order of seeds."""
    tasks = ((choice, seed) for seed in choice.seeds)
    if workers <= 1 or len(choice.seeds) <= CHUNK:
        yield from map(run_seed, tasks)
        return
    with get_context("spawn").Pool(workers, initializer=_ignore_interrupts) as pool:
        yield from pool.imap(run_seed, tasks, chunksize=CHUNK)


def run_campaign(choice: Choice, *, workers: int, watch: Callable[[Tally], None]) -> Tally:
    """Run every schedule of ``choice``; ``watch`` is called after each."""
    return tally_of(reports(choice, workers), watch)


def tally_of(arriving: Iterable[SimulatedRun], watch: Callable[[Tally], None]) -> Tally:
    """Count reports as they come, wherever they are made; ``watch`` is called after each."""
    tally = Tally()
    began = perf_counter()
    for report in arriving:
        tally.add(report)
        tally.elapsed_s = perf_counter() - began
        watch(tally)
    return tally


def smallest(choice: Choice, seed: int) -> tuple[int, ...]:
    """Return the numbers of the fewest faults with which the schedule of ``seed`` still fails."""
    options = choice.options(seed)
    numbers = choice.faults or tuple(range(len(options.faults)))
    return tuple(numbers[kept] for kept in shrink(options)[1])
