"""The first batches of restored copies, and the orders after the death of several nodes."""

from __future__ import annotations

import pytest

from harness.hosting.restoration import Restorations
from harness.protocol import inputs as told
from harness.protocol.inputs import Start
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network
from harness.simulator.synthetic import digests
from harness.simulator.topologies import chain
from harness.simulator.world import World
from tests.protocol.clusters import in_a_row, report, sent
from tests.simulator.kit import NEVER_US, calm, local

STORED = 40
SOURCE, BEHIND = 0, 1


def test_a_source_goes_back_for_a_lost_task_also_if_the_coordinator_dies_in_between() -> None:
    cluster = in_a_row(spare=2, slots=3)
    for task in range(3):
        reported = report(cluster.primary(task), position=47, stored=STORED if task else 0)
        cluster.beat(task, now=1, copies=[reported])
    cluster.disconnect(BEHIND, now=2)
    later = in_a_row(spare=2, slots=3, registry=cluster.stored[-1])
    orders = sent(later.disconnect(SOURCE, now=2), told.CopyOrdered)
    *_, again = [order for order in orders if order.task == SOURCE]
    assert (again.start, again.position) == (Start.EMPTY, STORED)


def recovery_us(*crashed: int, at_us: int) -> int:
    """Return the virtual time from the first detection until all tasks of the nodes are back.

    The nodes crash in that order, a microsecond apart."""
    options = calm(
        chain(2, memory=1),
        spare=2,
        scheme=local(checkpoint_every=4, heartbeat_us=250_000, suspect_after_us=1_000_000),
        closes_connections=True,
        batches=round(at_us / 100_000) + 50,
        interval_us=100_000,
        costs=Costs(batch_us=2_000),
        network=Network(delay_us=1_000, jitter_us=0, store_us=1_000, log_us=1_000),
        faults=tuple(
            Fault(kind=FaultKind.KILL, at_us=at_us + place, until_us=NEVER_US, target=number)
            for place, number in enumerate(crashed)
        ),
    )
    world = World(options, digests(options), notes_progress=True)
    world.start()
    world.kernel.run(until=at_us + 30_000_000, stop=world.finished)
    ways = [way for way in Restorations(world.notes).every() if way.task in crashed]
    assert {way.task for way in ways} == set(crashed)
    return max(way.restored_us or NEVER_US for way in ways) - min(w.detected_us for w in ways)


@pytest.mark.parametrize(
    "crashed", [(SOURCE,), (BEHIND,), (SOURCE, BEHIND), (BEHIND, SOURCE), (2, BEHIND, SOURCE)]
)
def test_how_long_a_recovery_takes_is_no_matter_of_how_long_the_run_was(
    crashed: tuple[int, ...],
) -> None:
    """At the same place between two checkpoints, after 8 s and after 48 s."""
    early, late = (recovery_us(*crashed, at_us=at_us) for at_us in (8_250_000, 48_250_000))
    assert late == early
