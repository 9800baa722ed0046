"""The steps of a recovery, from the machines' notes."""

from __future__ import annotations

from harness.hosting.restoration import Noted, Restorations
from harness.hosting.steps import Steps, steps_of
from harness.protocol.effects import CopyEvent
from tests.hosting.test_restoration import BEFORE, noted


def only(notes: list[Noted]) -> Steps | None:
    [way] = Restorations(notes).every()
    return steps_of(way, notes)


def test_a_checkpoint_is_hosted_then_loaded_then_caught_up_with() -> None:
    notes = [
        *BEFORE,
        noted(30, CopyEvent.LOST, 1),
        noted(33, CopyEvent.HOSTED, 5, task=2),  # another task
        noted(40, CopyEvent.HOSTED, 2),
        noted(44, CopyEvent.READY, 2, 1, "checkpoint"),
        noted(49, CopyEvent.PROGRESSED, 2, 2),
        noted(60, CopyEvent.READY, 2, 2),  # once more, later
    ]
    assert only([*notes]) == Steps(there_us=10, ready_us=14, restored_us=19)
    assert only([*notes[:-2]]) is None, "it is not back"


def test_of_two_new_primaries_the_last_one_counts() -> None:
    notes = [
        *BEFORE,
        noted(30, CopyEvent.LOST, 1),
        noted(40, CopyEvent.HOSTED, 2),
        noted(44, CopyEvent.READY, 2),
        noted(50, CopyEvent.LOST, 2),
        noted(60, CopyEvent.HOSTED, 3),
        noted(66, CopyEvent.READY, 3, 2),
    ]
    assert only([*notes]) == Steps(there_us=30, ready_us=36, restored_us=36)


def test_a_promoted_replica_has_its_state() -> None:
    notes = [*BEFORE, noted(30, CopyEvent.LOST, 1), noted(35, CopyEvent.PROMOTED, 2, 2)]
    assert only([*notes]) == Steps(there_us=5, ready_us=5, restored_us=5)
