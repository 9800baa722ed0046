"""The copies that the coordinator wants: by task, as the registry stores them, and by node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.registry import Assignment, Copy
from harness.protocol.inputs import Start


class Assignments:
    """Only this class changes an `Assignment`; it keeps `Member.copies` equal to them."""

    def __init__(self, members: Membership) -> None:
        self.members = members
        self.tasks: list[Assignment] = []
        self._validated: list[Assignment] = []

    def begin(self, count: int) -> None:
        """``count`` tasks that have never had a place."""
        assert not self.tasks, "tasks are placed for the first time once"
        self.tasks = [Assignment() for _ in range(count)]

    def adopt(self, tasks: Sequence[Assignment]) -> None:
        """What an earlier coordinator decided."""
        self.tasks = list(tasks)
        for copy in self.copies():
            self._note(copy)

    def _note(self, copy: Copy) -> None:
        self.members[copy.node].copies[copy.task, copy.incarnation] = copy

    def _forget(self, copy: Copy) -> None:
        del self.members[copy.node].copies[copy.task, copy.incarnation]

    def copies(self) -> list[Copy]:
        """Every copy that is wanted."""
        both = ((a.primary, a.replica) for a in self.tasks)
        return [copy for pair in both for copy in pair if copy is not None]

    def lost(self) -> list[int]:
        """The tasks that have no primary."""
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
        """A new copy under a number that none has had, in the place of the one before."""
        assignment = self.tasks[task]
        assert position >= 0, f"task {task} from batch {position}"
        used = assignment.used + 1
        copy = Copy(
            task=task,
            incarnation=used,
            term=None if replica else used,
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
        """The replica becomes the primary, under a new term; returns what it was."""
        assignment = self.tasks[task]
        replica = assignment.replica
        assert replica is not None, f"task {task} has no replica to promote"
        assert assignment.primary is None, f"task {task} has a primary"
        used = assignment.used + 1
        promoted = replace(replica, term=used)
        self.tasks[task] = replace(assignment, primary=promoted, replica=None, used=used)
        self._note(promoted)
        return replica

    def drop_replica(self, task: int) -> int:
        """Give it up; returns the node that had it."""
        assignment = self.tasks[task]
        assert assignment.replica is not None, f"task {task} has no replica to drop"
        self._forget(assignment.replica)
        self.tasks[task] = replace(assignment, replica=None)
        return assignment.replica.node

    def lose(self, node: int) -> list[Copy]:
        """Nothing is on ``node`` any more; returns the primaries that were."""
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
        """The copy of that number, if there shall be one."""
        assignment = self.tasks[task]
        both = (assignment.primary, assignment.replica)
        return next((c for c in both if c is not None and c.incarnation == incarnation), None)

    def give_up(self, copy: Copy) -> None:
        """One copy on a node that lives."""
        assignment = self.tasks[copy.task]
        if copy == assignment.replica:
            self.drop_replica(copy.task)
            return
        self.tasks[copy.task] = self._without_primary(assignment)
        self._forget(copy)

    def _without_primary(self, assignment: Assignment) -> Assignment:
        """What a lost task had published and stored, and where it was, is remembered."""
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
        """By task, a lower bound of the batch that its primary is at, or will be at once it has
        been restored and has loaded its checkpoint."""
        return [self._position(assignment) for assignment in self.tasks]

    def _position(self, assignment: Assignment) -> int:
        primary = assignment.primary
        if primary is None:
            return assignment.stored
        report = self.members.report(primary)
        at = report.position if report is not None else primary.position
        return max(at, assignment.stored)  # until it has loaded it reports where it was told to be

    def published(self, sink: int) -> int:
        """A lower bound of what a sink has published."""
        primary = self.tasks[sink].primary
        report = self.members.report(primary) if primary is not None else None
        return max(self.tasks[sink].published, report.published if report is not None else 0)

    def validate(self) -> None:
        """Assert what no sequence of decisions may break."""
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
