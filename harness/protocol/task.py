"""One copy of a task: primary or replica.

Theory of operation
-------------------
A task processes batch b when b has come, stable, from every upstream task, its parts in upstream
order. That makes a copy's state a function of its position alone, so a stable message is known
by (upstream task, batch), whoever sent it and however often; a replica that holds its output
back equals its primary; and a copy may be replaced by another at any position.

While READY (`harness.protocol.phases`), `mode` is Borealis' state: STABLE; FAILURE once a
tentative computation has branched off; STABILIZATION while the stable one can go on and has not
caught up with it.

* ``position`` is the next batch of the stable computation; it never waits for anything but input
  and room for its output.
* Output is kept in the outbox until every downstream task has acknowledged it, which they do
  once a durable checkpoint covers it (or, without checkpoints, once it is processed). A copy
  whose outbox is full waits, and so, one by one, do those before it.
* Nothing is retransmitted by a timer of its own: the node's heartbeat ticks every copy, and one
  that has not moved since the last tick asks again for what it lacks.

====================  ======================================================================
part                  what it owns
====================  ======================================================================
`inlet.Inlet`         the inbox, what is known of upstream tasks, asking for input
`computation`         position and state; the stable and the tentative computation
`outlet.Outlet`       the outbox, a sink's partition, sending once more
`supply`              what others ask for: batches again, and progress
`durability`          checkpoints, and what they let others forget
`speaker.Speaker`     who the copy is (task, incarnation, term), and the effects of an input
this file             phases: beginning, loading, taking over, giving up
====================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.errors import ProtocolViolation
from harness.protocol.computation import Computation
from harness.protocol.durability import Durability
from harness.protocol.effects import CopyEvent, StopReading, TaskEffect
from harness.protocol.inlet import Inlet, Needs
from harness.protocol.inputs import (
    BatchArrived,
    BatchesAcknowledged,
    BatchFailed,
    BatchProcessed,
    CheckpointFailed,
    CheckpointLoaded,
    CheckpointRefused,
    CheckpointStored,
    CopyOrdered,
    CopyPromoted,
    CopyReport,
    EpochCompleted,
    OutputClaimed,
    OutputPublished,
    OutputRefused,
    ProgressReported,
    ReplayRefused,
    ReplayRequested,
    SourceRead,
    Start,
    StateRebuilt,
    TaskInput,
    TimerFired,
    UpstreamClosed,
    UpstreamResumed,
)
from harness.protocol.operators import NoState, State
from harness.protocol.outlet import Outlet
from harness.protocol.phases import TRANSITIONS, Mode, Phase
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.speaker import Speaker
from harness.protocol.story import KEPT, Story
from harness.protocol.supply import Supply
from harness.protocol.wiring import Wiring

__all__ = ["Mode", "Phase", "TaskMachine"]


class TaskMachine:
    """One copy. Every input goes through `handle`; `validate` checks what must hold after it."""

    __slots__ = (
        "_handling", "_initial", "_notes_progress", "_order", "_reported", "_ticked_position",
        "anywhere", "computation", "durability", "failure", "inlet", "outlet", "phase", "scheme",
        "speaker", "story", "supply",
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
        task, window = order.task, scheme.window
        self._order = order
        self._initial = initial
        self._notes_progress = notes_progress
        self.scheme = scheme
        self.anywhere = wiring.begins_anywhere(task)
        """A source without a state to speak of: never stored, never loaded."""
        speaker = self.speaker = Speaker(
            task=task, incarnation=order.incarnation, term=order.term, cause=order.cause
        )
        interval_us = scheme.tentative.interval_us if scheme.tentative is not None else 0
        self.inlet = Inlet(speaker, wiring=wiring, window=window, interval_us=interval_us)
        self.outlet = Outlet(speaker, wiring=wiring, window=window, send_from=order.send_from)
        self.computation = Computation(
            speaker,
            self.inlet,
            self.outlet,
            rules=scheme.tentative,
            memory=wiring.memory[task],
            initial=initial,
            position=order.position,
        )
        self.durability = Durability(
            speaker,
            self.inlet,
            self.outlet,
            self.computation,
            scheme=scheme,
            anywhere=self.anywhere,
        )
        self.supply = Supply(
            speaker,
            self.inlet,
            self.outlet,
            self.computation,
            anywhere=self.anywhere,
            local=scheme.recovery is Recovery.LOCAL,
        )
        self.phase = Phase.LOADING
        self.failure = ""
        """What the operator raised."""
        self._handling: type = CopyOrdered
        """The kind of the input that is being handled."""
        self._ticked_position = -1
        self._reported: CopyReport | None = None
        title = f"task {wiring.names[task]}, incarnation {order.incarnation}"
        self.story = Story(title, kept=kept)

    # -- reading is free -------------------------------------------------------------------

    @property
    def task(self) -> int:
        """Its task's number."""
        return self.speaker.task

    @property
    def incarnation(self) -> int:
        """Its own number, which no other copy of the task ever had."""
        return self.speaker.incarnation

    @property
    def term(self) -> int | None:
        """A primary's number; None for a replica."""
        return self.speaker.term

    @property
    def primary(self) -> bool:
        """Whether it sends its output on."""
        return self.speaker.term is not None

    @property
    def sink(self) -> bool:
        """Whether it publishes."""
        return self.outlet.sink

    @property
    def position(self) -> int:
        """The next batch of the stable computation."""
        return self.computation.position

    @property
    def full(self) -> bool:
        """Its outbox has no room for the next batch, which has come."""
        return self.computation.full

    @property
    def mode(self) -> Mode:
        """Borealis' state of a node."""
        return self.computation.mode

    def report(self) -> CopyReport:
        """This copy's line in its node's heartbeat; the same object while nothing changes."""
        last, ready = self._reported, self.phase is Phase.READY
        position, term = self.computation.position, self.speaker.term
        stored, published = self.durability.stored, self.outlet.publisher.confirmed
        if (
            last is not None
            and last.position == position
            and last.stored == stored
            and last.published == published
            and last.term == term
            and last.ready is ready
            and last.failed == self.failure
        ):
            return last
        self._reported = CopyReport(
            task=self.speaker.task,
            incarnation=self.speaker.incarnation,
            term=term,
            position=position,
            stored=stored,
            published=published,
            ready=ready,
            failed=self.failure,
        )
        return self._reported

    # -- inputs -----------------------------------------------------------------------------

    def handle(self, item: TaskInput | CopyOrdered | CopyPromoted, *, now: int) -> list[TaskEffect]:
        """React to ``item``; ``now`` in microseconds, never less than before."""
        effects = self.speaker.begin(item.cause, now)
        kind = self._handling = type(item)
        try:
            if self.phase is not Phase.FENCED and self.phase is not Phase.FAILED:
                _HANDLERS[kind](self, item)
                if kind not in _BACKWARD or self.computation.full:
                    self._advance()
        except AssertionError as error:
            self.story.note(now, item, effects)
            raise self._violation(error) from error
        if self.story.kept:
            self.story.note(now, item, effects)
        return effects

    def tick(self, *, cause: str, now: int) -> list[TaskEffect]:
        """The node's heartbeat: ask again for whatever did not come."""
        effects = self.speaker.begin(cause, now)
        if self.phase is Phase.LOADING:
            self._load()
        elif self.phase is Phase.READY:
            self._repeat()
            position = self.computation.position
            if self._ticked_position == position and not self.computation.busy:
                self.inlet.request_missing(self._needs())
                self.durability.cover()
            self._ticked_position = position
        return effects

    def retire(self, *, cause: str, why: str, now: int) -> list[TaskEffect]:
        """The node drops this copy."""
        effects = self.speaker.begin(cause, now)
        if self.inlet.source:
            self.speaker.emit(
                StopReading(cause=cause, task=self.task, incarnation=self.incarnation)
            )
        self._note(CopyEvent.RETIRED, why)
        return effects

    def _advance(self) -> None:
        if self.phase is Phase.READY:
            self.computation.advance()
        if self.outlet.publisher.queue:
            self.outlet.publish()  # also while it loads once more: what it has computed is right

    def _repeat(self) -> None:
        """What was not answered."""
        if self.durability.unstored or self.outlet.sink:
            self.durability.repeat()
            self.outlet.repeat()
        if self.speaker.now >= self.outlet.reported_at + self.scheme.trim_every_us:
            self.supply.report_progress()

    # -- phases ----------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        way = TRANSITIONS.get((self.phase, self._handling))
        assert way is phase, f"{self._handling.__name__} does not lead from {self.phase} to {phase}"
        self.phase = phase

    def _ordered(self, item: CopyOrdered) -> None:
        self._note(CopyEvent.HOSTED, item.start)
        if item.start is Start.EMPTY:
            self._become_ready(item.position, self._initial)
        else:
            self._load()

    def _load(self) -> None:
        exact = self._order.start is Start.EPOCH and self.computation.state is NoState.GONE
        self.durability.load(self._order.position if exact else None)

    def _loaded(self, item: CheckpointLoaded) -> None:
        if self.phase is not Phase.LOADING:
            return
        checkpoint = item.checkpoint
        reloaded = self.computation.state is not NoState.GONE
        if checkpoint is None or (reloaded and checkpoint.position <= self.position):
            if not reloaded:
                assert self._order.position == 0, "the checkpoint to start from is gone"
                self._become_ready(0, self._initial)
            else:
                self._enter(Phase.READY)
                self._note(CopyEvent.READY, "nothing newer was stored")
            return
        assert checkpoint.task == self.task, "another task's checkpoint"
        self.outlet.restore(dict(checkpoint.outputs), checkpoint.acknowledged)
        if self._order.start is Start.EPOCH and not self.outlet.sink:
            self.outlet.outbox.trim_all(checkpoint.position)  # every task has stored this epoch
        self.durability.stored = checkpoint.position
        self._become_ready(checkpoint.position, checkpoint.state)

    def _become_ready(self, position: int, state: State) -> None:
        self._enter(Phase.READY)
        self.computation.begin(position, state)
        self._note(CopyEvent.READY, "checkpoint" if self.durability.stored else "initial state")
        self.inlet.request_missing(self._needs())
        if self.primary:
            self._take_office()

    def _promoted(self, item: CopyPromoted) -> None:
        term = self.speaker.term
        assert term is None or item.term >= term, "a term never falls"
        if term == item.term:
            return
        self.speaker.term = item.term
        self._note(CopyEvent.PROMOTED)
        if self.phase is Phase.READY:
            self.outlet.take_over()
            self._take_office()

    def _take_office(self) -> None:
        self.outlet.take_office()
        self.supply.answer_pending()

    def _replay_refused(self, item: ReplayRefused) -> None:
        index = self.inlet.index(item.upstream)
        missing = self.inlet.inbox.next_missing(index, self.position)
        if (
            item.oldest > missing
            and self.phase is Phase.READY
            and self.scheme.recovery is Recovery.LOCAL
        ):
            self._enter(Phase.LOADING)  # the primary's checkpoint covers what is gone
            self._load()

    def _failed(self, item: BatchFailed) -> None:
        """The operator has raised: whether it would elsewhere, the coordinator finds out."""
        if self.computation.is_meant(item):
            assert item.error, "a failure says what it was"
            self._enter(Phase.FAILED)
            self.failure = item.error
            self._note(CopyEvent.FAILED, item.error)

    def _fenced(self, _item: CheckpointRefused | OutputRefused) -> None:
        self._enter(Phase.FENCED)

    # -- input -----------------------------------------------------------------------------

    def _arrived(self, item: BatchArrived) -> None:
        index = self.inlet.index(item.upstream)
        self.computation.arrived(index, item.batch, item.term)
        self.inlet.take(
            index,
            item.batch,
            item.payload,
            position=self.computation.position,
            stable=item.stable,
            term=item.term,
        )

    def _read(self, item: SourceRead) -> None:
        position = self.computation.position
        self.inlet.take(0, item.batch, item.payload, position=position, stable=True, term=0)

    def _upstream_resumed(self, item: UpstreamResumed) -> None:
        index = self.inlet.index(item.upstream)
        self.inlet.resumed(index, item.term)
        if self.phase is Phase.READY:
            self.inlet.request(index, self._needs())

    def _upstream_closed(self, item: UpstreamClosed) -> None:
        index, run = self.inlet.index(item.upstream), self.computation.tentative
        if run is not None and self.inlet.seen_terms[index] <= item.before_term:
            run.close(index, last_batch=item.last_batch, before_term=item.before_term)

    def _needs(self) -> Needs:
        computation = self.computation
        return Needs(computation.position, computation.ahead, self.durability.covered)

    # -- computing -------------------------------------------------------------------------

    def _processed(self, item: BatchProcessed) -> None:
        computation, inlet = self.computation, self.inlet
        if not computation.processed(item):
            return
        position = computation.position
        if inlet.inbox.dropped and not inlet.inbox.complete(position):
            inlet.request_dropped(self._needs())
        if inlet.source:
            inlet.read_on(position)
        computation.meet()
        if self._notes_progress and self.speaker.term is not None:
            self._note(CopyEvent.PROGRESSED)
        self.durability.after_batch()

    def _rebuilt(self, item: StateRebuilt) -> None:
        self.computation.rebuilt(item)

    # -- output ----------------------------------------------------------------------------

    def _replay_requested(self, item: ReplayRequested) -> None:
        self.supply.requested(item, self.phase)

    def _acknowledged(self, item: BatchesAcknowledged) -> None:
        self.outlet.acknowledged(item.downstream, item.below)

    def _progress_reported(self, item: ProgressReported) -> None:
        self.outlet.progress_reported(item)

    def _epoch_completed(self, item: EpochCompleted) -> None:
        self.outlet.epoch_completed(item)

    def _output_claimed(self, item: OutputClaimed) -> None:
        self.outlet.claimed(item, self.computation.uncorrected)

    def _output_published(self, item: OutputPublished) -> None:
        if self.outlet.published(item):
            self.supply.report_progress()

    def _checkpoint_stored(self, item: CheckpointStored) -> None:
        self.durability.confirmed(item)

    def _not_stored(self, item: CheckpointFailed) -> None:
        self.durability.refused(item)

    def _timer_fired(self, _item: TimerFired) -> None:
        """Nothing of its own: `_advance` looks at the clock."""

    def _note(self, event: CopyEvent, why: str = "") -> None:
        self.speaker.note(event, self.computation.position, why)

    # -- what must hold --------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the whole state makes sense."""
        if self.phase is Phase.READY:
            position, inlet, outlet = self.computation.position, self.inlet, self.outlet
            try:
                behind = self.durability.stored <= position or self.anywhere
                assert behind, "the checkpoint is ahead of the state"
                if inlet.inbox.slots:
                    inlet.inbox.validate(position, inlet.window)
                if outlet.outbox.outputs:
                    outlet.outbox.validate(position, outlet.window)
                if outlet.sink:
                    outlet.publisher.validate()
                self.computation.validate()
            except AssertionError as error:
                raise self._violation(error) from error

    def _violation(self, error: AssertionError) -> ProtocolViolation:
        return ProtocolViolation(f"{error}\n{self.story.tell()}")


