"""Word count whose counters carry a block of state of a chosen size.

The block has pieces, and every batch writes one of them anew, so each checkpoint of it differs. It
depends on the numbers of the last batches alone, and no result depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from workloads import wordcount
from workloads.base import TASKS, Reference, Workload
from workloads.toolkit.operators import TableProgram, TableTask, Timeline

PIECE_BYTES = 1 << 20
COUNTERS = 2
"""Number of tasks that carry it."""


def heavy(*, state_bytes: int) -> Workload:
    """Return word count of 4 operators, each counter with ``state_bytes`` besides its counts."""
    light = wordcount.word_count(
        window_s=4, slide_s=1, depth=4, counters=COUNTERS, watermark_delay_s=0.2
    )
    size = {"state_bytes": state_bytes}
    return replace(
        light,
        reference=Reference(target="experiments.live._ballast:heavy", parameters=size),
        forms={
            **light.forms,
            TASKS: Reference(
                target="experiments.live._ballast:program",
                parameters={**light.form(TASKS).parameters, **size},
            ),
        },
    )


def program(
    *, timeline: Timeline, state_bytes: int, rate: float | None = None, **parameters: Any
) -> TableProgram:
    light = wordcount.program(timeline=timeline, rate=rate, **parameters)

    def task(operator: str, index: int) -> TableTask:
        made = light.task(operator, index)
        return Laden(made, state_bytes) if operator == "count" else made

    return replace(light, task=task)


class Laden(TableTask):
    """A task with a block of state besides its own."""

    def __init__(self, task: TableTask, state_bytes: int) -> None:
        self.task = task
        whole, rest = divmod(state_bytes, PIECE_BYTES)
        self._sizes = [PIECE_BYTES] * whole + [rest] * (rest > 0)
        self.memory = max(task.memory, len(self._sizes))

    def initial(self) -> Any:
        pieces = tuple(np.zeros(size, dtype=np.uint8) for size in self._sizes)
        return self.task.initial(), pieces

    def process(
        self, state: Any, batch: int, inputs: Sequence[pa.Table | None]
    ) -> tuple[Any, tuple[pa.Table, ...]]:
        inner, pieces = state
        inner, outputs = self.task.process(inner, batch, inputs)
        if pieces:
            place = batch % len(pieces)
            fresh = np.full(self._sizes[place], batch % 251, dtype=np.uint8)
            pieces = (*pieces[:place], fresh, *pieces[place + 1 :])
        return (inner, pieces), outputs

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        return self.task.tuples(inputs)

    def state_tuples(self, state: Any) -> int:
        return self.task.state_tuples(state[0])
