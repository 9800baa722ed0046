"""Which copies there shall be, and where: takeover, restoration, replicas.

A replica on a live node is promoted. What has no replica is restored on a free slot in the
planner's order: one by one (local), with all others from the last complete epoch (global), or
with its ancestors from the sources (replay). Where no slot is free, a lost task takes that of a
replica, unless the scheme keeps replicas. A rack's nodes are found dead one after the other, so a
replica whose primary is on a rack that is failing may be all that is left of its task: it is
spared for a heartbeat. Free slots that remain go to the replicas that the plan wants and that are
missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.losses import OperatorFailures
from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.placement import Need, Placement, Role, Room
from harness.protocol.coordinator.registry import Copy
from harness.protocol.inputs import Start
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.wiring import Wiring


def replay_starts(
    wiring: Wiring, lost: Iterable[int], positions: Sequence[int], published: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return task to (first batch, first batch whose output counts), for ``lost`` and ancestors.

    Source replay has no state to start from. A task whose state depends on m batches has the right
    one after batch b once it has processed b-m+1 ... b, so it starts m-1 batches before the first
    output that is still needed: a sink's first unpublished batch, the position of a neighbour that
    stays, the start of one that does not. ``positions`` (by task, used of those that stay) and
    ``published`` (of sinks) may be out of date: they only grow, so an old value is merely early."""
    cone = wiring.ancestors(lost)
    starts: dict[int, tuple[int, int]] = {}
    for task in reversed(wiring.order):
        if task not in cone:
            continue
        needs = [starts[t][0] if t in cone else positions[t] for t in wiring.downstream[task]]
        needed = min(needs) if needs else published[task]
        assert needed >= 0, f"task {task}: batch {needed} is needed"
        starts[task] = (max(0, needed - wiring.memory[task] + 1), needed)
    return starts


def source_start(wiring: Wiring, source: int, positions: Sequence[int]) -> int:
    """Return the batch from which a source's new copy reads.

    It is the position of its slowest neighbour, or the one that neighbour will have if it is lost
    itself. A neighbour that needs an earlier batch requests it and the source goes back; one that
    needs a later batch waits until the source has read that far."""
    assert not wiring.upstream[source], f"{wiring.names[source]} is no source"
    return min(positions[task] for task in wiring.downstream[source])


