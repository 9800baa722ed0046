"""The input side of a copy: batches that arrived, and requests for those that are missing."""

from __future__ import annotations

from typing import NamedTuple

from harness.protocol.effects import ReadOn, ReadSource
from harness.protocol.inputs import LOG, BatchesAcknowledged, ReplayRequested
from harness.protocol.operators import Payload
from harness.protocol.task.context import Context
from harness.protocol.wiring import Wiring


class Slot:
    """One batch: a stable and a tentative part per upstream task, None where nothing came."""

    __slots__ = ("due_at", "first_at", "stable", "stable_count", "tentative")

    def __init__(self, width: int, now: int, due_at: int) -> None:
        assert width > 0, "a task without upstream tasks reads the log, which counts as one"
        self.stable: list[Payload | None] = [None] * width
        self.stable_count = 0
        self.tentative: dict[int, Payload] = {}
        self.first_at = now
        """The time at which its first part came."""
        self.due_at = due_at
        """The time at which that part was due by its tuple time; not later than ``first_at``."""


class Inbox:
    """Slots from the task's position on; the first stable part to arrive stays."""

    __slots__ = ("_interval_us", "_offset", "dropped", "slots", "width")

    def __init__(self, width: int, *, interval_us: int = 0) -> None:
        assert interval_us >= 0, f"an interval of {interval_us} µs"
        self.width = width
        self._interval_us = interval_us
        self._offset: int | None = None
        """The arrival time of batch 0 if no batch was later than the earliest one."""
        self.slots: dict[int, Slot] = {}
        self.dropped: set[int] = set()
        """Upstream tasks of which a batch came too early to be kept."""

    def _slot(self, batch: int, now: int) -> Slot:
        slot = self.slots.get(batch)
        if slot is None:
            slot = self.slots[batch] = Slot(self.width, now, self._due_at(batch, now))
        return slot

    def _due_at(self, batch: int, now: int) -> int:
        """Return the time at which ``batch`` was due, from the arrival of earlier batches.

        Sender and receiver have clocks of their own. So the batch that came earliest for its number
        counts as on time."""
        if not self._interval_us:
            return now
        passed = batch * self._interval_us
        if self._offset is None or now - passed < self._offset:
            self._offset = now - passed
        return self._offset + passed

    def put_stable(self, index: int, batch: int, payload: Payload, now: int) -> bool:
        """Keep a stable part; return False if there was one."""
        assert payload is not None, "None is reserved for parts that did not come"
        assert 0 <= index < self.width, f"upstream {index} of {self.width}"
        slot = self._slot(batch, now)
        if slot.stable[index] is not None:
            return False
        slot.stable[index] = payload
        slot.stable_count += 1
        assert slot.stable_count <= self.width, f"batch {batch}: miscounted"
        if slot.tentative:
            slot.tentative.pop(index, None)
        return True

    def put_tentative(self, index: int, batch: int, payload: Payload, now: int) -> bool:
        """Keep a tentative part in place of an older one; return False if a stable one is there."""
        assert payload is not None, "None is reserved for parts that did not come"
        assert 0 <= index < self.width, f"upstream {index} of {self.width}"
        slot = self._slot(batch, now)
        if slot.stable[index] is not None:
            return False
        slot.tentative[index] = payload
        return True

    def complete(self, batch: int) -> bool:
        """Return True if all stable parts of ``batch`` have come."""
        slot = self.slots.get(batch)
        return slot is not None and slot.stable_count == self.width

    def stable(self, batch: int) -> tuple[Payload, ...]:
        """Return a complete batch, in upstream order."""
        slot = self.slots[batch]
        assert slot.stable_count == self.width, f"batch {batch} is not complete"
        return tuple(slot.stable)

    def next_missing(self, index: int, position: int) -> int:
        """Return the first batch from ``position`` on without the stable part of one upstream."""
        assert 0 <= index < self.width, f"upstream {index} of {self.width}"
        batch = position
        while (slot := self.slots.get(batch)) is not None and slot.stable[index] is not None:
            batch += 1
        return batch

    def drop(self, batch: int) -> None:
        """Forget a batch that the task has processed."""
        assert not self.slots or batch <= min(self.slots), f"batch {batch} is not the first one"
        self.slots.pop(batch, None)

    def drop_below(self, position: int) -> None:
        """Forget the batches before ``position``."""
        assert position >= 0, f"position {position}"
        for batch in [batch for batch in self.slots if batch < position]:
            del self.slots[batch]

    def drop_from(self, end: int) -> None:
        """Forget the batches from ``end`` on: a task that goes back has no room for them."""
        assert end > 0, f"room for {end} batches"
        for batch in [batch for batch in self.slots if batch >= end]:
            del self.slots[batch]

    def validate(self, position: int, window: int) -> None:
        """Assert the invariants of an inbox that keeps something."""
        kept = sorted(self.slots)
        first, last = kept[0], kept[-1]
        assert position <= first, f"batch {first} is kept where {position} comes next"
        assert last < position + window, f"batch {last} is kept where {position} comes next"
        slot = self.slots[first]
        count = self.width - slot.stable.count(None)
        assert slot.stable_count == count, f"batch {first}: miscounted"
        for index in slot.tentative:
            assert slot.stable[index] is None, f"batch {first}: a stable part is kept twice"


READ_AHEAD = 64
"""The most batches that a source has requested or read, and not processed."""


