"""One copy of a task, input by input."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from harness.errors import ProtocolViolation
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.task.lifecycle import Phase
from harness.simulator.topologies import chain
from tests.protocol.machines import CAUSE, TaskUnderTest, messages, only, source


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
    t.machine.life.rewind(0)  # as a neighbour may ask for
    t.tell(failed(t, process))
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
    t.give(told.OutputFenced, next_stable=0, next_tentative=0)
    t.machine.computation.position = -3  # as no sequence of inputs would
    with pytest.raises(ProtocolViolation) as caught:
        t.batch(0, 2)
    text = str(caught.value)
    assert "the checkpoint is ahead of the state" in text
    assert "story of task O3.0, incarnation 1" in text
    assert "BatchArrived(cause=test" in text
