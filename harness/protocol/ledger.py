"""Storing the registry: which coordinator may, and which version is stored.

A coordinator that was replaced may not know it. So a coordinator that loads the registry gets a
term from the store, higher than all before, and the store refuses lower ones (compare and set).
The one that is refused steps down. Orders carry the term, too: a node that knows of a later
coordinator ignores the earlier ones, and its heartbeats name the latest term that it knows.
"""

from __future__ import annotations

from harness.protocol.effects import LoadRegistry, StoreRegistry
from harness.protocol.inputs import RegistryLoaded, RegistryStored
from harness.protocol.registry import Registry


class Ledger:
    """Versions of one coordinator: every decision makes a new one."""

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.term = 0
        """This coordinator's; 0 before it has read the registry."""
        self.version = 0
        self.stored = 0

    @property
    def loaded(self) -> bool:
        """It is known what an earlier coordinator decided, or that there was none."""
        return self.term > 0

    @property
    def settled(self) -> bool:
        """The latest decision is durable: it may be acted upon."""
        return self.stored == self.version

    def load(self, cause: str) -> LoadRegistry:
        """Ask for the registry, and for a term."""
        return LoadRegistry(cause=cause, owner=self.owner)

    def take(self, item: RegistryLoaded) -> None:
        """Go on from what was loaded."""
        assert item.term > 0, "the store gives every coordinator a term"
        assert item.term >= self.term, "a term never falls"
        self.term = item.term
        if isinstance(item.registry, Registry):
            self.version = self.stored = item.registry.version

    def store(self, registry: Registry, cause: str) -> StoreRegistry:
        """Ask for the latest version to be stored."""
        assert registry.version == self.version, "only the latest version is worth storing"
        assert self.loaded, "who has not read the registry decides nothing"
        return StoreRegistry(cause=cause, term=self.term, version=self.version, registry=registry)

    def note_stored(self, item: RegistryStored) -> bool:
        """Note that a version is stored. Whether that is new, and it is the latest version."""
        assert item.version <= self.version, "a version was stored that never was"
        if item.version <= self.stored:
            return False
        self.stored = item.version
        return self.settled

    def validate(self) -> None:
        """Assert that no decision was stored that was not made."""
        assert self.stored <= self.version, "a version was stored that never was"
