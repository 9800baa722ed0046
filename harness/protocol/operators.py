"""What a task computes: a pure function from (state, one batch of every upstream) to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

Payload = Any
"""The content of one batch on one edge between two tasks; None is reserved for missing parts."""


def size_of(payload: Payload) -> int:
    """Return the bytes of a payload that knows them (``nbytes``), 0 for any other."""
    return int(getattr(payload, "nbytes", 0))


class NoState(Enum):
    """The absence of a state; an operator's own state may be any value, None too."""

    GONE = "gone"


GONE = NoState.GONE
"""A constant, because it is compared after every input."""

State = Any
"""The memory of an operator between batches. A value: `process` never changes the one it got, it
returns another (which may share structure), so a copy that is kept costs a reference."""


class TaskOperator(Protocol):
    """One task's share of an operator, as a host runs it.

    Everything must be a function of the arguments alone: no clock, no randomness, no set or
    hash order, exact numbers (integers or decimals). Two copies of a task that process the same
    batches in the same order must agree bit by bit; every guarantee of the protocol rests on it."""

    memory: int
    """Batches of input that the state depends on, the newest included; at least 1. Source replay
    and undo/redo rebuild a state from that many batches."""

    def initial(self) -> State:
        """Return the state before any batch."""

    def process(
        self, state: State, batch: int, inputs: Sequence[Payload | None]
    ) -> tuple[State, tuple[Payload, ...]]:
        """Return the state after ``batch``, and an output for each downstream task in wiring order.

        ``inputs`` holds one payload per upstream task in wiring order (a source task has one, the
        batch that it read from its log); None where a tentative batch was closed without it. A sink
        task returns exactly one output, the one that is published."""

    def tuples(self, inputs: Sequence[Payload | None]) -> int:
        """Return the number of tuples in ``inputs``, which is the cost of processing them."""

    def state_tuples(self, state: State) -> int:
        """Return the number of tuples in ``state``, which is the cost of copying or storing it."""
