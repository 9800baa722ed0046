"""Going on with partial input, and the way back.

A task has two computations. The *stable* one processes a batch only when all of it has come,
stable; nothing it does is ever taken back. When it is blocked and the policy says so, a
*tentative* one branches off its state and runs ahead on what there is: stable parts, tentative
parts of upstream tasks that are in the same position, and nothing for upstream tasks that are
closed. When the missing parts come, the stable computation goes back to the state before the
first tentative batch (`Basis`), redoes those batches, and once it has caught up (and, with
`Policy.SUSPEND`, has processed what was suspended meanwhile) the tentative one is dropped. So the
two can overlap, which is Borealis' second version of a node, and stable output never depends on
tentative input."""

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
    """The data from which the state before the first tentative batch is rebuilt (dpc, section 3.4).

    With `Method.CHECKPOINT` a copy of the state, taken when the tentative computation branches off,
    or every ``snapshot_every`` batches and then, too: a blocked node has the time for it, so
    nothing from before the failure is processed again. With `Method.UNDO` the input since the last
    stream marker and as much before it as the state remembers: markers are set while batches are
    processed, so what came between the last one and the failure is processed again (dpc, section
    5.3)."""

    __slots__ = ("_history", "_initial", "_memory", "_rules", "_start", "_state", "_undoes")

    def __init__(self, rules: Tentative, *, memory: int, initial: State) -> None:
        assert memory > 0, "a state depends on one batch at least"
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
        """Begin with a new copy: earlier batches are not known."""
        assert position >= 0, f"position {position}"
        self._history.clear()
        self._start, self._state = position, state

    def before(self, batch: int, state: State) -> bool:
        """Prepare for a stable batch; return True if its state is copied or read for a marker."""
        assert batch >= 0, f"batch {batch}"
        every = self._rules.snapshot_every
        if self._undoes:
            return every > 0 and not batch % every
        if not every or (batch % every and len(self._history) < every):
            return False
        self.begin(batch, state)
        return True

    def kept(self, tuples: Callable[[State], int]) -> int:
        """Return the tuples that it holds; ``tuples`` counts a state or the parts of a batch."""
        history = sum(tuples(inputs) for inputs in self._history)
        copied = self._rules.method is Method.CHECKPOINT
        return history + (tuples(self._state) if copied else 0)

    def leave(self, batch: int, state: State) -> bool:
        """Prepare for a tentative computation from ``batch`` on; return True as `before` does."""
        assert batch >= self._start, f"batch {batch} is before {self._start}"
        if self._undoes:
            return not self._rules.snapshot_every  # markers are computed only now
        if self._rules.snapshot_every:
            self.begin(batch, state)
        return True

    def after(self, inputs: tuple[Payload, ...], state: State) -> None:
        """Remember what a processed batch adds to the way back."""
        assert inputs, "a batch has a part per upstream task"
        if self._undoes:
            if len(self._history) == self._history.maxlen:
                self._start, self._state = self._start + 1, self._initial
            self._history.append(inputs)
        elif self._rules.snapshot_every:
            self._history.append(inputs)
        else:
            self._state = state

    def rebuild(self, position: int) -> tuple[int, State, tuple[tuple[Payload, ...], ...]]:
        """Return the first batch, the state before it, and the inputs that lead to ``position``."""
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
        assert rules.bound_us >= 0, f"a bound of {rules.bound_us} µs"
        self.rules = rules
        self.active = False
        self.busy = False
        self.position = 0
        self.state: State = None
        self.outputs: dict[int, tuple[Payload, ...]] = {}
        """Tentative outputs that were sent and not yet corrected."""
        self.closed: dict[int, Closed] = {}
        self._reached: dict[int, tuple[int, int]] = {}
        """By upstream, the highest term of its batches, and the batch after the last one."""
        self.timer_at = -1

    def close(self, index: int, *, last_batch: int, before_term: int) -> None:
        """Count missing batches of upstream ``index`` as empty from now on."""
        assert index >= 0, f"upstream {index}"
        old = self.closed.get(index)
        self.closed[index] = Closed(
            last_batch=max(last_batch, old.last_batch if old else last_batch),
            before_term=max(before_term, old.before_term if old else before_term),
        )

    def delivered(self, index: int, batch: int, term: int, position: int) -> None:
        """Note ``batch`` of upstream ``index``, and open the task again if it is back.

        The new primary that the coordinator waits for is back when it is at most one batch behind
        ``position``: the batch before that may have gone without it only because it is farther
        away than the others. Where this copy itself had closed the task, any sender opens it, but
        not with such a batch: it may have been under way since before the loss."""
        assert batch >= 0, f"batch {batch}"
        if (term, batch) >= self._reached.get(index, (0, 0)):
            self._reached[index] = term, batch + 1
        closed = self.closed.get(index)
        if closed is None:
            return
        by_task = closed.before_term == FOREVER
        behind = 0 if by_task else 1
        if (by_task or term >= closed.before_term) and batch + behind >= position:
            del self.closed[index]

    def is_back(self, index: int, term: int, back_at: int) -> bool:
        """Return True if a primary of ``term`` at upstream ``index`` has reached ``back_at``."""
        assert term > 0, f"term {term}"
        return self._reached.get(index, (0, 0)) >= (term, max(back_at, 1))

    def due_at(self, slot: Slot | None, policy: Policy, now: int, *, redoes: bool) -> int:
        """Return the time from which the next tentative batch may be processed.

        `FOREVER` while nothing has come that would start its clock."""
        assert now >= 0, f"time {now}"
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
        """Return the time until which ``slot``, with all its parts, may wait.

        The bound counts from its arrival or, while the stable computation ``redoes`` earlier
        batches, from the time at which it was due. For then the upstream task has stabilized, and
        what it had held back comes at once, and is old."""
        assert slot.due_at <= slot.first_at, "due later than it came"
        return (slot.due_at if redoes else slot.first_at) + self.rules.bound_us

    def inputs(
        self, slot: Slot | None, batch: int, width: int, now: int
    ) -> tuple[Payload | None, ...] | None:
        """Return the parts to process ``batch`` with, None for closed ones; None to wait."""
        assert slot is None or len(slot.stable) == width, "a part per upstream task"
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
        assert slot.stable[index] is None, "a stable part has come"
        if index in self.closed:
            return True
        late = now >= slot.first_at + self.rules.bound_us
        if self.rules.closing is Closing.TASK and late:
            self.close(index, last_batch=batch, before_term=FOREVER)
            return True
        return False

    def start(self, position: int, state: State) -> None:
        """Branch off the stable computation."""
        assert not self.active, "one tentative computation at a time"
        self.active, self.position, self.state = True, position, state

    def follow(self, position: int, state: State) -> None:
        """Go on behind the stable computation, whose queue is not finished."""
        assert self.active, "there is no tentative computation"
        assert position >= self.position, "the stable computation is behind"
        self.position, self.state, self.busy = position, state, False

    def stop(self) -> None:
        """End the tentative computation; its outputs stay to be corrected."""
        self.active = self.busy = False
        self.state = None

    def validate(self, position: int) -> None:
        """Assert the invariants of a run whose stable computation is at ``position``."""
        assert self.active or not self.busy, "it awaits an answer, and does not run"
        if self.active:
            assert self.position >= position, "the tentative computation is behind the stable one"
        if self.outputs:
            first = min(self.outputs)
            assert first >= position, f"tentative output {first} was corrected and is kept"
            last = max(self.outputs)
            assert not self.active or last < self.position, f"output {last} comes from nowhere"
