"""The two copies of a task as each other's second version (dpc, section 3.4).

During a failure the primary goes ahead tentatively, and the replica, whose output nobody gets,
stays blocked in the state of before the failure. When the missing input comes, the replica asks the
primary to postpone its own reconciliation, and processes what has gathered. Its output goes
downstream once its queue is empty or its outbox is full (`Corrections.DONE`), or at once. So the
tasks below get corrections from the one and new tentative output from the other, until the replica
is stable; from then on it alone serves them, as a stable neighbour is preferred, and the primary
reconciles. When that is stable, too, it serves again.

A primary waits for its replica only as long as it hears of it. Then, and without a replica, it
runs both versions itself."""

from __future__ import annotations

from harness.protocol import inputs as told
from harness.protocol.effects import SetTimer
from harness.protocol.scheme import Corrections, Policy, Tentative
from harness.protocol.task.context import Context
from harness.protocol.task.inlet import Inbox
from harness.protocol.task.outlet import Outlet
from harness.protocol.task.reconciliation import FOREVER, TentativeRun

PATIENCE = 3
"""Heartbeats for which a primary waits for word of its replica."""


class Partnership:
    """The part of a copy that talks with the other copy of its task."""

    __slots__ = (
        "_blocked", "_context", "_inbox", "_outlet", "_patience_us", "_postponed_until", "_rules",
        "catches_up", "granted", "served_below",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        inbox: Inbox,
        outlet: Outlet,
        *,
        rules: Tentative,
        heartbeat_us: int,
    ) -> None:
        assert heartbeat_us > 0, f"heartbeats every {heartbeat_us} µs"
        self._context, self._inbox, self._outlet, self._rules = context, inbox, outlet, rules
        self._patience_us = PATIENCE * heartbeat_us
        self.reset()

    def reset(self) -> None:
        """Begin with neither a request nor a promise."""
        self._blocked = False
        """In a replica: a batch lacks a part for longer than the bound."""
        self.catches_up = False
        """In a replica: it has been blocked, and processes what has gathered."""
        self.granted: told.PostponementGranted | None = None
        """In a replica: what its primary has left to it."""
        self._postponed_until = 0
        self.served_below = 0
        """In a primary: its replica has sent stable output of all batches before this one."""
        self._outlet.end_service()

    # -- the replica -----------------------------------------------------------------------

    def follow(self, position: int) -> None:
        """In a replica: notice that it is blocked, has input again, or has caught up.

        It has also caught up as far as it can when its outbox is full: nobody acknowledges output
        that is not sent."""
        assert self._context.term is None, "a primary has no other one to ask"
        slot, complete = self._inbox.slots.get(position), self._inbox.complete(position)
        if complete and self._blocked:
            self._blocked, self.catches_up = False, True
            self.request()
        if self.catches_up and not (complete and self._outlet.has_room(position)):
            self.catches_up = False
            self._serve(position)
        if complete:
            return
        if slot is not None and self._context.now >= slot.first_at + self._rules.bound_us:
            self._blocked = True

    def request(self) -> None:
        """Ask the primary to postpone its own reconciliation."""
        assert self.catches_up, "it has nothing to reconcile"
        context = self._context
        message = told.PostponementRequested(
            cause=context.cause, task=context.task, by=context.incarnation
        )
        context.send(context.task, None, message)

    def take_over(self, item: told.PostponementGranted, position: int) -> None:
        """In a replica: remember from where on the primary leaves the corrections to it."""
        mine = item.by == self._context.incarnation and self._context.term is None
        if not mine or not self._outlet.has(item.from_batch):
            return
        assert item.from_batch >= 0, f"corrections from batch {item.from_batch}"
        if self.granted is None or not self._outlet.lent:
            self.granted = item
            if not self.catches_up or self._rules.corrections is Corrections.STREAM:
                self._serve(position)

    def _serve(self, position: int) -> None:
        """Send all that was left to this replica, and what it processes from now on."""
        if self.granted is not None and not self._outlet.lent:
            self._outlet.serve(self.granted.from_batch, self.granted.term)
            self.report(position)

    def report(self, position: int) -> None:
        """In a replica that serves: tell the primary how far it has come."""
        if not self._outlet.lent or self.catches_up:
            return
        context = self._context
        message = told.CorrectionsServed(
            cause=context.cause, task=context.task, by=context.incarnation, below=position
        )
        context.send(context.task, None, message)

    def service_ended(self, item: told.ServiceEnded) -> None:
        """In a replica: send nothing any more."""
        if item.by == self._context.incarnation:
            self.granted = None
            self._outlet.end_service()

    # -- the primary -----------------------------------------------------------------------

    def postpone(self, item: told.PostponementRequested, run: TentativeRun, position: int) -> None:
        """In a primary: leave the reconciliation to the replica that asks.

        Where new batches are suspended meanwhile, nobody needs a second version."""
        assert position >= 0, f"position {position}"
        suspends = self._rules.during_stabilization is Policy.SUSPEND
        if self._context.term is None or not run.active or suspends or self._outlet.sink:
            return
        context, held = self._context, self._outlet.held_from
        self._postponed_until = context.now + self._patience_us
        key = ("due", context.task)
        context.emit(SetTimer(cause=context.cause, at=self._postponed_until, key=key))
        message = told.PostponementGranted(
            cause=context.cause,
            task=context.task,
            by=item.by,
            from_batch=position if held is None else held,
            term=context.term,  # type: ignore[arg-type]  # a primary has one
        )
        context.send(context.task, item.by, message)

    @property
    def postpones(self) -> bool:
        """True while a primary leaves the reconciliation to its replica."""
        return self._context.now < self._postponed_until

    def served(self, item: told.CorrectionsServed, run: TentativeRun) -> None:
        """In a primary: the replica is stable; now this copy reconciles."""
        assert item.below >= 0, f"batch {item.below}"
        if self._context.term is None or item.by == self._context.incarnation:
            return
        if run.active:
            self._postponed_until = 0
            self.served_below = max(self.served_below, item.below)
        else:
            self._end_service(item.by)

    def stable(self) -> None:
        """In a primary that is stable again: serve alone."""
        self._postponed_until = self.served_below = 0

    def _end_service(self, by: int) -> None:
        context = self._context
        message = told.ServiceEnded(cause=context.cause, task=context.task, by=by)
        context.send(context.task, by, message)

    def spares_until(self, batch: int) -> int:
        """Return the time until which the replica spares this primary tentative ``batch``.

        While that serves, no tentative output is needed; once its next batch has waited for the
        bound, this copy goes on."""
        assert batch >= 0, f"batch {batch}"
        if not self.served_below:
            return 0
        slot = self._inbox.slots.get(max(batch, self.served_below))
        return FOREVER if slot is None else slot.first_at + self._rules.bound_us
