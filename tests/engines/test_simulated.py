"""Random schedules over all schemes: nothing may be lost, repeated or left uncorrected."""

from __future__ import annotations

import pytest

from harness.engines.simulated.kernel import MESSAGE, TIMER, Kernel
from harness.engines.simulated.run import Report, simulate
from harness.engines.simulated.schedule import SCHEMES, draw


def run_seed(seed: int, scheme: str | None = None, topology: str | None = None) -> Report:
    report = simulate(draw(seed, scheme=scheme, topology=topology))
    if report.violation is not None:
        pytest.fail(
            f"seed {seed}, scheme {report.scheme}, topology {report.topology}: "
            f"{report.violation.invariant}: {report.violation.what}\n{report.violation.story}"
        )
    return report


def test_the_kernel_orders_by_time_priority_and_sequence() -> None:
    kernel = Kernel()
    seen: list[str] = []
    kernel.at(5, TIMER, seen.append, "d")
    kernel.at(5, MESSAGE, seen.append, "b")
    kernel.at(5, MESSAGE, seen.append, "c")
    kernel.at(1, TIMER, seen.append, "a")
    assert not kernel.run(until=10)
    assert seen == ["a", "b", "c", "d"]
    assert kernel.now == 10
    with pytest.raises(ValueError, match="it is 10"):
        kernel.at(9, TIMER, seen.append, "late")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_schedules_of_every_scheme(scheme: str) -> None:
    for seed in range(40):
        run_seed(seed, scheme)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_schedules_of_the_recovery_topology(scheme: str) -> None:
    for seed in range(3):
        run_seed(seed, scheme, "recovery")
