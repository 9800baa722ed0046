"""A sink's end of its output partition: stable once and in order, tentative, undo.

The partition is the only place where a reader sees what a task produced, so the rules stand
here: a stable output is appended once, in batch order, and never undone; before a stable output
of a batch whose tentative one stands, an undo voids every tentative output from there on.
A new primary first fences the partition: older ones can no longer write, and it learns where the
output ends, so nothing needs to be remembered across a failure.
"""

from __future__ import annotations

from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.operators import Payload


class Publisher:
    """What is in the partition, and what waits to be appended to it."""

    __slots__ = (
        "confirmed", "in_flight", "next_stable", "next_tentative", "owned", "queue", "sequence",
    )  # fmt: skip

    def __init__(self) -> None:
        self.owned = False
        self.next_stable = 0
        """The first batch whose stable output was neither appended nor queued."""
        self.next_tentative = 0
        """One past the last tentative output that stands; `next_stable` if none does."""
        self.confirmed = 0
        """The first batch whose stable output is not known to be in the partition."""
        self.queue: list[OutputRecord] = []
        self.in_flight: tuple[OutputRecord, ...] = ()
        self.sequence = 0

    def open(self, next_stable: int, next_tentative: int) -> None:
        """The partition is ours, and ends there."""
        assert not self.owned, "an output partition is fenced once per term"
        assert not self.queue, "something was queued for a partition of another"
        self.owned = True
        self.next_stable = self.confirmed = next_stable
        self.next_tentative = max(next_tentative, next_stable)

    def stable(self, batch: int, payload: Payload) -> None:
        """Queue a batch's final output, after an undo if tentative output stands in its place."""
        assert self.owned, "publishing needs a fence"
        if batch < self.next_stable:
            return  # an earlier primary has published it
        assert batch == self.next_stable, f"batch {batch} after {self.next_stable - 1}: a gap"
        if self.next_tentative > batch:
            self.queue.append(OutputRecord(kind=Kind.UNDO, batch=batch))
        self.queue.append(OutputRecord(kind=Kind.STABLE, batch=batch, payload=payload))
        self.next_stable = self.next_tentative = batch + 1

    def tentative(self, batch: int, payload: Payload) -> None:
        """Queue a tentative output, unless one of that batch stands already."""
        assert self.owned, "publishing needs a fence"
        if batch >= self.next_tentative:
            self.queue.append(OutputRecord(kind=Kind.TENTATIVE, batch=batch, payload=payload))
            self.next_tentative = batch + 1

    def take(self) -> tuple[OutputRecord, ...]:
        """The next records to append; empty while earlier ones are not confirmed."""
        if self.in_flight or not self.queue:
            return ()
        self.in_flight = tuple(self.queue)
        self.queue.clear()
        self.sequence += 1
        return self.in_flight

    def confirm(self, sequence: int) -> bool:
        """Records ``sequence`` are in the partition; False if that was known."""
        assert sequence <= self.sequence, f"publication {sequence} of {self.sequence}"
        if sequence != self.sequence or not self.in_flight:
            return False
        for record in self.in_flight:
            if record.kind is Kind.STABLE:
                self.confirmed = record.batch + 1
        self.in_flight = ()
        return True

    def validate(self) -> None:
        """Assert what no sequence of outputs may break."""
        assert self.confirmed <= self.next_stable <= self.next_tentative, "the output's ends cross"
        assert self.owned or not self.queue, "output was queued without a fence"
        assert self.owned or not self.in_flight, "output was sent without a fence"
        assert self.sequence or not self.in_flight, "output is on its way, and has no number"
