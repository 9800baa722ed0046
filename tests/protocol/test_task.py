"""One copy of a task, input by input."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from harness.errors import ProtocolViolation
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Closing, Corrections, Method, Policy, Recovery, Tentative
from harness.protocol.task.computation import Mode
from harness.protocol.task.inlet import READ_AHEAD
from harness.protocol.task.lifecycle import Phase
from harness.simulator.topologies import chain, layered
from tests.protocol.machines import CAUSE, TaskUnderTest, messages, only


def test_a_batch_is_processed_and_sent_on() -> None:
    t = TaskUnderTest()
    effects = t.batch(0)
    assert effects == [
        do.ProcessBatch(
            cause=CAUSE,
            task=1,
            incarnation=1,
            run=told.Run.STABLE,
            ticket=2,
            batch=0,
            state=(),
            inputs=("in",),
            copies_state=False,
        )
    ]
    sent = t.done(effects[0])
    assert messages(sent, told.BatchArrived) == [
        told.BatchArrived(
            cause=CAUSE, task=2, upstream=1, batch=0, stable=True, payload="stable-0", term=1
        )
    ]


def test_parts_are_taken_in_upstream_order_whatever_came_first() -> None:
    wiring = layered([3, 1], [(0, 1, "full")], memory=1, names=["source", "sink"])
    t = TaskUnderTest(3, wiring=wiring)
    assert t.batch(0, 2, payload="c") == []
    assert t.batch(0, 0, payload="a") == []
    process = only(t.batch(0, 1, payload="b"), do.ProcessBatch)
    assert process.inputs == ("a", "b", "c")


def test_a_batch_waits_for_the_ones_before_it() -> None:
    t = TaskUnderTest()
    assert t.batch(1) == []
    assert only(t.batch(0), do.ProcessBatch).batch == 0


def test_a_duplicate_changes_nothing() -> None:
    t = TaskUnderTest()
    t.advance(0)
    assert t.batch(0, payload="forged") == []
    assert t.machine.position == 1


def test_a_checkpoint_is_stored_every_c_batches_and_acknowledged_once_durable() -> None:
    t = TaskUnderTest(2)
    for number in range(2):
        effects = t.done(only(t.batch(number, 1), do.ProcessBatch))
        assert not [e for e in effects if isinstance(e, do.StoreCheckpoint)]
    effects = t.done(only(t.batch(2, 1), do.ProcessBatch))
    checkpoint = only(effects, do.StoreCheckpoint).checkpoint
    assert (checkpoint.position, checkpoint.state) == (3, (0, 1, 2))
    assert [batch for batch, _ in checkpoint.outputs] == [0, 1, 2]
    assert messages(effects, told.BatchesAcknowledged) == []
    stored = t.tell(told.CheckpointStored(cause=CAUSE, task=2, incarnation=1, position=3))
    assert messages(stored, told.BatchesAcknowledged) == [
        told.BatchesAcknowledged(cause=CAUSE, task=1, downstream=2, below=3)
    ]


def test_a_checkpoint_that_was_not_confirmed_is_stored_again_at_the_next_tick() -> None:
    t = TaskUnderTest()
    for number in range(3):
        t.advance(number)
    again = t.tick(now=10)
    assert only(again, do.StoreCheckpoint).checkpoint.position == 3


def test_a_refused_checkpoint_fences_the_copy() -> None:
    t = TaskUnderTest()
    t.tell(told.CheckpointRefused(cause=CAUSE, task=1, incarnation=1))
    assert t.machine.phase is Phase.FENCED
    assert t.batch(0) == []


def test_output_is_replayed_to_the_copy_that_asks_until_it_is_acknowledged() -> None:
    t = TaskUnderTest()
    for number in range(3):
        t.advance(number)
    request = told.ReplayRequested(
        cause=CAUSE,
        task=1,
        downstream=2,
        asking=7,
        from_batch=1,
        from_tentative=1,
        acknowledged=0,
        reloads=False,
    )
    replayed = t.tell(request)
    assert [m.batch for m in messages(replayed, told.BatchArrived)] == [1, 2]
    assert {e.incarnation for e in replayed if isinstance(e, do.Send)} == {7}
    t.tell(told.BatchesAcknowledged(cause=CAUSE, task=1, downstream=2, below=2))
    assert messages(t.tell(request), told.ReplayRefused) == [
        told.ReplayRefused(cause=CAUSE, task=2, upstream=1, oldest=2)
    ]


def test_a_stalled_copy_asks_again_and_a_moving_one_does_not() -> None:
    t = TaskUnderTest()
    t.advance(0)
    assert messages(t.tick(now=1), told.ReplayRequested) == []
    asked = messages(t.tick(now=2), told.ReplayRequested)
    assert [(m.task, m.from_batch) for m in asked] == [(0, 1)]


def test_a_replica_holds_its_output_back_and_sends_it_when_promoted() -> None:
    t = TaskUnderTest(term=None, replicated=(1,))
    for number in range(3):
        assert messages(t.advance(number), told.BatchArrived) == []
    t.tell(told.ProgressReported(cause=CAUSE, task=1, sent_below=2))
    effects = t.tell(told.CopyPromoted(cause=CAUSE, task=1, incarnation=1, term=4, coordinator=1))
    assert [(m.batch, m.term) for m in messages(effects, told.BatchArrived)] == [(2, 4)]
    assert messages(effects, told.UpstreamResumed)[0].term == 4


def test_a_promoted_replica_still_has_what_was_sent_but_not_acknowledged() -> None:
    t = TaskUnderTest(term=None, replicated=(1,))
    for number in range(3):
        t.advance(number)
    t.tell(told.ProgressReported(cause=CAUSE, task=1, sent_below=3))
    t.tell(told.CopyPromoted(cause=CAUSE, task=1, incarnation=1, term=4, coordinator=1))
    replayed = t.tell(
        told.ReplayRequested(
            cause=CAUSE,
            task=1,
            downstream=2,
            asking=1,
            from_batch=0,
            from_tentative=0,
            acknowledged=0,
            reloads=False,
        )
    )
    assert [m.batch for m in messages(replayed, told.BatchArrived)] == [0, 1, 2]


def source(memory: int, **options: Any) -> TaskUnderTest:
    wiring = replace(chain(2), memory=(memory, 1, 1))
    return TaskUnderTest(0, wiring=wiring, **options)


def read(t: TaskUnderTest, batch: int) -> list[do.TaskEffect]:
    item = told.SourceRead(cause=CAUSE, task=0, incarnation=1, batch=batch, payload="in")
    return t.done(only(t.tell(item), do.ProcessBatch))


def test_a_source_that_remembers_stores_checkpoints_and_one_that_does_not_goes_back() -> None:
    for memory in (1, 2):
        t = source(memory)
        effects = [effect for batch in range(3) for effect in read(t, batch)]
        stored = [e for e in effects if isinstance(e, do.StoreCheckpoint)]
        assert len(stored) == (memory > 1)
        t.tell(told.BatchesAcknowledged(cause=CAUSE, task=0, downstream=1, below=2))
        asked = t.tell(
            told.ReplayRequested(
                cause=CAUSE,
                task=0,
                downstream=1,
                asking=4,
                from_batch=1,
                from_tentative=1,
                acknowledged=0,
                reloads=False,
            )
        )
        refused = messages(asked, told.ReplayRefused)
        assert [m.oldest for m in refused] == ([2] if memory > 1 else [])
        assert t.machine.position == (3 if memory > 1 else 1)


def failed(t: TaskUnderTest, effect: Any) -> told.BatchFailed:
    return told.BatchFailed(
        cause=CAUSE, task=effect.task, incarnation=1, run=effect.run, ticket=effect.ticket,
        batch=effect.batch, error="ValueError: no number",
    )  # fmt: skip


def test_a_copy_whose_operator_raises_gives_up_and_says_why() -> None:
    t = TaskUnderTest()
    process = only(t.batch(0), do.ProcessBatch)
    [note] = t.tell(failed(t, process))
    assert isinstance(note, do.NoteCopy)
    assert (note.event, note.why) == (do.CopyEvent.FAILED, "ValueError: no number")
    assert t.machine.phase is Phase.FAILED
    assert t.machine.report().failed == "ValueError: no number"
    assert not t.machine.report().ready
    assert t.batch(1) == []
    assert t.tick(now=10) == []


def test_a_failure_of_a_computation_that_is_void_is_not_the_copys() -> None:
    t = source(1)
    item = told.SourceRead(cause=CAUSE, task=0, incarnation=1, batch=0, payload="in")
    process = only(t.tell(item), do.ProcessBatch)
    t.machine.supply.rewind(0)  # as a neighbour may ask for
    t.tell(failed(t, process))
    assert t.machine.phase is Phase.READY


def test_a_checkpoint_that_the_store_refuses_is_tried_again_ever_more_rarely() -> None:
    t = TaskUnderTest()
    beat = t.scheme.heartbeat_us
    for number in range(3):
        t.advance(number)

    def refuse() -> list[do.TaskEffect]:
        return t.tell(
            told.CheckpointFailed(
                cause=CAUSE, task=1, incarnation=1, position=3, reason="5 MB are too many"
            )
        )

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
    stored = t.tell(told.CheckpointStored(cause=CAUSE, task=1, incarnation=1, position=3))
    assert messages(stored, told.BatchesAcknowledged)
    for number in range(3, 5):
        t.advance(number)
    assert [e for e in t.advance(5) if isinstance(e, do.StoreCheckpoint)]


def test_a_story_keeps_what_was_said_and_not_the_data() -> None:
    t = TaskUnderTest()
    data = ["a payload"] * 1000
    kept = weakref.ref(holder := Holder(data))
    t.done(only(t.batch(0, payload=holder), do.ProcessBatch), state=(holder,))
    t.machine.inlet.inbox.slots.clear()
    t.machine.computation.state, t.machine.outlet.outbox.outputs = (), {}
    del holder
    assert kept() is None
    told_ = t.machine.story.tell()
    assert "BatchArrived(cause=test, task=1, upstream=0, batch=0, stable=True" in told_
    assert "payload=<Holder>" in told_
    assert "inputs=<1>" in told_


# -- bounded buffers -----------------------------------------------------------------------


def set_window(t: TaskUnderTest, window: int) -> None:
    """As a scheme with a smaller one would."""
    t.machine.inlet.window = t.machine.inlet.reading = t.machine.outlet.window = window


def small(task: int = 1, **options: Any) -> TaskUnderTest:
    """A copy whose buffers hold four batches, with a checkpoint every three."""
    t = TaskUnderTest(task, **options)
    set_window(t, 4)
    return t


def acknowledge(t: TaskUnderTest, below: int) -> list[do.TaskEffect]:
    return t.tell(told.BatchesAcknowledged(cause=CAUSE, task=1, downstream=2, below=below))


def test_a_copy_whose_outbox_is_full_waits_for_a_neighbour() -> None:
    t = small()
    for number in range(4):
        t.advance(number)
    assert t.batch(4) == []
    assert t.machine.full
    assert messages(t.tick(now=1), told.ReplayRequested) == []
    assert only(acknowledge(t, 1), do.ProcessBatch).batch == 4


def test_a_request_acknowledges_too_as_acknowledgements_may_be_lost() -> None:
    t = small()
    for number in range(4):
        t.advance(number)
    t.batch(4)
    request = told.ReplayRequested(
        cause=CAUSE, task=1, downstream=2, asking=1, from_batch=4, from_tentative=4,
        acknowledged=3, reloads=False,
    )  # fmt: skip
    assert only(t.tell(request), do.ProcessBatch).batch == 4
    below = small(2)
    for number in range(3):
        below.done(only(below.batch(number, 1), do.ProcessBatch))
    below.tell(told.CheckpointStored(cause=CAUSE, task=2, incarnation=1, position=3))
    below.tick(now=1)
    [asked] = messages(below.tick(now=2), told.ReplayRequested)
    assert (asked.from_batch, asked.acknowledged) == (3, 3)


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
    t.tell(told.BatchesAcknowledged(cause=CAUSE, task=0, downstream=1, below=1))
    assert t.machine.computation.busy


def test_a_source_that_goes_back_reads_no_more_than_a_window() -> None:
    t = source(1)
    for batch in range(6):
        read(t, batch)
    set_window(t, 4)
    t.tell(told.BatchesAcknowledged(cause=CAUSE, task=0, downstream=1, below=6))
    asked = t.tell(
        told.ReplayRequested(
            cause=CAUSE, task=0, downstream=1, asking=4, from_batch=1, from_tentative=1,
            acknowledged=1, reloads=False,
        )
    )  # fmt: skip
    again = only(asked, do.ReadSource)
    assert (again.from_batch, again.below) == (1, 5)


def test_a_source_does_not_go_back_for_a_replica_that_can_load_a_checkpoint() -> None:
    t = source(1)
    for batch in range(3):
        read(t, batch)
    t.tell(told.BatchesAcknowledged(cause=CAUSE, task=0, downstream=1, below=3))
    asked = t.tell(
        told.ReplayRequested(
            cause=CAUSE, task=0, downstream=1, asking=4, from_batch=1, from_tentative=1,
            acknowledged=0, reloads=True,
        )
    )  # fmt: skip
    assert [m.oldest for m in messages(asked, told.ReplayRefused)] == [3]
    assert t.machine.position == 3


def test_corrections_are_not_held_back_by_a_full_outbox() -> None:
    """Else nobody could acknowledge them, and nothing would ever move again."""
    wiring = layered([2, 1, 1], [(0, 1, "full"), (1, 2, "one")], memory=2, names=["s", "O", "sink"])
    t = TaskUnderTest(2, wiring=wiring, every=50, tentative=Tentative(corrections=Corrections.DONE))
    set_window(t, 2)
    t.batch(0, 0)
    t.done(only(t.batch(0, 1), do.ProcessBatch))
    t.batch(1, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch))
    t.done(only(t.batch(2, 0), do.ProcessBatch))
    t.batch(2, 1, term=5)
    rebuild = only(t.batch(1, 1, term=5), do.RebuildState)
    redo = only(
        t.tell(
            told.StateRebuilt(cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=())
        ),
        do.ProcessBatch,
    )
    effects = t.done(redo)
    assert t.machine.full
    assert [m.batch for m in messages(effects, told.BatchArrived) if m.stable] == [1]


def test_a_replica_of_a_later_plan_is_told_of_progress_too() -> None:
    t = TaskUnderTest(3, wiring=chain(3), replicated=())
    t.tell(told.OutputFenced(cause=CAUSE, task=3, incarnation=1, next_stable=0, next_tentative=0))
    t.done(only(t.batch(0, 2), do.ProcessBatch))
    t.tell(told.OutputPublished(cause=CAUSE, task=3, incarnation=1, sequence=1))
    effects = t.tick(now=t.scheme.trim_every_us)
    assert [m.sent_below for m in messages(effects, told.ProgressReported)] == [1]


def test_a_replica_that_took_over_stores_its_state_if_all_stands_still() -> None:
    t = TaskUnderTest(term=None, replicated=(1,))
    for number in range(4):
        t.advance(number)
    t.tell(told.CopyPromoted(cause=CAUSE, task=1, incarnation=1, term=4, coordinator=1))
    assert [e for e in t.tick(now=1) if isinstance(e, do.StoreCheckpoint)] == []
    stored = only(t.tick(now=2), do.StoreCheckpoint)
    assert (stored.checkpoint.position, stored.checkpoint.term) == (4, 4)


def test_a_replica_that_took_over_and_went_on_tentatively_stores_its_state_too() -> None:
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, term=None, tentative=Tentative(), every=2)
    for number in range(3):
        t.batch(number, 0)
        t.done(only(t.batch(number, 1), do.ProcessBatch))
    t.tell(told.CopyPromoted(cause=CAUSE, coordinator=1, task=2, incarnation=1, term=4))
    t.batch(3, 0, term=4)
    t.done(only(t.tell(structs.replace(closed(), before_term=9)), do.ProcessBatch))
    t.tick(now=1)
    effects = t.tick(now=2)
    rebuild = only(effects, do.RebuildState)
    assert t.machine.mode is Mode.FAILURE, "nothing can be redone yet"
    t.tell(
        told.StateRebuilt(
            cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=(0, 1, 2)
        )
    )
    stored = only(t.tick(now=3), do.StoreCheckpoint).checkpoint
    assert (stored.position, stored.state) == (3, (0, 1, 2))
    assert t.machine.mode is Mode.FAILURE


class Holder:
    """A payload whose end can be seen."""

    def __init__(self, data: list[str]) -> None:
        self.data = data


# -- tentative -----------------------------------------------------------------------------


def join_of_two(*, fences: bool = True, **rules: Any) -> TaskUnderTest:
    """A sink with two upstream tasks, 0 and 1, and, if it ``fences``, its output partition."""
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, tentative=Tentative(**rules), every=50)
    if fences:
        t.tell(fenced())
    return t


def fenced(next_tentative: int = 0) -> told.OutputFenced:
    return told.OutputFenced(
        cause=CAUSE, task=2, incarnation=1, next_stable=0, next_tentative=next_tentative
    )


def publishes(effects: list[do.TaskEffect]) -> list[tuple[str, int]]:
    return [
        (str(record.kind), record.batch)
        for effect in effects
        if isinstance(effect, do.PublishOutput)
        for record in effect.records
    ]


def mode(t: TaskUnderTest) -> Mode:
    return t.machine.mode


def confirm(t: TaskUnderTest) -> list[do.TaskEffect]:
    sequence = t.machine.outlet.publisher.sequence
    return t.tell(told.OutputPublished(cause=CAUSE, task=2, incarnation=1, sequence=sequence))


def closed(last_batch: int = 9, back_at: int = 0) -> told.UpstreamClosed:
    return told.UpstreamClosed(
        cause=CAUSE, task=2, upstream=1, last_batch=last_batch, before_term=5, back_at=back_at
    )


def ahead_of_a_lost_task(t: TaskUnderTest, *, batches: int, back_at: int) -> None:
    """Upstream task 1 is lost and closed; the sink has gone on without it."""
    t.tell(closed(back_at=back_at))
    for batch in range(batches):
        t.done(only(t.batch(batch, 0), do.ProcessBatch))


def begins(effects: list[do.TaskEffect]) -> list[tuple[int, tuple[Any, ...]]]:
    """The tentative batches that are begun, and with what."""
    return [
        (effect.batch, effect.inputs)
        for effect in effects
        if isinstance(effect, do.ProcessBatch) and effect.run is told.Run.TENTATIVE
    ]


def test_an_upstream_task_that_is_back_is_not_closed_by_an_order_from_before() -> None:
    """The coordinator closes it at every sweep until a heartbeat tells that it is back."""
    t = join_of_two()
    ahead_of_a_lost_task(t, batches=2, back_at=3)
    t.batch(2, 1, stable=False, term=5)
    t.done(only(t.batch(2, 0), do.ProcessBatch))
    t.tell(closed(back_at=3))
    assert begins(t.batch(3, 0)) == [], "its part will come"
    assert begins(t.batch(3, 1, stable=False, term=5)) == [(3, ("in", "in"))]


def test_an_upstream_task_that_is_not_yet_where_it_was_is_closed_again() -> None:
    t = join_of_two()
    ahead_of_a_lost_task(t, batches=2, back_at=9)
    t.batch(2, 1, stable=False, term=5)
    t.done(only(t.batch(2, 0), do.ProcessBatch))
    t.tell(closed(back_at=9))
    assert begins(t.batch(3, 0)) == [(3, ("in", None))]


def test_the_next_loss_of_an_upstream_task_that_was_back_closes_it() -> None:
    t = join_of_two()
    t.done(only([*t.batch(0, 0), *t.batch(0, 1, term=4)], do.ProcessBatch))
    t.tell(closed(back_at=1))
    assert begins(t.batch(1, 0)) == [(1, ("in", None))]


def test_nothing_tentative_before_the_coordinator_closes() -> None:
    t = join_of_two()
    assert t.batch(0, 0) == []
    process = only(t.tell(closed()), do.ProcessBatch)
    assert (process.run, process.inputs) == (told.Run.TENTATIVE, ("in", None))
    assert publishes(t.done(process)) == [("tentative", 0)]


@pytest.mark.parametrize("method", list(Method))
def test_a_tentative_batch_is_undone_and_redone_from_the_state_before_it(method: Method) -> None:
    t = join_of_two(method=method)
    t.batch(0, 0)
    t.done(only(t.batch(0, 1), do.ProcessBatch))
    confirm(t)
    t.batch(1, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch), state="tainted")
    confirm(t)
    assert mode(t) is Mode.FAILURE
    rebuild = only(t.batch(1, 1, term=5), do.RebuildState)
    assert mode(t) is Mode.STABILIZATION
    if method is Method.CHECKPOINT:
        assert (rebuild.state, rebuild.inputs) == ((0,), ())
    else:
        assert (rebuild.state, rebuild.first_batch, rebuild.inputs) == ((), 0, (("in", "in"),))
    redo = only(
        t.tell(
            told.StateRebuilt(cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=(0,))
        ),
        do.ProcessBatch,
    )
    assert (redo.run, redo.batch, redo.state) == (told.Run.STABLE, 1, (0,))
    assert publishes(t.done(redo)) == [("undo", 1), ("stable", 1)]
    assert mode(t) is Mode.STABLE


def test_under_delay_every_batch_waits_for_the_bound() -> None:
    t = join_of_two(closing=Closing.TASK, bound_us=100, during_failure=Policy.DELAY)
    effects = t.batch(0, 0)
    assert effects == [do.SetTimer(cause=CAUSE, at=100, key=("due", 2))]
    fired = told.TimerFired(cause="timer", key=("due", 2))
    process = only(t.tell(fired, now=100), do.ProcessBatch)
    t.now = 130
    t.done(process)
    assert only(t.batch(1, 0), do.SetTimer).at == 230


def test_under_process_only_the_first_batch_waits() -> None:
    t = join_of_two(closing=Closing.TASK, bound_us=100)
    t.batch(0, 0)
    process = only(t.tell(told.TimerFired(cause="t", key=("due", 2)), now=100), do.ProcessBatch)
    t.done(process)
    assert only(t.batch(1, 0), do.ProcessBatch).run is told.Run.TENTATIVE


def test_under_suspend_nothing_new_is_processed_while_redoing() -> None:
    t = join_of_two(during_stabilization=Policy.SUSPEND)
    t.batch(0, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch))
    effects = t.batch(0, 1, term=5)
    only(effects, do.RebuildState)
    assert t.batch(1, 0) == []
    assert t.batch(1, 1, term=5) == []


def test_corrections_may_wait_until_the_task_is_stable() -> None:
    t = join_of_two(corrections=Corrections.DONE)
    t.batch(0, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch))
    t.done(only(t.batch(1, 0), do.ProcessBatch))
    confirm(t)
    confirm(t)
    t.batch(1, 1, term=5)
    rebuild = only(t.batch(0, 1, term=5), do.RebuildState)
    redo = only(
        t.tell(
            told.StateRebuilt(cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=())
        ),
        do.ProcessBatch,
    )
    effects = t.done(redo)
    assert publishes(effects) == []
    assert publishes(t.done(only(effects, do.ProcessBatch))) == [
        ("undo", 0),
        ("stable", 0),
        ("stable", 1),
    ]


def redoing_before_its_fence() -> tuple[TaskUnderTest, do.ProcessBatch]:
    """It has computed batches 0 and 1 without upstream task 1, has redone batch 0, and redoes
    batch 1, while the answer to its fence has not come."""
    t = join_of_two(fences=False, corrections=Corrections.DONE)
    t.batch(0, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch))
    t.done(only(t.batch(1, 0), do.ProcessBatch))
    t.batch(1, 1, term=5)
    rebuild = only(t.batch(0, 1, term=5), do.RebuildState)
    rebuilt = told.StateRebuilt(cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=())
    effects = t.done(only(t.tell(rebuilt), do.ProcessBatch))
    assert publishes(effects) == []
    return t, only(effects, do.ProcessBatch)


def test_what_no_reader_has_seen_is_not_held_as_a_correction() -> None:
    t, redo = redoing_before_its_fence()
    assert publishes(t.tell(fenced())) == [("stable", 0), ("tentative", 1)]
    confirm(t)
    assert publishes(t.done(redo)) == [("undo", 1), ("stable", 1)]


def test_a_correction_of_an_older_primarys_output_waits_although_the_fence_came_late() -> None:
    t, redo = redoing_before_its_fence()
    assert publishes(t.tell(fenced(next_tentative=1))) == [("tentative", 1)]
    confirm(t)
    assert publishes(t.done(redo)) == [("undo", 0), ("stable", 0), ("stable", 1)]


def test_a_correction_goes_out_early_if_a_first_version_must_stand_behind_it() -> None:
    """Batch 1 has no version in the partition, and batch 0 must stand before it."""
    t, redo = redoing_before_its_fence()
    t.batch(2, 0)
    t.batch(2, 1, term=5)
    effects = t.done(redo)
    assert publishes(effects) == []
    assert publishes(t.tell(fenced(next_tentative=1))) == [
        ("undo", 0),
        ("stable", 0),
        ("stable", 1),
    ]


def test_stabilization_lasts_until_what_was_suspended_is_processed() -> None:
    """Batch 1 came while batch 0 was redone: its output is the first version of it, and goes out
    with the corrections, not before all that waits is done."""
    t = join_of_two(during_stabilization=Policy.SUSPEND, corrections=Corrections.DONE)
    t.batch(0, 0)
    t.done(only(t.tell(closed()), do.ProcessBatch))
    confirm(t)
    rebuild = only(t.batch(0, 1, term=5), do.RebuildState)
    for batch in (1, 2):
        t.batch(batch, 0)
        t.batch(batch, 1, term=5)
    rebuilt = told.StateRebuilt(cause=CAUSE, task=2, incarnation=1, ticket=rebuild.ticket, state=())
    effects = t.tell(rebuilt)
    for batch in (0, 1):
        process = only(effects, do.ProcessBatch)
        assert (process.batch, process.run) == (batch, told.Run.STABLE)
        effects = t.done(process)
        assert publishes(effects) == []
        assert mode(t) is Mode.STABILIZATION
    assert publishes(t.done(only(effects, do.ProcessBatch))) == [
        ("undo", 0),
        ("stable", 0),
        ("stable", 1),
        ("stable", 2),
    ]
    assert mode(t) is Mode.STABLE


def test_a_copy_that_stands_still_says_again_how_far_its_upstream_tasks_may_trim() -> None:
    """A new primary upstream may have missed it, and have no room because of that."""
    t = TaskUnderTest(2, every=2)
    for batch in (0, 1):
        t.done(only(t.batch(batch, 1), do.ProcessBatch))
    t.tell(told.CheckpointStored(cause=CAUSE, task=2, incarnation=1, position=2))
    t.tick(now=1)
    [asked] = messages(t.tick(now=2), told.ReplayRequested)
    assert asked.acknowledged == 2


def test_who_has_sent_the_next_batch_already_is_told_again_how_far_to_trim() -> None:
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, every=1)
    t.batch(0, 0)
    t.done(only(t.batch(0, 1), do.ProcessBatch))
    t.tell(told.CheckpointStored(cause=CAUSE, task=2, incarnation=1, position=1))
    t.batch(1, 1)
    t.tick(now=1)
    effects = t.tick(now=2)
    assert [item.task for item in messages(effects, told.ReplayRequested)] == [0]
    [again] = messages(effects, told.BatchesAcknowledged)
    assert (again.task, again.below) == (1, 1)


def test_a_tentative_batch_of_an_older_primary_is_dropped() -> None:
    t = join_of_two()
    t.tell(told.UpstreamResumed(cause=CAUSE, task=2, upstream=1, term=5))
    t.batch(0, 0)
    assert t.batch(0, 1, stable=False, term=3) == []
    assert only(t.batch(0, 1, stable=False, term=5), do.ProcessBatch).run is told.Run.TENTATIVE


def test_a_violation_tells_its_story() -> None:
    t = TaskUnderTest(3, wiring=chain(3))
    t.tell(told.OutputFenced(cause=CAUSE, task=3, incarnation=1, next_stable=0, next_tentative=0))
    t.machine.computation.position = -3  # as no sequence of inputs would
    with pytest.raises(ProtocolViolation) as caught:
        t.batch(0, 2)
    text = str(caught.value)
    assert "the checkpoint is ahead of the state" in text
    assert "story of task O3.0, incarnation 1" in text
    assert "BatchArrived(cause=test" in text


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
            t.done(only(t.batch(batch, 1), do.ProcessBatch))
        t.tell(
            told.UpstreamClosed(
                cause=CAUSE, task=2, upstream=1, last_batch=9, before_term=9, back_at=0
            )
        )
        going = only(t.batch(3, 0), do.ProcessBatch)
        assert (going.run, going.copies_state) == (
            told.Run.TENTATIVE,
            method is Method.CHECKPOINT,
        )
        t.done(going)
        rebuild = only(t.batch(3, 1, term=9), do.RebuildState)
        assert len(rebuild.inputs) == inputs, "two that the state remembers, one since the marker"
        assert rebuild.first_batch + inputs == 3


def test_a_sink_that_has_to_load_again_keeps_no_output_to_itself_meanwhile() -> None:
    t = TaskUnderTest(3)
    t.tell(told.OutputFenced(cause=CAUSE, task=3, incarnation=1, next_stable=0, next_tentative=0))
    first = only(t.done(only(t.batch(0, 2), do.ProcessBatch)), do.PublishOutput)
    t.done(only(t.batch(1, 2), do.ProcessBatch))
    refused = told.ReplayRefused(cause=CAUSE, task=3, upstream=2, oldest=5)
    only(t.tell(refused), do.LoadCheckpoint)
    assert t.machine.phase is Phase.LOADING
    effects = t.tell(
        told.OutputPublished(cause=CAUSE, task=3, incarnation=1, sequence=first.sequence)
    )
    assert [record.batch for record in only(effects, do.PublishOutput).records] == [1]


def test_a_sink_that_loads_again_keeps_nothing_that_is_published() -> None:
    """It took over where its partition was further than itself, and lacks input that is gone: the
    checkpoint from before it holds a window of output that nobody will acknowledge any more."""
    t = TaskUnderTest(3, window=4)
    t.tell(told.OutputFenced(cause=CAUSE, task=3, incarnation=1, next_stable=6, next_tentative=6))
    refused = told.ReplayRefused(cause=CAUSE, task=3, upstream=2, oldest=6)
    only(t.tell(refused), do.LoadCheckpoint)
    checkpoint = told.Checkpoint(
        task=3,
        position=6,
        state=(),
        outputs=tuple((batch, (f"stable-{batch}",)) for batch in range(2, 6)),
        acknowledged=(2,),
        term=1,
    )
    t.tell(told.CheckpointLoaded(cause=CAUSE, task=3, incarnation=1, checkpoint=checkpoint))
    assert t.machine.position == 6
    process = only(t.batch(6, 2), do.ProcessBatch)
    [record] = only(t.done(process), do.PublishOutput).records
    assert record.batch == 6


def test_a_sink_that_was_replaced_keeps_no_more_checkpoints_than_its_window() -> None:
    """What it publishes is not held back by the store; what it is sent is, by epochs that are
    completed without it."""
    t = TaskUnderTest(3, every=1, window=2, recovery=Recovery.GLOBAL)
    t.tell(told.OutputFenced(cause=CAUSE, task=3, incarnation=1, next_stable=0, next_tentative=0))
    for batch in range(4):
        effects = t.done(only(t.batch(batch, 2), do.ProcessBatch))
        published = only(effects, do.PublishOutput)
        t.tell(
            told.OutputPublished(cause=CAUSE, task=3, incarnation=1, sequence=published.sequence)
        )
    assert list(t.machine.durability.unstored) == [3, 4]


def test_a_task_that_loads_nothing_newer_goes_on_with_what_it_had_begun() -> None:
    """It runs ahead, so its own state is given away; what it loads would take it back to the batch
    that it went on without."""
    t = TaskUnderTest(tentative=Tentative())
    for batch in range(3):
        t.advance(batch)
    t.tell(told.CheckpointStored(cause=CAUSE, task=1, incarnation=1, position=3))
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
