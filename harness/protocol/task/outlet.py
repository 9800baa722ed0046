"""The output side of a copy: batches sent, batches sent again, and published output.

An output partition is the only place where a reader sees the results of a task. So its rules are
kept here (`Publisher`): a stable output is appended once, in batch order, and never undone. If a
tentative output of that batch is in the partition, an undo precedes the stable one and voids every
tentative output from there on. A new primary first fences the partition: older ones can no longer
write, and it learns where the output ends, so nothing needs to be remembered across a failure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.protocol import inputs as told
from harness.protocol.effects import FenceOutput, Kind, OutputRecord, PublishOutput
from harness.protocol.operators import Payload, size_of
from harness.protocol.task.context import Context
from harness.protocol.wiring import Wiring

PUBLICATION_BYTES = 1 << 19
"""Most bytes of payload in one publication of several records: half of what a broker takes."""


class Outbox:
    """Stable outputs of consecutive batches, trimmed behind what every neighbour acknowledged."""

    __slots__ = ("acknowledged", "outputs")

    def __init__(self, width: int, position: int = 0) -> None:
        assert width > 0, "a task without downstream tasks publishes, which counts as one"
        assert position >= 0, f"position {position}"
        self.acknowledged = [position] * width
        """The first batch that each downstream task may still request."""
        self.outputs: dict[int, tuple[Payload, ...]] = {}

    @property
    def oldest(self) -> int:
        """The first batch that any downstream task may still request."""
        return min(self.acknowledged)

    def put(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Keep a batch's output, unless it can no longer be requested."""
        assert len(outputs) == len(self.acknowledged), "one output per downstream task"
        assert batch not in self.outputs, f"batch {batch} was computed twice"
        if batch >= self.oldest:
            self.outputs[batch] = outputs

    def trim(self, index: int, below: int) -> None:
        """Note that downstream task ``index`` will not request a batch before ``below``."""
        assert 0 <= index < len(self.acknowledged), f"neighbour {index}"
        if below <= self.acknowledged[index]:
            return
        if not self.outputs:
            self.acknowledged[index] = below
            return
        before = self.oldest
        self.acknowledged[index] = below
        for batch in range(before, self.oldest):
            self.outputs.pop(batch, None)

    def trim_all(self, below: int) -> None:
        """Note that no downstream task will request a batch before ``below``."""
        assert below >= 0, f"batch {below}"
        for index in range(len(self.acknowledged)):
            self.trim(index, below)

    def since(self, batch: int) -> list[tuple[int, tuple[Payload, ...]]]:
        """Return (batch, outputs) from ``batch`` on, ascending."""
        assert batch >= 0, f"batch {batch}"
        return [
            (number, self.outputs[number]) for number in sorted(self.outputs) if number >= batch
        ]

    def contents(self) -> tuple[tuple[int, tuple[Payload, ...]], ...]:
        """Return everything that is kept, as a checkpoint holds it."""
        return tuple(sorted(self.outputs.items()))

    def validate(self, position: int, window: int) -> None:
        """Assert the invariants of an outbox that keeps something."""
        kept = sorted(self.outputs)
        first, last, count = kept[0], kept[-1], len(kept)
        assert count <= window, f"{count} outputs where {window} may be"
        assert last < position, f"output {last} is kept although {position} comes next"
        assert first >= min(self.acknowledged), f"output {first} should have been trimmed"
        assert count == last - first + 1, "the kept outputs have a gap"


