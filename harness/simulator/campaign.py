"""Many schedules on all cores, in either virtual world: run, count, and make what failed small."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from harness.errors import UsageError
from harness.simulator.draw import draw
from harness.simulator.options import Options
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.topologies import TOPOLOGIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """One of the virtual worlds: its runs, from their seeds to their verdicts."""

    draw: Callable[..., Any]
    """From a seed, ``scheme`` and ``topology`` to the options of a run."""
    run: Callable[[Any], SimulatedRun]
    topologies: Sequence[str]
    option: str = ""
    """The option of ``faultline simulate`` for this world."""
    at_once: int = 1
    """Seeds that a worker process gets at once."""


PROTOCOL = Fidelity(draw=draw, run=simulate, topologies=TOPOLOGIES, at_once=4)
"""The protocol alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The schedules of a campaign: one per seed; None leaves an option to the seed."""

    seeds: range
    scheme: str | None = None
    topology: str | None = None
    faults: tuple[int, ...] | None = None
    """The selected faults of a schedule, by number; None for all."""
    fidelity: Fidelity = PROTOCOL

    def whole(self, seed: int) -> Any:
        """Return the options of a seed with all faults."""
        return self.fidelity.draw(seed, scheme=self.scheme, topology=self.topology)

    def options(self, seed: int) -> Any:
        """Return the options of a seed with the selected faults."""
        options = self.whole(seed)
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
    return choice.fidelity.run(choice.options(seed))


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers


def reports(choice: Choice, workers: int) -> Iterator[SimulatedRun]:
    """One report per seed, in the order of seeds."""
    tasks = ((choice, seed) for seed in choice.seeds)
    at_once = choice.fidelity.at_once
    if workers <= 1 or len(choice.seeds) <= at_once:
        yield from map(run_seed, tasks)
        return
    with get_context("spawn").Pool(workers, initializer=_ignore_interrupts) as pool:
        yield from pool.imap(run_seed, tasks, chunksize=at_once)


def tally_of(choice: Choice, workers: int, watch: Callable[[Tally], None]) -> Tally:
    """Run a campaign and count its reports as they come; ``watch`` is called after each."""
    tally = Tally()
    began = perf_counter()
    for report in reports(choice, workers):
        tally.add(report)
        tally.elapsed_s = perf_counter() - began
        watch(tally)
    return tally


def smallest(choice: Choice, seed: int) -> tuple[int, ...]:
    """Return the numbers of the fewest faults with which the schedule of ``seed`` still fails."""
    options = choice.options(seed)
    numbers = choice.faults or tuple(range(len(options.faults)))
    kept = shrink(options, lambda fewer: choice.fidelity.run(fewer).violation is not None)
    return tuple(numbers[number] for number in kept)


def shrink(options: Options, fails: Callable[[Any], bool]) -> tuple[int, ...]:
    """Leave out one fault after the other as long as the run still fails.

    Returns the numbers of the faults that remain."""
    kept = list(range(len(options.faults)))
    progress = True
    while progress:
        progress = False
        for number in list(kept):
            fewer = [n for n in kept if n != number]
            if fails(replace(options, faults=tuple(options.faults[n] for n in fewer))):
                kept, progress = fewer, True
    return tuple(kept)
