"""The input side of a copy: windows, duplicates and repeated requests."""

from __future__ import annotations

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.task.inlet import READ_AHEAD
from harness.simulator.topologies import layered
from tests.protocol.machines import (
    CAUSE,
    TaskUnderTest,
    acknowledge,
    join_of_two,
    messages,
    only,
    read,
    set_window,
    small,
    source,
)


def test_a_stalled_copy_asks_again_and_a_moving_one_does_not() -> None:
    t = TaskUnderTest()
    t.compute(0)
    assert messages(t.tick(now=1), told.ReplayRequested) == []
    asked = messages(t.tick(now=2), told.ReplayRequested)
    assert [(m.task, m.from_batch) for m in asked] == [(0, 1)]


def test_what_comes_too_early_is_dropped_and_asked_for_when_its_turn_comes() -> None:
    t = small()
    for number in (1, 2, 3, 4, 5):
        assert t.batch(number) == []
    assert sorted(t.machine.inlet.inbox.slots) == [1, 2, 3]
    process = only(t.batch(0), do.ProcessBatch)
    for _ in range(3):
        effects = t.done(process)
        assert messages(effects, told.ReplayRequested) == []
        process = only(effects, do.ProcessBatch)
    acknowledge(t, 3)
    [asked] = messages(t.done(process), told.ReplayRequested)
    assert asked.from_batch == 4


def test_a_source_reads_a_window_at_a_time_and_no_further_while_it_is_full() -> None:
    t = source(1)
    started = only(t.started, do.ReadSource)
    assert (started.from_batch, started.below) == (0, READ_AHEAD)
    set_window(t, 4)
    t.machine.inlet.read_below = 4
    assert [e for batch in (0,) for e in read(t, batch) if isinstance(e, do.ReadOn)] == []
    assert only(read(t, 1), do.ReadOn).below == 6
    read(t, 2)
    read(t, 3)
    item = told.SourceRead(cause=CAUSE, task=0, incarnation=1, batch=4, payload="in")
    assert t.tell(item) == []
    assert t.machine.inlet.read_below == 6 + 2
    t.give(told.BatchesAcknowledged, downstream=1, below=1)
    assert t.machine.computation.busy


def test_a_source_that_goes_back_reads_no_more_than_a_window() -> None:
    t = source(1)
    for batch in range(6):
        read(t, batch)
    set_window(t, 4)
    t.give(told.BatchesAcknowledged, downstream=1, below=6)
    asked = t.asked(1, acknowledged=1)
    again = only(asked, do.ReadSource)
    assert (again.from_batch, again.below) == (1, 5)


def test_a_copy_that_stands_still_says_again_how_far_its_upstream_tasks_may_trim() -> None:
    """A new primary upstream may have missed it, and have no room because of that."""
    t = TaskUnderTest(2, every=2)
    for batch in (0, 1):
        t.compute(batch, 1)
    t.give(told.CheckpointStored, position=2)
    t.tick(now=1)
    [asked] = messages(t.tick(now=2), told.ReplayRequested)
    assert asked.acknowledged == 2


def test_who_has_sent_the_next_batch_already_is_told_again_how_far_to_trim() -> None:
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, every=1)
    t.batch(0, 0)
    t.compute(0, 1)
    t.give(told.CheckpointStored, position=1)
    t.batch(1, 1)
    t.tick(now=1)
    effects = t.tick(now=2)
    assert [item.task for item in messages(effects, told.ReplayRequested)] == [0]
    [again] = messages(effects, told.BatchesAcknowledged)
    assert (again.task, again.below) == (1, 1)


def test_a_tentative_batch_of_an_older_primary_is_dropped() -> None:
    t = join_of_two()
    t.give(told.UpstreamResumed, upstream=1, term=5)
    t.batch(0, 0)
    assert t.batch(0, 1, stable=False, term=3) == []
    assert only(t.batch(0, 1, stable=False, term=5), do.ProcessBatch).run is told.Run.TENTATIVE