class Publisher:
    """The records of an output partition that are appended, and those that wait."""

    __slots__ = (
        "confirmed", "in_flight", "next_stable", "next_tentative", "owned", "queue", "sequence",
    )  # fmt: skip

    def __init__(self) -> None:
        self.owned = False
        self.next_stable = 0
        """The first batch whose stable output was neither appended nor queued."""
        self.next_tentative = 0
        """One past the last valid tentative output; `next_stable` if there is none."""
        self.confirmed = 0
        """The first batch whose stable output is not known to be in the partition."""
        self.queue: list[OutputRecord] = []
        self.in_flight: tuple[OutputRecord, ...] = ()
        self.sequence = 0

    def open(self, next_stable: int, next_tentative: int) -> None:
        """Begin to write: the partition is fenced, and ends there."""
        assert min(next_stable, next_tentative) >= 0, "a partition ends at a batch"
        assert not self.owned, "an output partition is fenced once per term"
        assert not self.queue, "something was queued for a partition of another"
        self.owned = True
        self.next_stable = self.confirmed = next_stable
        self.next_tentative = max(next_tentative, next_stable)

    def stable(self, batch: int, payload: Payload) -> None:
        """Queue a batch's final output, after an undo if it replaces a tentative one."""
        assert self.owned, "publishing needs a fence"
        if batch < self.next_stable:
            return  # an earlier primary has published it
        assert batch == self.next_stable, f"batch {batch} after {self.next_stable - 1}: a gap"
        if self.next_tentative > batch:
            self.queue.append(OutputRecord(kind=Kind.UNDO, batch=batch))
        self.queue.append(OutputRecord(kind=Kind.STABLE, batch=batch, payload=payload))
        self.next_stable = self.next_tentative = batch + 1

    def tentative(self, batch: int, payload: Payload) -> None:
        """Queue a tentative output, unless the partition has one of that batch."""
        assert self.owned, "publishing needs a fence"
        if batch >= self.next_tentative:
            self.queue.append(OutputRecord(kind=Kind.TENTATIVE, batch=batch, payload=payload))
            self.next_tentative = batch + 1

    def take(self) -> tuple[OutputRecord, ...]:
        """Return the next records to append; empty while earlier ones are not confirmed.

        They have `PUBLICATION_BYTES` together, or are one record: what has gathered while the
        partition was away must not be one entry that no broker takes."""
        assert self.owned or not self.queue, "publishing needs a fence"
        if self.in_flight or not self.queue:
            return ()
        count = size = 0
        for record in self.queue:
            size += size_of(record.payload)
            if count and size > PUBLICATION_BYTES:
                break
            count += 1
        self.in_flight = tuple(self.queue[:count])
        del self.queue[:count]
        self.sequence += 1
        return self.in_flight

    def confirm(self, sequence: int) -> bool:
        """Note that records ``sequence`` are in the partition; return False if that was known."""
        assert sequence <= self.sequence, f"publication {sequence} of {self.sequence}"
        if sequence != self.sequence or not self.in_flight:
            return False
        for record in self.in_flight:
            if record.kind is Kind.STABLE:
                self.confirmed = record.batch + 1
        self.in_flight = ()
        return True

    def validate(self) -> None:
        """Assert the invariants that every sequence of outputs must keep."""
        assert self.confirmed <= self.next_stable <= self.next_tentative, "the output's ends cross"
        assert self.owned or not self.queue, "output was queued without a fence"
        assert self.owned or not self.in_flight, "output was sent without a fence"
        assert self.sequence or not self.in_flight, "output is on its way, and has no number"


Outputs = Mapping[int, tuple[Payload, ...]]
"""An output per downstream task, by batch."""


