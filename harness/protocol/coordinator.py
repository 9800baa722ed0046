"""Who hosts what: suspicion, takeover, restoration, tentative closing, plan adaptation.

Theory of operation
-------------------
The coordinator keeps a `Registry` of the copies it wants. Heartbeats say which copies there are.
Everything it tells a node is the difference of the two, so an order may be lost, repeated or late
and the next heartbeat mends it; and a coordinator that crashed needs nothing but the registry.
No order leaves before the registry that explains it is stored: a number (incarnation, term) is
never given twice.

A node has joined once it has reported. The first placement waits for the nodes that it names, for
`Scheme.join_within_us` at most; what it then has no node for is restored as if it had been lost.

A node is lost when it was silent for too long, when its connection closed, or when it reports a
later boot. Then, task by task: a replica on a live node is promoted; what has no replica is
restored on a free slot in the planner's order, one by one (local), with all others from the last
complete epoch (global), or with its ancestors from the sources (replay). Free slots that remain
go to missing replicas. A task that stays lost longer than the bound has its batches closed.
If its promoted replica was never reported, its node may speak first, for one heartbeat at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import ProtocolViolation
from harness.protocol.effects import (
    Effect,
    ForgetCheckpoints,
    LoadRegistry,
    Send,
    SendOrder,
    SetTimer,
    StoreRegistry,
)
from harness.protocol.inputs import (
    CoordinatorInput,
    EpochCompleted,
    HeartbeatReceived,
    NodeDisconnected,
    PlanAdapted,
    RegistryLoaded,
    RegistryStored,
    Start,
    TimerFired,
    UpstreamClosed,
)
from harness.protocol.membership import Membership
from harness.protocol.orders import orders_for
from harness.protocol.recovery import note_lost, replay_starts, source_start
from harness.protocol.registry import Assignment, Copy, NodeInfo, Registry
from harness.protocol.scheme import Closing, Recovery, Scheme
from harness.protocol.slots import FreeSlots
from harness.protocol.story import KEPT, Story
from harness.protocol.wiring import Wiring

SWEEP = ("sweep", 0)
STILL = 3
"""After so many sweeps in which no task has moved, all are told again what they may trim."""


class CoordinatorMachine:
    """The only one who decides; one door, `handle`."""

    def __init__(
        self,
        *,
        wiring: Wiring,
        scheme: Scheme,
        nodes: Sequence[NodeInfo],
        placement: Sequence[int],
        now: int,
        kept: int = KEPT,
    ) -> None:
        """``kept`` is how many inputs its story holds."""
        scheme.check(wiring)
        self.wiring = wiring
        self.scheme = scheme
        self.members = Membership(nodes)
        self.placement = tuple(placement)
        """Task to the node of its first primary."""
        self.tasks: list[Assignment] = []
        self.epoch = 0
        self.replicated = scheme.replicated
        self.version = 0
        self.stored_version = 0
        self.loaded = False
        """It has read what an earlier life decided, or that there was none."""
        self.placed = False
        """Every task has had its first place, or has been found to have none."""
        self._join_by = 0
        self.lost_at: dict[int, tuple[int, int]] = {}
        """Task to (when it was found lost, its position then), until it is back there."""
        self._slots = FreeSlots({}, ())
        self._told_epoch = -1
        self._moved = self._still = 0
        """The sum of all positions, and for how many sweeps it has not changed."""
        self._validated: list[Assignment] = []
        self._effects: list[Effect] = []
        self._cause = ""
        self._now = now
        self.story = Story("the coordinator", kept=kept)

    # -- the door --------------------------------------------------------------------------

    def start(self, *, now: int) -> Sequence[Effect]:
        """Read the registry of an earlier life, if there was one."""
        cause = "coordinator start"
        timer = SetTimer(cause=cause, at=now + self.scheme.heartbeat_us, key=SWEEP)
        return [LoadRegistry(cause=cause), timer]

    def handle(self, item: CoordinatorInput, *, now: int) -> Sequence[Effect]:
        """React to ``item``; ``now`` in microseconds, never less than before."""
        effects: list[Effect] = []
        self._effects, self._cause, self._now = effects, item.cause, now
        try:
            _HANDLERS[type(item)](self, item)
        except AssertionError as error:
            self.story.note(now, item, effects)
            raise ProtocolViolation(f"{error}\n{self.story.tell()}") from error
        if self.story.kept:
            self.story.note(now, item, effects)
        return effects

    def registry(self) -> Registry:
        return Registry(
            version=self.version,
            tasks=tuple(self.tasks),
            epoch=self.epoch,
            replicated=self.replicated,
            came_later=self.members.came_later,
        )

    # -- inputs ----------------------------------------------------------------------------

    def _registry_loaded(self, item: RegistryLoaded) -> None:
        if self.loaded:
            return
        self.loaded = True
        registry = item.registry
        if registry is None:
            self._join_by = self._now + self.scheme.join_within_us
            self._place_first()
            return
        assert isinstance(registry, Registry)
        self.placed = True
        self.tasks = list(registry.tasks)
        self.epoch, self.replicated = registry.epoch, registry.replicated
        self.version = self.stored_version = registry.version
        self.members.know(registry.came_later)
        self._index_copies()
        for node in self._nodes_that_ended():
            alive = self.members[node].alive
            self._lose(node)
            self.members[node].alive = alive  # in a later life
        for task, assignment in enumerate(self.tasks):
            if assignment.primary is None:
                self.lost_at.setdefault(task, (self._now, 0))
        self._decide()

    def _nodes_that_ended(self) -> list[int]:
        """Those whose ends were heard of before it was known what they should host."""
        copies = [copy for _, member in self.members for copy in member.copies.values()]
        return self.members.assume(copies, self._now)

    def _registry_stored(self, item: RegistryStored) -> None:
        if item.version <= self.stored_version:
            return
        self.stored_version = item.version
        if self.stored_version == self.version:
            for node, _ in self.members:
                self._sync(node)
            self._tell_epoch()
            if self.scheme.recovery is Recovery.GLOBAL and self.epoch:
                self._effects.append(ForgetCheckpoints(cause=self._cause, below=self.epoch))

    def _heartbeat(self, item: HeartbeatReceived) -> None:
        member = self.members.sender(item)
        if member is None:
            return
        if member.alive and item.boot > member.boot:
            self._lose(item.node)
        returned = not member.alive
        member.heard(item, self._now)
        if not self.placed:
            self._place_first()
            return
        if returned:
            self._decide()  # whatever waits for a slot can have one
        self._note_recovered(item)
        self._sync(item.node)

    def _disconnected(self, item: NodeDisconnected) -> None:
        if self.members.closed(item):
            self._lose(item.node)
            if self.placed:
                self._decide()

    def _plan_adapted(self, item: PlanAdapted) -> None:
        self.replicated = item.replicated
        if self.placed:
            self._decide(changed=True)

    def _timer_fired(self, _item: TimerFired) -> None:
        at = self._now + self.scheme.heartbeat_us
        self._effects.append(SetTimer(cause=self._cause, at=at, key=SWEEP))
        if not self.loaded:
            self._effects.append(LoadRegistry(cause=self._cause))
            return
        if self.stored_version < self.version:
            self._store()
        suspects = self.members.silent(self._now - self.scheme.suspect_after_us)
        for node in suspects:
            self._lose(node)
        if not self.placed:
            self._place_first()
            return
        if suspects:
            self._decide()
        self._complete_epoch()
        self._close_lost()

    # -- loss ------------------------------------------------------------------------------

    def _lose(self, node: int) -> None:
        """Forget every copy on ``node``."""
        member = self.members[node]
        for task in list(member.copies):
            assignment = self.tasks[task]
            if assignment.primary is not None and assignment.primary.node == node:
                self._note_lost(task, assignment.primary)
                assignment = replace(assignment, primary=None)
            if assignment.replica is not None and assignment.replica.node == node:
                assignment = replace(assignment, replica=None)
            self.tasks[task] = assignment
        member.gone()

    def _note_lost(self, task: int, copy: Copy) -> None:
        report = self.members.report(copy)
        since, before = self.lost_at.get(task, (self._now, 0))
        self.lost_at[task] = (since, max(before, report.position if report else 0))
        if report is not None:
            published = max(report.published, self.tasks[task].published)
            self.tasks[task] = replace(self.tasks[task], published=published)
        position = report.position if report is not None else copy.position
        note = note_lost(copy, position, cause=self._cause, why=self._cause, now=self._now)
        self._effects.append(note)

    def _note_recovered(self, item: HeartbeatReceived) -> None:
        if not self.lost_at:
            return
        for report in item.copies:
            lost = self.lost_at.get(report.task)
            if lost is None:
                continue
            primary = self.tasks[report.task].primary
            current = primary is not None and primary.incarnation == report.incarnation
            if current and report.ready and report.position >= lost[1]:
                del self.lost_at[report.task]

    # -- decisions -------------------------------------------------------------------------

    def _decide(self, *, changed: bool = False) -> None:
        """Bring the registry as near to what the scheme wants as live nodes allow."""
        before = list(self.tasks)
        self._promote_replicas()
        self._retire_replicas()
        self._index_copies()
        self._count_slots()
        lost = [task for task, a in enumerate(self.tasks) if a.primary is None]
        if lost:
            _RESTORE[self.scheme.recovery](self, self._in_order(lost))
        if all(assignment.primary is not None for assignment in self.tasks):
            self._add_replicas()
        if changed or before != self.tasks:
            self._commit()

    def _in_order(self, tasks: Sequence[int]) -> list[int]:
        """The planner's order first, the others by number."""
        rank = {task: place for place, task in enumerate(self.scheme.recovery_order)}
        return sorted(tasks, key=lambda task: (rank.get(task, len(rank)), task))

    def _place_first(self) -> None:
        """Begin, once every node that shall host a task has joined, or has had its time."""
        if not self.loaded:
            return  # an earlier life may have placed them
        awaited = self._awaited()
        if awaited and self._now < self._join_by:
            return
        self.placed = True
        self.tasks = [Assignment() for _ in self.wiring.tasks]
        for task in self.wiring.tasks:
            if self.placement[task] not in awaited:
                self._place(task, self.placement[task], start=Start.EMPTY)
        self._decide(changed=True)
        for task, assignment in enumerate(self.tasks):
            if assignment.primary is None:
                self.lost_at[task] = (self._now, 0)

    def _awaited(self) -> set[int]:
        """The nodes the first placement still waits for: those of the primaries, and every node
        where there are replicas to place, so that they are spread evenly."""
        named = {n for n, _ in self.members} if self.replicated else set(self.placement)
        return {node for node in named if not self.members[node].alive}

    def _promote_replicas(self) -> None:
        for task, assignment in enumerate(self.tasks):
            replica = assignment.replica
            if assignment.primary is None and replica is not None:
                used = assignment.used + 1
                promoted = replace(replica, term=used)
                self.tasks[task] = replace(assignment, primary=promoted, replica=None, used=used)
                if self.members.report(replica) is not None:  # else it exists on paper only, so far
                    self.lost_at.pop(task, None)

    def _restore_local(self, lost: list[int]) -> None:
        for task in lost:
            node = self._slots.take()
            if node is None:
                node = self._give_up_replica()
            if node is None:
                return
            self._place_alone(task, node)

    def _give_up_replica(self) -> int | None:
        """The place of a replica: a task that is lost needs it more. The last in the planner's
        order goes first."""
        for task in reversed(self._in_order(self.wiring.tasks)):
            replica = self.tasks[task].replica
            if replica is not None:
                self.tasks[task] = replace(self.tasks[task], replica=None)
                del self.members[replica.node].copies[task]
                return replica.node
        return None

    def _place_alone(self, task: int, node: int, *, replica: bool = False) -> None:
        """A copy that starts without regard to others."""
        if not self.wiring.begins_anywhere(task):
            self._place(task, node, start=Start.CHECKPOINT, replica=replica)
        else:
            at = source_start(self.wiring, task, self._positions())
            self._place(task, node, start=Start.EMPTY, position=at, send_from=at, replica=replica)

    def _restore_global(self, lost: list[int]) -> None:
        """All or nothing: every task goes back to the last complete epoch."""
        nodes = self._nodes_for(lost)
        if nodes is None:
            return
        for task in self.wiring.tasks:
            primary = self.tasks[task].primary
            node = nodes[task] if primary is None else primary.node
            start = Start.EMPTY if self.wiring.begins_anywhere(task) else Start.EPOCH
            self._place(
                task,
                node,
                start=start,
                position=self.epoch,
                send_from=0 if start is Start.EPOCH else self.epoch,
            )

    def _restore_replay(self, lost: list[int]) -> None:
        """The lost tasks and all their ancestors recompute from the sources."""
        nodes = self._nodes_for(lost)
        if nodes is None:
            return
        published = {t: self._published(t) for t in self.wiring.sinks}
        starts = replay_starts(self.wiring, lost, self._positions(), published)
        for task, (position, send_from) in sorted(starts.items()):
            primary = self.tasks[task].primary
            node = nodes[task] if primary is None else primary.node
            self._place(task, node, start=Start.EMPTY, position=position, send_from=send_from)

    def _nodes_for(self, tasks: Sequence[int]) -> dict[int, int] | None:
        """A node for each, or None while there are too few slots for all."""
        nodes: dict[int, int] = {}
        for task in tasks:
            node = self._slots.take()
            if node is None:
                return None
            nodes[task] = node
        return nodes

    def _positions(self) -> dict[int, int]:
        """A lower bound of every live primary's position."""
        positions = {}
        for task, assignment in enumerate(self.tasks):
            if assignment.primary is not None:
                report = self.members.report(assignment.primary)
                start = assignment.primary.position
                positions[task] = report.position if report is not None else start
        return positions

    def _published(self, sink: int) -> int:
        """A lower bound of what a sink has published."""
        primary = self.tasks[sink].primary
        report = self.members.report(primary) if primary is not None else None
        return max(self.tasks[sink].published, report.published if report is not None else 0)

    def _retire_replicas(self) -> None:
        wanted = set(self.replicated)
        for task, assignment in enumerate(self.tasks):
            if assignment.replica is not None and task not in wanted:
                self.tasks[task] = replace(assignment, replica=None)

    def _add_replicas(self) -> None:
        for task in self.replicated:
            assignment = self.tasks[task]
            if assignment.replica is None and assignment.primary is not None:
                node = self._slots.take(avoid=assignment.primary.node)
                if node is not None:
                    self._place_alone(task, node, replica=True)

    def _count_slots(self) -> None:
        """Start a decision from the slots that are free now."""
        alive = [(n, member) for n, member in self.members if member.alive]
        self._slots = FreeSlots(
            {n: member.info for n, member in alive},
            [(n, len(member.copies)) for n, member in alive],
        )

    def _place(
        self,
        task: int,
        node: int,
        *,
        start: Start,
        position: int = 0,
        send_from: int = 0,
        replica: bool = False,
    ) -> None:
        assignment = self.tasks[task]
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
        if replica:
            assignment = replace(assignment, replica=copy, used=used)
        else:
            assignment = replace(assignment, primary=copy, used=used)
        self.tasks[task] = assignment
        self.members[node].copies[task] = copy

    # -- storing and telling ---------------------------------------------------------------

    def _commit(self) -> None:
        """A new version: store it; orders follow once it is stored."""
        self._index_copies()
        self.version += 1
        self._store()

    def _store(self) -> None:
        self._effects.append(
            StoreRegistry(cause=self._cause, version=self.version, registry=self.registry())
        )

    def _index_copies(self) -> None:
        for _, member in self.members:
            member.copies.clear()
        for task, assignment in enumerate(self.tasks):
            for copy in (assignment.replica, assignment.primary):
                if copy is not None:
                    self.members[copy.node].copies[task] = copy

    def _sync(self, node: int) -> None:
        """Order whatever ``node`` reported otherwise than the registry wants it."""
        member = self.members[node]
        if self.stored_version < self.version or not member.alive:
            return
        for order in orders_for(member, cause=self._cause):
            self._effects.append(SendOrder(cause=self._cause, node=node, order=order))

    # -- epochs, low-water marks and closed batches -------------------------------------------

    def _complete_epoch(self) -> None:
        """Global: the newest checkpoint all tasks stored. Replay: what all have processed."""
        recovery = self.scheme.recovery
        if recovery is Recovery.LOCAL:
            return
        report_of = self.members.report
        reports = [report_of(a.primary) if a.primary is not None else None for a in self.tasks]
        if any(report is None or not report.ready for report in reports):
            return
        storing = [t for t in self.wiring.tasks if not self.wiring.begins_anywhere(t)]
        done = [report for report in reports if report is not None]
        moved = sum(report.position for report in done)
        self._still = self._still + 1 if moved == self._moved else 0
        self._moved = moved
        if self._still == STILL:
            self._still, self._told_epoch = 0, -1  # the leave to trim may have been lost
        if recovery is Recovery.GLOBAL:
            complete = min(done[task].stored for task in storing)
            if complete > self.epoch:
                self.epoch = complete
                self._commit()
            elif self.stored_version == self.version:
                self._tell_epoch()
        else:
            self.epoch = min(report.position for report in done)
            self._tell_epoch()

    def _tell_epoch(self) -> None:
        """Buffers may be trimmed: each copy is told by its number, a later one is not meant."""
        if self._told_epoch == self.epoch or self.scheme.recovery is Recovery.LOCAL:
            return
        self._told_epoch = self.epoch
        for task, assignment in enumerate(self.tasks):
            if assignment.primary is None:
                continue
            incarnation = assignment.primary.incarnation
            message = EpochCompleted(
                cause=self._cause, task=task, incarnation=incarnation, position=self.epoch
            )
            self._effects.append(
                Send(cause=self._cause, to=task, incarnation=incarnation, message=message)
            )

    def _close_lost(self) -> None:
        """Forge boundaries for tasks that have been lost for longer than the bound."""
        rules = self.scheme.tentative
        if rules is None or rules.closing is not Closing.COORDINATOR or not self.lost_at:
            return
        frontier = max(
            (r.position - 1 for _, node in self.members for r in node.reports.values()), default=0
        )
        for task, (since, _) in sorted(self.lost_at.items()):
            primary = self.tasks[task].primary
            if self._now < since + rules.bound_us or self._may_live(primary, since):
                continue
            before = primary.term if primary is not None else self.tasks[task].used + 1
            assert before is not None
            for below in self.wiring.downstream[task]:
                message = UpstreamClosed(
                    cause=self._cause,
                    task=below,
                    upstream=task,
                    up_to=frontier,
                    before_term=before,
                )
                self._effects.append(
                    Send(cause=self._cause, to=below, incarnation=None, message=message)
                )

    def _may_live(self, primary: Copy | None, since: int) -> bool:
        """Is ``primary`` a replica that its node's next heartbeat may show to be there?

        It was promoted before it was ever reported. If it is there, closing its task would be
        needless; whether it is, its node says within one heartbeat of ``since``, or it is not
        waited for.
        """
        if primary is None or primary.term == primary.incarnation:
            return False  # it was placed as a primary: there was nothing before the loss
        unheard = self.members[primary.node].heard_at <= since
        return unheard and self._now <= since + self.scheme.heartbeat_us

    # -- what must hold --------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the whole state makes sense."""
        try:
            assert self.stored_version <= self.version, "a version was stored that never was"
            if self.tasks == self._validated:
                return  # nothing was decided since
            self.registry().validate()
            for node, member in self.members:
                assert len(member.copies) <= member.info.slots, f"node {node} is overfull"
            self._validated = list(self.tasks)
        except AssertionError as error:
            raise ProtocolViolation(f"{error}\n{self.story.tell()}") from error


_RESTORE: dict[Recovery, Callable[[CoordinatorMachine, list[int]], None]] = {
    Recovery.LOCAL: CoordinatorMachine._restore_local,
    Recovery.GLOBAL: CoordinatorMachine._restore_global,
    Recovery.REPLAY: CoordinatorMachine._restore_replay,
}

_HANDLERS: dict[type, Callable[[CoordinatorMachine, Any], None]] = {
    HeartbeatReceived: CoordinatorMachine._heartbeat,
    NodeDisconnected: CoordinatorMachine._disconnected,
    RegistryLoaded: CoordinatorMachine._registry_loaded,
    RegistryStored: CoordinatorMachine._registry_stored,
    PlanAdapted: CoordinatorMachine._plan_adapted,
    TimerFired: CoordinatorMachine._timer_fired,
}
