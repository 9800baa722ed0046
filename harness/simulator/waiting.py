"""What an observer knows of one copy: what came, what it computes, what it must still send."""

from __future__ import annotations

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Corrections, Policy, Tentative

BY_ITSELF = -1
"""The term below which a task has closed another on its own: any later batch opens it again."""


class Waiting:
    """The state of a copy as `harness.simulator.lateness` derives it from inputs and effects."""

    __slots__ = (
        "closed", "due", "filled_from", "first", "holds", "interval", "lead", "needed_from",
        "offset", "on_time", "owned", "parts", "publishing", "reached", "served_below",
        "stable_at", "stable_ticket", "stands", "suspends", "tentative_busy", "term", "terms",
        "unpublished", "width", "window",
    )  # fmt: skip

    def __init__(self, order: told.CopyOrdered, width: int, window: int, rules: Tentative) -> None:
        self.interval = rules.interval_us
        self.offset: int | None = None
        """The arrival time of batch 0, by the batch that came earliest for its number."""
        self.on_time: dict[int, int] = {}
        """Batch to when its first part was due by its tuple time."""
        self.suspends = rules.during_stabilization is Policy.SUSPEND
        self.holds = rules.corrections is Corrections.DONE
        self.term = order.term
        self.served_below = 0
        """Of every batch before this one the task's replica has sent stable output, while this copy
        has not corrected its own."""
        self.width = width
        self.window = window
        self.stable_at = order.position
        """The next batch of the stable computation."""
        self.filled_from = 0
        """The batch from which on it must answer: before that it fills an empty state."""
        self.lead: int | None = None
        """The next batch of the tentative computation; None while there is none."""
        self.needed_from: dict[int, int] = {}
        """Downstream task to the first batch that it may still need."""
        self.stable_ticket: int | None = None
        self.tentative_busy = False
        self.first: dict[int, int] = {}
        """Batch to when its first part came."""
        self.parts: dict[int, dict[int, bool]] = {}
        """Batch to upstream task to whether its part is stable."""
        self.terms: dict[int, int] = {}
        self.reached: dict[tuple[int, int], int] = {}
        """(upstream task, term) to the last batch that came of it, needed or not."""
        self.closed: dict[int, int] = {}
        """Upstream task to the term below which it is closed."""
        self.due: int | None = None
        """The time by which the next batch must have begun; None while it need not begin any."""
        self.owned = False
        self.publishing: int | None = None
        """The records that are on their way to the partition, by sequence number."""
        self.unpublished: set[int] = set()
        self.stands = 0
        """Of every batch before this one a valid version is in the partition, as far as the copy
        can know: from its fence, and from its own records since. It does not see the records of a
        later primary; it is fenced off then, and may not know that yet."""

    @property
    def next(self) -> int:
        """The batch that is computed next, tentatively or stable."""
        return self.stable_at if self.lead is None else self.lead

    def complete(self, batch: int) -> bool:
        """Return True if all of a batch has come, stable."""
        parts = self.parts.get(batch)
        return parts is not None and sum(parts.values()) == self.width

    def restart(self, position: int, filled_from: int) -> None:
        """Continue from a loaded or an empty state: earlier computations are void."""
        self.stable_at, self.lead = position, None
        self.filled_from = filled_from
        self.served_below = 0
        self.stable_ticket, self.tentative_busy = None, False

    def came(self, item: told.BatchArrived, clock: int) -> None:
        """Note a part of a batch."""
        upstream, batch, term = item.upstream, item.batch, item.term
        closed = self.closed.get(upstream)
        behind = 0 if closed == BY_ITSELF else 1  # of the primary that the coordinator waits for
        if closed is not None and term >= closed and batch + behind >= self.next:
            del self.closed[upstream]
        self.reached[upstream, term] = max(batch, self.reached.get((upstream, term), batch))
        if batch < self.stable_at:
            return
        known = self.terms.get(upstream, -1)
        if term > known:
            self.terms[upstream] = term
        if batch >= self.stable_at + self.window or (not item.stable and term < known):
            return
        parts = self.parts.get(batch)
        if parts is None:
            self.first[batch] = self.on_time[batch] = clock
            if self.interval:
                offset = clock - batch * self.interval
                self.offset = offset if self.offset is None else min(offset, self.offset)
                self.on_time[batch] = self.offset + batch * self.interval
            self.parts[batch] = {upstream: item.stable}
        else:
            parts[upstream] = item.stable or parts.get(upstream, False)

    def acknowledge(self, downstream: int, below: int) -> None:
        """Note that a downstream task needs no batch before ``below``."""
        self.needed_from[downstream] = max(below, self.needed_from.get(downstream, 0))

    def close(self, item: told.UpstreamClosed) -> None:
        """Note that the coordinator closes an upstream task.

        It stays open if it is back by now, or if a later primary than that of the order has sent a
        batch."""
        upstream, before = item.upstream, item.before_term
        latest = max((term for other, term in self.reached if other == upstream), default=-1)
        there = self.reached.get((upstream, before), -1) >= max(0, item.back_at - 1)
        back = latest > before or there
        if self.terms.get(upstream, -1) <= before and not back:
            self.closed[upstream] = max(before, self.closed.get(upstream, -1))

    def open(self, item: told.OutputFenced) -> None:
        """Note that the copy owns the partition, and where it ends."""
        self.owned, self.stands = True, item.next_tentative
        self.unpublished = {batch for batch in self.unpublished if batch >= self.stands}

    def publish(self, effect: do.PublishOutput) -> None:
        """Note an append to the partition."""
        self.publishing = effect.sequence
        for record in effect.records:
            self.unpublished.discard(record.batch)
            self.stands = record.batch + (record.kind is not do.Kind.UNDO)

    def began(self, effect: do.ProcessBatch) -> None:
        """Note that the copy has begun a batch."""
        if effect.run is told.STABLE:
            self.stable_ticket = effect.ticket
        else:
            self.lead, self.tentative_busy = effect.batch, True

    def processed(self, item: told.BatchProcessed) -> bool:
        """Note the end of a computation; return True if it gave the first version of its batch."""
        if item.run is told.TENTATIVE:
            if not (self.tentative_busy and item.batch == self.lead):
                return False
            self.tentative_busy, self.lead = False, item.batch + 1
            first = item.batch >= self.stable_at
        else:
            if item.ticket != self.stable_ticket:
                return False
            self.stable_ticket, first = None, item.batch >= self.next
            if self.lead is not None and self.suspends and self.holds:
                first = False  # what was suspended goes out when stabilization is over
            self.stable_at = item.batch + 1
            for batch in [batch for batch in self.first if batch <= item.batch]:
                del self.first[batch], self.parts[batch], self.on_time[batch]
        if self.lead is not None and (self.stable_at, 0) >= (self.lead, self.tentative_busy):
            self.lead = None
            self.served_below = 0
            if self.suspends and self.complete(self.stable_at):
                self.lead = self.stable_at  # stabilization lasts until what waits is processed
        return first
