"""An output partition: fenced in the log itself, so that any reader sees the same.

A log that only appends has no server that could refuse an old primary's write. So what is
written says who wrote it, and every reader (the collector, the host of a sink, the simulator)
follows the same rules:

* an `OutputFence` counts unless a fence with a higher term stands before it;
* an `OutputBatch` counts if its term is that of the last fence that counts, and its sequence
  number is the next of that term: what an older primary writes behind a newer one's fence, and
  what was appended twice because an answer got lost, is dropped;
* the records of a batch that counts come all or none, in order.

A sink's host fences by appending an `OutputFence` and reading the partition up to it. A
publication of its own is in the partition once the host has read it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from harness.protocol.effects import Kind, OutputRecord


class OutputFence(Struct, frozen=True, kw_only=True):
    """From here on only ``term`` may write."""

    term: int


class OutputBatch(Struct, frozen=True, kw_only=True):
    """The records that one `PublishOutput` appends."""

    term: int
    sequence: int
    """Counts a term's publications from 1."""
    records: tuple[OutputRecord, ...]


OutputEntry = OutputFence | OutputBatch


class OutputReader:
    """The end of a partition that was read from its beginning."""

    __slots__ = ("next_stable", "next_tentative", "sequence", "term")

    def __init__(self) -> None:
        self.term = -1
        """The term of the last fence that counts."""
        self.sequence = 0
        """The number of the last batch of that term."""
        self.next_stable = 0
        """The first batch whose stable output has not come."""
        self.next_tentative = 0
        """One past the last tentative output that no undo covers, or `next_stable`."""

    def accept(self, entry: OutputEntry) -> tuple[OutputRecord, ...]:
        """Return the records of the partition's next entry if it counts, else none."""
        assert entry.term >= 0, f"term {entry.term}"
        if isinstance(entry, OutputFence):
            if entry.term > self.term:
                self.term, self.sequence = entry.term, 0
            return ()
        if entry.term != self.term or entry.sequence != self.sequence + 1:
            return ()
        self.sequence = entry.sequence
        for record in entry.records:
            self._note(record)
        return entry.records

    def _note(self, record: OutputRecord) -> None:
        assert record.batch >= 0, f"a record of batch {record.batch}"
        if record.kind is Kind.STABLE:
            self.next_stable = record.batch + 1
            self.next_tentative = max(self.next_tentative, self.next_stable)
        elif record.kind is Kind.UNDO:
            self.next_tentative = record.batch
        else:
            self.next_tentative = record.batch + 1


@dataclass(slots=True)
class Published:
    """One record that counts."""

    at_us: int
    term: int
    record: OutputRecord


class OutputPartition(OutputReader):
    """A partition in this process's memory, for hosts whose log is not a real one."""

    __slots__ = ("_clock", "records")

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        """Begin with an empty partition; ``clock`` gives the microseconds that mark records."""
        super().__init__()
        self._clock = clock
        self.records: list[Published] = []
        """The records that count."""

    def fence(self, term: int) -> bool:
        """Fence lower terms off; return False if a higher term has a fence."""
        assert term > 0, f"term {term}"
        self.accept(OutputFence(term=term))
        return term == self.term

    def append(self, term: int, sequence: int, records: tuple[OutputRecord, ...]) -> bool:
        """Append once per (term, sequence); return False if the term is fenced off."""
        assert sequence > 0, "publications count from 1"
        entry, now = OutputBatch(term=term, sequence=sequence, records=records), self._clock()
        self.records += [Published(now, term, record) for record in self.accept(entry)]
        return term == self.term
