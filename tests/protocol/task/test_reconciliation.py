"""Tentative batches, their undo and their redo."""

from __future__ import annotations

import pytest

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Closing, Corrections, Method, Policy, Tentative
from harness.protocol.task.computation import Mode
from harness.simulator.topologies import layered
from tests.protocol.machines import CAUSE, TaskUnderTest, join_of_two, messages, only, publishes


@pytest.mark.parametrize("method", list(Method))
def test_a_tentative_batch_is_undone_and_redone_from_the_state_before_it(method: Method) -> None:
    t = join_of_two(method=method)
    t.batch(0, 0)
    t.compute(0, 1)
    t.confirm()
    t.batch(1, 0)
    t.done(only(t.close(), do.ProcessBatch), state="tainted")
    t.confirm()
    assert t.mode() is Mode.FAILURE
    rebuild = only(t.batch(1, 1, term=5), do.RebuildState)
    assert t.mode() is Mode.STABILIZATION
    if method is Method.CHECKPOINT:
        assert (rebuild.state, rebuild.inputs) == ((0,), ())
    else:
        assert (rebuild.state, rebuild.first_batch, rebuild.inputs) == ((), 0, (("in", "in"),))
    redo = only(t.give(told.StateRebuilt, ticket=rebuild.ticket, state=(0,)), do.ProcessBatch)
    assert (redo.run, redo.batch, redo.state) == (told.Run.STABLE, 1, (0,))
    assert publishes(t.done(redo)) == [("undo", 1), ("stable", 1)]
    assert t.mode() is Mode.STABLE


def redoing_before_its_fence() -> tuple[TaskUnderTest, do.ProcessBatch]:
    """Return a sink that redoes batch 1 before the answer to its fence has come.

    It has computed batches 0 and 1 without upstream task 1, and has redone batch 0."""
    t = join_of_two(fences=False, corrections=Corrections.DONE)
    t.batch(0, 0)
    t.done(only(t.close(), do.ProcessBatch))
    t.compute(1, 0)
    t.batch(1, 1, term=5)
    rebuild = only(t.batch(0, 1, term=5), do.RebuildState)
    effects = t.give(told.StateRebuilt, ticket=rebuild.ticket, state=())
    effects = t.done(only(effects, do.ProcessBatch))
    assert publishes(effects) == []
    return t, only(effects, do.ProcessBatch)


def test_what_no_reader_has_seen_is_not_held_as_a_correction() -> None:
    t, redo = redoing_before_its_fence()
    assert publishes(t.fence()) == [("stable", 0), ("tentative", 1)]
    t.confirm()
    assert publishes(t.done(redo)) == [("undo", 1), ("stable", 1)]


def test_a_correction_of_an_older_primarys_output_waits_although_the_fence_came_late() -> None:
    t, redo = redoing_before_its_fence()
    assert publishes(t.fence(next_tentative=1)) == [("tentative", 1)]
    t.confirm()
    assert publishes(t.done(redo)) == [("undo", 0), ("stable", 0), ("stable", 1)]


def test_a_correction_goes_out_early_if_a_first_version_must_stand_behind_it() -> None:
    """Batch 1 has no version in the partition, and batch 0 must precede it."""
    t, redo = redoing_before_its_fence()
    t.batch(2, 0)
    t.batch(2, 1, term=5)
    effects = t.done(redo)
    assert publishes(effects) == []
    assert publishes(t.fence(next_tentative=1)) == [("undo", 0), ("stable", 0), ("stable", 1)]


def test_a_burst_is_as_old_as_its_tuple_times_while_the_task_stabilizes() -> None:
    """Batch b is due at b times the interval; from 2 on they come late, all at once."""
    t = join_of_two(
        closing=Closing.TASK,
        bound_us=50,
        interval_us=10,
        during_failure=Policy.PROCESS,
        during_stabilization=Policy.DELAY,
    )
    t.batch(0, 0)
    first = only(t.tell(told.TimerFired(cause=CAUSE, key=("due", 2)), now=50), do.ProcessBatch)
    assert first.run is told.Run.TENTATIVE
    t.done(first)
    t.now = 60
    t.batch(0, 1)  # the redo of batch 0 has begun
    t.batch(1, 1)
    ahead = only(t.batch(1, 0), do.ProcessBatch)
    assert (ahead.run, ahead.batch) == (told.Run.TENTATIVE, 1), "it was due at 10, so late at 60"


def test_going_ahead_copies_the_state_whatever_was_copied_before() -> None:
    """A blocked node has the time to: nothing from before the failure is processed again."""
    for method, inputs in ((Method.CHECKPOINT, 0), (Method.UNDO, 3)):
        t = join_of_two(method=method, snapshot_every=2)
        for batch in range(3):
            t.batch(batch, 0)
            t.compute(batch, 1)
        t.close(before_term=9)
        going = only(t.batch(3, 0), do.ProcessBatch)
        assert (going.run, going.copies_state) == (told.Run.TENTATIVE, method is Method.CHECKPOINT)
        t.done(going)
        rebuild = only(t.batch(3, 1, term=9), do.RebuildState)
        assert len(rebuild.inputs) == inputs, "two that the state remembers, one since the marker"
        assert rebuild.first_batch + inputs == 3


def test_corrections_are_not_held_back_by_a_full_outbox() -> None:
    """Else they could not be acknowledged, and nothing would ever move again."""
    wiring = layered([2, 1, 1], [(0, 1, "full"), (1, 2, "one")], memory=2, names=["s", "O", "sink"])
    t = TaskUnderTest(
        2, wiring=wiring, checkpoint_every=50, tentative=Tentative(corrections=Corrections.DONE)
    )
    t.set_window(2)
    t.batch(0, 0)
    t.compute(0, 1)
    t.batch(1, 0)
    t.done(only(t.close(), do.ProcessBatch))
    t.compute(2, 0)
    t.batch(2, 1, term=5)
    rebuild = only(t.batch(1, 1, term=5), do.RebuildState)
    redo = only(t.give(told.StateRebuilt, ticket=rebuild.ticket, state=()), do.ProcessBatch)
    effects = t.done(redo)
    assert t.machine.full
    assert [m.batch for m in messages(effects, told.BatchArrived) if m.stable] == [1]


def test_stabilization_lasts_until_what_was_suspended_is_processed() -> None:
    """Batch 1 came while batch 0 was redone.

    Its output is the first version of it, and goes out with the corrections, not before all waiting
    batches are done."""
    t = join_of_two(during_stabilization=Policy.SUSPEND, corrections=Corrections.DONE)
    t.batch(0, 0)
    t.done(only(t.close(), do.ProcessBatch))
    t.confirm()
    rebuild = only(t.batch(0, 1, term=5), do.RebuildState)
    for batch in (1, 2):
        t.batch(batch, 0)
        t.batch(batch, 1, term=5)
    effects = t.give(told.StateRebuilt, ticket=rebuild.ticket, state=())
    for batch in (0, 1):
        process = only(effects, do.ProcessBatch)
        assert (process.batch, process.run) == (batch, told.Run.STABLE)
        effects = t.done(process)
        assert publishes(effects) == []
        assert t.mode() is Mode.STABILIZATION
    assert publishes(t.done(only(effects, do.ProcessBatch))) == [
        ("undo", 0),
        ("stable", 0),
        ("stable", 1),
        ("stable", 2),
    ]
    assert t.mode() is Mode.STABLE
