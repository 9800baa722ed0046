"""The store (Redis) as the protocol needs it: durable and fenced; of both virtual worlds."""

from __future__ import annotations

from typing import Any

from harness.hosting.answers import NoRoom
from harness.protocol.inputs import Checkpoint


class Store:
    """Checkpoints per task, and the coordinator's registry: the protocol's values, or bytes."""

    def __init__(self) -> None:
        self.checkpoints: dict[int, dict[int, Any]] = {}
        """Task to its checkpoints by their positions."""
        self._terms: dict[int, int] = {}
        self.registry: Any = None
        self.registry_version = -1
        self.registry_terms: dict[int, int] = {}
        """Owner to the term that it was given."""
        self.full = 0
        """The number of faults because of which it has no room for checkpoints."""

    def fence(self, task: int, term: int | None) -> bool:
        """Refuse lower terms from now on; False if this one is refused. None fences nothing."""
        if term is None:
            return True
        if term < self._terms.get(task, -1):
            return False
        self._terms[task] = term
        return True

    def put(self, checkpoint: Checkpoint) -> bool:
        """Keep ``checkpoint``; False if its term is refused. Raises `NoRoom`."""
        return self.keep(checkpoint.task, checkpoint.term, checkpoint.position, checkpoint)

    def keep(self, task: int, term: int | None, position: int, checkpoint: Any) -> bool:
        """Keep the checkpoint of ``task`` at ``position``, in any form."""
        if not self.fence(task, term):
            return False
        if self.full:
            raise NoRoom("the simulated store is full")
        self.checkpoints.setdefault(task, {})[position] = checkpoint
        return True

    def forget(self, task: int | None, below: int) -> None:
        """Drop the checkpoints of ``task``, or of all tasks, before position ``below``."""
        for number in self.checkpoints if task is None else (task,):
            kept = self.checkpoints.get(number, {})
            for position in [p for p in kept if p < below]:
                del kept[position]

    def get(self, task: int, position: int | None) -> Any:
        """Return the checkpoint at ``position``, or the latest one; None if there is none."""
        kept = self.checkpoints.get(task, {})
        return kept.get(max(kept, default=-1) if position is None else position)

    def take_registry(self, owner: int) -> tuple[int, Any]:
        """Give ``owner`` a term of its own, and what is stored."""
        term = self.registry_terms.setdefault(owner, len(self.registry_terms) + 1)
        return term, self.registry

    def put_registry(self, term: int, version: int, registry: object) -> int | None:
        """Keep a later version; the highest term if that is not ``term``."""
        highest = len(self.registry_terms)
        if term < highest:
            return highest
        if version > self.registry_version:
            self.registry_version, self.registry = version, registry
        return None
