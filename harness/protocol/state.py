"""What one copy of a task knows; `harness.protocol.task` says how it behaves."""

from __future__ import annotations

from enum import StrEnum

from harness.errors import ProtocolViolation
from harness.protocol.effects import CopyEvent, NoteCopy, Send, TaskEffect
from harness.protocol.inbox import Inbox
from harness.protocol.inputs import (
    LOG,
    Checkpoint,
    CopyOrdered,
    CopyReport,
    ReplayRequested,
    TaskMessage,
)
from harness.protocol.operators import NoState, State
from harness.protocol.outbox import Outbox
from harness.protocol.publisher import Publisher
from harness.protocol.reconciliation import Basis, TentativeRun
from harness.protocol.scheme import Scheme
from harness.protocol.story import KEPT, Story
from harness.protocol.wiring import Wiring

READ_AHEAD = 64
"""The most batches that a source has read and not processed, or asked for."""


class Phase(StrEnum):
    """What a copy can do."""

    LOADING = "loading"
    """It waits for its state."""
    READY = "ready"
    FENCED = "fenced"
    """A newer primary exists: it does nothing any more."""
    FAILED = "failed"
    """Its operator has raised: it does nothing any more, and says so until it is retired."""


class Mode(StrEnum):
    """Borealis' states of a node (dpc, Fig. 2)."""

    STABLE = "stable"
    FAILURE = "up-failure"
    STABILIZATION = "stabilization"


class CopyState:
    """All fields of a copy, what can be read from them, and what must hold among them."""

    __slots__ = (
        "_cause", "_effects", "_index", "_now", "_order", "_reported", "_reported_at",
        "_ticked_position", "anywhere", "basis", "busy", "downstream", "failure", "full",
        "held_from", "inbox", "incarnation", "initial", "memory", "notes_progress", "outbox",
        "pending_requests", "phase", "position", "publisher", "read_below", "reading",
        "reported_below", "scheme", "seen_terms", "send_from", "sent_below", "sink", "source",
        "state", "store_after", "store_refusals", "stored", "story", "task", "tentative", "term",
        "ticket", "unstored", "upstream", "window",
    )  # fmt: skip

    def __init__(
        self,
        order: CopyOrdered,
        *,
        wiring: Wiring,
        scheme: Scheme,
        initial: State,
        kept: int = KEPT,
        notes_progress: bool = False,
    ) -> None:
        self.task = order.task
        self.notes_progress = notes_progress
        self.incarnation = order.incarnation
        self.term = order.term
        """A primary's number; None for a replica."""
        self.scheme = scheme
        self.initial = initial
        self.source = not wiring.upstream[self.task]
        self.anywhere = wiring.begins_anywhere(self.task)
        """A source without a state to speak of: never stored, never loaded."""
        self.sink = not wiring.downstream[self.task]
        self.upstream = wiring.upstream[self.task] or (LOG,)
        self.downstream = wiring.downstream[self.task]
        self.memory = wiring.memory[self.task]
        self._index = {task: index for index, task in enumerate(self.upstream)}
        self._order = order
        self.phase = Phase.LOADING
        self.failure = ""
        """What the operator raised."""
        self.position = order.position
        self.send_from = order.send_from
        """Output of earlier batches comes from a state that is not whole yet: never sent."""
        self.state: State = NoState.GONE
        self.stored = 0
        self.reported_below = 0
        """What this primary last told its replica of its output's progress."""
        self.sent_below = 0
        """How far the primary's output had got when it last told its replica."""
        self.inbox = Inbox(len(self.upstream))
        self.outbox = Outbox(max(1, len(self.downstream)), order.send_from)
        self.publisher = Publisher()
        self.tentative = TentativeRun(scheme.tentative) if scheme.tentative else None
        self.basis = (
            Basis(scheme.tentative, memory=self.memory, initial=initial)
            if scheme.tentative
            else None
        )
        self.held_from: int | None = None
        """Corrections from this batch on wait until the task is stable again."""
        self.ticket = 0
        """Of the stable computation's latest request; answers to earlier ones are stale."""
        self.busy = False
        """The stable computation awaits an answer."""
        self.window = scheme.window
        self.full = False
        """The stable computation waits for its outbox to have room."""
        self.reading = min(scheme.window, READ_AHEAD)
        self.read_below = 0
        """A source has asked for all batches before this one."""
        self.unstored: dict[int, Checkpoint] = {}
        self.store_after = 0
        """Checkpoints that the store has refused are not tried again before."""
        self.store_refusals = 0
        """How often in a row it has refused them."""
        self.seen_terms = [-1] * len(self.upstream)
        self.pending_requests: dict[int, ReplayRequested] = {}
        self._ticked_position = -1
        self._reported_at = 0
        title = f"task {wiring.names[self.task]}, incarnation {self.incarnation}"
        self.story = Story(title, kept=kept)
        self._reported: CopyReport | None = None
        self._effects: list[TaskEffect] = []
        self._cause = order.cause
        self._now = 0

    def violation(self, error: AssertionError) -> ProtocolViolation:
        return ProtocolViolation(f"{error}\n{self.story.tell()}")

    @property
    def primary(self) -> bool:
        return self.term is not None

    @property
    def mode(self) -> Mode:
        if self.tentative is None or not self.tentative.active:
            return Mode.STABLE
        return Mode.STABILIZATION if self._can_redo() else Mode.FAILURE

    def report(self) -> CopyReport:
        """This copy's line in its node's heartbeat; the same object while nothing changes."""
        last, ready = self._reported, self.phase is Phase.READY
        if (
            last is not None
            and last.position == self.position
            and last.stored == self.stored
            and last.published == self.publisher.confirmed
            and last.term == self.term
            and last.ready is ready
            and last.failed == self.failure
        ):
            return last
        self._reported = CopyReport(
            task=self.task,
            incarnation=self.incarnation,
            term=self.term,
            position=self.position,
            stored=self.stored,
            published=self.publisher.confirmed,
            ready=ready,
            failed=self.failure,
        )
        return self._reported

    def _can_redo(self) -> bool:
        return self.busy or self.inbox.complete(self.position)

    def _emit(self, effect: TaskEffect) -> None:
        self._effects.append(effect)

    def _note(self, event: CopyEvent, why: str = "") -> None:
        self._effects.append(
            NoteCopy(
                cause=self._cause,
                event=event,
                task=self.task,
                incarnation=self.incarnation,
                term=self.term,
                position=self.position,
                at=self._now,
                why=why,
            )
        )

    def _tell(self, to: int, incarnation: int | None, message: TaskMessage) -> None:
        self._effects.append(
            Send(cause=self._cause, to=to, incarnation=incarnation, message=message)
        )

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the whole state makes sense."""
        if self.phase is Phase.READY:
            try:
                self._validate()
            except AssertionError as error:
                raise self.violation(error) from error

    def _validate(self) -> None:
        assert self.stored <= self.position or self.anywhere, "the checkpoint is ahead of the state"
        if self.inbox.slots:
            self.inbox.validate(self.position, self.window)
        if self.outbox.outputs:
            self.outbox.validate(self.position, self.window)
        if self.sink:
            self.publisher.validate()
        run = self.tentative
        if run is None:
            assert self.state is not NoState.GONE, (
                "a task without tentative output always has its state"
            )
            return
        if run.active or run.outputs:
            run.validate(self.position)
        assert self.term is not None or not run.active, "a replica computes nothing tentative"
        assert self.state is not NoState.GONE or run.active, "the state was given away to nobody"
        assert self.held_from is None or run.active, "corrections are held by a stable task"
