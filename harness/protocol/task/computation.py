"""What a copy computes: the stable computation, and the tentative one that may run ahead of it.

They own position and state. What they need they take from the inlet, what they make they hand to
the outlet; see `harness.protocol.task.reconciliation` for how the two computations meet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from harness.protocol import inputs as told
from harness.protocol.effects import ProcessBatch, RebuildState, SetTimer
from harness.protocol.inputs import STABLE, TENTATIVE
from harness.protocol.operators import GONE, Payload, State
from harness.protocol.scheme import Corrections, Policy, Tentative
from harness.protocol.task.context import Context
from harness.protocol.task.inlet import Inlet
from harness.protocol.task.outlet import Outlet
from harness.protocol.task.partnership import Partnership
from harness.protocol.task.reconciliation import FOREVER, Basis, TentativeRun

NOTHING: Mapping[int, tuple[Payload, ...]] = {}


class Mode(StrEnum):
    """The state of a Borealis node (dpc, Fig. 2)."""

    STABLE = "stable"
    FAILURE = "up-failure"
    STABILIZATION = "stabilization"


class Computation:
    """The next batch, the state before it, and the requests without an answer."""

    __slots__ = (
        "_context", "_initial", "_inlet", "_outlet", "_rules", "basis", "busy", "full",
        "partnership", "position", "regaining", "state", "tentative", "ticket",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        inlet: Inlet,
        outlet: Outlet,
        *,
        rules: Tentative | None,
        memory: int,
        initial: State,
        position: int,
        partnership: Partnership | None = None,
    ) -> None:
        assert memory > 0, "a state depends on one batch at least"
        self._context, self._inlet, self._outlet = context, inlet, outlet
        self._rules = rules
        self._initial = initial
        self.partnership = partnership
        """None: this copy runs both versions of its task itself."""
        self.position = position
        """The next batch of the stable computation."""
        self.state: State = GONE
        self.ticket = 0
        """The number of the stable computation's latest request; answers to earlier ones are
        stale."""
        self.busy = False
        """The stable computation awaits an answer."""
        self.regaining = False
        """True if it awaits its state although the batch that needs it has not come."""
        self.full = False
        """True if the stable computation waits for room in the outbox."""
        self.tentative = TentativeRun(rules) if rules else None
        self.basis = Basis(rules, memory=memory, initial=initial) if rules else None

    def begin(self, position: int, state: State) -> None:
        """Continue from ``position``; earlier computations are void."""
        assert position >= 0, f"position {position}"
        assert state is not GONE, "a state to go on from"
        self.position, self.state = position, state
        self.busy = self.full = self.regaining = False
        self.ticket += 1
        self._inlet.inbox.drop_below(position)
        if self.tentative is not None and self.basis is not None:
            self.tentative.stop()
            self.tentative.outputs.clear()
            self.basis.begin(position, state)
            self._outlet.held_from = None
        if self.partnership is not None:
            self.partnership.reset()

    def rewind(self, batch: int) -> None:
        """Go back to ``batch``; possible because nothing is remembered."""
        assert 0 <= batch <= self.position, f"from {self.position} back to {batch}"
        assert self.tentative is None or not self.tentative.active, (
            "a source computes nothing tentative"
        )
        self.position, self.state = batch, self._initial
        self.busy = self.full = self.regaining = False
        self.ticket += 1
        self._inlet.inbox.drop_from(batch + self._inlet.window)

    @property
    def mode(self) -> Mode:
        """Borealis' state of a node, by which of the two computations runs."""
        partner = self.partnership
        if self.tentative is None or not self.tentative.active:
            return Mode.STABILIZATION if partner and partner.catches_up else Mode.STABLE
        if partner is not None and partner.postpones:
            return Mode.FAILURE
        return Mode.STABILIZATION if self._can_redo() else Mode.FAILURE

    @property
    def ahead(self) -> int | None:
        """The next batch of the tentative computation, if there is one."""
        run = self.tentative
        return run.position if run is not None and run.active else None

    @property
    def uncorrected(self) -> Mapping[int, tuple[Payload, ...]]:
        """Tentative outputs that were sent and not yet corrected."""
        return NOTHING if self.tentative is None else self.tentative.outputs

    def arrived(self, index: int, batch: int, term: int) -> None:
        """Note a batch of upstream ``index``, which may show that a closed task is back."""
        assert index >= 0, f"upstream {index}"
        run = self.tentative
        if run is not None:
            run.delivered(index, batch, term, run.position if run.active else self.position)

    def _can_redo(self) -> bool:
        assert self.busy or not self.regaining, "it regains a state without a request"
        return (self.busy and not self.regaining) or self._inlet.inbox.complete(self.position)

    # -- the stable computation ------------------------------------------------------------

    def advance(self) -> None:
        """Begin every computation that can begin."""
        complete = self._inlet.inbox.complete(self.position)
        run, partner = self.tentative, self.partnership
        if partner is not None and self._context.term is None:
            partner.follow(self.position)
        postpones = partner is not None and partner.postpones
        if complete and not self.busy and not (postpones and run is not None and run.active):
            self.full = not self._outlet.has_room(self.position)
            if self.full:
                self._release()  # or nobody could ever acknowledge what is held
            else:
                self._process_next()
        filled = self.position >= self._outlet.filled_from
        if run is not None and filled and self._context.term is not None and not run.busy:
            redoes = (self.busy and not self.regaining) or complete
            if run.active or not redoes:
                self._advance_tentative(run, redoes)

    def _process_next(self) -> None:
        assert not self.busy, "one request at a time"
        self.busy = True
        self.ticket += 1
        if self.state is GONE:
            self._rebuild()
            return
        run = self.tentative
        redo = run is not None and run.active
        if redo and run is not None and run.rules.corrections is Corrections.DONE:
            self._outlet.hold(self.position)
        copies = (
            self.basis is not None
            and not redo  # the copy from before the failure serves until it is over
            and self.basis.before(self.position, self.state)
        )
        inputs = self._inlet.inbox.stable(self.position)
        self._process(STABLE, self.ticket, self.position, self.state, inputs, copies)

    def _process(
        self,
        run: told.Run,
        ticket: int,
        batch: int,
        state: State,
        inputs: tuple[Payload | None, ...],
        copies: bool,
    ) -> None:
        assert batch >= 0, f"batch {batch}"
        self._context.emit(
            ProcessBatch(
                cause=self._context.cause,
                task=self._context.task,
                incarnation=self._context.incarnation,
                run=run,
                ticket=ticket,
                batch=batch,
                state=state,
                inputs=inputs,
                copies_state=copies,
            )
        )

    def regain_state(self) -> None:
        """Rebuild the state before the input that needs it has come.

        The tentative computation has taken the state away."""
        assert not self.busy, "one request at a time"
        self.busy = self.regaining = True
        self.ticket += 1
        self._rebuild()

    def _rebuild(self) -> None:
        assert self.basis is not None, "only a tentative computation takes the state away"
        assert self._rules is not None
        first, state, inputs = self.basis.rebuild(self.position)
        self._context.emit(
            RebuildState(
                cause=self._context.cause,
                task=self._context.task,
                incarnation=self._context.incarnation,
                ticket=self.ticket,
                method=self._rules.method,
                state=state,
                first_batch=first,
                inputs=inputs,
                undone=self._undone(),
            )
        )

    def _undone(self) -> int:
        """Return the number of tentative batches that the history is read back over."""
        assert self.state is GONE, "a state that is here needs no rebuilding"
        run = self.tentative
        logged = run is not None and run.rules.logs_tentative
        return run.position - self.position if run is not None and logged else 0

    def rebuilt(self, item: told.StateRebuilt) -> None:
        """Take the rebuilt state, unless the request is void by now."""
        assert item.ticket <= self.ticket, f"an answer to request {item.ticket} of {self.ticket}"
        if item.ticket == self.ticket:
            assert self.busy, "an answer that was not asked for"
            assert item.state is not GONE, "a state that was rebuilt is there"
            self.busy = self.regaining = False
            self.state = item.state

    def processed(self, item: told.BatchProcessed) -> bool:
        """Finish a batch; return True if the stable computation has moved on."""
        if item.run is TENTATIVE:
            self._processed_tentative(item)
            return False
        if item.ticket != self.ticket:
            return False
        batch = item.batch
        assert self.busy, "an answer that was not asked for"
        assert item.state is not GONE, "an operator gives a state back"
        assert batch == self.position, f"batch {batch} was processed where {self.position} is due"
        self.busy = False
        self.state = item.state
        inbox = self._inlet.inbox
        if self.basis is not None:
            self.basis.after(inbox.stable(batch), item.state)
        self.position = batch + 1
        inbox.drop(batch)
        self._outlet.produced(batch, item.outputs)
        if not inbox.complete(self.position):
            self._release()  # blocked again, or done: what is corrected can go
        if self.partnership is not None:
            self.partnership.report(self.position)
        return True

    def _release(self) -> None:
        partner = self.partnership
        self._outlet.release(partner.served_below if partner is not None else 0)

    def is_meant(self, item: told.BatchFailed) -> bool:
        """Return True if ``item`` answers the latest request, not a void one."""
        assert item.batch >= 0, f"batch {item.batch}"
        if item.run is TENTATIVE:
            run = self.tentative
            return run is not None and run.busy and item.batch == run.position
        return self.busy and item.ticket == self.ticket

    # -- the tentative computation ---------------------------------------------------------

    def _advance_tentative(self, run: TentativeRun, redoes: bool) -> None:
        """Begin the next tentative batch, or set a timer for it."""
        assert not run.busy, "one request at a time"
        batch = run.position if run.active else self.position
        policy = run.rules.during_stabilization if redoes else run.rules.during_failure
        if policy is Policy.SUSPEND or batch >= self.position + self._inlet.window:
            return
        now = self._context.now
        slot = self._inlet.inbox.slots.get(batch)
        due = run.due_at(slot, policy, now, redoes=redoes)
        if self.partnership is not None:
            due = max(due, self.partnership.spares_until(batch))
        if due <= now:
            inputs = run.inputs(slot, batch, len(self._inlet.upstream), now)
            if inputs is not None:
                self._process_tentative(run, batch, inputs)
                return
            due = slot.first_at + run.rules.bound_us if slot is not None else FOREVER
        if now < due < FOREVER and run.timer_at != due:
            run.timer_at = due
            key = ("due", self._context.task)
            self._context.emit(SetTimer(cause=self._context.cause, at=due, key=key))

    def _process_tentative(
        self, run: TentativeRun, batch: int, inputs: tuple[Payload | None, ...]
    ) -> None:
        copies = False
        if not run.active:
            assert self.state is not GONE, "the stable computation has its state"
            assert self.basis is not None, "who goes ahead knows the way back"
            copies = self.basis.leave(batch, self.state)
            run.start(batch, self.state)
            self.state = GONE  # the way back is `Basis`
        assert batch >= self.position, f"batch {batch} is stable already"
        run.busy = True
        self._process(TENTATIVE, batch, batch, run.state, inputs, copies)

    def _processed_tentative(self, item: told.BatchProcessed) -> None:
        """Send the output of a tentative batch, unless the stable computation has overtaken it."""
        assert item.run is TENTATIVE, f"a batch of the {item.run} run"
        run = self.tentative
        if run is None or not (run.active and run.busy and item.batch == run.position):
            return  # the stable computation has overtaken it
        run.busy = False
        run.state = item.state
        run.position = item.batch + 1
        partner = self.partnership
        if item.batch >= max(self.position, partner.served_below if partner is not None else 0):
            run.outputs[item.batch] = item.outputs
            self._outlet.deliver_tentative(item.batch, item.outputs)
        self.meet()

    def meet(self) -> None:
        """Drop the tentative computation once the stable one has reached it."""
        run = self.tentative
        if run is None or not run.active:
            return
        for batch in [batch for batch in run.outputs if batch < self.position]:
            del run.outputs[batch]
        if self.position > run.position or (self.position == run.position and not run.busy):
            if self.state is GONE:
                return  # it has not even begun to redo
            if self._queue_waits(run):
                run.follow(self.position, self.state)
                return
            run.stop()
            self._release()
            if self.partnership is not None:
                self.partnership.stable()

    def _queue_waits(self, run: TentativeRun) -> bool:
        """Return True if batches wait that were suspended during stabilization.

        They belong to it: stabilization ends when their queue is cleared, and then the corrections
        go out."""
        assert run.active, "there is no tentative computation"
        suspends = run.rules.during_stabilization is Policy.SUSPEND
        whole = self._inlet.inbox.complete(self.position)
        return suspends and whole and self._outlet.has_room(self.position)

    def validate(self) -> None:
        """Assert the invariants of both computations between two inputs."""
        assert not (self.regaining and not self.busy), "it regains a state that nobody gives"
        run = self.tentative
        if run is None:
            assert self.state is not GONE, "a task without tentative output always has its state"
            return
        if run.outputs or run.active:
            run.validate(self.position)
        if run.active:
            assert self._context.term is not None, "a replica computes nothing tentative"
            return
        assert self.state is not GONE, "the state was given away to nobody"
        assert self._outlet.held_from is None, "corrections are held by a stable task"
