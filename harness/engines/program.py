"""Real operators under the simulator: a topology, the code of its tasks, and what they read.

The caller hands a program in; nothing here knows a workload. Each task of a source operator gets a
reader before it, a task without a state that reads one log partition: for the protocol a source
can always begin anywhere, and a workload's source operators may remember what they have read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.engines.simulated.checkers import Reference
from harness.protocol.operators import Payload, State, TaskOperator
from harness.protocol.planned import wiring_of
from harness.protocol.wiring import Wiring, wire
from harness.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a run computes, and on what."""

    wiring: Wiring
    """The topology's tasks under their own numbers, then the readers."""
    operators: tuple[TaskOperator, ...]
    read: Callable[[int, int], Payload]
    """What a reader finds in its partition: (task, batch) to payload."""

    def reference(self, batches: int) -> Reference:
        """The no-failure twin: every batch computed once, in order."""
        return Reference(self.wiring, self.operators, self.read, batches)


class Reader:
    """Passes on what the log holds."""

    memory = 1

    def __init__(self, size: Callable[[Payload], int]) -> None:
        self._size = size

    def initial(self) -> State:
        return None

    def process(
        self, state: State, batch: int, inputs: Sequence[Payload | None]
    ) -> tuple[State, tuple[Payload, ...]]:
        (part,) = inputs
        return state, (part,)

    def tuples(self, inputs: Sequence[Payload | None]) -> int:
        return sum(self._size(part) for part in inputs if part is not None)

    def state_tuples(self, state: State) -> int:
        return 0


def host(
    topology: Topology,
    *,
    task: Callable[[str, int], TaskOperator],
    read: Callable[[str, int, int], Payload],
    size: Callable[[Payload], int],
) -> Program:
    """A program from a planner's topology.

    ``task`` gives the code of an operator's task by its index, ``read`` what the partition of a
    source operator's task holds in a batch, ``size`` how many tuples such a payload is.
    """
    places = [topology.place(number) for number in range(topology.task_count)]
    operators: list[TaskOperator] = [task(*place) for place in places]
    inner = wiring_of(topology, {})
    readers: dict[int, tuple[str, int]] = {}
    edges = [(up, down) for down, above in enumerate(inner.upstream) for up in above]
    for source in inner.sources:
        readers[len(places) + len(readers)] = places[source]
        edges.append((len(places) + len(readers) - 1, source))
    operators += [Reader(size) for _ in readers]
    names = [*inner.names, *(f"log {name}.{index}" for name, index in readers.values())]
    return Program(
        wiring=wire(edges, names=names, memory=[operator.memory for operator in operators]),
        operators=tuple(operators),
        read=_reading(readers, read),
    )


def _reading(
    readers: Mapping[int, tuple[str, int]], read: Callable[[str, int, int], Any]
) -> Callable[[int, int], Any]:
    """Each batch is read once and kept: copies that read it again get the same object."""
    kept: dict[tuple[int, int], Any] = {}

    def at(reader: int, batch: int) -> Any:
        if (reader, batch) not in kept:
            kept[reader, batch] = read(*readers[reader], batch)
        return kept[reader, batch]

    return at
