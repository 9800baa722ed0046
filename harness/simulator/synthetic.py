"""Programs for simulation: one whose output shows every mistake, one that only counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from harness.hosting.program import Program
from harness.protocol.wiring import Wiring
from harness.simulator.options import Options

_PRIME = (1 << 61) - 1
_MISSING = 0x9E3779B97F4A7C15 % _PRIME

Digest = tuple[int, int]
"""(tuples, digest): how much a batch is, and a number that depends on all that it was made of."""


def mix(*numbers: int) -> int:
    """Return a number in [0, 2**61-1) that depends on every argument and their order."""
    value = 1469598103934665603 % _PRIME
    for number in numbers:
        value = (value * 1099511628211 + number + 1) % _PRIME
    return value


@lru_cache(maxsize=4096)
def source_batch(source: int, batch: int, tuples: int) -> Digest:
    """Return the content of a batch of a source partition."""
    return (tuples, mix(source, batch, tuples))


class RaisingOperator:
    """A user's code on a node that has not what it needs."""

    memory = 1

    def initial(self) -> Any:
        return ()

    def process(self, state: Any, batch: int, inputs: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        raise MemoryError(f"no memory for batch {batch}")

    def tuples(self, inputs: Sequence[Any]) -> int:
        return 0

    def state_tuples(self, state: Any) -> int:
        return 0


RAISES = RaisingOperator()


class DigestOperator:
    """A window over the last ``memory`` batches; the output is a digest of the window.

    A batch that was lost, repeated, taken out of order or with its parts in another order
    changes every later output within the window."""

    def __init__(self, *, task: int, memory: int, fan_out: int, percent: int = 100) -> None:
        self.memory = memory
        self._task = task
        self._fan_out = max(1, fan_out)
        self._percent = percent

    def initial(self) -> Any:
        return ()

    def process(
        self, state: Any, batch: int, inputs: Sequence[Digest | None]
    ) -> tuple[Any, tuple[Digest, ...]]:
        value = count = 0
        for part in inputs:
            count += part[0] if part else 0
            value = (value * 1099511628211 + (part[1] if part else _MISSING)) % _PRIME
        window = (
            (*state[-self.memory + 1 :], (count, value)) if self.memory > 1 else ((count, value),)
        )
        whole = self._task + batch
        for entry in window:
            whole = (whole * 1099511628211 + entry[1]) % _PRIME
        share = count * self._percent // (100 * self._fan_out)
        if self._fan_out == 1:
            return window, ((share, whole * 31 % _PRIME),)
        return window, tuple((share, (whole * 31 + i) % _PRIME) for i in range(self._fan_out))

    def tuples(self, inputs: Sequence[Digest | None]) -> int:
        count = 0
        for part in inputs:
            if part:
                count += part[0]
        return count

    def state_tuples(self, state: Any) -> int:
        return self.tuples(state)


class WindowOperator(DigestOperator):
    """The same with a window of so many tuples, within the last ``memory`` batches."""

    def __init__(self, *, task: int, tuples: int, memory: int, fan_out: int) -> None:
        super().__init__(task=task, memory=memory, fan_out=fan_out)
        self.window = tuples
        """Tuples on all streams that are processed to rebuild the state."""

    def process(
        self, state: Any, batch: int, inputs: Sequence[Digest | None]
    ) -> tuple[Any, tuple[Digest, ...]]:
        after, outputs = super().process(state, batch, inputs)
        left = self.window
        kept: list[Digest] = []
        for count, value in reversed(after):
            kept.append((min(count, left), value))
            left -= kept[-1][0]
            if not left:
                break
        return tuple(reversed(kept)), outputs


class SeriesOperator:
    """Boxes in a row within one task, with ``tuples`` of state each: each processes every tuple."""

    def __init__(self, *, task: int, tuples: int, memory: int, boxes: int, fan_out: int) -> None:
        outs = (*[1] * (boxes - 1), fan_out)
        self._boxes = tuple(
            WindowOperator(task=task + box, tuples=tuples, memory=memory, fan_out=out)
            for box, out in enumerate(outs)
        )
        self.window = boxes * boxes * tuples  # every box is rebuilt from the input of the first
        self.memory = boxes * (memory - 1) + 1

    def initial(self) -> Any:
        return tuple(box.initial() for box in self._boxes)

    def process(
        self, state: Any, batch: int, inputs: Sequence[Digest | None]
    ) -> tuple[Any, tuple[Digest, ...]]:
        states: list[Any] = []
        outputs: tuple[Digest, ...] = ()
        for box, before in zip(self._boxes, state, strict=True):
            after, outputs = box.process(before, batch, outputs or inputs)
            states.append(after)
        return tuple(states), outputs

    def tuples(self, inputs: Sequence[Digest | None]) -> int:
        """On the input and on every stream between boxes."""
        return len(self._boxes) * self._boxes[0].tuples(inputs)

    def state_tuples(self, state: Any) -> int:
        return sum(box.state_tuples(part) for box, part in zip(self._boxes, state, strict=True))


class CountOperator:
    """Counts alone, so that ten thousand tasks fit: payloads are numbers of tuples."""

    def __init__(self, *, memory: int, fan_out: int, percent: int = 100) -> None:
        self.memory = memory
        self._fan_out = max(1, fan_out)
        self._percent = percent

    def initial(self) -> Any:
        return 0

    def process(
        self, state: Any, batch: int, inputs: Sequence[int | None]
    ) -> tuple[Any, tuple[int, ...]]:
        count = sum(part for part in inputs if part)
        held = min(state + count, count * self.memory)
        share = count * self._percent // (100 * self._fan_out)
        return held, (share,) * self._fan_out

    def tuples(self, inputs: Sequence[int | None]) -> int:
        return sum(part for part in inputs if part)

    def state_tuples(self, state: Any) -> int:
        return int(state)


def digests(options: Options) -> Program:
    """`DigestOperator` everywhere; sources write all that they read. Many seeds share one."""
    return _digests(options.wiring, options.tuples, options.percent)


def counts(options: Options) -> Program:
    """Return the same program with `CountOperator`: no checker can see mistakes in its output."""
    operators = [
        CountOperator(memory=memory, fan_out=fan_out, percent=share)
        for _, memory, fan_out, share in _shapes(options.wiring, options.percent)
    ]
    return Program(
        wiring=options.wiring, operators=tuple(operators), read=lambda source, batch: options.tuples
    )


@lru_cache(maxsize=64)
def _digests(wiring: Wiring, tuples: int, percent: int) -> Program:
    operators = [
        DigestOperator(task=task, memory=memory, fan_out=fan_out, percent=share)
        for task, memory, fan_out, share in _shapes(wiring, percent)
    ]
    return Program(
        wiring=wiring,
        operators=tuple(operators),
        read=lambda source, batch: source_batch(source, batch, tuples),
    )


def _shapes(wiring: Wiring, percent: int) -> Iterator[tuple[int, int, int, int]]:
    """Task, memory in batches, tasks after it, and its selectivity in percent."""
    for task in wiring.tasks:
        share = percent if wiring.upstream[task] else 100
        yield task, wiring.memory[task], len(wiring.downstream[task]), share
