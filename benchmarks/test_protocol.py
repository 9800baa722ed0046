"""The speed of simulated schedules: the 15-task topology, the kernel, and growth with tasks.

Absolute numbers depend on the machine; each benchmark stores its counts in ``extra_info``.
Schedules per minute are given by the wall clock and by processor time. Other load on the machine
distorts both, because shared caches make every instruction slower. Only the ratio is comparable
there: the cost of one event of a schedule as a number of empty events, both taken in turns in one
process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from msgspec import structs

from harness.protocol.schemes import SCHEMES
from harness.simulator.campaign import Choice
from harness.simulator.campaign import reports as reports_of
from harness.simulator.draw import draw
from harness.simulator.kernel import MESSAGE, Kernel
from harness.simulator.options import Options
from harness.simulator.run import simulate
from harness.simulator.topologies import layered

SEEDS = range(6)
BARE = 100_000


@pytest.mark.parametrize("scheme", SCHEMES)
def test_schedules_of_the_recovery_topology(benchmark: Any, scheme: str) -> None:
    """Thirty batches and three faults or more, `validate()` and every checker on."""
    choice = Choice(seeds=SEEDS, scheme=scheme, topology="recovery")
    schedules = [choice.options(seed) for seed in SEEDS]
    assert all(options.batches >= 30 and len(options.faults) >= 3 for options in schedules)
    simulate(schedules[0])  # computes the twin, which all schedules share
    cpu_s: list[float] = []
    bare_s: list[float] = []

    def run() -> int:
        began = process_time()
        bare_events(BARE)
        between = process_time()
        reports = list(reports_of(choice, 1))
        cpu_s.append(process_time() - between)
        bare_s.append((between - began) / BARE)
        assert all(report.violation is None for report in reports)
        return sum(report.events for report in reports)

    events = benchmark.pedantic(run, rounds=3)
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["schedules_per_minute"] = 60 * len(schedules) / seconds
    benchmark.extra_info["schedules_per_cpu_minute"] = 60 * len(schedules) / min(cpu_s)
    benchmark.extra_info["events_per_s"] = events / seconds
    benchmark.extra_info["bare_events_per_event"] = min(cpu_s) / events / min(bare_s)


def bare_events(count: int) -> int:
    """Run events that only schedule the next one."""
    kernel = Kernel()

    def again(left: int) -> None:
        if left:
            kernel.at(kernel.now + 1, MESSAGE, again, left - 1)

    kernel.at(0, MESSAGE, again, count)
    kernel.run(until=count)
    return kernel.processed


def test_kernel_events(benchmark: Any) -> None:
    assert benchmark.pedantic(bare_events, args=(BARE,), rounds=3) == BARE + 1
    benchmark.extra_info["events_per_s"] = BARE / benchmark.stats.stats.min


def tree(leaves: int) -> Callable[[], Options]:
    """Build a merge tree of ``leaves`` sources under a local checkpoint scheme, without faults."""
    sizes = [leaves]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    wiring = layered(
        sizes,
        [(level, level + 1, "merge") for level in range(len(sizes) - 1)],
        memory=3,
        names=[f"O{level}" for level in range(len(sizes))],
    )
    base = draw(0, scheme="checkpoint", topology="chain")
    return lambda: replace(
        base,
        wiring=wiring,
        nodes=tuple(structs.replace(base.nodes[0], name=f"n{t}", slots=1) for t in wiring.tasks),
        placement=tuple(wiring.tasks),
        batches=10,
        faults=(),
    )


@pytest.mark.parametrize("leaves", [8, 32, 128])
def test_growth_with_tasks(benchmark: Any, leaves: int) -> None:
    """Time per task and batch should not grow with the topology."""
    options = tree(leaves)()
    simulate(options)
    report = benchmark.pedantic(simulate, args=(options,), rounds=3)
    assert report.violation is None
    steps = len(options.wiring.names) * options.batches
    benchmark.extra_info["us_per_task_and_batch"] = 1e6 * benchmark.stats.stats.min / steps
