"""How a copy begins, takes over, and makes its state outlive it."""

from __future__ import annotations

from harness.protocol.effects import CopyEvent, LoadCheckpoint, StoreCheckpoint
from harness.protocol.inputs import (
    LOG,
    BatchesAcknowledged,
    Checkpoint,
    CheckpointFailed,
    CheckpointLoaded,
    CheckpointRefused,
    CheckpointStored,
    CopyOrdered,
    CopyPromoted,
    OutputRefused,
    ReplayRefused,
    Start,
    UpstreamResumed,
)
from harness.protocol.operators import NoState, State
from harness.protocol.outbox import Outbox
from harness.protocol.scheme import Recovery
from harness.protocol.state import Phase
from harness.protocol.supply import Supplying

MOST_DOUBLINGS = 6
"""A checkpoint that the store has refused is tried again after 2, 4 ... 64 heartbeats."""


class Durable(Supplying):
    """Loading and storing checkpoints; taking office as a primary."""

    __slots__ = ()

    def _ordered(self, item: CopyOrdered) -> None:
        self._note(CopyEvent.HOSTED, item.start)
        if item.start is Start.EMPTY:
            self._become_ready(item.position, self.initial)
        else:
            self._load()

    def _load(self) -> None:
        exact = self._order.start is Start.EPOCH and self.state is NoState.GONE
        self._emit(
            LoadCheckpoint(
                cause=self._cause,
                task=self.task,
                incarnation=self.incarnation,
                term=self.term,
                position=self._order.position if exact else None,
            )
        )

    def _loaded(self, item: CheckpointLoaded) -> None:
        if self.phase is not Phase.LOADING:
            return
        checkpoint = item.checkpoint
        reloaded = self.state is not NoState.GONE
        if checkpoint is None or (reloaded and checkpoint.position <= self.position):
            if not reloaded:
                assert self._order.position == 0, "the checkpoint to start from is gone"
                self._become_ready(0, self.initial)
            else:
                self.phase = Phase.READY  # nothing newer than what this copy has
                self._note(CopyEvent.READY, "nothing newer was stored")
            return
        assert checkpoint.task == self.task, "another task's checkpoint"
        self.outbox = Outbox(max(1, len(self.downstream)))
        self.outbox.acknowledged = list(checkpoint.acknowledged)
        self.outbox.outputs = dict(checkpoint.outputs)
        if self._order.start is Start.EPOCH and not self.sink:
            self.outbox.trim_all(checkpoint.position)  # every task has stored this epoch
        self.stored = checkpoint.position
        self._become_ready(checkpoint.position, checkpoint.state)

    def _become_ready(self, position: int, state: State) -> None:
        self.phase = Phase.READY
        self.position, self.state = position, state
        self.busy = self.full = False
        self.ticket += 1
        self.inbox.drop_below(position)
        if self.tentative is not None and self.basis is not None:
            self.tentative.stop()
            self.tentative.outputs.clear()
            self.basis.begin(position, state)
            self.held_from = None
        self._note(CopyEvent.READY, "checkpoint" if self.stored else "initial state")
        self._request_missing()
        if self.primary:
            self._take_office()

    def _promoted(self, item: CopyPromoted) -> None:
        assert self.term is None or item.term >= self.term, "a term never falls"
        if self.term == item.term:
            return
        self.term = item.term
        self._note(CopyEvent.PROMOTED)
        if self.phase is Phase.READY:
            for batch, outputs in self.outbox.since(self.sent_below):
                self._deliver(batch, outputs)
            self._take_office()

    def _take_office(self) -> None:
        """A new primary: the output partition is claimed, the neighbours told."""
        assert self.term is not None, "only a primary takes office"
        if self.sink and not self.publisher.claimed:
            self._claim_output()
        elif self.sink:
            for batch, outputs in self.outbox.since(self.publisher.next_stable):
                self._deliver(batch, outputs)
        for task in self.downstream:
            self._tell(
                task,
                None,
                UpstreamResumed(cause=self._cause, task=task, upstream=self.task, term=self.term),
            )
        pending, self.pending_requests = self.pending_requests, {}
        for request in pending.values():
            self._replay_requested(request)

    def _replay_refused(self, item: ReplayRefused) -> None:
        missing = self.inbox.next_missing(self._index[item.upstream], self.position)
        if (
            item.oldest > missing
            and self.phase is Phase.READY
            and self.scheme.recovery is Recovery.LOCAL
        ):
            self.phase = Phase.LOADING  # the primary's checkpoint covers what is gone
            self._load()

    def _maybe_checkpoint(self) -> None:
        every = self.scheme.checkpoint_every
        if every and not self.position % every and self.term is not None and not self.anywhere:
            self._checkpoint()

    def _cover_state(self) -> None:
        """A replica took over, nothing comes, and no checkpoint is known to cover its state: its
        upstream tasks may be waiting for one before they have room."""
        every = self.scheme.checkpoint_every
        if (
            self.term is not None
            and self.scheme.recovery is Recovery.LOCAL
            and self.position - self.stored >= every
            and not (self.unstored or self.anywhere or self.state is NoState.GONE)
        ):
            self._checkpoint()

    def _checkpoint(self) -> None:
        assert self.term is not None, "a primary stores"
        assert self.state is not NoState.GONE, "only a whole state is stored"
        checkpoint = Checkpoint(
            task=self.task,
            position=self.position,
            state=self.state,
            outputs=self.outbox.contents(),
            acknowledged=tuple(self.outbox.acknowledged),
            term=self.term,
        )
        if self.scheme.recovery is Recovery.LOCAL:
            self.unstored.clear()  # the newest covers the others
        self.unstored[self.position] = checkpoint
        if self._now >= self.store_after:
            self._store(checkpoint)

    def _store(self, checkpoint: Checkpoint) -> None:
        alone = self.scheme.recovery is Recovery.LOCAL
        self._emit(
            StoreCheckpoint(
                cause=self._cause,
                incarnation=self.incarnation,
                checkpoint=checkpoint,
                forget_below=checkpoint.position if alone else 0,
            )
        )

    def _not_stored(self, item: CheckpointFailed) -> None:
        """Tried again with the heartbeats, ever more rarely: a state may shrink, or a store be
        given room. Meanwhile upstream tasks keep what this one would need."""
        if item.position not in self.unstored:
            return
        self.store_refusals = min(self.store_refusals + 1, MOST_DOUBLINGS)
        self.store_after = self._now + (self.scheme.heartbeat_us << self.store_refusals)
        self._note(CopyEvent.UNSTORED, item.reason)

    def _checkpoint_stored(self, item: CheckpointStored) -> None:
        self.store_after = self.store_refusals = 0
        self.unstored.pop(item.position, None)
        if item.position <= self.stored:
            return
        self.stored = item.position
        if self.scheme.recovery is Recovery.LOCAL:
            self._acknowledge(item.position)

    def _acknowledge(self, below: int) -> None:
        for task in self.upstream:
            if task != LOG:
                self._tell(
                    task,
                    None,
                    BatchesAcknowledged(
                        cause=self._cause, task=task, downstream=self.task, below=below
                    ),
                )

    def _fenced(self, _item: CheckpointRefused | OutputRefused) -> None:
        self.phase = Phase.FENCED

    def _repeat_stores(self) -> None:
        if self._now >= self.store_after:
            for checkpoint in self.unstored.values():
                self._store(checkpoint)
        if self.sink and self.term is not None:
            if not self.publisher.claimed:
                self._claim_output()
            elif self.publisher.in_flight:
                self._emit_publish()
