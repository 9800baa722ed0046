"""A small language for tests of one machine: build it, send inputs, read its effects."""

from __future__ import annotations

from typing import Any

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Recovery, Scheme, Tentative
from harness.protocol.task.computation import Mode
from harness.protocol.task.machine import TaskMachine
from harness.protocol.wiring import Wiring
from harness.simulator.topologies import chain, layered

CAUSE = "test"


def ordered(**fields: Any) -> told.CopyOrdered:
    """Return the order of the first copy of task 1, with other fields where they are given."""
    plain: dict[str, Any] = {
        "cause": CAUSE, "boot": 1, "task": 1, "incarnation": 1, "term": 1,
        "start": told.Start.EMPTY, "position": 0, "send_from": 0, "coordinator": 1,
    }  # fmt: skip
    return told.CopyOrdered(**{**plain, **fields})


def arrived(**fields: Any) -> told.BatchArrived:
    """Return the first batch from task 0 to task 1, with other fields where they are given."""
    plain: dict[str, Any] = {
        "cause": CAUSE, "task": 1, "upstream": 0, "batch": 0, "stable": True, "payload": "in",
        "term": 1,
    }  # fmt: skip
    return told.BatchArrived(**{**plain, **fields})


def requested(**fields: Any) -> told.ReplayRequested:
    """Return task 2's request to task 1 for batches, with other fields where they are given."""
    plain: dict[str, Any] = {
        "cause": CAUSE, "task": 1, "downstream": 2, "asking": 1, "from_batch": 3,
        "from_tentative": 3, "acknowledged": 0, "reloads": False,
    }  # fmt: skip
    return told.ReplayRequested(**{**plain, **fields})


class TaskUnderTest:
    """One copy of a task, ready at batch 0; answers keep the rules of a host."""

    def __init__(
        self, task: int = 1, *, wiring: Wiring | None = None, term: int | None = 1, **rules: Any
    ) -> None:
        """Make it under a scheme with local checkpoints every three batches, or other ``rules``."""
        given: dict[str, Any] = {"recovery": Recovery.LOCAL, "checkpoint_every": 3}
        self.scheme = Scheme(name="test", **{**given, **rules})
        order = ordered(task=task, term=term)
        self.machine = TaskMachine(
            order, wiring=wiring or chain(3, memory=2), scheme=self.scheme, initial=()
        )
        self.now = 0
        self.started = self.tell(order)

    def tell(self, item: Any, now: int | None = None) -> list[do.TaskEffect]:
        self.now = self.now if now is None else now
        effects = self.machine.handle(item, now=self.now)
        self.machine.validate()
        return effects

    def give(self, kind: type[Any], **fields: Any) -> list[do.TaskEffect]:
        """Give the copy an input of ``kind`` that is addressed to it."""
        known = {"cause": CAUSE, "task": self.machine.task, "incarnation": 1, "coordinator": 1}
        mine = {name: known[name] for name in kind.__struct_fields__ if name in known}
        return self.tell(kind(**{**mine, **fields}))

    def tick(self, now: int | None = None) -> list[do.TaskEffect]:
        """Give the copy the node's heartbeat."""
        self.now = self.now if now is None else now
        effects = self.machine.tick(cause=CAUSE, now=self.now)
        self.machine.validate()
        return effects

    def batch(self, number: int, upstream: int = 0, **fields: Any) -> list[do.TaskEffect]:
        """Deliver a batch of an upstream task."""
        task = self.machine.task
        return self.tell(arrived(task=task, upstream=upstream, batch=number, **fields))

    def done(self, effect: do.TaskEffect, *, state: Any = None) -> list[do.TaskEffect]:
        """Answer a `ProcessBatch`."""
        assert isinstance(effect, do.ProcessBatch)
        width = max(1, len(self.machine.outlet.downstream))
        return self.give(
            told.BatchProcessed,
            run=effect.run,
            ticket=effect.ticket,
            batch=effect.batch,
            state=state if state is not None else (*effect.state, effect.batch),
            outputs=tuple(f"{effect.run}-{effect.batch}" for _ in range(width)),
        )

    def compute(self, number: int, upstream: int = 0) -> list[do.TaskEffect]:
        """Deliver the last part of a batch and process it; the effects of having processed it."""
        return self.done(only(self.batch(number, upstream), do.ProcessBatch))

    def read(self, batch: int) -> list[do.TaskEffect]:
        """Give a source its next batch and process it."""
        return self.done(
            only(self.give(told.SourceRead, batch=batch, payload="in"), do.ProcessBatch)
        )

    def fence(self, next_stable: int = 0, next_tentative: int = 0) -> list[do.TaskEffect]:
        """Answer a sink's fence."""
        return self.give(told.OutputFenced, next_stable=next_stable, next_tentative=next_tentative)

    def confirm(self) -> list[do.TaskEffect]:
        """Answer a sink's latest publication."""
        return self.give(told.OutputPublished, sequence=self.machine.outlet.publisher.sequence)

    def close(
        self, upstream: int = 1, *, last_batch: int = 9, before_term: int = 5
    ) -> list[do.TaskEffect]:
        """Let the coordinator close batches on behalf of an upstream task."""
        return self.give(
            told.UpstreamClosed,
            upstream=upstream,
            last_batch=last_batch,
            before_term=before_term,
            back_at=0,
        )

    def set_window(self, window: int) -> None:
        """Give the copy a smaller window."""
        inlet = self.machine.inlet
        inlet.window = inlet.reading = self.machine.outlet.window = window

    def mode(self) -> Mode:
        return self.machine.mode


def only(effects: list[do.TaskEffect], kind: type) -> Any:
    """Return the one effect of that kind."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__} in {effects}"
    return found[0]


def messages(effects: list[do.TaskEffect], kind: type) -> list[Any]:
    """Return the messages of that kind among what is sent."""
    return [e.message for e in effects if isinstance(e, do.Send) and isinstance(e.message, kind)]


def publishes(effects: list[do.TaskEffect]) -> list[tuple[str, int]]:
    """Return kind and batch of each record that is published."""
    return [
        (str(record.kind), record.batch)
        for effect in effects
        if isinstance(effect, do.PublishOutput)
        for record in effect.records
    ]


def source() -> TaskUnderTest:
    return TaskUnderTest(0, wiring=chain(2, memory=1))


def join_of_two(*, fences: bool = True, **rules: Any) -> TaskUnderTest:
    """Return a sink with two upstream tasks, 0 and 1; it owns its partition if it ``fences``."""
    wiring = layered([2, 1], [(0, 1, "full")], memory=2, names=["source", "sink"])
    t = TaskUnderTest(2, wiring=wiring, tentative=Tentative(**rules), checkpoint_every=50)
    if fences:
        t.fence()
    return t
