"""Storing the registry, and the orders that follow from it.

A coordinator that was replaced may not know it. So a coordinator that loads the registry gets a
term from the store, higher than all before, and the store refuses lower ones (compare and set).
The one that is refused steps down. Orders carry the term, too: a node that knows of a later
coordinator ignores the earlier ones, and its heartbeats name the latest term that it knows.

Orders are the difference between the copies that a node reports and those that the registry wants.
So an order may be lost, repeated or late; the node's next heartbeat mends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.protocol.coordinator.membership import Member
from harness.protocol.coordinator.registry import Copy, Registry
from harness.protocol.effects import LoadRegistry, StoreRegistry
from harness.protocol.inputs import (
    CopyOrdered,
    CopyPromoted,
    CopyRetired,
    Order,
    RegistryLoaded,
    RegistryStored,
)


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


def orders_for(member: Member, *, coordinator: int, cause: str) -> Iterator[Order]:
    """Whatever makes ``member`` host its copies and no others."""
    ordered: dict[int, int] = {}
    for (task, incarnation), copy in member.copies.items():
        report = member.reports.get((task, incarnation))
        if report is None:
            ordered[task] = max(incarnation, ordered.get(task, 0))
            beside = _other(member, copy)
            yield order_of(copy, beside=beside, coordinator=coordinator, cause=cause)
        elif report.term != copy.term:
            assert copy.term is not None, "a primary does not become a replica again"
            yield CopyPromoted(
                cause=cause,
                task=task,
                incarnation=incarnation,
                term=copy.term,
                coordinator=coordinator,
            )
    for task, incarnation in member.reports:
        makes_way = incarnation < ordered.get(task, 0)
        if (task, incarnation) not in member.copies and not makes_way:
            yield CopyRetired(
                cause=cause, task=task, incarnation=incarnation, coordinator=coordinator
            )


def _other(member: Member, copy: Copy) -> int | None:
    """The number of the same task's other copy on that node, if both are to be there."""
    for task, incarnation in member.copies:
        if task == copy.task and incarnation != copy.incarnation:
            return incarnation
    return None


def order_of(copy: Copy, *, beside: int | None, coordinator: int, cause: str) -> CopyOrdered:
    """What starts ``copy``."""
    return CopyOrdered(
        cause=cause,
        boot=copy.boot,
        task=copy.task,
        incarnation=copy.incarnation,
        term=copy.term,
        start=copy.start,
        position=copy.position,
        send_from=copy.send_from,
        coordinator=coordinator,
        beside=beside,
    )
