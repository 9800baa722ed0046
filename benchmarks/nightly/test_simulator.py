"""The simulator's kernel, and a schedule of failures with everything on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure

EVENTS = 10_000


def test_simulator_kernel(measure: Measure) -> None:
    from harness.simulator.kernel import MESSAGE, Kernel

    def run() -> None:
        kernel = Kernel()

        def again(left: int) -> None:
            if left:
                kernel.at(kernel.now + 1, MESSAGE, again, left - 1)

        kernel.at(0, MESSAGE, again, EVENTS)
        kernel.run(until=EVENTS)
        assert kernel.processed == EVENTS + 1

    measure(run)


def test_simulated_schedule(measure: Measure) -> None:
    from harness.simulator.campaign import Choice
    from harness.simulator.run import simulate

    choice = Choice(seeds=range(1, 2), scheme="ppa", topology="recovery")
    options = choice.options(1)
    measure(lambda: simulate(options))
