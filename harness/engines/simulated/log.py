"""The log (Kafka) and the store (Redis) as the protocol needs them: durable, fenced, fallible."""

from __future__ import annotations

from dataclasses import dataclass

from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.inputs import Checkpoint


@dataclass(slots=True)
class Published:
    """One record in an output partition."""

    at_us: int
    term: int
    record: OutputRecord


class OutputPartition:
    """Append-only; one writer at a time, the one that claimed with the highest term."""

    def __init__(self) -> None:
        self.records: list[Published] = []
        self.term = -1
        self.sequence = 0
        self.next_stable = 0
        self.next_tentative = 0

    def claim(self, term: int) -> bool:
        """Fence lower terms off; False if a higher one has claimed."""
        if term < self.term:
            return False
        if term > self.term:
            self.term, self.sequence = term, 0
        return True

    def append(
        self, at_us: int, term: int, sequence: int, records: tuple[OutputRecord, ...]
    ) -> bool:
        """Append once per (term, sequence); False if the term is fenced off."""
        if term != self.term:
            return False
        if sequence == self.sequence + 1:
            self.sequence = sequence
            for record in records:
                self.records.append(Published(at_us, term, record))
                self._note(record)
        return True

    def _note(self, record: OutputRecord) -> None:
        if record.kind is Kind.STABLE:
            self.next_stable = record.batch + 1
            self.next_tentative = max(self.next_tentative, self.next_stable)
        elif record.kind is Kind.UNDO:
            self.next_tentative = record.batch
        else:
            self.next_tentative = record.batch + 1


class Store:
    """Checkpoints per task, and the coordinator's registry."""

    def __init__(self) -> None:
        self._checkpoints: dict[int, dict[int, Checkpoint]] = {}
        self._terms: dict[int, int] = {}
        self.registry: object | None = None
        self.registry_version = -1
        self.written = 0

    def claim(self, task: int, term: int | None) -> bool:
        """Refuse lower terms from now on; False if this one is refused. None claims nothing."""
        if term is None:
            return True
        if term < self._terms.get(task, -1):
            return False
        self._terms[task] = term
        return True

    def put(self, checkpoint: Checkpoint) -> bool:
        """Keep ``checkpoint``; False if its term is refused."""
        if not self.claim(checkpoint.task, checkpoint.term):
            return False
        kept = self._checkpoints.setdefault(checkpoint.task, {})
        kept[checkpoint.position] = checkpoint
        self.written += 1
        return True

    def forget(self, below: int) -> None:
        """Drop the checkpoints that a complete epoch has made useless."""
        for kept in self._checkpoints.values():
            for position in [p for p in kept if p < below]:
                del kept[position]

    def get(self, task: int, position: int | None) -> Checkpoint | None:
        """The checkpoint at ``position``, or the latest one."""
        kept = self._checkpoints.get(task, {})
        if position is not None:
            return kept.get(position)
        return kept[max(kept)] if kept else None

    def put_registry(self, version: int, registry: object) -> None:
        if version > self.registry_version:
            self.registry_version, self.registry = version, registry