_HANDLERS: dict[type, Callable[[TaskMachine, Any], None]] = {
    CopyOrdered: TaskMachine._ordered,
    CopyPromoted: TaskMachine._promoted,
    BatchArrived: TaskMachine._arrived,
    SourceRead: TaskMachine._read,
    ReplayRequested: TaskMachine._replay_requested,
    ReplayRefused: TaskMachine._replay_refused,
    BatchesAcknowledged: TaskMachine._acknowledged,
    UpstreamResumed: TaskMachine._upstream_resumed,
    UpstreamClosed: TaskMachine._upstream_closed,
    ProgressReported: TaskMachine._progress_reported,
    EpochCompleted: TaskMachine._epoch_completed,
    BatchProcessed: TaskMachine._processed,
    BatchFailed: TaskMachine._failed,
    StateRebuilt: TaskMachine._rebuilt,
    CheckpointStored: TaskMachine._checkpoint_stored,
    CheckpointRefused: TaskMachine._fenced,
    CheckpointFailed: TaskMachine._not_stored,
    CheckpointLoaded: TaskMachine._loaded,
    OutputClaimed: TaskMachine._output_claimed,
    OutputPublished: TaskMachine._output_published,
    OutputRefused: TaskMachine._fenced,
    TimerFired: TaskMachine._timer_fired,
}

_BACKWARD = frozenset(
    {
        ReplayRequested,
        BatchesAcknowledged,
        ProgressReported,
        EpochCompleted,
        CheckpointStored,
        CheckpointFailed,
    }
)
"""What only concerns output that is there already: nothing can be processed because of it."""
