"""Who sends to whom, task by task: all the protocol needs to know of a topology."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Tasks numbered from 0, with their upstream and downstream tasks in a fixed order.

    A task without upstream tasks is a source: it reads the log partition of its own number. A
    task without downstream tasks is a sink: it publishes to the output partition of its own
    number. The order of upstream tasks is the order in which a batch's parts are processed, that
    of downstream tasks the order of an operator's outputs; whoever routes takes it from here."""

    names: tuple[str, ...]
    """The name of each task, for people."""
    upstream: tuple[tuple[int, ...], ...]
    downstream: tuple[tuple[int, ...], ...]
    memory: tuple[int, ...]
    """Batches of input that a task's state depends on (`TaskOperator.memory`)."""

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.upstream), len(self.downstream), len(self.memory)}
        if len(sizes) != 1 or not self.names:
            raise UsageError(
                f"a wiring lists {sorted(sizes)} names, upstreams, downstreams and memories",
                remedy="give one of each per task, and at least one task",
            )
        for task, above in enumerate(self.upstream):
            for other in above:
                if task not in self.downstream[other]:
                    raise UsageError(
                        f"{self.names[task]} receives from {self.names[other]}, which does not "
                        "send to it",
                        remedy="list every edge at both of its ends",
                    )
        if min(self.memory) < 1:
            raise UsageError("a task remembers less than one batch", remedy="use memory >= 1")
        if len(self.order) != len(self.names):
            raise UsageError("the wiring has a cycle", remedy="a topology is acyclic: cut it")

    @property
    def tasks(self) -> range:
        """The numbers of all tasks."""
        return range(len(self.names))

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The tasks that read the log."""
        return tuple(task for task in self.tasks if not self.upstream[task])

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """The tasks that publish."""
        return tuple(task for task in self.tasks if not self.downstream[task])

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The tasks, each behind all of its upstream tasks (ties by number)."""
        waiting = [len(above) for above in self.upstream]
        ready = [task for task, count in enumerate(waiting) if count == 0]
        order: list[int] = []
        while ready:
            task = ready.pop(0)
            order.append(task)
            for below in self.downstream[task]:
                waiting[below] -= 1
                if waiting[below] == 0:
                    ready.append(below)
        return tuple(order)

    def begins_anywhere(self, task: int) -> bool:
        """Return True for a source that remembers no earlier batch: it needs no checkpoint.

        The log has all of its input. A source that remembers batches reads the log itself, too, but
        is restored like any other task."""
        assert task in self.tasks, f"task {task} of {len(self.names)}"
        return not self.upstream[task] and self.memory[task] == 1

    def ancestors(self, tasks: Iterable[int]) -> frozenset[int]:
        """Return ``tasks`` and everything upstream of them."""
        assert len(self.upstream) == len(self.names), "every task is wired"
        found: set[int] = set()
        pending = list(tasks)
        while pending:
            task = pending.pop()
            if task not in found:
                found.add(task)
                pending.extend(self.upstream[task])
        return frozenset(found)

    def depth(self) -> int:
        """Return the number of tasks on the longest path from a source to a sink."""
        longest = [1] * len(self.names)
        for task in self.order:
            for below in self.downstream[task]:
                longest[below] = max(longest[below], longest[task] + 1)
        return max(longest)


def wire(
    edges: Sequence[tuple[int, int]], *, names: Sequence[str], memory: Sequence[int]
) -> Wiring:
    """Make a wiring from (upstream task, downstream task) pairs.

    The neighbours of a task are in the order in which the pairs are listed."""
    assert len(names) == len(memory), f"{len(names)} tasks and {len(memory)} memories"
    count = len(names)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for up, down in dict.fromkeys(edges):
        above[down].append(up)
        below[up].append(down)
    return Wiring(
        names=tuple(names),
        upstream=tuple(tuple(tasks) for tasks in above),
        downstream=tuple(tuple(tasks) for tasks in below),
        memory=tuple(memory),
    )