class Outlet:
    """The output side of a copy; owns the outbox and, for a sink, the publisher."""

    __slots__ = (
        "_context", "downstream", "filled_from", "held_from", "lent", "outbox", "publisher",
        "reported_at", "reported_below", "send_from", "sink", "window",
    )  # fmt: skip

    def __init__(self, context: Context, *, wiring: Wiring, window: int, send_from: int) -> None:
        assert window > 0, f"a window of {window} batches"
        self._context = context
        self.downstream = wiring.downstream[context.task]
        self.sink = not self.downstream
        self.window = window
        self.publisher = Publisher()
        self.filled_from = 0
        """In a copy that began with an empty state: the batch from which its output is right. What
        was computed before is in the outbox, from its primary's checkpoint."""
        self.held_from: int | None = None
        """Corrections from this batch on wait until the task is stable again."""
        self.lent = 0
        """The term of the primary for which this replica sends its output; 0: it holds it back."""
        self.reported_below = 0
        """The progress of the primary's output when it was last reported to the replica: known to
        the primary and, except in a sink, to the replica."""
        self.reported_at = 0
        self.restart(send_from)

    def restart(self, send_from: int) -> None:
        """Begin with an empty outbox.

        Output of batches before ``send_from`` is never sent: it is computed while the state is
        still being rebuilt, and no task needs it."""
        assert send_from >= 0, f"output from batch {send_from}"
        self.send_from = send_from
        self.outbox = Outbox(max(1, len(self.downstream)), send_from)

    def restore(self, outputs: Outputs, acknowledged: tuple[int, ...]) -> None:
        """Restore the output that a checkpoint has kept, without what is published.

        The partition confirms a publication once only, and a full outbox would stop the copy for
        good."""
        assert len(acknowledged) == max(1, len(self.downstream)), "a checkpoint of another wiring"
        self.outbox = Outbox(max(1, len(self.downstream)))
        self.outbox.acknowledged = list(acknowledged)
        self.outbox.outputs = dict(outputs)
        if self.sink:
            self.outbox.trim_all(self.publisher.confirmed)

    def has_room(self, position: int) -> bool:
        """Return True if the outbox has room for the output of the batch at ``position``."""
        assert position >= 0, f"position {position}"
        return position < self.outbox.oldest + self.window

    # -- sending ---------------------------------------------------------------------------

    def produced(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Keep the output of a stable batch and, in a primary, send it."""
        assert len(outputs) == max(1, len(self.downstream)), "one output per downstream task"
        if batch >= max(self.send_from, self.filled_from):
            if batch not in self.outbox.outputs:
                self.outbox.put(batch, outputs)
            if self._context.term is not None or self.lent:
                self._deliver(batch, outputs)

    def _deliver(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Send or publish a stable output, unless corrections wait for the end."""
        assert self._context.term or self.lent, "a replica holds its output back"
        if self.held_from is not None and batch >= self.held_from:
            return
        if self.sink:
            if self.publisher.owned:
                self.publisher.stable(batch, outputs[0])
            return
        for task, payload in zip(self.downstream, outputs, strict=True):
            self._send(task, None, batch, payload, stable=True)

    def deliver_tentative(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Send or publish output that was computed from partial input."""
        assert self._context.term is not None, "a replica computes nothing tentative"
        if self.sink:
            if self.publisher.owned:
                self.publisher.tentative(batch, outputs[0])
            return
        for task, payload in zip(self.downstream, outputs, strict=True):
            self._send(task, None, batch, payload, stable=False)

    def _send(
        self, to: int, incarnation: int | None, batch: int, payload: Payload, *, stable: bool
    ) -> None:
        context = self._context
        term = self.lent if context.term is None else context.term
        assert term, "a replica holds its output back"
        context.send(
            to,
            incarnation,
            told.BatchArrived(
                cause=context.cause,
                task=to,
                upstream=context.task,
                batch=batch,
                stable=stable,
                payload=payload,
                term=term,
            ),
        )

    def hold(self, position: int) -> None:
        """Keep corrections from ``position`` on until `release`."""
        assert self._context.term is not None, "a replica has sent nothing to correct"
        if self.held_from is None:
            self.held_from = position

    def release(self, served_below: int = 0) -> None:
        """Send the corrections that `hold` has kept, without those that the replica has sent."""
        held, self.held_from = self.held_from, None
        if held is not None:
            self._deliver_since(max(held, served_below))

    def serve(self, from_batch: int, term: int) -> None:
        """In a replica: send stable output from ``from_batch`` on in place of the primary."""
        assert self._context.term is None, "a primary sends its own output"
        self.lent = term
        self._deliver_since(from_batch)

    def end_service(self) -> None:
        """In a replica: hold all output back again."""
        self.lent = 0

    def _deliver_since(self, batch: int) -> None:
        assert batch >= 0, f"batch {batch}"
        for number, outputs in self.outbox.since(batch):
            self._deliver(number, outputs)

    # -- sending once more -----------------------------------------------------------------

    def acknowledged(self, downstream: int, below: int) -> None:
        """Note that a downstream task will not request a batch before ``below``."""
        assert downstream in self.downstream, f"task {downstream} gets nothing from this one"
        self.outbox.trim(self.downstream.index(downstream), below)

    def epoch_completed(self, item: told.EpochCompleted) -> None:
        """Trim the outbox to a complete epoch; a sink trims by what it has published."""
        assert item.position >= 0, f"epoch {item.position}"
        if not self.sink:
            self.outbox.trim_all(item.position)

    def has(self, batch: int) -> bool:
        """Return True if every output from ``batch`` on is kept, as far as it was computed."""
        assert batch >= 0, f"batch {batch}"
        return batch >= self.outbox.oldest and batch >= self.send_from

    def replay(self, item: told.ReplayRequested, tentative: Outputs) -> None:
        """Send batches again, to the requesting copy alone."""
        assert self.has(item.from_batch), f"batch {item.from_batch} is trimmed"
        assert item.from_batch >= item.acknowledged, "asked for what was acknowledged"
        index = self.downstream.index(item.downstream)
        for batch, outputs in self.outbox.since(item.from_batch):
            if self.held_from is None or batch < self.held_from:
                self._send(item.downstream, item.asking, batch, outputs[index], stable=True)
        for batch in sorted(tentative):
            if batch >= item.from_tentative:
                payload = tentative[batch][index]
                self._send(item.downstream, item.asking, batch, payload, stable=False)

    def refuse(self, item: told.ReplayRequested) -> None:
        """Refuse a request for batches that are trimmed."""
        assert not self.has(item.from_batch), "what is here is not refused"
        context = self._context
        context.send(
            item.downstream,
            item.asking,
            told.ReplayRefused(
                cause=context.cause,
                task=item.downstream,
                upstream=context.task,
                oldest=max(self.outbox.oldest, self.send_from),
            ),
        )

    # -- primary and replica ---------------------------------------------------------------

    def take_office(self) -> None:
        """Begin as the primary: fence the partition of a sink, notify the downstream tasks.

        What a promoted replica has held back is not sent: most of it was sent by its primary, and
        the downstream tasks request the rest (but see `send_buffer`)."""
        context = self._context
        assert context.term is not None, "only a primary takes office"
        if self.sink and not self.publisher.owned:
            self._fence()
        elif self.sink:
            self._deliver_since(self.publisher.next_stable)
        for task in self.downstream:
            message = told.UpstreamResumed(
                cause=context.cause, task=task, upstream=context.task, term=context.term
            )
            context.send(task, None, message)

    def send_buffer(self) -> None:
        """In a promoted replica: send what its primary had not reported (`Scheme.sends_buffer`)."""
        if not self.sink:
            self._deliver_since(self.reported_below)

    def progress_reported(self, item: told.ProgressReported) -> None:
        """Note how far the primary has come; trim in a sink's replica what is published."""
        assert item.sent_below >= 0, f"batch {item.sent_below}"
        if self._context.term is not None:
            return
        if self.sink:
            self.outbox.trim_all(item.sent_below)
        else:
            self.reported_below = item.sent_below

    def report_progress(self, position: int) -> None:
        """Report progress to the replica, if there is one.

        Only the coordinator knows whether there is one, because the plan may change."""
        assert position >= 0, f"position {position}"
        context = self._context
        if context.term is None:
            return
        self.reported_at = context.now
        self.reported_below = self.publisher.confirmed if self.sink else position
        message = told.ProgressReported(
            cause=context.cause, task=context.task, sent_below=self.reported_below
        )
        context.send(context.task, None, message)

    # -- publishing ------------------------------------------------------------------------

    def _fence(self) -> None:
        context = self._context
        assert context.term is not None
        context.emit(
            FenceOutput(
                cause=context.cause,
                task=context.task,
                incarnation=context.incarnation,
                term=context.term,
                records=self._backlog(),
            )
        )

    def _backlog(self) -> tuple[OutputRecord, ...]:
        """Return the oldest stable output that the partition may lack, none while some is held."""
        assert not self.publisher.owned, "what is published is known"
        found: list[OutputRecord] = []
        size = 0
        for batch, outputs in self.outbox.since(0) if self.held_from is None else ():
            size += size_of(outputs[0])
            if size > PUBLICATION_BYTES:
                break
            found.append(OutputRecord(kind=Kind.STABLE, batch=batch, payload=outputs[0]))
        return tuple(found)

    def fenced(self, item: told.OutputFenced, tentative: Outputs) -> None:
        """Publish what the partition lacks, now that it is fenced."""
        assert self.sink, "only a sink has a partition"
        if self.publisher.owned:
            return
        self.publisher.open(item.next_stable, item.next_tentative)
        self.outbox.trim_all(self.publisher.confirmed)
        self._hold_only_corrections()
        self._deliver_since(item.next_stable)
        for batch in sorted(tentative):
            self.publisher.tentative(batch, tentative[batch][0])

    def _hold_only_corrections(self) -> None:
        """Send output that corrects nothing although it is held.

        A tentative output that the fence came too late for may have been redone since. Then the
        partition has no version of that batch, so its stable output corrects nothing, and must not
        wait. It goes out now, with those before it; what is computed from here on is held."""
        assert self.publisher.owned, "only a fenced partition shows what it holds"
        outputs = self.outbox.outputs
        if self.held_from is None or not outputs:
            return
        end = max(outputs) + 1
        if self.publisher.next_tentative < end:
            self.held_from = max(self.held_from, end)

    def publish(self) -> None:
        """Append the queued records, unless earlier ones are not confirmed."""
        assert self.sink, "only a sink publishes"
        if self.publisher.take():
            self._append()

    def _append(self) -> None:
        assert self.publisher.in_flight, "nothing to append"
        context = self._context
        assert context.term is not None
        context.emit(
            PublishOutput(
                cause=context.cause,
                task=context.task,
                incarnation=context.incarnation,
                term=context.term,
                sequence=self.publisher.sequence,
                records=self.publisher.in_flight,
            )
        )

    def repeat(self) -> None:
        """Send a sink's unanswered requests to its partition again."""
        if self.sink and self._context.term is not None:
            if not self.publisher.owned:
                self._fence()
            elif self.publisher.in_flight:
                self._append()

    def published(self, item: told.OutputPublished) -> bool:
        """Note that records are in the partition.

        Returns True if a replica should learn of it before its outbox is full."""
        assert self.sink, "only a sink publishes"
        if not self.publisher.confirm(item.sequence):
            return False
        self.outbox.trim_all(self.publisher.confirmed)
        return self.publisher.confirmed >= self.reported_below + self.window // 2
