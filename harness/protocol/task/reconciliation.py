"""Going on with partial input, and the way back.

A task has two computations. The *stable* one processes a batch only when all of it has come,
stable; nothing it does is ever taken back. When it is blocked and the policy says so, a
*tentative* one branches off its state and runs ahead on what there is: stable parts, tentative
parts of upstream tasks that are in the same position, and nothing for upstream tasks that are
closed. When the missing parts come, the stable computation goes back to the state before the
first tentative batch (`Basis`), redoes those batches, and once it has caught up (and, with
`Policy.SUSPEND`, has processed what was suspended meanwhile) the tentative one is dropped. So the
two can overlap, which is Borealis' second version of a node, and stable output never depends on
tentative input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from harness.protocol.operators import Payload, State
from harness.protocol.scheme import Closing, Method, Policy, Tentative
from harness.protocol.task.inlet import Slot

FOREVER = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """An upstream task whose missing part of a batch counts as empty."""

    last_batch: int
    """The last batch that may be processed although no upstream task has sent its part; a later
    batch needs the part of at least one of them."""
    before_term: int
    """A primary of this term, or of a higher one, opens the task again when it delivers a batch
    that is still needed (`TentativeRun.delivered`). `FOREVER` where this copy itself had closed
    the task: then any primary does."""


class Basis:
    """What the state before the first tentative batch is rebuilt from (dpc, section 3.4).

    With `Method.CHECKPOINT` a copy of the state, taken when the tentative computation branches
    off, or every so many batches and then, too: a node that is blocked has the time for it, so
    nothing from before the failure is processed again. With `Method.UNDO` the input since the
    last stream marker and as much before it as the state remembers: markers are set while batches
    are processed, so what came between the last one and the failure is processed again (dpc,
    section 5.3).
    """

    __slots__ = ("_history", "_initial", "_memory", "_rules", "_start", "_state", "_undoes")

    def __init__(self, rules: Tentative, *, memory: int, initial: State) -> None:
        self._rules = rules
        self._undoes = rules.method is Method.UNDO
        self._initial = initial
        self._memory = memory
        beyond = max(rules.snapshot_every - 1, 0)
        self._history: deque[tuple[Payload, ...]] = deque(
            maxlen=memory + beyond if self._undoes else None
        )
        self._start = 0
        self._state: State = initial

    def begin(self, position: int, state: State) -> None:
        """A new copy starts here: what came before is not known."""
        assert position >= 0, f"position {position}"
        self._history.clear()
        self._start, self._state = position, state

    def before(self, batch: int, state: State) -> bool:
        """The stable computation is about to process ``batch``; True if its state is copied, or
        read for a stream marker."""
        every = self._rules.snapshot_every
        if self._undoes:
            return every > 0 and not batch % every
        if not every or (batch % every and len(self._history) < every):
            return False
        self.begin(batch, state)
        return True

    def kept(self, tuples: Callable[[State], int]) -> int:
        """What it holds, counted by ``tuples`` of a state, or of the parts of a batch."""
        history = sum(tuples(inputs) for inputs in self._history)
        copied = self._rules.method is Method.CHECKPOINT
        return history + (tuples(self._state) if copied else 0)

    def leave(self, batch: int, state: State) -> bool:
        """The tentative computation branches off before ``batch``; True as for `before`."""
        if self._undoes:
            return not self._rules.snapshot_every  # markers are computed only now
        if self._rules.snapshot_every:
            self.begin(batch, state)
        return True

    def after(self, inputs: tuple[Payload, ...], state: State) -> None:
        """A batch was processed: remember what it takes to be here again."""
        if self._undoes:
            if len(self._history) == self._history.maxlen:
                self._start, self._state = self._start + 1, self._initial
            self._history.append(inputs)
        elif self._rules.snapshot_every:
            self._history.append(inputs)
        else:
            self._state = state

    def rebuild(self, position: int) -> tuple[int, State, tuple[tuple[Payload, ...], ...]]:
        """First batch, state before it, and the inputs that lead to ``position``."""
        first = position - len(self._history)
        assert not self._history or first == self._start, "the kept input does not fit the state"
        inputs = tuple(self._history)
        if not self._undoes or not self._rules.snapshot_every:
            return first, self._state, inputs
        needed = self._memory + position % self._rules.snapshot_every
        if len(inputs) <= needed:
            return first, self._state, inputs
        return position - needed, self._initial, inputs[-needed:]


class TentativeRun:
    """The computation that runs ahead of the stable one; at most one at a time."""

    __slots__ = (
        "_reached", "active", "busy", "closed", "outputs", "position", "rules", "state", "timer_at",
    )  # fmt: skip

    def __init__(self, rules: Tentative) -> None:
        self.rules = rules
        self.active = False
        self.busy = False
        self.position = 0
        self.state: State = None
        self.outputs: dict[int, tuple[Payload, ...]] = {}
        """Tentative outputs that were sent and not yet corrected."""
        self.closed: dict[int, Closed] = {}
        self._reached: dict[int, tuple[int, int]] = {}
        """By upstream, its highest term of which a batch came, and the batch after the last."""
        self.timer_at = -1

    def close(self, index: int, *, last_batch: int, before_term: int) -> None:
        """From now on, batches that upstream ``index`` has not sent count as empty."""
        assert index >= 0, f"upstream {index}"
        old = self.closed.get(index)
        self.closed[index] = Closed(
            last_batch=max(last_batch, old.last_batch if old else last_batch),
            before_term=max(before_term, old.before_term if old else before_term),
        )

    def delivered(self, index: int, batch: int, term: int, position: int) -> None:
        """Upstream ``index`` has sent ``batch``: the task is open again if it is back.

        A batch below ``position`` does not show that: it may have been under way since before
        the loss. One at or above it does, if its sender is the new primary that the coordinator
        waits for; where this copy itself had closed the task, whoever sends it.
        """
        if (term, batch) >= self._reached.get(index, (0, 0)):
            self._reached[index] = term, batch + 1
        closed = self.closed.get(index)
        if closed and batch >= position:
            by_task = closed.before_term == FOREVER
            if by_task or term >= closed.before_term:
                del self.closed[index]

    def is_back(self, index: int, term: int, back_at: int) -> bool:
        """Has a primary of ``term`` at upstream ``index`` got to batch ``back_at``?"""
        return self._reached.get(index, (0, 0)) >= (term, max(back_at, 1))

    def due_at(self, slot: Slot | None, policy: Policy, now: int, *, redoes: bool) -> int:
        """When the next tentative batch may be processed; FOREVER while nothing of it came
        that would start its clock."""
        if policy is Policy.PROCESS and (
            self.active
            or self.rules.closing is Closing.COORDINATOR
            or (slot is not None and slot.tentative)
        ):
            return now  # who blocks first has waited already, the others follow at once
        if slot is None:
            return now if self.rules.closing is Closing.COORDINATOR else FOREVER
        return self.bound_for(slot, redoes=redoes)

    def bound_for(self, slot: Slot, *, redoes: bool) -> int:
        """When ``slot``, whose parts are all there, has waited for as long as it may: since it
        came, or, while the stable computation ``redoes`` earlier ones, since it was due. For then
        the upstream task has stabilized, and what it had held back comes at once, and is old."""
        return (slot.due_at if redoes else slot.first_at) + self.rules.bound_us

    def inputs(
        self, slot: Slot | None, batch: int, width: int, now: int
    ) -> tuple[Payload | None, ...] | None:
        """The parts to process ``batch`` with, None for closed ones; None to wait."""
        if slot is None:
            forged = len(self.closed) == width and all(
                batch <= closed.last_batch for closed in self.closed.values()
            )
            return (None,) * width if forged else None
        parts: list[Payload | None] = []
        for index, stable in enumerate(slot.stable):
            part = slot.tentative.get(index) if stable is None else stable
            if part is None and not self._may_close(index, slot, batch, now):
                return None
            parts.append(part)
        return tuple(parts)

    def _may_close(self, index: int, slot: Slot, batch: int, now: int) -> bool:
        if index in self.closed:
            return True
        late = now >= slot.first_at + self.rules.bound_us
        if self.rules.closing is Closing.TASK and late:
            self.close(index, last_batch=batch, before_term=FOREVER)
            return True
        return False

    def start(self, position: int, state: State) -> None:
        """Branch off the stable computation, which is there."""
        assert not self.active, "one tentative computation at a time"
        self.active, self.position, self.state = True, position, state

    def follow(self, position: int, state: State) -> None:
        """The stable computation has overtaken it, and is not done with what waits."""
        assert self.active, "there is no tentative computation"
        assert position >= self.position, "the stable computation is behind"
        self.position, self.state, self.busy = position, state, False

    def stop(self) -> None:
        """The stable computation goes on alone; what was sent stays to be corrected."""
        self.active = self.busy = False
        self.state = None

    def validate(self, position: int) -> None:
        """Assert what must hold where the stable computation is at ``position``."""
        assert self.active or not self.busy, "it awaits an answer, and does not run"
        if self.active:
            assert self.position >= position, "the tentative computation is behind the stable one"
        if self.outputs:
            first = min(self.outputs)
            assert first >= position, f"tentative output {first} was corrected and is kept"
            last = max(self.outputs)
            assert not self.active or last < self.position, f"output {last} comes from nowhere"
