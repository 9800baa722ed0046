"""Virtual time: a heap of events in a total order of (time, priority, sequence)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

FAULT, ANSWER, MESSAGE, TIMER = range(4)
"""Priorities: what happens first of what happens at one instant."""


class Kernel:
    """Integer microseconds; equal instants run by priority, then in the order scheduled."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        """(instant and priority in one number, sequence, action, arguments)."""
        self._sequence = 0

    @property
    def processed(self) -> int:
        """The number of events that have happened, or are happening."""
        return self._sequence - len(self._heap)

    def at(self, time: int, priority: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call ``action(*arguments)`` at ``time``, which must not lie in the past."""
        if time < self.now:
            raise ValueError(f"an event at {time} µs, when it is {self.now} µs")
        self._sequence += 1
        heappush(self._heap, (time << 2 | priority, self._sequence, action, arguments))

    def run(self, *, until: int, stop: Callable[[], bool] | None = None) -> bool:
        """Run events up to and including ``until``; True if ``stop`` ended it before."""
        heap, end = self._heap, until << 2 | TIMER
        while heap and heap[0][0] <= end:
            instant, _, action, arguments = heappop(heap)
            self.now = instant >> 2
            action(*arguments)
            if stop is not None and stop():
                return True
        self.now = max(self.now, until)
        return False
