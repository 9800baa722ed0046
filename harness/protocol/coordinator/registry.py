"""What the coordinator decided: which copy of which task runs where. It survives a crash."""

from __future__ import annotations

from msgspec import Struct

from harness.protocol.inputs import NodeInfo as NodeInfo
from harness.protocol.inputs import Start


class Copy(Struct, frozen=True, kw_only=True):
    """One wanted copy of a task."""

    task: int
    incarnation: int
    term: int | None
    """A primary's; None for a replica."""
    grant: int = 0
    """A replica's: the term under which it may take over, given to nobody else."""
    node: int
    boot: int
    """The node's boot number when it was placed; after a later boot it is lost."""
    start: Start = Start.CHECKPOINT
    position: int = 0
    send_from: int = 0


class Assignment(Struct, frozen=True, kw_only=True):
    """The copies of one task. Without a primary it is lost and waits for one."""

    primary: Copy | None = None
    replica: Copy | None = None
    used: int = 0
    """The highest incarnation or term in use: both come from this one counter."""
    published: int = 0
    """A sink's output before this batch is known to be in its partition."""
    stored: int = 0
    """The position of a lost primary's durable checkpoint; later copies need no input before it."""
    was_on: int | None = None
    """The node that the last primary was lost with."""

    def validate(self, task: int) -> None:
        """Assert the invariants that every sequence of decisions must keep."""
        primary, replica = self.primary, self.replica
        numbers = [copy.incarnation for copy in (primary, replica) if copy]
        assert len(set(numbers)) == len(numbers), f"task {task}: two copies are one"
        assert all(n <= self.used for n in numbers), f"task {task}: used {numbers}"
        assert min(self.published, self.stored) >= 0, f"task {task}: a batch that never is"
        if primary:
            assert primary.term is not None, f"task {task}: a primary without a term"
            assert primary.term <= self.used, f"task {task}: a term nobody gave"
        if replica:
            assert replica.term is None, f"task {task}: two primaries"
            assert replica.incarnation < replica.grant <= self.used, (
                f"task {task}: a term nobody gave"
            )
            above = primary.term if primary and primary.term else 0
            assert replica.grant > above, f"task {task}: a replica could not take over"


class Registry(Struct, frozen=True, kw_only=True):
    """All decisions, in one value that is stored at once."""

    version: int
    tasks: tuple[Assignment, ...]
    epoch: int
    """The position of the last complete coordinated checkpoint."""
    replicated: tuple[int, ...]
    """The plan in force."""
    came_later: tuple[tuple[int, NodeInfo], ...] = ()
    """Nodes, by number, that joined without being known at the start."""
