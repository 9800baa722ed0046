"""Checkpoints: when they are stored, and stored again."""

from __future__ import annotations

from msgspec import structs

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Recovery, Tentative
from harness.protocol.task.computation import Mode
from harness.simulator.topologies import layered
from tests.protocol.machines import CAUSE, TaskUnderTest, closed, messages, only


def test_a_checkpoint_is_stored_every_c_batches_and_acknowledged_once_durable() -> None:
    t = TaskUnderTest(2)
    for number in range(2):
        effects = t.compute(number, 1)
        assert not [e for e in effects if isinstance(e, do.StoreCheckpoint)]
    effects = t.compute(2, 1)
    checkpoint = only(effects, do.StoreCheckpoint).checkpoint
    assert (checkpoint.position, checkpoint.state) == (3, (0, 1, 2))
    assert [batch for batch, _ in checkpoint.outputs] == [0, 1, 2]
    assert messages(effects, told.BatchesAcknowledged) == []
    stored = t.give(told.CheckpointStored, position=3)
    assert messages(stored, told.BatchesAcknowledged) == [
        told.BatchesAcknowledged(cause=CAUSE, task=1, downstream=2, below=3)
    ]


def test_a_checkpoint_that_was_not_confirmed_is_stored_again_at_the_next_tick() -> None:
    t = TaskUnderTest()
    for number in range(3):
        t.compute(number)
    again = t.tick(now=10)
    assert only(again, do.StoreCheckpoint).checkpoint.position == 3


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


def test_a_replica_that_took_over_and_went_on_tentatively_stores_its_state_too() -> None:
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, term=None, tentative=Tentative(), every=2)
    for number in range(3):
        t.batch(number, 0)
        t.compute(number, 1)
    t.give(told.CopyPromoted, term=4)
    t.batch(3, 0, term=4)
    t.done(only(t.tell(structs.replace(closed(), before_term=9)), do.ProcessBatch))
    t.tick(now=1)
    effects = t.tick(now=2)
    rebuild = only(effects, do.RebuildState)
    assert t.machine.mode is Mode.FAILURE, "nothing can be redone yet"
    t.give(told.StateRebuilt, ticket=rebuild.ticket, state=(0, 1, 2))
    stored = only(t.tick(now=3), do.StoreCheckpoint).checkpoint
    assert (stored.position, stored.state) == (3, (0, 1, 2))
    assert t.machine.mode is Mode.FAILURE


def test_a_sink_that_was_replaced_keeps_no_more_checkpoints_than_its_window() -> None:
    """Its output does not wait for the store, and epochs are completed without it."""
    t = TaskUnderTest(3, every=1, window=2, recovery=Recovery.GLOBAL)
    t.give(told.OutputFenced, next_stable=0, next_tentative=0)
    for batch in range(4):
        effects = t.compute(batch, 2)
        published = only(effects, do.PublishOutput)
        t.give(told.OutputPublished, sequence=published.sequence)
    assert list(t.machine.durability.unstored) == [3, 4]
