"""The phases of a copy: beginning, loading, taking over, giving up, and answering requests.

`TRANSITIONS` is the table of phases; docs/protocol.md has its picture."""

from __future__ import annotations

from enum import StrEnum

from harness.protocol import inputs as told
from harness.protocol.effects import CopyEvent
from harness.protocol.operators import State
from harness.protocol.task.computation import Computation
from harness.protocol.task.context import Context
from harness.protocol.task.durability import Durability
from harness.protocol.task.inlet import Inlet, Needs
from harness.protocol.task.outlet import Outlet


class Phase(StrEnum):
    """The phase of a copy."""

    LOADING = "loading"
    """It waits for its state."""
    READY = "ready"
    FENCED = "fenced"
    """A newer primary exists: it does nothing more."""
    FAILED = "failed"
    """Its operator has raised: it does nothing more, and reports that until it is retired."""


LOADING, READY, FENCED, FAILED = Phase
"""Constants for checks on every input: looking a member up in its class costs two calls."""

EMPTY = "empty, to be filled"
"""The source of the state, in the note of a copy that has one to fill."""


TRANSITIONS: dict[tuple[Phase, type], Phase] = {
    (Phase.LOADING, told.CopyOrdered): Phase.READY,  # one that starts empty loads nothing
    (Phase.LOADING, told.CheckpointLoaded): Phase.READY,
    (Phase.LOADING, told.CheckpointRefused): Phase.FENCED,
    (Phase.LOADING, told.OutputRefused): Phase.FENCED,
    (Phase.READY, told.ReplayRefused): Phase.LOADING,
    (Phase.READY, told.BatchFailed): Phase.FAILED,
    (Phase.LOADING, told.BatchFailed): Phase.FAILED,
    (Phase.READY, told.CheckpointRefused): Phase.FENCED,
    (Phase.READY, told.OutputRefused): Phase.FENCED,
}
"""The next phase, by phase and input; nothing leads out of FENCED and FAILED."""


