"""A plan that changes to and fro, whatever the rates: what a change takes where nothing fails.

Every so often the replicas of one half of the plan's tasks are retired and those of the other half
started from checkpoints. From the notes follows what orders, readers and checkpoints cost on this
machine (`Noticed.adapted`); the simulator is given these costs, none of which is of a recovery.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from harness.engines.tasks.adapting import Adaptation
from harness.planning.base import flags
from harness.topology.fidelity import Evaluator, Objective
from harness.topology.model import Topology


class Alternating:
    """Use it as a context manager around a pass."""

    def __init__(
        self,
        topology: Topology,
        apply: Callable[[tuple[int, ...]], None],
        *,
        plan: tuple[int, ...],
        every_s: float,
    ) -> None:
        """``apply`` puts a plan in force; at first all of ``plan`` is replicated."""
        assert len(plan) > 1, "one task cannot take turns"
        self._topology, self._apply, self._every_s = topology, apply, every_s
        self._halves = plan[::2], plan[1::2]
        self._plan = plan
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alternate plans", daemon=True)
        self.done: list[Adaptation] = []
        """Every change, in order."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.step()

    def step(self) -> None:
        """Change to the other half now."""
        before, after = self._plan, self._halves[len(self.done) % 2]
        started = tuple(task for task in after if task not in before)
        topology, evaluator = self._topology, Evaluator(self._topology, Objective.OF)
        at_us = time.monotonic_ns() // 1000
        self._apply(after)
        self._plan = after
        self.done.append(
            Adaptation(
                at_us=at_us,
                rates={},
                retired=tuple(task for task in before if task not in after),
                started=started,
                plan=after,
                cost=int(topology.costs[list(started)].sum()),
                value_before=evaluator.value(flags(topology, before)),
                value_after=evaluator.value(flags(topology, after)),
            )
        )
