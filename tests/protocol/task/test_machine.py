"""One copy of a task, input by input: what random schedules do not show (tests/simulator)."""

from __future__ import annotations

import weakref

import pytest

from harness.errors import ProtocolViolation
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Recovery, Tentative
from harness.protocol.task.inlet import READ_AHEAD
from harness.protocol.task.lifecycle import Phase
from harness.simulator.topologies import chain
from tests.protocol.machines import TaskUnderTest, join_of_two, messages, only, requested, source


def test_a_failure_of_a_computation_that_is_void_is_not_the_copys() -> None:
    t = source()
    process = only(t.give(told.SourceRead, batch=0, payload="in"), do.ProcessBatch)
    t.machine.life.rewind(0)  # as a neighbour may ask for
    t.give(
        told.BatchFailed, run=process.run, ticket=process.ticket, batch=0, error="ValueError: none"
    )
    assert t.machine.phase is Phase.READY


def test_a_story_keeps_what_was_said_and_not_the_data() -> None:
    t = TaskUnderTest()
    data = ["a payload"] * 1000
    kept = weakref.ref(holder := Holder(data))
    t.done(only(t.batch(0, payload=holder), do.ProcessBatch), state=(holder,))
    t.machine.inlet.inbox.slots.clear()
    t.machine.computation.state, t.machine.outlet.outbox.outputs = (), {}
    del holder
    assert kept() is None
    told_ = t.machine.story.text()
    assert "BatchArrived(cause=test, task=1, upstream=0, batch=0, stable=True" in told_
    assert "payload=<Holder>" in told_
    assert "inputs=<1>" in told_


class Holder:
    """A payload whose end can be seen."""

    def __init__(self, data: list[str]) -> None:
        self.data = data


def test_a_violation_tells_its_story() -> None:
    t = TaskUnderTest(3, wiring=chain(3))
    t.fence()
    t.machine.computation.position = -3  # as no sequence of inputs would
    with pytest.raises(ProtocolViolation) as caught:
        t.batch(0, 2)
    text = str(caught.value)
    assert "the checkpoint is ahead of the state" in text
    assert "story of task O3.0, incarnation 1" in text
    assert "BatchArrived(cause=test" in text


def test_a_source_reads_a_window_at_a_time_and_no_further_while_it_is_full() -> None:
    t = source()
    started = only(t.started, do.ReadSource)
    assert (started.from_batch, started.below) == (0, READ_AHEAD)
    t.set_window(4)
    t.machine.inlet.read_below = 4
    assert not any(isinstance(effect, do.ReadOn) for effect in t.read(0))
    assert only(t.read(1), do.ReadOn).below == 6
    t.read(2)
    t.read(3)
    assert t.give(told.SourceRead, batch=4, payload="in") == []
    assert t.machine.inlet.read_below == 6 + 2
    t.give(told.BatchesAcknowledged, downstream=1, below=1)
    assert t.machine.computation.busy


def test_a_source_does_not_go_back_for_a_replica_that_can_load_a_checkpoint() -> None:
    t = source()
    for batch in range(3):
        t.read(batch)
    t.give(told.BatchesAcknowledged, downstream=1, below=3)
    asked = t.tell(requested(task=0, downstream=1, from_batch=1, from_tentative=1, reloads=True))
    assert [m.oldest for m in messages(asked, told.ReplayRefused)] == [3]
    assert t.machine.position == 3


def test_a_task_that_loads_nothing_newer_goes_on_with_what_it_had_begun() -> None:
    """It runs ahead, so its own state is given away.

    A loaded state would take it back to the batch that it continued without."""
    t = TaskUnderTest(tentative=Tentative())
    for batch in range(3):
        t.compute(batch)
    t.give(told.CheckpointStored, position=3)
    t.done(only(t.close(0, last_batch=3, before_term=2), do.ProcessBatch))
    only(t.give(told.ReplayRefused, upstream=0, oldest=4), do.LoadCheckpoint)
    checkpoint = told.Checkpoint(
        task=1, position=3, state=(0, 1, 2), outputs=(), acknowledged=(3,), term=1
    )
    loaded = t.give(told.CheckpointLoaded, checkpoint=checkpoint)
    assert messages(loaded, told.UpstreamResumed) == [], "it was there all the time"
    going = only(t.batch(4, 0, term=2), do.ProcessBatch)
    assert (going.run, going.batch) == (told.Run.TENTATIVE, 4)


def test_a_checkpoint_that_the_store_refuses_is_tried_again_ever_more_rarely() -> None:
    t = TaskUnderTest()
    beat = t.scheme.heartbeat_us
    for number in range(3):
        t.compute(number)

    def refuse() -> list[do.TaskEffect]:
        return t.give(told.CheckpointFailed, position=3, reason="5 MB are too many")

    [note] = refuse()
    assert isinstance(note, do.NoteCopy)
    assert (note.event, note.why) == (do.CopyEvent.UNSTORED, "5 MB are too many")
    tried = []
    for tick in range(1, 16):
        t.now = tick * beat
        if [e for e in t.tick() if isinstance(e, do.StoreCheckpoint)]:
            tried.append(tick)
            refuse()
    assert tried == [2, 6, 14]
    stored = t.give(told.CheckpointStored, position=3)
    assert messages(stored, told.BatchesAcknowledged)
    for number in range(3, 5):
        t.compute(number)
    assert [e for e in t.compute(5) if isinstance(e, do.StoreCheckpoint)]


def test_a_tentative_batch_of_an_older_primary_is_dropped() -> None:
    t = join_of_two()
    t.give(told.UpstreamResumed, upstream=1, term=5)
    t.batch(0, 0)
    assert t.batch(0, 1, stable=False, term=3) == []
    assert only(t.batch(0, 1, stable=False, term=5), do.ProcessBatch).run is told.Run.TENTATIVE


def test_a_checkpoint_that_was_not_confirmed_is_stored_again_at_the_next_tick() -> None:
    t = TaskUnderTest()
    for number in range(3):
        t.compute(number)
    again = t.tick(now=10)
    assert only(again, do.StoreCheckpoint).checkpoint.position == 3


def test_a_sink_that_was_replaced_keeps_no_more_checkpoints_than_its_window() -> None:
    """Its output does not wait for the store, and epochs are completed without it."""
    t = TaskUnderTest(3, checkpoint_every=1, window=2, recovery=Recovery.GLOBAL)
    t.fence()
    for batch in range(4):
        only(t.compute(batch, 2), do.PublishOutput)
        t.confirm()
    assert list(t.machine.durability.unstored) == [3, 4]
