"""An output partition: fenced in the log itself, so that any reader sees the same.

A log that only appends has no server that could refuse an old primary's write. So what is
written says who wrote it, and every reader (the collector, the host of a sink, the simulator)
follows the same rules:

* an `OutputFence` counts unless a fence with the same or a higher term stands before it;
* an `OutputBatch` counts if its term and nonce are those of the last fence that counts, and its
  sequence number is the next of that term: what an older primary writes behind a newer one's
  fence, and what was appended twice because an answer got lost, is dropped;
* the records of a batch that counts come all or none, in order;
* a fence that counts may bring stable records, so that a replica's output does not wait until its
  fence has been read; one counts if it is the next, and no tentative output would need an undo;
* a stable or tentative record of a batch that is stable already is dropped.

The terms come from the registry. A store that loses its last second may give one term twice; then
the nonces of the two writers differ, and only the first to fence may write.

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
    nonce: int = 0
    """Drawn by the writer's host: different for two writers that were given one term."""
    records: tuple[OutputRecord, ...] = ()
    """Stable output that may be there already."""


class OutputBatch(Struct, frozen=True, kw_only=True):
    """The records that one `PublishOutput` appends."""

    term: int
    sequence: int
    """Counts a term's publications from 1."""
    records: tuple[OutputRecord, ...]
    nonce: int = 0
    """That of the writer's fence."""


class OutputEnd(Struct, frozen=True, kw_only=True):
    """All that a reader needs to continue where another one was."""

    offset: int
    """The first record of the partition that was not read."""
    term: int
    nonce: int
    sequence: int
    next_stable: int
    next_tentative: int


OutputEntry = OutputFence | OutputBatch


class OutputReader:
    """The end of a partition that was read from its beginning, or from a known end on."""

    __slots__ = ("next_stable", "next_tentative", "nonce", "repeated", "sequence", "term")

    def __init__(self) -> None:
        self.term = -1
        """The term of the last fence that counts."""
        self.nonce = 0
        self.repeated = 0
        """Stable records that were dropped because their batch was stable already."""
        self.sequence = 0
        """The number of the last batch of that term."""
        self.next_stable = 0
        """The first batch whose stable output has not come."""
        self.next_tentative = 0
        """One past the last tentative output that no undo covers, or `next_stable`."""

    def accept(self, entry: OutputEntry) -> tuple[OutputRecord, ...]:
        """Return the records that count of the partition's next entry."""
        assert entry.term >= 0, f"term {entry.term}"
        if isinstance(entry, OutputFence):
            if entry.term <= self.term:
                return ()
            self.term, self.nonce, self.sequence = entry.term, entry.nonce, 0
            return tuple([record for record in entry.records if self._continues(record)])
        if not self.owned_by(entry.term, entry.nonce) or entry.sequence != self.sequence + 1:
            return ()
        self.sequence = entry.sequence
        return tuple([record for record in entry.records if self._note(record)])

    def owned_by(self, term: int, nonce: int) -> bool:
        """Return True if this writer's fence is the last that counts."""
        return term == self.term and nonce == self.nonce

    def end(self, offset: int) -> OutputEnd:
        """Return this reader's state, with the offset of the next record."""
        return OutputEnd(
            offset=offset,
            term=self.term,
            nonce=self.nonce,
            sequence=self.sequence,
            next_stable=self.next_stable,
            next_tentative=self.next_tentative,
        )

    def begin(self, end: OutputEnd) -> None:
        """Continue where another reader was."""
        assert end.offset >= 0, f"offset {end.offset}"
        self.term, self.nonce, self.sequence = end.term, end.nonce, end.sequence
        self.next_stable, self.next_tentative = end.next_stable, end.next_tentative

    def _continues(self, record: OutputRecord) -> bool:
        """Move the end by a stable record of a fence; return False if it does not count."""
        assert record.kind is Kind.STABLE, "a fence brings stable output alone"
        is_next = record.batch == self.next_stable == self.next_tentative
        return is_next and self._note(record)

    def _note(self, record: OutputRecord) -> bool:
        """Move the end by a record; return False if it does not count."""
        assert record.batch >= 0, f"a record of batch {record.batch}"
        if record.kind is Kind.UNDO:
            self.next_tentative = max(record.batch, self.next_stable)
            return True
        if record.batch < self.next_stable:
            self.repeated += record.kind is Kind.STABLE
            return False
        if record.kind is Kind.STABLE:
            self.next_stable = record.batch + 1
            self.next_tentative = max(self.next_tentative, self.next_stable)
        else:
            self.next_tentative = record.batch + 1
        return True


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

    def fence(self, term: int, records: tuple[OutputRecord, ...] = ()) -> bool:
        """Fence lower terms off; return False if a higher term has a fence."""
        assert term > 0, f"term {term}"
        self._append(OutputFence(term=term, records=records))
        return term == self.term

    def append(self, term: int, sequence: int, records: tuple[OutputRecord, ...]) -> bool:
        """Append once per (term, sequence); return False if the term is fenced off."""
        assert sequence > 0, "publications count from 1"
        self._append(OutputBatch(term=term, sequence=sequence, records=records))
        return term == self.term

    def _append(self, entry: OutputEntry) -> None:
        now = self._clock()
        self.records += [Published(now, entry.term, record) for record in self.accept(entry)]
