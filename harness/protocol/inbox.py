"""The batches a task has received and not yet left behind, by number and upstream task."""

from __future__ import annotations

from harness.protocol.operators import Payload


class Slot:
    """One batch: a stable and a tentative part per upstream task, None where nothing came."""

    __slots__ = ("due_at", "first_at", "stable", "stable_count", "tentative")

    def __init__(self, width: int, now: int, due_at: int) -> None:
        assert width > 0, "a task without upstream tasks reads the log, which counts as one"
        self.stable: list[Payload | None] = [None] * width
        self.stable_count = 0
        self.tentative: dict[int, Payload] = {}
        self.first_at = now
        """When its first part came."""
        self.due_at = due_at
        """When that was due, by its tuple time; no later than it came."""


class Inbox:
    """Slots from the task's position on; the first stable part to arrive stays."""

    __slots__ = ("_interval_us", "_offset", "dropped", "slots", "width")

    def __init__(self, width: int, *, interval_us: int = 0) -> None:
        self.width = width
        self._interval_us = interval_us
        self._offset: int | None = None
        """When batch 0 would have come if none was ever later than the earliest."""
        self.slots: dict[int, Slot] = {}
        self.dropped: set[int] = set()
        """Upstream tasks of which something came too early to be kept."""

    def _slot(self, batch: int, now: int) -> Slot:
        slot = self.slots.get(batch)
        if slot is None:
            slot = self.slots[batch] = Slot(self.width, now, self._due_at(batch, now))
        return slot

    def _due_at(self, batch: int, now: int) -> int:
        """Sender and receiver have clocks of their own, so this goes by earlier batches: the one
        that came earliest for its number was on time."""
        if not self._interval_us:
            return now
        passed = batch * self._interval_us
        if self._offset is None or now - passed < self._offset:
            self._offset = now - passed
        return self._offset + passed

    def put_stable(self, index: int, batch: int, payload: Payload, now: int) -> bool:
        """Keep a stable part; False if there was one."""
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
        """Keep a tentative part, in place of an older one; False if a stable one is there."""
        assert payload is not None, "None is reserved for parts that did not come"
        assert 0 <= index < self.width, f"upstream {index} of {self.width}"
        slot = self._slot(batch, now)
        if slot.stable[index] is not None:
            return False
        slot.tentative[index] = payload
        return True

    def complete(self, batch: int) -> bool:
        """Has ``batch`` come, stable, from every upstream task?"""
        slot = self.slots.get(batch)
        return slot is not None and slot.stable_count == self.width

    def stable(self, batch: int) -> tuple[Payload, ...]:
        """A complete batch, in upstream order."""
        slot = self.slots[batch]
        assert slot.stable_count == self.width, f"batch {batch} is not complete"
        return tuple(slot.stable)

    def next_missing(self, index: int, position: int) -> int:
        """The first batch from ``position`` on that has not come, stable, from one upstream."""
        batch = position
        while (slot := self.slots.get(batch)) is not None and slot.stable[index] is not None:
            batch += 1
        return batch

    def drop(self, batch: int) -> None:
        """Forget the first batch that is kept: the task has processed it."""
        self.slots.pop(batch, None)

    def drop_below(self, position: int) -> None:
        """Forget what the task has left behind."""
        for batch in [batch for batch in self.slots if batch < position]:
            del self.slots[batch]

    def drop_from(self, end: int) -> None:
        """Forget what a task that goes back has no room for."""
        for batch in [batch for batch in self.slots if batch >= end]:
            del self.slots[batch]

    def validate(self, position: int, window: int) -> None:
        """Only for an inbox that keeps something."""
        kept = sorted(self.slots)
        first, last = kept[0], kept[-1]
        assert position <= first, f"batch {first} is kept where {position} comes next"
        assert last < position + window, f"batch {last} is kept where {position} comes next"
        slot = self.slots[first]
        count = self.width - slot.stable.count(None)
        assert slot.stable_count == count, f"batch {first}: miscounted"
        for index in slot.tentative:
            assert slot.stable[index] is None, f"batch {first}: a stable part is kept twice"
