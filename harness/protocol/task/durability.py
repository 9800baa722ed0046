"""How a copy makes its state outlive it: checkpoints, and what they let others forget."""

from __future__ import annotations

from harness.protocol.effects import CopyEvent, LoadCheckpoint, StoreCheckpoint
from harness.protocol.inputs import Checkpoint, CheckpointFailed, CheckpointStored
from harness.protocol.operators import GONE
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.task.computation import Computation
from harness.protocol.task.context import Context
from harness.protocol.task.inlet import Inlet, Needs
from harness.protocol.task.outlet import Outlet

MOST_DOUBLINGS = 6
"""A checkpoint that the store has refused is tried again after 2, 4 ... 64 heartbeats."""


class Durability:
    """The checkpoints that are stored, and those that wait."""

    __slots__ = (
        "_computation", "_context", "_every", "_heartbeat_us", "_inlet", "_local", "_outlet",
        "_refusals", "_store_after", "_window", "kept", "stored", "unstored",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        inlet: Inlet,
        outlet: Outlet,
        computation: Computation,
        *,
        scheme: Scheme,
        anywhere: bool,
        kept: int,
    ) -> None:
        """``kept``: batches before a checkpoint that stay upstream, to fill an empty state."""
        assert scheme.window > 0, f"a window of {scheme.window} batches"
        self._context, self._inlet, self._outlet = context, inlet, outlet
        self._computation = computation
        self._every = 0 if anywhere else scheme.checkpoint_every
        self._local = scheme.recovery is Recovery.LOCAL
        self._heartbeat_us = scheme.heartbeat_us
        self._window = scheme.window
        self.kept = kept
        self.stored = 0
        """The position of the last checkpoint that is durable."""
        self.unstored: dict[int, Checkpoint] = {}
        self._store_after = 0
        """The time before which refused checkpoints are not stored again."""
        self._refusals = 0
        """The number of refusals in a row."""

    @property
    def covered(self) -> int:
        """The first batch that this copy may still request, by its checkpoints."""
        return max(0, self.stored - self.kept) if self._local else 0

    def needs(self) -> Needs:
        """Return the batches that this copy lacks and no checkpoint covers."""
        computation = self._computation
        fills = computation.position < self.stored
        return Needs(computation.position, computation.ahead, self.covered, fills)

    def load(self, position: int | None) -> None:
        """Request the checkpoint at ``position``, or the latest."""
        assert position is None or position >= 0, f"position {position}"
        self._context.emit(
            LoadCheckpoint(
                cause=self._context.cause,
                task=self._context.task,
                incarnation=self._context.incarnation,
                term=self._context.term,
                position=position,
            )
        )

    def after_batch(self) -> None:
        """Store a checkpoint if one is due."""
        assert self._computation.position > 0, "a batch was processed"
        every = self._every
        due = every and not self._computation.position % every
        filled = self._computation.position > self.stored
        if due and filled and self._context.term is not None:
            self._checkpoint()

    def cover(self) -> None:
        """Store a checkpoint between batches, where one is overdue.

        A replica that took over has no checkpoint that covers its state. If no batch comes, its
        upstream tasks may be waiting for that checkpoint, because their outboxes are full."""
        assert not self._computation.busy, "a busy copy stores its checkpoint after the batch"
        if (
            self._every
            and self._local
            and self._context.term is not None
            and self._computation.position - self.stored >= self._every
            and not self.unstored
        ):
            if self._computation.state is GONE:
                self._computation.regain_state()  # with the next heartbeat there is one to store
            else:
                self._checkpoint()

    def _checkpoint(self) -> None:
        context, computation, outbox = self._context, self._computation, self._outlet.outbox
        assert context.term is not None, "a primary stores"
        assert computation.state is not GONE, "only a whole state is stored"
        checkpoint = Checkpoint(
            task=context.task,
            position=computation.position,
            state=computation.state,
            outputs=outbox.contents(),
            acknowledged=tuple(outbox.acknowledged),
            term=context.term,
        )
        if self._local:
            self.unstored.clear()  # the newest covers the others
        elif len(self.unstored) >= self._window:
            # Neighbours send so far only when an epoch beyond its oldest is complete, so it was
            # completed without this copy: it has been replaced, and the store will say so.
            del self.unstored[min(self.unstored)]
        self.unstored[computation.position] = checkpoint
        if context.now >= self._store_after:
            self._store(checkpoint)

    def _store(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.task == self._context.task, "another task's checkpoint"
        assert checkpoint.term <= (self._context.term or 0), "a checkpoint from a later term"
        self._context.emit(
            StoreCheckpoint(
                cause=self._context.cause,
                incarnation=self._context.incarnation,
                checkpoint=checkpoint,
                forget_below=checkpoint.position if self._local else 0,
            )
        )

    def repeat(self) -> None:
        """Store checkpoints again that were not confirmed."""
        assert len(self.unstored) <= self._window, f"{len(self.unstored)} checkpoints wait"
        if self._context.now >= self._store_after:
            for checkpoint in self.unstored.values():
                self._store(checkpoint)

    def confirmed(self, item: CheckpointStored) -> None:
        """Note that a checkpoint is durable; batches that it covers are never requested again."""
        assert item.position <= self._computation.position, "stored before it was computed"
        self._store_after = self._refusals = 0
        self.unstored.pop(item.position, None)
        if item.position <= self.stored:
            return
        self.stored = item.position
        if self.covered:
            self._inlet.acknowledge(self.covered)

    def refused(self, item: CheckpointFailed) -> None:
        """Note that the store refused a checkpoint.

        It is tried again with later heartbeats, twice as long after each refusal; meanwhile
        upstream tasks keep the batches that this one would need."""
        assert item.reason, "a refusal has a reason"
        if item.position not in self.unstored:
            return
        assert self._context.term is not None, "a replica stores nothing that could be refused"
        self._refusals = min(self._refusals + 1, MOST_DOUBLINGS)
        self._store_after = self._context.now + (self._heartbeat_us << self._refusals)
        self._context.note(CopyEvent.UNSTORED, self._computation.position, item.reason)
