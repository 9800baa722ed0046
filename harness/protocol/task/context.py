"""One copy's identity, and the list in which its parts collect their effects."""

from __future__ import annotations

from harness.protocol.effects import CopyEvent, NoteCopy, Send, TaskEffect
from harness.protocol.inputs import TaskMessage


class Context:
    """The identity of one copy, and the effects of its current input; shared by its parts."""

    __slots__ = ("cause", "effects", "incarnation", "now", "task", "term")

    def __init__(self, *, task: int, incarnation: int, term: int | None, cause: str) -> None:
        assert incarnation > 0, f"incarnation {incarnation}"
        self.task = task
        self.incarnation = incarnation
        self.term = term
        """A primary's number; None for a replica."""
        self.cause = cause
        self.now = 0
        self.effects: list[TaskEffect] = []

    def begin(self, cause: str, now: int) -> list[TaskEffect]:
        """Begin an input: all effects get this ``cause``. Return the list that collects them."""
        assert now >= self.now, "time goes forward"
        assert cause, "nothing happens without a cause"
        self.cause, self.now, self.effects = cause, now, []
        return self.effects

    def emit(self, effect: TaskEffect) -> None:
        """Request something from the host."""
        assert self.cause, "every effect has a cause"
        self.effects.append(effect)

    def send(self, to: int, incarnation: int | None, message: TaskMessage) -> None:
        """Send a message to a task: to one copy of it, or (None) to every copy that is there."""
        assert message.task == to, f"a message for task {message.task} is sent to {to}"
        self.effects.append(Send(cause=self.cause, to=to, incarnation=incarnation, message=message))

    def note(self, event: CopyEvent, position: int, why: str = "") -> None:
        """Report an event of this copy, for measurements and routing.

        The protocol itself does not depend on it."""
        assert position >= 0, f"position {position}"
        self.effects.append(
            NoteCopy(
                cause=self.cause,
                event=event,
                task=self.task,
                incarnation=self.incarnation,
                term=self.term,
                position=position,
                at=self.now,
                why=why,
            )
        )
