"""Many runs of the processes in virtual time, and the fewest faults of one that fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context

from harness.engines.tasks.virtual.faults import HostOptions, draw_host
from harness.engines.tasks.virtual.run import simulate_host
from harness.errors import UsageError
from harness.simulator.run import SimulatedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChoice:
    """The runs of a campaign: one per seed; None leaves an option to the seed."""

    first_seed: int
    last_seed: int
    scheme: str | None = None
    topology: str | None = None
    faults: tuple[int, ...] | None = None
    """The selected faults of a run, by number; None for all."""

    @property
    def seeds(self) -> range:
        """Every seed of the campaign."""
        return range(self.first_seed, self.last_seed + 1)

    def options(self, seed: int) -> HostOptions:
        """Return the run of a seed."""
        options = draw_host(seed, scheme=self.scheme, shape=self.topology)
        if self.faults is None:
            return options
        beyond = [number for number in self.faults if number >= len(options.faults)]
        if beyond:
            raise UsageError(
                f"the run of seed {seed} has {len(options.faults)} faults, and none numbered "
                f"{beyond[0]}",
                remedy="name fewer, or leave --faults out",
            )
        return replace(options, faults=tuple(options.faults[n] for n in self.faults))


def host_reports(choice: HostChoice, workers: int) -> Iterator[SimulatedRun]:
    """Run every seed; yield one report each, in order."""
    tasks = ((choice, seed) for seed in choice.seeds)
    if workers <= 1 or len(choice.seeds) < workers:
        yield from map(_run_seed, tasks)
        return
    with get_context("spawn").Pool(workers, initializer=_ignore_interrupts) as pool:
        yield from pool.imap(_run_seed, tasks)


def fewest_faults(choice: HostChoice, seed: int) -> tuple[int, ...]:
    """Return the numbers of the fewest faults with which the run of ``seed`` still fails."""
    options = choice.options(seed)
    numbers = choice.faults or tuple(range(len(options.faults)))
    kept = list(range(len(options.faults)))
    for number in reversed(range(len(options.faults))):
        fewer = [other for other in kept if other != number]
        run = replace(options, faults=tuple(options.faults[n] for n in fewer))
        if simulate_host(run).violation is not None:
            kept = fewer
    return tuple(numbers[n] for n in kept)


def _run_seed(task: tuple[HostChoice, int]) -> SimulatedRun:
    choice, seed = task
    return simulate_host(choice.options(seed))


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
