"""What tasks compute: a topology, the code of its tasks, what they read, and the no-failure twin.

The caller hands a program in; nothing here knows a workload. Tasks keep the numbers of the
topology: those of source operators read their log partitions themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from harness.protocol.operators import Payload, TaskOperator
from harness.protocol.planned import wiring_of
from harness.protocol.wiring import Wiring
from harness.topology.model import Topology


class Twin:
    """The no-failure twin, computed directly."""

    def __init__(
        self,
        wiring: Wiring,
        operators: Sequence[TaskOperator],
        source: Callable[[int, int], Any],
        batches: int,
    ) -> None:
        count = len(wiring.names)
        self.inputs: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
        self.states: list[list[Any]] = [[op.initial()] for op in operators]
        self.outputs: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
        place = [{down: i for i, down in enumerate(below)} for below in wiring.downstream]
        for task in wiring.order:
            for batch in range(batches):
                above = wiring.upstream[task]
                if above:
                    parts = tuple(self.outputs[up][batch][place[up][task]] for up in above)
                else:
                    parts = (source(task, batch),)
                state, outputs = operators[task].process(self.states[task][-1], batch, parts)
                self.inputs[task].append(parts)
                self.states[task].append(state)
                self.outputs[task].append(outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The operators of a run, and their input."""

    wiring: Wiring
    operators: tuple[TaskOperator, ...]
    read: Callable[[int, int], Payload]
    """The content of a source task's partition: (task, batch) to payload."""
    _twins: dict[int, Twin] = field(default_factory=dict, init=False, repr=False, compare=False)

    def twin(self, batches: int) -> Twin:
        """Return the no-failure twin: every batch computed once, in order; runs share it."""
        assert batches > 0, f"a run of {batches} batches"
        if batches not in self._twins:
            self._twins[batches] = Twin(self.wiring, self.operators, self.read, batches)
        return self._twins[batches]


def host(
    topology: Topology,
    *,
    task: Callable[[str, int], TaskOperator],
    read: Callable[[str, int, int], Payload],
) -> Program:
    """Make a program from a planner's topology.

    ``task`` gives the code of an operator's task by its index, ``read`` the content of a source
    task's partition in a batch."""
    places = [topology.place(number) for number in range(topology.task_count)]
    operators = tuple(task(*place) for place in places)

    @cache  # copies that read a batch again get the same object
    def reading(number: int, batch: int) -> Payload:
        return read(*places[number], batch)

    memory = {
        operator: max(
            code.memory
            for (name, _), code in zip(places, operators, strict=True)
            if name == operator
        )
        for operator, _ in places
    }
    return Program(wiring=wiring_of(topology, memory), operators=operators, read=reading)
