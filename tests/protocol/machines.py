"""A small language for tests of one machine: build it, send inputs, read its effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Recovery, Scheme, Tentative
from harness.protocol.task.computation import Mode
from harness.protocol.task.machine import TaskMachine
from harness.protocol.wiring import Wiring
from harness.simulator.topologies import chain, layered

CAUSE = "test"


class TaskUnderTest:
    """One copy of a task, ready at batch 0 unless it loads; answers keep the rules of a host."""

    def __init__(
        self,
        task: int = 1,
        *,
        wiring: Wiring | None = None,
        term: int | None = 1,
        every: int = 3,
        tentative: Tentative | None = None,
        recovery: Recovery = Recovery.LOCAL,
        replicated: tuple[int, ...] = (),
        window: int = 1000,
        start: told.Start = told.Start.EMPTY,
        sends_buffer: bool = False,
    ) -> None:
        self.wiring = wiring or chain(3, memory=2)
        self.scheme = Scheme(
            name="test",
            recovery=recovery,
            checkpoint_every=every,
            tentative=tentative,
            replicated=replicated,
            window=window,
            sends_buffer=sends_buffer,
        )
        order = told.CopyOrdered(
            cause=CAUSE,
            boot=1,
            task=task,
            incarnation=1,
            term=term,
            start=start,
            position=0,
            send_from=0,
            coordinator=1,
        )
        self.machine = TaskMachine(order, wiring=self.wiring, scheme=self.scheme, initial=())
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

    def asked(self, from_batch: int, **fields: Any) -> list[do.TaskEffect]:
        """Give the copy a request of its downstream task to send batches again."""
        plain = {"downstream": self.machine.task + 1, "asking": 1, "from_tentative": from_batch}
        rest = {"acknowledged": 0, "reloads": False}
        return self.give(told.ReplayRequested, from_batch=from_batch, **{**plain, **rest, **fields})

    def compute(self, number: int, upstream: int = 0, **options: Any) -> list[do.TaskEffect]:
        """Deliver the last part of a batch and process it; the effects of having processed it."""
        return self.done(only(self.batch(number, upstream, **options), do.ProcessBatch))

    def tick(self, now: int | None = None) -> list[do.TaskEffect]:
        """Give the copy the node's heartbeat."""
        self.now = self.now if now is None else now
        effects = self.machine.tick(cause=CAUSE, now=self.now)
        self.machine.validate()
        return effects

    def batch(
        self,
        number: int,
        upstream: int = 0,
        *,
        stable: bool = True,
        payload: Any = "in",
        term: int = 1,
    ) -> list[do.TaskEffect]:
        return self.tell(
            told.BatchArrived(
                cause=CAUSE,
                task=self.machine.task,
                upstream=upstream,
                batch=number,
                stable=stable,
                payload=payload,
                term=term,
            )
        )

    def done(self, effect: do.TaskEffect, *, state: Any = None) -> list[do.TaskEffect]:
        """Answer a `ProcessBatch`."""
        assert isinstance(effect, do.ProcessBatch)
        width = max(1, len(self.machine.outlet.downstream))
        return self.tell(
            told.BatchProcessed(
                cause=CAUSE,
                task=effect.task,
                incarnation=effect.incarnation,
                run=effect.run,
                ticket=effect.ticket,
                batch=effect.batch,
                state=state if state is not None else (*effect.state, effect.batch),
                outputs=tuple(f"{effect.run}-{effect.batch}" for _ in range(width)),
            )
        )


def only(effects: list[do.TaskEffect], kind: type) -> Any:
    """Return the one effect of that kind."""
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__} in {effects}"
    return found[0]


def messages(effects: list[do.TaskEffect], kind: type) -> list[Any]:
    """Return the messages of that kind among what is sent."""
    return [e.message for e in effects if isinstance(e, do.Send) and isinstance(e.message, kind)]


def source(memory: int, **options: Any) -> TaskUnderTest:
    wiring = replace(chain(2), memory=(memory, 1, 1))
    return TaskUnderTest(0, wiring=wiring, **options)


def read(t: TaskUnderTest, batch: int) -> list[do.TaskEffect]:
    item = told.SourceRead(cause=CAUSE, task=0, incarnation=1, batch=batch, payload="in")
    return t.done(only(t.tell(item), do.ProcessBatch))


def set_window(t: TaskUnderTest, window: int) -> None:
    """Give the copy a smaller window."""
    t.machine.inlet.window = t.machine.inlet.reading = t.machine.outlet.window = window


def join_of_two(*, fences: bool = True, **rules: Any) -> TaskUnderTest:
    """Return a sink with two upstream tasks, 0 and 1; it owns its partition if it ``fences``."""
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


def closed(last_batch: int = 9, back_at: int = 0) -> told.UpstreamClosed:
    return told.UpstreamClosed(
        cause=CAUSE, task=2, upstream=1, last_batch=last_batch, before_term=5, back_at=back_at
    )
