"""One copy of a task: primary or replica.

Theory of operation
-------------------
A task processes batch b when b has come, stable, from every upstream task, its parts in upstream
order. That makes a copy's state a function of its position alone, so a stable message is known
by (upstream task, batch), whoever sent it and however often; a replica that holds its output
back equals its primary; and a copy may be replaced by another at any position.

While READY (`lifecycle`), `mode` is Borealis' state: STABLE; FAILURE once a
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
part                  contents
====================  ======================================================================
`inlet`               the inbox, the terms of upstream tasks, requests for input
`computation`         position and state; the stable and the tentative computation, and how
                      they meet (`reconciliation`)
`outlet`              the outbox, a sink's partition, sending again
`durability`          checkpoints, and the acknowledgements that follow from them
`lifecycle`           phases: beginning, loading, taking over, giving up; requests of others
`partnership`         the other copy of the task as the second version of this one
`context`             the copy's identity (task, incarnation, term), and the effects of an input
this file             hands every input to the part that it concerns
====================  ======================================================================"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.errors import ProtocolViolation
from harness.protocol import inputs as told
from harness.protocol.effects import CopyEvent, StopReading, TaskEffect
from harness.protocol.operators import State
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.story import KEPT, Story
from harness.protocol.task.computation import Computation, Mode
from harness.protocol.task.context import Context
from harness.protocol.task.durability import Durability
from harness.protocol.task.inlet import Inlet
from harness.protocol.task.lifecycle import FAILED, FENCED, LOADING, READY, Lifecycle, Phase
from harness.protocol.task.outlet import Outlet
from harness.protocol.task.partnership import Partnership
from harness.protocol.wiring import Wiring

__all__ = ["Mode", "Phase", "TaskMachine"]


class TaskMachine:
    """One copy. Every input goes through `handle`; `validate` checks the invariants after it."""

    __slots__ = (
        "_notes_progress", "_reported", "_ticked_position", "anywhere", "computation", "context",
        "durability", "inlet", "life", "outlet", "scheme", "story",
    )  # fmt: skip

    def __init__(
        self,
        order: told.CopyOrdered,
        *,
        wiring: Wiring,
        scheme: Scheme,
        initial: State,
        kept: int = KEPT,
        notes_progress: bool = False,
    ) -> None:
        assert order.incarnation > 0, f"incarnation {order.incarnation}"
        task, window = order.task, scheme.window
        self._notes_progress = notes_progress
        self.scheme = scheme
        self.anywhere = wiring.begins_anywhere(task)
        """True for a source without a state: it is never stored and never loaded."""
        context = self.context = Context(
            task=task, incarnation=order.incarnation, term=order.term, cause=order.cause
        )
        rules = scheme.tentative.of(task) if scheme.tentative is not None else None
        interval_us = rules.interval_us if rules is not None else 0
        self.inlet = Inlet(context, wiring=wiring, window=window, interval_us=interval_us)
        self.outlet = Outlet(context, wiring=wiring, window=window, send_from=order.send_from)
        partnership = None
        if rules is not None and rules.partners and not self.outlet.sink:
            partnership = Partnership(
                context,
                self.inlet.inbox,
                self.outlet,
                rules=rules,
                heartbeat_us=scheme.heartbeat_us,
            )
        self.computation = Computation(
            context,
            self.inlet,
            self.outlet,
            rules=rules,
            memory=wiring.memory[task],
            initial=initial,
            position=order.position,
            partnership=partnership,
        )
        self.durability = Durability(
            context,
            self.inlet,
            self.outlet,
            self.computation,
            scheme=scheme,
            anywhere=self.anywhere,
            kept=scheme.kept(wiring.memory[task]),
        )
        self.life = Lifecycle(
            order,
            context,
            self.inlet,
            self.outlet,
            self.computation,
            self.durability,
            initial=initial,
            anywhere=self.anywhere,
            local=scheme.recovery is Recovery.LOCAL,
            sends_buffer=scheme.sends_buffer,
        )
        self._ticked_position = -1
        self._reported: told.CopyReport | None = None
        title = f"task {wiring.names[task]}, incarnation {order.incarnation}"
        self.story = Story(title, kept=kept)

    # -- reading is free -------------------------------------------------------------------

    @property
    def task(self) -> int:
        """The number of its task."""
        return self.context.task

    @property
    def incarnation(self) -> int:
        """Its own number, which no other copy of the task has had."""
        return self.context.incarnation

    @property
    def term(self) -> int | None:
        """A primary's number; None for a replica."""
        return self.context.term

    @property
    def primary(self) -> bool:
        """True if it sends its output on."""
        return self.context.term is not None

    @property
    def sink(self) -> bool:
        """True if it publishes."""
        return self.outlet.sink

    @property
    def phase(self) -> Phase:
        """The phase of its life."""
        return self.life.phase

    @property
    def position(self) -> int:
        """The next batch of the stable computation."""
        return self.computation.position

    @property
    def full(self) -> bool:
        """True if a batch waits because the outbox has no room for its output."""
        return self.computation.full

    @property
    def mode(self) -> Mode:
        """Borealis' state of a node."""
        return self.computation.mode

    def report(self) -> told.CopyReport:
        """Return this copy's line in the heartbeat; the same object while nothing changes."""
        last, ready = self._reported, self.life.phase is READY
        position, term = self.computation.position, self.context.term
        stored, published = self.durability.stored, self.outlet.publisher.confirmed
        if (
            last is not None
            and last.position == position
            and last.stored == stored
            and last.published == published
            and last.term == term
            and last.ready is ready
            and last.failed == self.life.failure
        ):
            return last
        self._reported = told.CopyReport(
            task=self.context.task,
            incarnation=self.context.incarnation,
            term=term,
            position=position,
            stored=stored,
            published=published,
            ready=ready,
            failed=self.life.failure,
        )
        return self._reported

    # -- inputs -----------------------------------------------------------------------------

    def handle(
        self, item: told.TaskInput | told.CopyOrdered | told.CopyPromoted, *, now: int
    ) -> list[TaskEffect]:
        """React to ``item``; ``now`` is in microseconds and never decreases."""
        effects = self.context.begin(item.cause, now)
        kind, phase = type(item), self.life.phase
        try:
            if phase is not FENCED and phase is not FAILED:
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
        """Repeat unanswered requests at the node's heartbeat."""
        effects = self.context.begin(cause, now)
        if self.life.phase is LOADING:
            self.life.load()
        elif self.life.phase is READY:
            self._repeat()
            position = self.computation.position
            if self._ticked_position == position and not self.computation.busy:
                self.inlet.request_missing(self.durability.needs())
                self.durability.cover()
            self._ticked_position = position
        return effects

    def retire(self, *, cause: str, why: str, now: int) -> list[TaskEffect]:
        """Report the end of this copy; its node drops it."""
        assert why, "a copy is retired for a reason"
        effects = self.context.begin(cause, now)
        if self.inlet.source:
            self.context.emit(
                StopReading(cause=cause, task=self.task, incarnation=self.incarnation)
            )
        self._note(CopyEvent.RETIRED, why)
        return effects

    def _advance(self) -> None:
        if self.life.phase is READY:
            self.computation.advance()
        if self.outlet.publisher.queue:
            self.outlet.publish()  # also while it loads once more: what it has computed is right

    def _repeat(self) -> None:
        assert self.life.phase is READY, f"a copy that is {self.life.phase} repeats nothing"
        partner = self.computation.partnership
        if partner is not None and partner.catches_up and self.context.term is None:
            partner.request()
        if self.durability.unstored or self.outlet.sink:
            self.durability.repeat()
            self.outlet.repeat()
        if self.context.now >= self.outlet.reported_at + self.scheme.trim_every_us:
            self.life.report_progress()

    # -- input -----------------------------------------------------------------------------

    def _arrived(self, item: told.BatchArrived) -> None:
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

    def _read(self, item: told.SourceRead) -> None:
        assert self.inlet.source, "only a source reads the log"
        position = self.computation.position
        self.inlet.take(0, item.batch, item.payload, position=position, stable=True, term=0)

    def _upstream_resumed(self, item: told.UpstreamResumed) -> None:
        assert item.term > 0, f"a primary of term {item.term}"
        index = self.inlet.index(item.upstream)
        self.inlet.resumed(index, item.term)
        if self.life.phase is READY:
            self.inlet.request(index, self.durability.needs())

    def _upstream_closed(self, item: told.UpstreamClosed) -> None:
        assert item.back_at >= 0, f"back at {item.back_at}"
        index, run = self.inlet.index(item.upstream), self.computation.tentative
        if (
            run is not None
            and self.inlet.seen_terms[index] <= item.before_term
            and not run.is_back(index, item.before_term, item.back_at)
        ):
            run.close(index, last_batch=item.last_batch, before_term=item.before_term)

    # -- computing -------------------------------------------------------------------------

    def _processed(self, item: told.BatchProcessed) -> None:
        computation, inlet = self.computation, self.inlet
        if not computation.processed(item):
            return
        position = computation.position
        if inlet.inbox.dropped and not inlet.inbox.complete(position):
            inlet.request_dropped(self.durability.needs())
        if inlet.source:
            inlet.read_on(position)
        computation.meet()
        if self._notes_progress and self.context.term is not None:
            self._note(CopyEvent.PROGRESSED)
        self.durability.after_batch()

    # -- the other copy of the task --------------------------------------------------------

    def _postponement_requested(self, item: told.PostponementRequested) -> None:
        computation = self.computation
        if computation.partnership is not None and computation.tentative is not None:
            computation.partnership.postpone(item, computation.tentative, computation.position)

    def _postponement_granted(self, item: told.PostponementGranted) -> None:
        partner = self.computation.partnership
        if partner is not None and self.life.phase is READY:
            partner.take_over(item, self.computation.position)

    def _corrections_served(self, item: told.CorrectionsServed) -> None:
        computation = self.computation
        if computation.partnership is not None and computation.tentative is not None:
            computation.partnership.served(item, computation.tentative)

    def _service_ended(self, item: told.ServiceEnded) -> None:
        if self.computation.partnership is not None:
            self.computation.partnership.service_ended(item)

    # -- output ----------------------------------------------------------------------------

    def _output_fenced(self, item: told.OutputFenced) -> None:
        assert self.outlet.sink, "only a sink has a partition"
        self.outlet.fenced(item, self.computation.uncorrected)

    def _output_published(self, item: told.OutputPublished) -> None:
        assert self.outlet.sink, "only a sink publishes"
        if self.outlet.published(item):
            self.life.report_progress()

    def _timer_fired(self, item: told.TimerFired) -> None:
        """Do nothing here: `_advance` compares the time."""
        assert item.key[0] == "due", f"timer {item.key}"

    def _note(self, event: CopyEvent, why: str = "") -> None:
        self.context.note(event, self.computation.position, why)

    # -- what must hold --------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the whole state is consistent."""
        if self.life.phase is READY:
            position, inlet, outlet = self.computation.position, self.inlet, self.outlet
            try:
                durability = self.durability
                behind = durability.stored - durability.kept <= position or self.anywhere
                assert behind, "the checkpoint is ahead of the state"
                if inlet.inbox.slots:
                    inlet.inbox.validate(position, inlet.window)
                if outlet.outbox.outputs:
                    outlet.outbox.validate(max(position, outlet.filled_from), outlet.window)
                if outlet.sink:
                    outlet.publisher.validate()
                self.computation.validate()
            except AssertionError as error:
                raise self._violation(error) from error

    def _violation(self, error: AssertionError) -> ProtocolViolation:
        return ProtocolViolation(f"{error}\n{self.story.text()}")


