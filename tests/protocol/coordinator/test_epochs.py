"""Up to where buffers may be trimmed, also when tasks have been sent back meanwhile."""

from __future__ import annotations

import pytest

from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.epochs import Epochs
from harness.protocol.coordinator.membership import Membership
from harness.protocol.effects import Send
from harness.protocol.inputs import EpochCompleted, Start
from harness.protocol.scheme import Recovery
from harness.simulator.topologies import chain
from tests.protocol.clusters import CAUSE, node, scheme

WIRING = chain(1)


def told(recovery: Recovery, *, complete: int, positions: list[int]) -> set[int]:
    """Return the permissions to trim for tasks whose neighbours are placed at ``positions``.

    None of the tasks has reported yet."""
    members = Membership([node(0, slots=4)])
    assigned = Assignments(members)
    assigned.begin(len(positions))
    for task, position in enumerate(positions):
        assigned.place(task, 0, start=Start.EMPTY, position=position)
    every = 0 if recovery is Recovery.REPLAY else 3
    wanted = scheme(recovery=recovery, checkpoint_every=every)
    epochs = Epochs(wiring=WIRING, scheme=wanted, members=members, assigned=assigned)
    epochs.complete = complete
    sent = [effect.message for effect in epochs.orders(CAUSE) if isinstance(effect, Send)]
    assert {message.task for message in sent} in (set(), set(WIRING.tasks))
    assert not list(epochs.orders(CAUSE)), "once is enough"
    return {message.position for message in sent if isinstance(message, EpochCompleted)}


@pytest.mark.parametrize("back_to", [0, 5, 20, 21])
def test_a_registry_from_before_tasks_were_sent_back_trims_nothing_that_they_need(
    back_to: int,
) -> None:
    """The next coordinator reads its epoch again, and has no reports."""
    positions = [22] * (len(WIRING.tasks) - 1) + [back_to]
    assert told(Recovery.REPLAY, complete=22, positions=positions) == {back_to}


def test_what_every_task_has_passed_may_go() -> None:
    positions = [30] * len(WIRING.tasks)
    assert told(Recovery.REPLAY, complete=22, positions=positions) == {22}


def test_an_epoch_that_everybody_has_stored_stays_complete() -> None:
    """A task that starts again begins there, whatever its position is."""
    positions = [0] * len(WIRING.tasks)
    assert told(Recovery.GLOBAL, complete=22, positions=positions) == {22}
    assert told(Recovery.LOCAL, complete=22, positions=positions) == set()