class Placer:
    """The decisions: assignments as close to the scheme as the live nodes allow."""

    def __init__(
        self, *, wiring: Wiring, scheme: Scheme, strategy: Placement, members: Membership
    ) -> None:
        assert len(strategy.primaries) == len(wiring.tasks), "a first node for every task"
        self.wiring = wiring
        self.scheme = scheme
        self.strategy = strategy
        self.members = members
        self.assigned = Assignments(members)
        self.failures = OperatorFailures()
        self._failing: Set[str] = frozenset()
        self.deferred = False
        """At the last decision a lost task found no place but that of a replica that is spared."""
        self._rank = {task: place for place, task in enumerate(scheme.recovery_order)}

    # -- the first placement ---------------------------------------------------------------

    def awaits(self, replicated: Sequence[int]) -> bool:
        """Return True if a first placement still waits for nodes.

        It waits for those of the primaries and, where there are replicas to place, for every node,
        so that the strategy can spread them."""
        assert not self.assigned.tasks, "only the first placement waits"
        if replicated:
            return self.members.lacks(self.members.numbers)
        return self.members.lacks(self.strategy.primaries)

    def place_first(self) -> None:
        """Place every task whose node is alive; the others are restored later."""
        assert not self.assigned.tasks, "tasks are placed for the first time once"
        self.assigned.begin(len(self.wiring.tasks))
        room = Room(self.assigned, self.wiring)
        for task in self.wiring.tasks:
            node = self.strategy.choose(Need(role=Role.FIRST, task=task), room)
            if node is not None:
                room.take(node)
                self.assigned.place(task, node, start=Start.EMPTY)

    # -- every later decision --------------------------------------------------------------

    def decide(
        self, *, replicated: Sequence[int], epoch: int, failing: Set[str] = frozenset()
    ) -> list[Copy]:
        """Promote, retire, restore and add copies; return the replicas that became primaries.

        On racks that are ``failing`` more nodes may be dead than is known."""
        assert epoch >= 0, f"epoch {epoch}"
        tasks = self.assigned.tasks
        self.deferred, self._failing = False, failing
        orphans = [t for t, a in enumerate(tasks) if a.primary is None and a.replica is not None]
        promoted = [self._promote(task) for task in orphans]
        self._retire(replicated)
        room = Room(self.assigned, self.wiring)
        lost = self.assigned.lost()
        if lost:
            _RESTORE[self.scheme.recovery](self, self.in_order(lost), room, epoch)
        if not self.assigned.lost():
            self._add_replicas(replicated, room)
        return promoted

    def in_order(self, tasks: Iterable[int]) -> list[int]:
        """Sort tasks: the planner's order first, the others by number."""
        last = len(self._rank)
        assert last <= len(self.wiring.tasks), "the order names a task twice"
        return sorted(tasks, key=lambda task: (self._rank.get(task, last), task))

    def _promote(self, task: int) -> Copy:
        assert task in self.wiring.tasks, f"task {task} is not wired"
        return self.assigned.promote(task)

    def _retire(self, replicated: Sequence[int]) -> None:
        assert all(task in self.wiring.tasks for task in replicated), "the plan is for this wiring"
        wanted = set(replicated)
        for task, assignment in enumerate(self.assigned.tasks):
            if assignment.replica is not None and task not in wanted:
                self.assigned.drop_replica(task)

    def _add_replicas(self, replicated: Sequence[int], room: Room) -> None:
        assert not self.assigned.lost(), "lost tasks have the first choice of slots"
        for task in replicated:
            assignment = self.assigned.tasks[task]
            if assignment.replica is None and assignment.primary is not None:
                beside = assignment.primary.node
                need = Need(role=Role.REPLICA, task=task, apart_from=beside)
                node = self.strategy.choose(need, room)
                if node is not None:
                    room.take(node)
                    self._place_alone(task, node, replica=True)

    # -- restoration -----------------------------------------------------------------------

    def _seat(self, task: int, room: Room) -> int | None:
        """Take a slot for a lost task, on a node where it has failed only if there is no other."""
        assert self.assigned.tasks[task].primary is None, f"task {task} is not lost"
        was_on = self.assigned.tasks[task].was_on
        need = Need(role=Role.RESTORED, task=task, apart_from=was_on)
        room.barred = self.failures.nodes(task)
        node = self.strategy.choose(need, room)
        room.barred = frozenset()
        if node is None:
            node = self.strategy.choose(need, room)
        if node is not None:
            room.take(node)
        return node

    def _restore_local(self, lost: list[int], room: Room, _epoch: int) -> None:
        assert lost, "called only for lost tasks"
        for task in lost:
            node = self._seat(task, room)
            if node is None and not self.scheme.keeps_replicas:
                node = self._give_up_replica()
            if node is None:
                return
            self._place_alone(task, node)

    def _give_up_replica(self) -> int | None:
        """Take the place of a replica for a lost task, which needs it more.

        First go those of tasks that have had the most copies: nodes that die together are found one
        after the other. The replica that was promoted for the first of them has got a new replica
        by the time the last is found, and that one is still catching up. Then the last in the
        planner's order."""
        assert self.assigned.lost(), "only a lost task takes the place of a replica"
        tasks = self.assigned.tasks
        every = [task for task, a in enumerate(tasks) if a.replica is not None]
        replicated = [task for task in every if not self._is_spared(task)]
        self.deferred = len(replicated) < len(every)
        if not replicated:
            return None
        last_first = reversed(self.in_order(replicated))
        return self.assigned.drop_replica(max(last_first, key=lambda task: tasks[task].used))

    def _is_spared(self, task: int) -> bool:
        primary = self.assigned.tasks[task].primary
        return primary is not None and self.members[primary.node].info.rack in self._failing

    def _place_alone(self, task: int, node: int, *, replica: bool = False) -> None:
        """Place a copy that starts independently of others."""
        assert task in self.wiring.tasks, f"task {task} is not wired"
        place = self.assigned.place
        if not self.wiring.begins_anywhere(task):
            place(task, node, start=Start.CHECKPOINT, replica=replica)
        else:
            at = source_start(self.wiring, task, self.assigned.positions())
            place(task, node, start=Start.EMPTY, position=at, send_from=at, replica=replica)

    def _restore_global(self, lost: list[int], room: Room, epoch: int) -> None:
        """Send every task back to the last complete epoch, or none."""
        assert epoch >= 0, f"epoch {epoch}"
        nodes = self._nodes_for(lost, room)
        if nodes is None:
            return
        for task in self.wiring.tasks:
            anywhere = self.wiring.begins_anywhere(task)
            self.assigned.place(
                task,
                nodes[task],
                start=Start.EMPTY if anywhere else Start.EPOCH,
                position=epoch,
                send_from=epoch if anywhere else 0,
            )

    def _restore_replay(self, lost: list[int], room: Room, _epoch: int) -> None:
        """Start the lost tasks and all their ancestors again, from the sources."""
        assert set(lost) == set(self.assigned.lost()), "every lost task starts again"
        nodes = self._nodes_for(lost, room)
        if nodes is None:
            return
        published = {sink: self.assigned.published(sink) for sink in self.wiring.sinks}
        starts = replay_starts(self.wiring, lost, self.assigned.positions(), published)
        assert set(lost) <= starts.keys(), "who is lost starts again"
        for task, (position, send_from) in sorted(starts.items()):
            self.assigned.place(
                task, nodes[task], start=Start.EMPTY, position=position, send_from=send_from
            )

    def _nodes_for(self, lost: list[int], room: Room) -> dict[int, int] | None:
        """Return the node of every task; None while the lost ones have too few slots."""
        assert lost, "called only for lost tasks"
        nodes = {
            task: assignment.primary.node
            for task, assignment in enumerate(self.assigned.tasks)
            if assignment.primary is not None
        }
        for task in lost:
            node = self._seat(task, room)
            if node is None:
                return None
            nodes[task] = node
        return nodes


_RESTORE: dict[Recovery, Callable[[Placer, list[int], Room, int], None]] = {
    Recovery.LOCAL: Placer._restore_local,
    Recovery.GLOBAL: Placer._restore_global,
    Recovery.REPLAY: Placer._restore_replay,
}
