"""The copies that the coordinator wants: by task, as the registry stores them, and by node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.registry import Assignment, Copy
from harness.protocol.inputs import Start


class Assignments:
    """The only writer of each `Assignment`; keeps `Member.copies` equal to them."""

    def __init__(self, members: Membership) -> None:
        self.members = members
        self.tasks: list[Assignment] = []
        self._validated: list[Assignment] = []

    def begin(self, count: int) -> None:
        """Begin with ``count`` tasks that have no place yet."""
        assert count > 0, "a wiring has tasks"
        assert not self.tasks, "tasks are placed for the first time once"
        self.tasks = [Assignment() for _ in range(count)]

    def adopt(self, tasks: Sequence[Assignment]) -> None:
        """Adopt the decisions of an earlier coordinator."""
        assert tasks, "a stored registry has every task"
        self.tasks = list(tasks)
        for copy in self.copies():
            self._note(copy)

    def _note(self, copy: Copy) -> None:
        assert copy.incarnation > 0, f"task {copy.task}: a copy without a number"
        self.members[copy.node].copies[copy.task, copy.incarnation] = copy

    def _forget(self, copy: Copy) -> None:
        assert copy.node in self.members.numbers, f"node {copy.node} is not known"
        del self.members[copy.node].copies[copy.task, copy.incarnation]

    def copies(self) -> list[Copy]:
        """Return every copy that is wanted."""
        both = ((a.primary, a.replica) for a in self.tasks)
        return [copy for pair in both for copy in pair if copy is not None]

    def lost(self) -> list[int]:
        """Return the tasks that have no primary."""
        return [task for task, assignment in enumerate(self.tasks) if assignment.primary is None]

    def place(
        self,
        task: int,
        node: int,
        *,
        start: Start,
        position: int = 0,
        send_from: int = 0,
        replica: bool = False,
    ) -> None:
        """Place a new copy, under a number of its own, in place of the copy before.

        A replica gets a second number: the term under which it may take over."""
        assert node in self.members.numbers, f"node {node} is not known"
        assert send_from >= 0, f"task {task} sends from batch {send_from}"
        assignment = self.tasks[task]
        assert position >= 0, f"task {task} from batch {position}"
        number = assignment.used + 1
        used = number + replica
        copy = Copy(
            task=task,
            incarnation=number,
            term=None if replica else number,
            grant=used if replica else 0,
            node=node,
            boot=self.members[node].boot,
            start=start,
            position=position,
            send_from=send_from,
        )
        before = assignment.replica if replica else assignment.primary
        if before is not None:
            self._forget(before)
        if replica:
            self.tasks[task] = replace(assignment, replica=copy, used=used)
        else:
            self.tasks[task] = replace(assignment, primary=copy, used=used)
        self._note(copy)

    def promote(self, task: int) -> Copy:
        """Make the replica the primary, as it was granted; return the copy before its promotion."""
        assert 0 <= task < len(self.tasks), f"task {task} of {len(self.tasks)}"
        assignment = self.tasks[task]
        replica = assignment.replica
        assert replica is not None, f"task {task} has no replica to promote"
        assert assignment.primary is None, f"task {task} has a primary"
        promoted = replace(replica, term=replica.grant, grant=0)
        self.tasks[task] = replace(assignment, primary=promoted, replica=None)
        self._note(promoted)
        return replica

    def drop_replica(self, task: int) -> int:
        """Give up the replica; return its node."""
        assignment = self.tasks[task]
        assert assignment.replica is not None, f"task {task} has no replica to drop"
        self._forget(assignment.replica)
        self.tasks[task] = replace(assignment, replica=None)
        return assignment.replica.node

    def lose(self, node: int) -> list[Copy]:
        """Remove every copy from ``node``; return the primaries among them."""
        assert node in self.members.numbers, f"node {node} is not known"
        member = self.members[node]
        primaries: list[Copy] = []
        for copy in member.copies.values():
            assignment = self.tasks[copy.task]
            if copy == assignment.primary:
                primaries.append(copy)
                self.tasks[copy.task] = self._without_primary(assignment)
            else:
                self.tasks[copy.task] = replace(assignment, replica=None)
        member.gone()
        return primaries

    def wanted(self, task: int, incarnation: int) -> Copy | None:
        """Return the copy of this number if it is wanted, else None."""
        assert incarnation > 0, f"incarnation {incarnation} of task {task}"
        assignment = self.tasks[task]
        both = (assignment.primary, assignment.replica)
        return next((c for c in both if c is not None and c.incarnation == incarnation), None)

    def give_up(self, copy: Copy) -> None:
        """Give up one copy on a live node."""
        assert self.wanted(copy.task, copy.incarnation) is not None, (
            "only a wanted copy is given up"
        )
        assignment = self.tasks[copy.task]
        if copy == assignment.replica:
            self.drop_replica(copy.task)
            return
        self.tasks[copy.task] = self._without_primary(assignment)
        self._forget(copy)

    def _without_primary(self, assignment: Assignment) -> Assignment:
        """Return the assignment of a lost task, with its last known output, checkpoint and node."""
        primary = assignment.primary
        assert primary is not None, "only a primary is lost"
        report = self.members.report(primary)
        published, stored = assignment.published, assignment.stored
        if report is not None:
            published, stored = max(published, report.published), max(stored, report.stored)
        return replace(
            assignment, primary=None, published=published, stored=stored, was_on=primary.node
        )

    def positions(self) -> list[int]:
        """Return a lower bound of each primary's position, by task.

        A task that was restored and has not loaded its checkpoint yet counts with the position that
        it will have then."""
        return [self._position(assignment) for assignment in self.tasks]

    def _position(self, assignment: Assignment) -> int:
        assert assignment.stored >= 0, f"a checkpoint at {assignment.stored}"
        primary = assignment.primary
        if primary is None:
            return assignment.stored
        report = self.members.report(primary)
        at = report.position if report is not None else primary.position
        return max(at, assignment.stored)  # until it has loaded it reports where it was told to be

    def published(self, sink: int) -> int:
        """Return a lower bound of the published output of a sink."""
        assert 0 <= sink < len(self.tasks), f"task {sink} of {len(self.tasks)}"
        primary = self.tasks[sink].primary
        report = self.members.report(primary) if primary is not None else None
        return max(self.tasks[sink].published, report.published if report is not None else 0)

    def validate(self) -> None:
        """Assert the invariants that every sequence of decisions must keep."""
        if self.tasks == self._validated:
            return  # nothing was decided since
        for task, assignment in enumerate(self.tasks):
            assignment.validate(task)
        count = 0
        for node, member in self.members:
            assert len(member.copies) <= member.info.slots, f"node {node} is overfull"
            for copy in member.copies.values():
                wanted = self.tasks[copy.task]
                assert copy in (wanted.primary, wanted.replica), f"node {node}: a copy too many"
            count += len(member.copies)
        assert count == len(self.copies()), "a copy is on no node"
        self._validated = list(self.tasks)