class Lifecycle:
    """The phase of a copy: it decides when the copy begins, loads again, ends, or answers."""

    __slots__ = (
        "_anywhere", "_begun", "_computation", "_context", "_durability", "_initial", "_inlet",
        "_local", "_order", "_outlet", "_pending", "_sends_buffer", "failure", "phase",
    )  # fmt: skip

    def __init__(
        self,
        order: told.CopyOrdered,
        context: Context,
        inlet: Inlet,
        outlet: Outlet,
        computation: Computation,
        durability: Durability,
        *,
        initial: State,
        anywhere: bool,
        local: bool,
        sends_buffer: bool,
    ) -> None:
        """Begin in LOADING.

        ``anywhere``: a source without a state can begin at any batch. ``local``: tasks recover one
        by one, so there may be replicas, and a copy may go on from a later checkpoint.
        ``sends_buffer``: `Scheme.sends_buffer`."""
        assert order.position >= 0, f"position {order.position}"
        self._order = order
        self._context, self._inlet, self._outlet = context, inlet, outlet
        self._computation, self._durability = computation, durability
        self._initial = initial
        self._anywhere, self._local, self._sends_buffer = anywhere, local, sends_buffer
        self._pending: dict[int, told.ReplayRequested] = {}
        """Requests that came while the copy was loading, by downstream task."""
        self._begun = False
        """True once it was ready: a later checkpoint must be further than itself."""
        self.phase = Phase.LOADING
        self.failure = ""
        """The traceback of its operator."""

    def _enter(self, phase: Phase, because: object) -> None:
        way = TRANSITIONS.get((self.phase, type(because)))
        name = type(because).__name__
        assert way is phase, f"{name} does not lead from {self.phase} to {phase}"
        self.phase = phase

    # -- beginning -------------------------------------------------------------------------

    def ordered(self, item: told.CopyOrdered) -> None:
        """Begin: with the initial state, or by loading a checkpoint."""
        assert self.phase is Phase.LOADING, "a copy is ordered once"
        self._note(CopyEvent.HOSTED, item.start)
        if item.start is told.Start.EMPTY:
            self._become_ready(item, item.position, self._initial)
        else:
            self.load()

    def load(self) -> None:
        """Request its state, for the first time or again."""
        assert self.phase is Phase.LOADING, f"a copy that is {self.phase} has its state"
        exact = self._order.start is told.Start.EPOCH and not self._begun
        self._durability.load(self._order.position if exact else None)

    def loaded(self, item: told.CheckpointLoaded) -> None:
        """Continue from the loaded checkpoint."""
        if self.phase is not Phase.LOADING:
            return
        checkpoint, position = item.checkpoint, self._computation.position
        if checkpoint is None or (self._begun and checkpoint.position <= position):
            if not self._begun:
                assert self._order.position == 0, "the checkpoint to start from is gone"
                self._become_ready(item, 0, self._initial)
            else:
                self._enter(Phase.READY, item)
                self._note(CopyEvent.READY, "nothing newer was stored")
            return
        assert checkpoint.task == self._context.task, "another task's checkpoint"
        self._outlet.restore(dict(checkpoint.outputs), checkpoint.acknowledged)
        if self._order.start is told.Start.EPOCH and not self._outlet.sink:
            self._outlet.outbox.trim_all(checkpoint.position)  # every task has stored this epoch
        self._durability.stored = checkpoint.position
        if self._durability.kept and self._context.term is None:
            self._outlet.filled_from = checkpoint.position
            self._become_ready(item, self._durability.covered, self._initial)
        else:
            self._become_ready(item, checkpoint.position, checkpoint.state)

    def _become_ready(self, because: object, position: int, state: State) -> None:
        assert position >= 0, f"position {position}"
        self._enter(Phase.READY, because)
        self._begun = True
        self._computation.begin(position, state)
        stored = "checkpoint" if position == self._durability.stored else EMPTY
        self._note(CopyEvent.READY, stored if self._durability.stored else "initial state")
        self._inlet.request_missing(self._durability.needs())
        if self._context.term is not None:
            self._take_office()

    # -- taking over -----------------------------------------------------------------------

    def promoted(self, item: told.CopyPromoted) -> None:
        """Become the primary, and notify others once the state is loaded."""
        term = self._context.term
        assert term is None or item.term >= term, "a term never falls"
        if term == item.term:
            return
        self._context.term = item.term
        if self._computation.partnership is not None:
            self._computation.partnership.reset()
        self._note(CopyEvent.PROMOTED)
        if self.phase is Phase.READY:
            self._take_office()
            if self._sends_buffer:
                self._outlet.send_buffer()

    def _take_office(self) -> None:
        assert self.phase is Phase.READY, f"a copy that is {self.phase} takes no office"
        self._outlet.take_office()
        self.answer_pending()

    # -- going back, and giving up ---------------------------------------------------------

    def replay_refused(self, item: told.ReplayRefused) -> None:
        """Load the primary's checkpoint, which covers the batches that are gone upstream."""
        assert item.oldest >= 0, f"batch {item.oldest}"
        index = self._inlet.index(item.upstream)
        missing = self._inlet.inbox.next_missing(index, self._computation.position)
        if item.oldest > missing and self.phase is Phase.READY and self._local:
            self._enter(Phase.LOADING, item)
            self.load()

    def failed(self, item: told.BatchFailed) -> None:
        """Stop after an error of the operator; the coordinator finds out if others fail, too."""
        if self._computation.is_meant(item):
            assert item.error, "a failure says what it was"
            self._enter(Phase.FAILED, item)
            self.failure = item.error
            self._note(CopyEvent.FAILED, item.error)

    def fenced(self, item: told.CheckpointRefused | told.OutputRefused) -> None:
        """Stop because the store or the partition has a newer primary."""
        assert self.phase is not Phase.FENCED, "a copy is fenced off once"
        self._enter(Phase.FENCED, item)

    # -- requests of others ----------------------------------------------------------------

    def replay_requested(self, item: told.ReplayRequested) -> None:
        """Send batches that a downstream copy lacks.

        While this copy loads, it cannot tell which batches it has; then the request waits until it
        takes office."""
        assert item.from_batch >= 0, f"batch {item.from_batch}"
        self._outlet.acknowledged(item.downstream, item.acknowledged)
        if self.phase is Phase.LOADING:
            self._pending[item.downstream] = item
        lent = self._outlet.lent and self._outlet.has(item.from_batch)
        if (self._context.term is None and not lent) or self.phase is not Phase.READY:
            return
        if self._outlet.has(item.from_batch):
            self._outlet.replay(item, self._computation.uncorrected)
        else:
            self._cannot_replay(item)

    def answer_pending(self) -> None:
        """Answer the requests that came before the state."""
        assert self._context.term is not None, "a replica answers no request"
        pending, self._pending = self._pending, {}
        for request in pending.values():
            self.replay_requested(request)

    def _cannot_replay(self, item: told.ReplayRequested) -> None:
        """Refuse trimmed batches; a source without a state reads them again."""
        assert not self._outlet.has(item.from_batch), "it has these batches"
        if not self._anywhere or item.reloads:
            self._outlet.refuse(item)
        elif item.from_batch < self._computation.position:
            self.rewind(item.from_batch)

    def rewind(self, batch: int) -> None:
        """Go back to ``batch``: no remembered state would be wrong there."""
        assert self._anywhere, "a state belongs to one position"
        self._computation.rewind(batch)
        self._outlet.restart(batch)
        self._inlet.request(0, Needs(batch, None, 0))

    def report_progress(self) -> None:
        """Report progress to the replica, if there may be one."""
        assert self.phase is Phase.READY, f"a copy that is {self.phase} reports no progress"
        if self._local:
            self._outlet.report_progress(self._computation.position)

    def _note(self, event: CopyEvent, why: str = "") -> None:
        self._context.note(event, self._computation.position, why)
