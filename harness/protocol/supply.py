"""What a copy gives to others: batches, batches once more, published output."""

from __future__ import annotations

from harness.protocol.effects import (
    ClaimOutput,
    PublishOutput,
    ReadOn,
    ReadSource,
)
from harness.protocol.inputs import (
    BatchArrived,
    BatchesAcknowledged,
    EpochCompleted,
    OutputClaimed,
    OutputPublished,
    ProgressReported,
    ReplayRefused,
    ReplayRequested,
)
from harness.protocol.operators import Payload
from harness.protocol.outbox import Outbox
from harness.protocol.scheme import Recovery
from harness.protocol.state import CopyState, Phase


class Supplying(CopyState):
    """The output side of a copy; and how it asks for input, the other end of the same contract."""

    __slots__ = ()

    def _request_missing(self) -> None:
        for index in range(len(self.upstream)):
            slot = self.inbox.slots.get(self.position)
            if slot is None or slot.stable[index] is None:
                self._request(index)

    def _request(self, index: int) -> None:
        """Ask upstream ``index`` for every batch from the first one missing."""
        missing = self.inbox.next_missing(index, self.position)
        if self.source:
            self.read_below = self.position + self.reading
            self._emit(
                ReadSource(
                    cause=self._cause,
                    task=self.task,
                    incarnation=self.incarnation,
                    from_batch=missing,
                    below=self.read_below,
                )
            )
            return
        run = self.tentative
        self._tell(
            self.upstream[index],
            None,
            ReplayRequested(
                cause=self._cause,
                task=self.upstream[index],
                downstream=self.task,
                asking=self.incarnation,
                from_batch=missing,
                from_tentative=run.position if run is not None and run.active else missing,
                acknowledged=self.stored if self.scheme.recovery is Recovery.LOCAL else 0,
                reloads=self.term is None,
            ),
        )

    def _read_on(self) -> None:
        """A source has moved: let it have a window of batches before it, and ask half-way."""
        if self.position + self.reading // 2 >= self.read_below:
            self.read_below = self.position + self.reading
            self._emit(
                ReadOn(
                    cause=self._cause,
                    task=self.task,
                    incarnation=self.incarnation,
                    below=self.read_below,
                )
            )

    def _request_dropped(self) -> None:
        """The next batch has not come whole: ask for what once came too early to be kept."""
        slot = self.inbox.slots.get(self.position)
        for index in sorted(self.inbox.dropped):
            if slot is None or slot.stable[index] is None:
                self.inbox.dropped.discard(index)
                self._request(index)

    def _has_room(self) -> bool:
        """Can the outbox take the output of the next batch?"""
        return self.position < self.outbox.oldest + self.window

    def _deliver(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Send or publish a stable output, unless corrections wait for the end."""
        if self.held_from is not None and batch >= self.held_from:
            return
        if self.sink:
            if self.publisher.claimed:
                self.publisher.stable(batch, outputs[0])
            return
        for task, payload in zip(self.downstream, outputs, strict=True):
            self._send_batch(task, None, batch, payload, stable=True)

    def _send_batch(
        self, to: int, incarnation: int | None, batch: int, payload: Payload, *, stable: bool
    ) -> None:
        assert self.term is not None, "a replica holds its output back"
        self._tell(
            to,
            incarnation,
            BatchArrived(
                cause=self._cause,
                task=to,
                upstream=self.task,
                batch=batch,
                stable=stable,
                payload=payload,
                term=self.term,
            ),
        )

    def _deliver_tentative(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        if self.sink:
            if self.publisher.claimed:
                self.publisher.tentative(batch, outputs[0])
            return
        for task, payload in zip(self.downstream, outputs, strict=True):
            self._send_batch(task, None, batch, payload, stable=False)

    def _release(self) -> None:
        held, self.held_from = self.held_from, None
        if held is not None:
            for batch, outputs in self.outbox.since(held):
                self._deliver(batch, outputs)

    def _replay_requested(self, item: ReplayRequested) -> None:
        self.outbox.trim(self.downstream.index(item.downstream), item.acknowledged)
        if self.phase is Phase.LOADING:
            self.pending_requests[item.downstream] = item
        if self.term is None or self.phase is not Phase.READY:
            return
        if item.from_batch < self.outbox.oldest or item.from_batch < self.send_from:
            self._cannot_replay(item)
            return
        index = self.downstream.index(item.downstream)
        for batch, outputs in self.outbox.since(item.from_batch):
            if self.held_from is None or batch < self.held_from:
                self._send_batch(item.downstream, item.asking, batch, outputs[index], stable=True)
        if self.tentative is not None:
            for batch in sorted(self.tentative.outputs):
                if batch >= item.from_tentative:
                    payload = self.tentative.outputs[batch][index]
                    self._send_batch(item.downstream, item.asking, batch, payload, stable=False)

    def _cannot_replay(self, item: ReplayRequested) -> None:
        """Asked for what is trimmed: a source without a state reads it again, others answer that
        it is gone."""
        if self.anywhere and not item.reloads:
            if item.from_batch < self.position:
                self._rewind(item.from_batch)
            return
        self._tell(
            item.downstream,
            item.asking,
            ReplayRefused(
                cause=self._cause,
                task=item.downstream,
                upstream=self.task,
                oldest=max(self.outbox.oldest, self.send_from),
            ),
        )

    def _rewind(self, batch: int) -> None:
        """Nothing is remembered, so it goes back to where it is asked to."""
        self.position = self.send_from = batch
        self.state, self.busy, self.full = self.initial, False, False
        self.ticket += 1
        self.outbox = Outbox(max(1, len(self.downstream)), batch)
        self.inbox.drop_from(batch + self.window)
        self._request(0)

    def _acknowledged(self, item: BatchesAcknowledged) -> None:
        self.outbox.trim(self.downstream.index(item.downstream), item.below)

    def _progress_reported(self, item: ProgressReported) -> None:
        if self.term is not None:
            return
        self.sent_below = max(self.sent_below, item.sent_below)
        if self.sink:
            self.outbox.trim_all(self.sent_below)

    def _report_progress(self) -> None:
        """Whether there is a replica only the coordinator knows, and the plan may change."""
        if self.term is None or self.scheme.recovery is not Recovery.LOCAL:
            return
        self._reported_at = self._now
        self.reported_below = self.publisher.confirmed if self.sink else self.position
        self._tell(
            self.task,
            None,
            ProgressReported(cause=self._cause, task=self.task, sent_below=self.reported_below),
        )

    def _epoch_completed(self, item: EpochCompleted) -> None:
        if not self.sink:
            self.outbox.trim_all(item.position)

    def _claim_output(self) -> None:
        assert self.term is not None
        self._emit(
            ClaimOutput(
                cause=self._cause, task=self.task, incarnation=self.incarnation, term=self.term
            )
        )

    def _output_claimed(self, item: OutputClaimed) -> None:
        if self.publisher.claimed:
            return
        self.publisher.claim(item.next_stable, item.next_tentative)
        self.outbox.trim_all(self.publisher.confirmed)
        for batch, outputs in self.outbox.since(item.next_stable):
            self._deliver(batch, outputs)
        if self.tentative is not None:
            for batch in sorted(self.tentative.outputs):
                self.publisher.tentative(batch, self.tentative.outputs[batch][0])

    def _publish(self) -> None:
        if self.publisher.take():
            self._emit_publish()

    def _emit_publish(self) -> None:
        assert self.term is not None
        self._emit(
            PublishOutput(
                cause=self._cause,
                task=self.task,
                incarnation=self.incarnation,
                term=self.term,
                sequence=self.publisher.sequence,
                records=self.publisher.in_flight,
            )
        )

    def _output_published(self, item: OutputPublished) -> None:
        if self.publisher.confirm(item.sequence):
            self.outbox.trim_all(self.publisher.confirmed)
            if self.publisher.confirmed >= self.reported_below + self.window // 2:
                self._report_progress()  # before a replica's outbox is full