class Needs(NamedTuple):
    """The batches that a copy needs, as its upstream tasks must know them."""

    position: int
    tentative: int | None
    """The next batch of the tentative computation, if there is one."""
    acknowledged: int
    """Batches before this one are covered by a durable checkpoint and never requested again."""
    fills: bool = False
    """True while an empty state is filled: no checkpoint replaces what is needed for that."""


class Inlet:
    """The input side of a copy; owns the inbox and the state of the upstream tasks."""

    __slots__ = (
        "_context", "_index", "inbox", "read_below", "reading", "seen_terms", "source",
        "upstream", "window",
    )  # fmt: skip

    def __init__(self, context: Context, *, wiring: Wiring, window: int, interval_us: int) -> None:
        assert window > 0, f"a window of {window} batches"
        self._context = context
        self.source = not wiring.upstream[context.task]
        self.upstream = wiring.upstream[context.task] or (LOG,)
        self._index = {task: index for index, task in enumerate(self.upstream)}
        self.inbox = Inbox(len(self.upstream), interval_us=interval_us)
        self.window = window
        self.seen_terms = [-1] * len(self.upstream)
        """The highest term received, per upstream task."""
        self.reading = min(window, READ_AHEAD)
        self.read_below = 0
        """A source has requested all batches before this one."""

    def index(self, upstream: int) -> int:
        """Return the index of an upstream task in wiring order."""
        assert upstream in self._index, f"task {upstream} sends nothing to {self._context.task}"
        return self._index[upstream]

    def take(
        self, index: int, batch: int, payload: Payload, *, position: int, stable: bool, term: int
    ) -> None:
        """Take one part of one batch."""
        assert stable or not self.source, "the log says nothing that it takes back"
        assert batch >= 0, f"batch {batch}"
        if batch < position:
            return  # a duplicate
        if batch >= position + self.window:
            self.inbox.dropped.add(index)  # asked for again when there is room
        elif stable:
            self.inbox.put_stable(index, batch, payload, self._context.now)
        elif term >= self.seen_terms[index]:
            self.inbox.put_tentative(index, batch, payload, self._context.now)
        if term > self.seen_terms[index]:
            self.seen_terms[index] = term

    def resumed(self, index: int, term: int) -> None:
        """Note that an upstream task has a new primary."""
        assert not self.source, "the log has no primary"
        self.seen_terms[index] = max(term, self.seen_terms[index])

    # -- asking ----------------------------------------------------------------------------

    def request_missing(self, needs: Needs) -> None:
        """Request every missing part of the next batch, and what follows it.

        An upstream task whose part has come gets an acknowledgement instead; requests carry one for
        the others. If that task was restored, its new copy may not have the acknowledgement. Its
        outbox may then be full, so that it stops while all tasks wait for it."""
        assert needs.position >= 0, f"position {needs.position}"
        slot = self.inbox.slots.get(needs.position)
        for index in range(len(self.upstream)):
            if slot is None or slot.stable[index] is None:
                self.request(index, needs)
            elif needs.acknowledged:
                self._acknowledge(index, needs.acknowledged)

    def acknowledge(self, below: int) -> None:
        """Acknowledge batches: none before ``below`` will be requested again."""
        assert below > 0, f"nothing before batch {below} exists"
        for index in range(len(self.upstream)):
            self._acknowledge(index, below)

    def _acknowledge(self, index: int, below: int) -> None:
        assert below > 0, f"nothing before batch {below} exists"
        if not self.source:
            context, task = self._context, self.upstream[index]
            message = BatchesAcknowledged(
                cause=context.cause, task=task, downstream=context.task, below=below
            )
            context.send(task, None, message)

    def request(self, index: int, needs: Needs) -> None:
        """Request every batch of upstream ``index`` from the first missing one."""
        missing = self.inbox.next_missing(index, needs.position)
        assert needs.acknowledged <= missing, "it asks for what it has said it will not ask for"
        context = self._context
        if self.source:
            self._read(missing, needs.position)
            return
        context.send(
            self.upstream[index],
            None,
            ReplayRequested(
                cause=context.cause,
                task=self.upstream[index],
                downstream=context.task,
                asking=context.incarnation,
                from_batch=missing,
                from_tentative=missing if needs.tentative is None else needs.tentative,
                acknowledged=needs.acknowledged,
                reloads=context.term is None and not needs.fills,
            ),
        )

    def request_dropped(self, needs: Needs) -> None:
        """Request the parts of the next batch that came too early to be kept."""
        assert self.inbox.dropped, "nothing was dropped"
        slot = self.inbox.slots.get(needs.position)
        for index in sorted(self.inbox.dropped):
            if slot is None or slot.stable[index] is None:
                self.inbox.dropped.discard(index)
                self.request(index, needs)

    def _read(self, from_batch: int, position: int) -> None:
        assert self.source, "only a source reads the log"
        assert from_batch >= position, f"batch {from_batch} is behind position {position}"
        self.read_below = position + self.reading
        self._context.emit(
            ReadSource(
                cause=self._context.cause,
                task=self._context.task,
                incarnation=self._context.incarnation,
                from_batch=from_batch,
                below=self.read_below,
            )
        )

    def read_on(self, position: int) -> None:
        """Extend the read window of a source that has moved half-way through it."""
        assert self.source, "only a source reads the log"
        if position + self.reading // 2 >= self.read_below:
            self.read_below = position + self.reading
            self._context.emit(
                ReadOn(
                    cause=self._context.cause,
                    task=self._context.task,
                    incarnation=self._context.incarnation,
                    below=self.read_below,
                )
            )
