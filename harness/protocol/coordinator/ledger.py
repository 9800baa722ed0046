"""Storing the registry, and the orders that follow from it.

A coordinator that was replaced may not know it. So a coordinator that loads the registry gets a
term from the store, higher than all before, and the store refuses lower ones (compare and set).
The one that is refused steps down. Orders carry the term, too: a node that knows of a later
coordinator ignores the earlier ones, and its heartbeats name the latest term that it knows.

Orders are the difference between the copies that a node reports and those that the registry wants.
So an order may be lost, repeated or late; the node's next heartbeat mends it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.protocol import inputs as told
from harness.protocol.coordinator.membership import Member
from harness.protocol.coordinator.registry import Copy, Registry
from harness.protocol.effects import LoadRegistry, StoreRegistry


class Ledger:
    """The versions of one coordinator: every decision makes a new one."""

    def __init__(self, owner: int) -> None:
        assert owner > 0, f"owner {owner}"
        self.owner = owner
        self.term = 0
        """This coordinator's; 0 before it has read the registry."""
        self.version = 0
        self.stored = 0

    @property
    def loaded(self) -> bool:
        """True once the decisions of an earlier coordinator are known, or that there was none."""
        return self.term > 0

    @property
    def settled(self) -> bool:
        """True if the latest decision is durable, so that orders may follow from it."""
        return self.stored == self.version

    def load(self, cause: str) -> LoadRegistry:
        """Request the registry, and a term."""
        assert self.owner > 0, f"owner {self.owner}"
        return LoadRegistry(cause=cause, owner=self.owner)

    def take(self, item: told.RegistryLoaded) -> None:
        """Continue from the loaded registry."""
        assert not self.loaded, "a coordinator reads the registry once"
        assert item.term > 0, "the store gives every coordinator a term"
        assert item.term >= self.term, "a term never falls"
        self.term = item.term
        if isinstance(item.registry, Registry):
            self.version = self.stored = item.registry.version

    def store(self, registry: Registry, cause: str) -> StoreRegistry:
        """Request that the latest version is stored."""
        assert registry.version == self.version, "only the latest version is worth storing"
        assert self.loaded, "who has not read the registry decides nothing"
        return StoreRegistry(cause=cause, term=self.term, version=self.version, registry=registry)

    def note_stored(self, item: told.RegistryStored) -> bool:
        """Note that a version is stored; return True if it is new and the latest."""
        assert item.version >= 0, f"version {item.version}"
        assert item.version <= self.version, "a version was stored that never was"
        if item.version <= self.stored:
            return False
        self.stored = item.version
        return self.settled

    def validate(self) -> None:
        """Assert that only decisions that were made are stored."""
        assert self.loaded or not self.version, "a decision was made before the registry was read"
        assert self.stored <= self.version, "a version was stored that never was"


def orders_for(member: Member, *, coordinator: int, cause: str) -> Iterator[told.Order]:
    """Yield the orders that make ``member`` host the wanted copies and no others."""
    assert member.alive, "only live nodes get orders"
    assert coordinator > 0, "an order carries its coordinator's term"
    ordered: dict[int, int] = {}
    for (task, incarnation), copy in member.copies.items():
        report = member.reports.get((task, incarnation))
        if report is None:
            ordered[task] = max(incarnation, ordered.get(task, 0))
            beside = _other(member, copy)
            yield order_of(copy, beside=beside, coordinator=coordinator, cause=cause)
        elif report.term != copy.term:
            assert copy.term is not None, "a primary does not become a replica again"
            yield promotion_of(copy, copy.term, coordinator=coordinator, cause=cause)
    for task, incarnation in member.reports:
        makes_way = incarnation < ordered.get(task, 0)
        if (task, incarnation) not in member.copies and not makes_way:
            yield told.CopyRetired(
                cause=cause, task=task, incarnation=incarnation, coordinator=coordinator
            )


def _other(member: Member, copy: Copy) -> int | None:
    """Return the number of the same task's other copy on that node, if both are wanted there."""
    assert (copy.task, copy.incarnation) in member.copies, "the copy is wanted on this node"
    for task, incarnation in member.copies:
        if task == copy.task and incarnation != copy.incarnation:
            return incarnation
    return None


def promotion_of(copy: Copy, term: int, *, coordinator: int, cause: str) -> told.CopyPromoted:
    """Return the order that makes ``copy`` the primary under ``term``."""
    assert term > copy.incarnation, "a term is given after the copy's own number"
    return told.CopyPromoted(
        cause=cause,
        task=copy.task,
        incarnation=copy.incarnation,
        term=term,
        coordinator=coordinator,
    )


def order_of(copy: Copy, *, beside: int | None, coordinator: int, cause: str) -> told.CopyOrdered:
    """Return the order that starts ``copy``."""
    assert beside != copy.incarnation, "a copy does not stay alongside itself"
    return told.CopyOrdered(
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