_HANDLERS: dict[type, Callable[[TaskMachine, Any], None]] = {
    told.CopyOrdered: lambda copy, item: copy.life.ordered(item),
    told.CopyPromoted: lambda copy, item: copy.life.promoted(item),
    told.BatchArrived: TaskMachine._arrived,
    told.SourceRead: TaskMachine._read,
    told.ReplayRequested: lambda copy, item: copy.life.replay_requested(item),
    told.ReplayRefused: lambda copy, item: copy.life.replay_refused(item),
    told.BatchesAcknowledged: lambda copy, item: copy.outlet.acknowledged(
        item.downstream, item.below
    ),
    told.UpstreamResumed: TaskMachine._upstream_resumed,
    told.UpstreamClosed: TaskMachine._upstream_closed,
    told.ProgressReported: lambda copy, item: copy.outlet.progress_reported(item),
    told.PostponementRequested: TaskMachine._postponement_requested,
    told.PostponementGranted: TaskMachine._postponement_granted,
    told.CorrectionsServed: TaskMachine._corrections_served,
    told.ServiceEnded: TaskMachine._service_ended,
    told.EpochCompleted: lambda copy, item: copy.outlet.epoch_completed(item),
    told.BatchProcessed: TaskMachine._processed,
    told.BatchFailed: lambda copy, item: copy.life.failed(item),
    told.StateRebuilt: lambda copy, item: copy.computation.rebuilt(item),
    told.CheckpointStored: lambda copy, item: copy.durability.confirmed(item),
    told.CheckpointRefused: lambda copy, item: copy.life.fenced(item),
    told.CheckpointFailed: lambda copy, item: copy.durability.refused(item),
    told.CheckpointLoaded: lambda copy, item: copy.life.loaded(item),
    told.OutputFenced: TaskMachine._output_fenced,
    told.OutputPublished: TaskMachine._output_published,
    told.OutputRefused: lambda copy, item: copy.life.fenced(item),
    told.TimerFired: TaskMachine._timer_fired,
}

_BACKWARD = frozenset(
    {
        told.ReplayRequested,
        told.BatchesAcknowledged,
        told.ProgressReported,
        told.EpochCompleted,
        told.CheckpointStored,
        told.CheckpointFailed,
    }
)
"""Inputs that only concern existing output: nothing can be processed because of them."""
