"""The voice of one copy: who it is, and how its parts ask for things."""

from __future__ import annotations

from harness.protocol.effects import CopyEvent, NoteCopy, Send, TaskEffect
from harness.protocol.inputs import TaskMessage


class Speaker:
    """Shared by the parts of a copy; the effects of one input gather here."""

    __slots__ = ("cause", "effects", "incarnation", "now", "task", "term")

    def __init__(self, *, task: int, incarnation: int, term: int | None, cause: str) -> None:
        self.task = task
        self.incarnation = incarnation
        self.term = term
        """A primary's number; None for a replica."""
        self.cause = cause
        self.now = 0
        self.effects: list[TaskEffect] = []

    def begin(self, cause: str, now: int) -> list[TaskEffect]:
        """What follows is because of ``cause``; the list that it will be in."""
        assert now >= self.now, "time goes forward"
        assert cause, "nothing happens without a cause"
        self.cause, self.now, self.effects = cause, now, []
        return self.effects

    def emit(self, effect: TaskEffect) -> None:
        """Ask for something."""
        self.effects.append(effect)

    def tell(self, to: int, incarnation: int | None, message: TaskMessage) -> None:
        """Send a message to a task: to one copy of it, or (None) to whichever is there."""
        assert message.task == to, f"a message for task {message.task} is sent to {to}"
        self.effects.append(Send(cause=self.cause, to=to, incarnation=incarnation, message=message))

    def note(self, event: CopyEvent, position: int, why: str = "") -> None:
        """Tell whoever watches what became of this copy; nothing in the protocol depends on it."""
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
