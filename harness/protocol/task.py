"""One copy of a task: primary or replica.

Theory of operation
-------------------
A task processes batch b when b has come, stable, from every upstream task, its parts in upstream
order. That makes a copy's state a function of its position alone, so a stable message is known
by (upstream task, batch), whoever sent it and however often; a replica that holds its output
back equals its primary; and a copy may be replaced by another at any position.

::

    LOADING ──CheckpointLoaded──> READY ──CheckpointRefused, OutputRefused──> FENCED
       ^                           │ │
       └──────ReplayRefused────────┘ └──BatchFailed──> FAILED

While READY, `mode` is Borealis' state: STABLE; FAILURE once a tentative computation has branched
off; STABILIZATION while the stable one can go on and has not caught up with it.

* ``position`` is the next batch of the stable computation; it never waits for anything but input.
* Output is kept in the outbox until every downstream task has acknowledged it, which they do
  once a durable checkpoint covers it (or, without checkpoints, once it is processed). A copy
  whose outbox is full waits, and so, one by one, do those before it.
* Nothing is retransmitted by a timer of its own: the node's heartbeat ticks every copy, and one
  that has not moved since the last tick asks again for what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.protocol.durability import Durable
from harness.protocol.effects import (
    CopyEvent,
    ProcessBatch,
    RebuildState,
    SetTimer,
    StopReading,
    TaskEffect,
)
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
    EpochCompleted,
    OutputClaimed,
    OutputPublished,
    OutputRefused,
    ProgressReported,
    ReplayRefused,
    ReplayRequested,
    Run,
    SourceRead,
    StateRebuilt,
    TaskInput,
    TimerFired,
    UpstreamClosed,
    UpstreamResumed,
)
from harness.protocol.operators import NoState, Payload
from harness.protocol.reconciliation import FOREVER, TentativeRun
from harness.protocol.scheme import Corrections, Policy
from harness.protocol.state import Mode, Phase

__all__ = ["Mode", "Phase", "TaskMachine"]


class TaskMachine(Durable):
    """One copy. `handle` alone changes it, and `validate` says what must hold in it."""

    __slots__ = ()

    def handle(self, item: TaskInput | CopyOrdered | CopyPromoted, *, now: int) -> list[TaskEffect]:
        """React to ``item``; ``now`` in microseconds, never less than before."""
        effects: list[TaskEffect] = []
        self._effects, self._cause, self._now = effects, item.cause, now
        kind = type(item)
        try:
            if self.phase is not Phase.FENCED and self.phase is not Phase.FAILED:
                _HANDLERS[kind](self, item)
                if kind not in _BACKWARD or self.full:
                    self._advance()
        except AssertionError as error:
            self.story.note(now, item, effects)
            raise self.violation(error) from error
        if self.story.kept:
            self.story.note(now, item, effects)
        return effects

    def tick(self, *, cause: str, now: int) -> list[TaskEffect]:
        """The node's heartbeat: ask again for whatever did not come."""
        effects: list[TaskEffect] = []
        self._effects, self._cause, self._now = effects, cause, now
        if self.phase is Phase.LOADING:
            self._load()
        elif self.phase is Phase.READY:
            if self.unstored or self.sink:
                self._repeat_stores()
            if now >= self._reported_at + self.scheme.trim_every_us:
                self._report_progress()
            if self._ticked_position == self.position and not self.busy:
                self._request_missing()
                self._cover_state()
            self._ticked_position = self.position
        return effects

    def retire(self, *, cause: str, why: str, now: int) -> list[TaskEffect]:
        """The node drops this copy."""
        effects: list[TaskEffect] = []
        self._effects, self._cause, self._now = effects, cause, now
        if self.source:
            self._emit(StopReading(cause=cause, task=self.task, incarnation=self.incarnation))
        self._note(CopyEvent.RETIRED, why)
        return effects

    def _arrived(self, item: BatchArrived) -> None:
        index = self._index[item.upstream]
        self._take(index, item.batch, item.payload, stable=item.stable, term=item.term)

    def _read(self, item: SourceRead) -> None:
        self._take(0, item.batch, item.payload, stable=True, term=0)

    def _take(self, index: int, batch: int, payload: Payload, *, stable: bool, term: int) -> None:
        run = self.tentative
        if run is not None and run.closed:
            ahead = run.position if run.active else self.position
            run.delivered(index, batch, term, ahead)
        if batch < self.position:
            return  # a duplicate
        if batch >= self.position + self.window:
            self.inbox.dropped.add(index)  # asked for again when there is room
        elif stable:
            self.inbox.put_stable(index, batch, payload, self._now)
        elif term >= self.seen_terms[index]:
            self.inbox.put_tentative(index, batch, payload, self._now)
        if term > self.seen_terms[index]:
            self.seen_terms[index] = term

    def _upstream_resumed(self, item: UpstreamResumed) -> None:
        index = self._index[item.upstream]
        self.seen_terms[index] = max(item.term, self.seen_terms[index])
        if self.phase is Phase.READY:
            self._request(index)

    def _upstream_closed(self, item: UpstreamClosed) -> None:
        index = self._index[item.upstream]
        if self.tentative is not None and self.seen_terms[index] <= item.before_term:
            self.tentative.close(index, up_to=item.up_to, before_term=item.before_term)

    def _advance(self) -> None:
        if self.phase is Phase.READY:
            if not self.busy and self.inbox.complete(self.position):
                self.full = not self._has_room()
                if self.full:
                    self._release()  # or nobody could ever acknowledge what is held
                else:
                    self._process_next()
            if self.tentative is not None and self.term is not None:
                self._advance_tentative(self.tentative)
            if self.publisher.queue:
                self._publish()

    def _process_next(self) -> None:
        self.busy = True
        self.ticket += 1
        if self.state is NoState.GONE:
            self._rebuild()
            return
        redo = self.tentative is not None and self.tentative.active
        if redo:
            self._hold_corrections()
        copies = (
            self.basis is not None
            and not redo  # the copy from before the failure serves until it is over
            and self.basis.before(self.position, self.state)
        )
        self._emit(
            ProcessBatch(
                cause=self._cause,
                task=self.task,
                incarnation=self.incarnation,
                run=Run.STABLE,
                ticket=self.ticket,
                batch=self.position,
                state=self.state,
                inputs=self.inbox.stable(self.position),
                copies_state=copies,
            )
        )

    def _hold_corrections(self) -> None:
        run = self.tentative
        if (
            run is not None
            and run.active
            and run.rules.corrections is Corrections.DONE
            and self.held_from is None
        ):
            self.held_from = self.position

    def _rebuild(self) -> None:
        assert self.basis is not None, "only a tentative computation takes the state away"
        assert self.scheme.tentative is not None
        first, state, inputs = self.basis.rebuild(self.position)
        self._emit(
            RebuildState(
                cause=self._cause,
                task=self.task,
                incarnation=self.incarnation,
                ticket=self.ticket,
                method=self.scheme.tentative.method,
                state=state,
                first_batch=first,
                inputs=inputs,
                undone=self.tentative.position - self.position if self.tentative else 0,
            )
        )

    def _rebuilt(self, item: StateRebuilt) -> None:
        if item.ticket != self.ticket:
            return
        self.busy = False
        self.state = item.state

    def _processed(self, item: BatchProcessed) -> None:
        if item.run is Run.TENTATIVE:
            self._processed_tentative(item)
            return
        if item.ticket != self.ticket:
            return
        batch = item.batch
        assert batch == self.position, f"batch {batch} was processed where {self.position} is due"
        self.busy = False
        self.state = item.state
        if self.basis is not None:
            self.basis.after(self.inbox.stable(batch), item.state)
        self.position = batch + 1
        self.inbox.drop_below(self.position)
        if batch >= self.send_from:
            if batch not in self.outbox.outputs:
                self.outbox.put(batch, item.outputs)
            if self.term is not None:
                self._deliver(batch, item.outputs)
        if not self.inbox.complete(self.position):
            self._release()  # blocked again, or done: what is corrected can go
            if self.inbox.dropped:
                self._request_dropped()
        if self.source:
            self._read_on()
        if self.tentative is not None and self.tentative.active:
            self._caught_up()
        if self.notes_progress and self.term is not None:
            self._note(CopyEvent.PROGRESSED)
        self._maybe_checkpoint()

    def _failed(self, item: BatchFailed) -> None:
        """The operator has raised: whether it would elsewhere, the coordinator finds out."""
        run = self.tentative
        if item.run is Run.TENTATIVE:
            meant = run is not None and run.busy and item.batch == run.position
        else:
            meant = item.ticket == self.ticket and self.busy
        if meant:
            assert item.error, "a failure says what it was"
            self.phase, self.failure = Phase.FAILED, item.error
            self._note(CopyEvent.FAILED, item.error)

    def _advance_tentative(self, run: TentativeRun) -> None:
        if run.busy or (not run.active and self._can_redo()):
            return
        batch = run.position if run.active else self.position
        redo = run.active and self._can_redo()
        policy = run.rules.during_stabilization if redo else run.rules.during_failure
        if policy is Policy.SUSPEND:
            return
        if batch >= self.position + self.window:
            return
        slot = self.inbox.slots.get(batch)
        due = run.due_at(slot, policy, self._now)
        if due <= self._now:
            inputs = run.inputs(slot, batch, len(self.upstream), self._now)
            if inputs is not None:
                self._process_tentative(run, batch, inputs)
                return
            due = slot.first_at + run.rules.bound_us if slot is not None else FOREVER
        if self._now < due < FOREVER and run.timer_at != due:
            run.timer_at = due
            self._emit(SetTimer(cause=self._cause, at=due, key=("due", self.task)))

    def _process_tentative(
        self, run: TentativeRun, batch: int, inputs: tuple[Payload | None, ...]
    ) -> None:
        first = not run.active
        if first:
            assert self.state is not NoState.GONE, "the stable computation has its state"
            run.start(batch, self.state)
            self.state = NoState.GONE  # the way back is `Basis`
        run.busy = True
        self._emit(
            ProcessBatch(
                cause=self._cause,
                task=self.task,
                incarnation=self.incarnation,
                run=Run.TENTATIVE,
                ticket=batch,
                batch=batch,
                state=run.state,
                inputs=inputs,
                copies_state=first and not run.rules.snapshot_every,
            )
        )

    def _processed_tentative(self, item: BatchProcessed) -> None:
        run = self.tentative
        if run is None or not (run.active and run.busy and item.batch == run.position):
            return  # the stable computation has overtaken it
        run.busy = False
        run.state = item.state
        run.position = item.batch + 1
        if item.batch >= self.position:
            run.outputs[item.batch] = item.outputs
            self._deliver_tentative(item.batch, item.outputs)
        self._caught_up()

    def _caught_up(self) -> None:
        """Drop the tentative computation once the stable one has reached it."""
        run = self.tentative
        if run is None or not run.active:
            return
        for batch in [batch for batch in run.outputs if batch < self.position]:
            del run.outputs[batch]
        if self.position > run.position or (self.position == run.position and not run.busy):
            if self.state is NoState.GONE:
                return  # it has not even begun to redo
            run.stop()
            self._release()

    def _timer_fired(self, _item: TimerFired) -> None:
        """Nothing of its own: `_advance` looks at the clock."""


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
