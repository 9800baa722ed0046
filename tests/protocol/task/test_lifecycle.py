"""The phases of a copy: loading, going back and being fenced off."""

from __future__ import annotations

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Closing, Tentative
from harness.protocol.task.lifecycle import Phase
from tests.protocol.machines import CAUSE, TaskUnderTest, messages, only, read, source


def test_a_refused_checkpoint_fences_the_copy() -> None:
    t = TaskUnderTest()
    t.give(told.CheckpointRefused)
    assert t.machine.phase is Phase.FENCED
    assert t.batch(0) == []


def test_a_source_does_not_go_back_for_a_replica_that_can_load_a_checkpoint() -> None:
    t = source(1)
    for batch in range(3):
        read(t, batch)
    t.give(told.BatchesAcknowledged, downstream=1, below=3)
    asked = t.asked(1, reloads=True)
    assert [m.oldest for m in messages(asked, told.ReplayRefused)] == [3]
    assert t.machine.position == 3


def test_a_task_that_loads_nothing_newer_goes_on_with_what_it_had_begun() -> None:
    """It runs ahead, so its own state is given away.

    A loaded state would take it back to the batch that it continued without."""
    t = TaskUnderTest(tentative=Tentative())
    for batch in range(3):
        t.compute(batch)
    t.give(told.CheckpointStored, position=3)
    closed = told.UpstreamClosed(
        cause=CAUSE, task=1, upstream=0, last_batch=3, before_term=2, back_at=0
    )
    t.done(only(t.tell(closed), do.ProcessBatch))
    refused = told.ReplayRefused(cause=CAUSE, task=1, upstream=0, oldest=4)
    only(t.tell(refused), do.LoadCheckpoint)
    checkpoint = told.Checkpoint(
        task=1, position=3, state=(0, 1, 2), outputs=(), acknowledged=(3,), term=1
    )
    loaded = told.CheckpointLoaded(cause=CAUSE, task=1, incarnation=1, checkpoint=checkpoint)
    assert messages(t.tell(loaded), told.UpstreamResumed) == [], "it was there all the time"
    going = only(t.batch(4, 0, term=2), do.ProcessBatch)
    assert (going.run, going.batch) == (told.Run.TENTATIVE, 4)


CONVERGES = Tentative(closing=Closing.TASK, converges=True)
STORED = told.Checkpoint(
    task=1, position=6, state=("whole",), outputs=((4, ("p",)), (5, ("q",))), acknowledged=(4,),
    term=1,
)  # fmt: skip


def loading(term: int | None) -> tuple[TaskUnderTest, list[do.TaskEffect]]:
    """Return a copy whose operator remembers two batches, with the answer to its checkpoint."""
    t = TaskUnderTest(term=term, tentative=CONVERGES, start=told.Start.CHECKPOINT)
    return t, t.give(told.CheckpointLoaded, checkpoint=STORED)


def test_a_replica_of_a_convergent_operator_fills_an_empty_state_from_its_input() -> None:
    """Its output is right once the state is full; until then it has its primary's."""
    t, begins = loading(None)
    assert t.machine.position == 4
    (request,) = messages(begins, told.ReplayRequested)
    assert (request.from_batch, request.acknowledged, request.reloads) == (4, 4, False)
    for batch in range(4, 8):
        first = only(t.batch(batch), do.ProcessBatch)
        assert first.state == tuple(range(4, batch)), "it begins with nothing"
        t.done(first)
    kept = dict(t.machine.outlet.outbox.contents())
    assert kept[4] == ("p",)
    assert kept[5] == ("q",)
    assert kept[6] == ("stable-6",), "from there on its own output counts"


def test_a_restored_primary_of_a_convergent_operator_loads_its_state() -> None:
    t, _ = loading(2)
    assert t.machine.position == 6
    assert only(t.batch(6), do.ProcessBatch).state == ("whole",)
