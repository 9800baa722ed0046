"""The coordinator: suspicion, takeover, restoration, tentative closing, plan adaptation.

Theory of operation
-------------------
The coordinator keeps a `Registry` of the copies it wants. Heartbeats report the copies there are.
Orders are the difference of the two, so an order may be lost, repeated or late and the next
heartbeat mends it; and a coordinator that crashed needs nothing but the registry.
No order leaves before the registry that explains it is stored: a number (incarnation, term) is
never given twice. A replica is placed with the term under which it may take over, so that a
takeover waits for no store. Two coordinators at once do no harm: the store obeys the later one
alone, and of two primaries the one with the higher term writes.

A node has joined once it has reported. The first placement waits for the nodes that it names, for
`Scheme.join_within_us` at most; what it then has no node for is restored as if it had been lost.
A node is lost when it was silent for too long, when its connection closed, or when it reports a
later boot.

=================  ============================================================================
part               contents
=================  ============================================================================
`membership`       the nodes that have joined, which live, and their reports
`assignments`      the wanted copies, as `registry` stores them
`placing`          decides them; `placement` has the strategies that choose nodes
`losses`           the lost tasks, closing batches on their behalf, and operators that raise
`epochs`           the batch before which buffers may be trimmed, where the coordinator decides it
`ledger`           storing the registry, against other coordinators; orders to nodes
=================  ============================================================================"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from harness.errors import ProtocolViolation
from harness.protocol import inputs as told
from harness.protocol.coordinator.epochs import Epochs
from harness.protocol.coordinator.ledger import Ledger, orders_for, promotion_of
from harness.protocol.coordinator.losses import CLOSE, Losses
from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.placement import Placement, Spread
from harness.protocol.coordinator.placing import Placer
from harness.protocol.coordinator.registry import Assignment, Copy, NodeInfo, Registry
from harness.protocol.effects import Effect, EndRun, SendOrder, SetTimer, StepDown
from harness.protocol.scheme import Scheme
from harness.protocol.story import KEPT, Story
from harness.protocol.wiring import Wiring

SWEEP = ("sweep", 0)


class CoordinatorMachine:
    """The coordinator of a run; only `handle` changes it."""

    def __init__(
        self,
        *,
        wiring: Wiring,
        scheme: Scheme,
        nodes: Sequence[NodeInfo],
        placement: Placement | Sequence[int],
        owner: int = 1,
        kept: int = KEPT,
    ) -> None:
        """Begin without a registry.

        ``placement`` is a strategy, or the nodes of first primaries by task for `Spread`. ``owner``
        is a number that no other coordinator of this run has. ``kept`` is the number of inputs in
        its story."""
        assert owner > 0, f"owner {owner}"
        scheme.check(wiring)
        self.scheme = scheme
        strategy = Spread(tuple(placement)) if isinstance(placement, Sequence) else placement
        members = self.members = Membership(nodes)
        self.placer = Placer(wiring=wiring, scheme=scheme, strategy=strategy, members=members)
        self.assigned = assigned = self.placer.assigned
        self.losses = Losses(wiring=wiring, scheme=scheme, members=members, assigned=assigned)
        self.epochs = Epochs(wiring=wiring, scheme=scheme, members=members, assigned=assigned)
        self.ledger = Ledger(owner)
        self.replicated = scheme.replicated
        """The plan in force."""
        self.placed = False
        """True once every task has its first place, or is known to have none."""
        self.over = False
        """True if there is a later coordinator, or the run cannot succeed: this one does nothing
        more."""
        self._join_by = 0
        self._failing: dict[str, int] = {}
        """Rack to the time until which more nodes that died with the last one may be found dead."""
        self._committed: list[Assignment] = []
        """The assignments of the latest version. A loss alone makes a new version, too, or a node
        could be ordered to retire a copy that the registry still wants."""
        self._effects: list[Effect] = []
        self._cause = ""
        self._now = 0
        self.story = Story("the coordinator", kept=kept)

    @property
    def tasks(self) -> list[Assignment]:
        """The decisions, by task."""
        return self.assigned.tasks

    # -- handling --------------------------------------------------------------------------

    def start(self, *, now: int) -> Sequence[Effect]:
        """Read the registry that an earlier coordinator stored, if there was one."""
        assert not self.ledger.loaded, "a coordinator starts once"
        cause = "coordinator start"
        timer = SetTimer(cause=cause, at=now + self.scheme.heartbeat_us, key=SWEEP)
        return [self.ledger.load(cause), timer]

    def handle(self, item: told.CoordinatorInput, *, now: int) -> Sequence[Effect]:
        """React to ``item``; ``now`` is in microseconds and never decreases."""
        assert now >= self._now, "time goes forward"
        effects: list[Effect] = []
        self._effects, self._cause, self._now = effects, item.cause, now
        try:
            if not self.over:
                _HANDLERS[type(item)](self, item)
        except AssertionError as error:
            self.story.note(now, item, effects)
            raise ProtocolViolation(f"{error}\n{self.story.text()}") from error
        if self.story.kept:
            self.story.note(now, item, effects)
        return effects

    # -- nodes -----------------------------------------------------------------------------

    def _heartbeat(self, item: told.HeartbeatReceived) -> None:
        assert item.boot > 0, "boots count from 1"
        if item.coordinator > self.ledger.term > 0:
            self._step_down(item.coordinator)
            return
        member = self.members.sender(item)
        if member is None:
            return
        if member.alive and item.boot > member.boot:
            self._lose(item.node)
        returned = not member.alive
        forgot = bool(item.gone) and self._give_up_gone(item)
        member.heard(item, self._now)
        if not self.placed:
            self._place_first()
            return
        adopted = self._adopt_takeovers(item.node)
        failed = [report for report in item.copies if report.failed]
        if failed and self._give_up(failed, item.node):
            return
        if adopted or returned or failed or forgot:
            self._decide()  # whatever waits for a slot can have one
        if self.losses.tasks:
            self.losses.note_heartbeat(item)
            self._close()
        self._sync(item.node)

    def _disconnected(self, item: told.NodeDisconnected) -> None:
        assert item.boot > 0, "boots count from 1"
        if self.members.closed(item):
            self._lose(item.node)
            if self.placed:
                self._decide()

    def _timer_fired(self, item: told.TimerFired) -> None:
        assert item.key in (SWEEP, CLOSE), f"timer {item.key}"
        if item.key == CLOSE:
            self._close()
            return
        at = self._now + self.scheme.heartbeat_us
        self._effects.append(SetTimer(cause=self._cause, at=at, key=SWEEP))
        if not self.ledger.loaded:
            self._effects.append(self.ledger.load(self._cause))
            return
        if not self.ledger.settled:
            self._store()
        suspects = self.members.silent(self._now - self.scheme.suspect_after_us)
        for node in suspects:
            quiet_s = (self._now - self.members[node].heard_at) / 1e6
            name = self.members[node].info.name
            self._lose(node, why=f"node {name} was silent for {quiet_s:.2f} s")
        if not self.placed:
            self._place_first()
            return
        if suspects or self.placer.deferred:
            self._decide()
        if self.epochs.advance() and self.epochs.needs_storing:
            self._commit()
        elif self.ledger.settled or not self.epochs.needs_storing:
            self._effects.extend(self.epochs.orders(self._cause))
        self._close(again=True)

    def _lose(self, node: int, *, why: str | None = None) -> None:
        """Forget every copy on ``node``; ``why`` defaults to the cause of the input."""
        assert self.members[node].boot > 0, f"node {node} has not joined"
        self._failing[self.members[node].info.rack] = self._now + self.scheme.heartbeat_us
        reports = dict(self.members[node].reports)
        for primary in self.assigned.lose(node):
            report = reports.get((primary.task, primary.incarnation))
            position = report.position if report is not None else 0
            self._effects.append(
                self.losses.note(
                    primary, position, cause=self._cause, why=why or self._cause, now=self._now
                )
            )

    def _give_up(self, failed: Sequence[told.CopyReport], node: int) -> bool:
        """Give up the copies whose operator has raised; return True if that would not help."""
        assert failed, "at least one copy has failed"
        for report in failed:
            copy = self.assigned.wanted(report.task, report.incarnation)
            if copy is None or copy.node != node:
                continue
            if self.placer.failures.note(report, node, cluster=len(self.members)):
                self._end(report)
                return True
            self._give_up_copy(copy, report.position, why=self._cause)
        return False

    def _give_up_gone(self, item: told.HeartbeatReceived) -> bool:
        """Give up copies that a live node no longer has; return True if there are any."""
        assert item.gone, "the node has reported copies that are gone"
        member = self.members[item.node]
        gone = [member.copies[key] for key in item.gone if key in member.copies]
        for copy in gone if item.boot == member.boot else ():
            report = self.members.report(copy)
            position = report.position if report is not None else 0
            self._give_up_copy(copy, position, why=f"node {member.info.name} has forgotten it")
        return bool(gone)

    def _give_up_copy(self, copy: Copy, position: int, *, why: str) -> None:
        """Give up one copy of a live node; it had reported ``position``."""
        assert position >= 0, f"position {position}"
        if copy.term is not None:
            note = self.losses.note(copy, position, cause=self._cause, why=why, now=self._now)
            self._effects.append(note)
        self.assigned.give_up(copy)

    def _end(self, report: told.CopyReport) -> None:
        assert report.failed, "a run ends with a traceback"
        failures = self.placer.failures
        nodes = sorted(failures.nodes(report.task))
        where = f"on nodes {nodes}, so it would on every other"
        if len(nodes) == 1:
            where = f"{failures.times(report.task)} times on node {nodes[0]}, and there is no other"
        name = self.placer.wiring.names[report.task]
        reason = f"{name} fails at batch {report.position} {where}:\n{report.failed}"
        self.over = True
        self._effects.append(EndRun(cause=self._cause, reason=reason))

    # -- decisions -------------------------------------------------------------------------

    def _plan_adapted(self, item: told.PlanAdapted) -> None:
        assert list(item.replicated) == sorted(set(item.replicated)), "a plan ascends"
        self.replicated = item.replicated
        if self.placed:
            self._decide(changed=True)

    def _place_first(self) -> None:
        """Place every task once the nodes it needs have joined, or their time is over."""
        assert not self.placed, "first places are decided once"
        if not self.ledger.loaded:
            return  # an earlier coordinator may have placed them
        if self._now < self._join_by and self.placer.awaits(self.replicated):
            return
        self.placed = True
        self.placer.place_first()
        self._decide(changed=True)
        for task in self.assigned.lost():
            self.losses.note_unplaced(task, self._now)

    def _decide(self, *, changed: bool = False) -> None:
        """Compute the assignments again after a change."""
        assert self.placed, "first places come first"
        promoted = self.placer.decide(
            replicated=self.replicated, epoch=self.epochs.complete, failing=self._failing_racks()
        )
        for replica in promoted:
            self.losses.note_takeover(replica)
            self._order_takeover(replica)
        if changed or self.tasks != self._committed:
            self._commit()
        self._close()

    def _order_takeover(self, replica: Copy) -> None:
        """Order a replica to take over, before that decision is stored.

        If its node has it, the registry that placed it was stored, and that names the term. If this
        coordinator ends now, the next one learns of the takeover from a heartbeat."""
        assert replica.term is None, "it is told what the copy was before"
        order = promotion_of(
            replica, replica.grant, coordinator=self.ledger.term, cause=self._cause
        )
        self._effects.append(SendOrder(cause=self._cause, node=replica.node, order=order))

    def _adopt_takeovers(self, node: int) -> bool:
        """Give up the primaries whose replicas on ``node`` an earlier coordinator has promoted.

        It ended before that was stored. Returns True if there are any."""
        reports = self.members[node].reports
        taken = [
            copy
            for key, copy in self.members[node].copies.items()
            if copy.term is None and key in reports and reports[key].term is not None
        ]
        for copy in taken:
            primary = self.tasks[copy.task].primary
            if primary is not None:
                report = self.members.report(primary)
                position = report.position if report is not None else 0
                self._give_up_copy(primary, position, why="its replica has taken over")
        return bool(taken)

    def _failing_racks(self) -> Set[str]:
        return {rack for rack, until in self._failing.items() if until > self._now}

    def _close(self, *, again: bool = False) -> None:
        assert self._cause, "every effect has a cause"
        self._effects.extend(self.losses.close(cause=self._cause, now=self._now, again=again))

    # -- storing and telling ---------------------------------------------------------------

    def registry(self) -> Registry:
        """Return everything that must outlive this coordinator."""
        assert self.epochs.complete >= 0, f"epoch {self.epochs.complete}"
        return Registry(
            version=self.ledger.version,
            tasks=tuple(self.tasks),
            epoch=self.epochs.complete,
            replicated=self.replicated,
            came_later=self.members.came_later,
        )

    def _commit(self) -> None:
        """Make a new version and store it; orders follow once it is stored."""
        assert self.ledger.loaded, "decisions need the registry of the coordinator before"
        self.ledger.version += 1
        self._committed = list(self.tasks)
        self._store()

    def _store(self) -> None:
        assert self.ledger.loaded, "only a coordinator with a term stores"
        self._effects.append(self.ledger.store(self.registry(), self._cause))

    def _registry_loaded(self, item: told.RegistryLoaded) -> None:
        if self.ledger.loaded:
            return
        self.ledger.take(item)
        registry = item.registry
        if registry is None:
            self._join_by = self._now + self.scheme.join_within_us
            self._place_first()
            return
        assert isinstance(registry, Registry), "the store holds something else than a registry"
        self.placed = True
        self.epochs.complete, self.replicated = registry.epoch, registry.replicated
        self.members.know(registry.came_later)
        self.assigned.adopt(registry.tasks)
        self._committed = list(registry.tasks)
        for node in self._nodes_that_ended():
            alive = self.members[node].alive
            self._lose(node)
            self.members[node].alive = alive  # in a later life
        for node in self.members.numbers:
            self._adopt_takeovers(node)
        for task in self.assigned.lost():
            self.losses.note_unplaced(task, self._now)
        self._decide()

    def _nodes_that_ended(self) -> list[int]:
        """Return the nodes that ended before the registry was loaded."""
        return self.members.assume(self.assigned.copies(), self._now)

    def _registry_stored(self, item: told.RegistryStored) -> None:
        assert self.ledger.loaded, "nothing was stored before the registry was read"
        if self.ledger.note_stored(item):
            for node, _ in self.members:
                self._sync(node)
            self._effects.extend(self.epochs.orders(self._cause))

    def _registry_refused(self, item: told.RegistryRefused) -> None:
        assert item.term > self.ledger.term, "only a later coordinator makes a store refuse"
        self._step_down(item.term)

    def _step_down(self, term: int) -> None:
        assert term > 0, f"term {term}"
        self.over = True
        self._effects.append(StepDown(cause=self._cause, term=term))

    def _sync(self, node: int) -> None:
        """Send the orders that change the reported copies of ``node`` into the wanted ones."""
        assert not self.over, "a coordinator that is over gives no orders"
        member, ledger = self.members[node], self.ledger
        if not (ledger.settled and member.alive) or member.agrees_with == ledger.version:
            return
        member.agrees_with = ledger.version
        for order in orders_for(member, coordinator=ledger.term, cause=self._cause):
            member.agrees_with = None
            if isinstance(order, told.CopyOrdered):
                self.losses.note_order(order, self._now)
            self._effects.append(SendOrder(cause=self._cause, node=node, order=order))

    # -- what must hold --------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the whole state is consistent."""
        try:
            self.ledger.validate()
            self.assigned.validate()
        except AssertionError as error:
            raise ProtocolViolation(f"{error}\n{self.story.text()}") from error


_HANDLERS: dict[type, Callable[[CoordinatorMachine, Any], None]] = {
    told.HeartbeatReceived: CoordinatorMachine._heartbeat,
    told.NodeDisconnected: CoordinatorMachine._disconnected,
    told.RegistryLoaded: CoordinatorMachine._registry_loaded,
    told.RegistryStored: CoordinatorMachine._registry_stored,
    told.RegistryRefused: CoordinatorMachine._registry_refused,
    told.PlanAdapted: CoordinatorMachine._plan_adapted,
    told.TimerFired: CoordinatorMachine._timer_fired,
}
