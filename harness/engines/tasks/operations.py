"""The one operation under way for each copy and kind, and when it may be repeated.

The protocol asks for what it has no answer to at every heartbeat. Here such a request is dropped
while the same one is under way; it is repeated after an error or a timeout alone, each time after
twice the time, with some of it drawn, so that many nodes do not repeat at one time. Heartbeats are
the clock of repetitions, so nothing here needs a timer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

FIRST_WAIT_US, LONGEST_WAIT_US = 50_000, 1_000_000
"""Shortest and longest wait between an error and the next attempt."""
NEVER_US = 1 << 62
"""The timeout of an operation that always ends by itself."""

Key = tuple[str, int, int]
"""The kind of the operation, the task and the incarnation of the copy."""


@dataclass(slots=True)
class Operation:
    """An operation, from its first attempt to its answer."""

    what: Any
    """Equal for repetitions."""
    data: bytes | None = None
    """Its bytes, encoded once."""
    attempts: int = 0
    again_us: int = 0
    """Not to be repeated before."""
    under_way: bool = False
    """True from an attempt until its error."""


class Running:
    """Coroutines under way: the loop alone would not keep them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine, until `cancel` at the latest."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task

    def cancel(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()


class Operations:
    """The operations of one pass on a node."""

    def __init__(self) -> None:
        self._operations: dict[Key, Operation] = {}

    def start(
        self, key: Key, what: Any, now_us: int, *, timeout_us: int = NEVER_US
    ) -> Operation | None:
        """Return an operation to attempt now; None if one is under way, or has to wait.

        Another ``what`` replaces the operation with that key, because the copy has moved on, but
        not while an attempt is under way that ends by itself (`NEVER_US`)."""
        operation, ends = self._operations.get(key), timeout_us >= NEVER_US
        if operation is not None and ends and operation.under_way:
            return None
        if operation is None or operation.what != what:
            operation = self._operations[key] = Operation(what)
        elif now_us < operation.again_us:
            return None
        operation.attempts += 1
        operation.under_way = True
        wait = min(timeout_us << min(operation.attempts - 1, 8), max(timeout_us, LONGEST_WAIT_US))
        operation.again_us = NEVER_US if ends else now_us + _some(wait)
        return operation

    def failed(self, key: Key, operation: Operation, now_us: int) -> None:
        """Let an operation be repeated after a while, unless it was replaced."""
        if self._operations.get(key) is operation:
            wait = min(LONGEST_WAIT_US, FIRST_WAIT_US << min(operation.attempts - 1, 16))
            operation.again_us, operation.under_way = now_us + _some(wait), False

    def done(self, key: Key, operation: Operation) -> None:
        """Forget an operation that was answered."""
        if self._operations.get(key) is operation:
            del self._operations[key]

    def forget(self, task: int, incarnation: int) -> None:
        """Forget the operations of a copy that is gone."""
        for key in [key for key in self._operations if key[1:] == (task, incarnation)]:
            del self._operations[key]


def _some(wait_us: int) -> int:
    return round(wait_us * random.uniform(0.75, 1.25))
