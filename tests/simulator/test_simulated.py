"""Random schedules over all schemes: nothing may be lost, repeated or left uncorrected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.protocol.schemes import SCHEMES
from harness.simulator.campaign import shrink
from harness.simulator.draw import draw
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network, Options
from harness.simulator.run import simulate
from tests.levels import amount
from tests.simulator.kit import require_right, watched
from tests.simulator.mutations import MUTATIONS, Mutation, first_caught


def run_seed(seed: int, scheme: str | None = None, topology: str | None = None) -> None:
    require_right(simulate(draw(seed, scheme=scheme, topology=topology)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_schedules_of_every_scheme(scheme: str) -> None:
    """The seeds before these are run for their traces (tests/golden)."""
    for seed in range(20, 20 + amount(20)):
        run_seed(seed, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_schedules_of_the_recovery_topology(scheme: str) -> None:
    run_seed(1, scheme, "recovery")


def test_a_replica_with_a_full_outbox_has_caught_up_as_far_as_it_can() -> None:
    """Else nobody acknowledges its output: it is served only after the queue is empty."""
    run_seed(1651216535095365715, scheme="dpc")


def test_a_task_whose_first_orders_get_lost_is_closed_for_those_that_wait() -> None:
    """Its node speaks and hears nothing, so it is not suspected."""
    run_seed(6145967, scheme="ppa", topology="join")


def test_without_faults_nothing_is_tentative_and_nobody_takes_over() -> None:
    for scheme in SCHEMES:
        options = replace(
            draw(3, scheme=scheme, topology="diamond"),
            faults=(),
            costs=Costs(batch_us=1000),
            network=Network(),
        )
        report, world = watched(options)
        assert report.violation is None
        assert report.tentative_outputs == 0
        primaries = [
            copy
            for node in world.nodes
            if node.machine is not None
            for copy in node.machine.copies.values()
            if copy.primary
        ]
        assert sorted(copy.task for copy in primaries) == list(options.wiring.tasks)
        assert {copy.incarnation for copy in primaries} == {1}


def test_shrinking_leaves_out_what_does_not_matter() -> None:
    options = draw(1, scheme="checkpoint")
    wanted = {0, len(options.faults) - 1}

    def fails(smaller: Options) -> bool:
        return wanted <= {options.faults.index(fault) for fault in smaller.faults}

    assert set(shrink(options, fails)) == wanted


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_sabotage_is_found(mutation: Mutation) -> None:
    """The seed is the first of 0..999 that showed it, so that the search is not repeated.

    Where a change of the schedules has moved it, this test looks for another."""
    report = first_caught(mutation, [mutation.seed, *range(1000)])
    assert report is not None, f"no schedule of 1,000 shows that the protocol can {mutation.name}"
    assert report.violation is not None


def test_a_global_rollback_takes_every_task_back() -> None:
    """The rollback really has the cost that it is charged."""
    options = draw(0, scheme="global", topology="diamond")
    crash = Fault(kind=FaultKind.KILL, at_us=10_300_000, until_us=20_000_000)
    options = replace(options, faults=(crash,), costs=Costs(batch_us=1000), network=Network())
    report, world = watched(options)
    assert report.violation is None
    assert world.coordinator is not None
    tasks = world.coordinator.tasks
    assert 1 not in {task.primary.incarnation for task in tasks if task.primary is not None}
