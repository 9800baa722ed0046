"""Waits for an instant, to the millisecond also on a busy machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SPIN_S = 0.002
"""Before an instant the thread stays awake: a sleep may end a millisecond late."""


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Let this thread run before all ordinary ones, where the system allows it (root).

    On a busy machine it would wait for its turn, some 20 ms, when its instant has come."""
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
    except OSError:  # not permitted
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def wait_until(
    unix_s: float,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> None:
    """Return at an instant, at once if it is over, or when ``sleep`` returns True.

    Awake for the last `_SPIN_S`: on a busy machine a thread that sleeps is woken late."""
    while (left := unix_s - clock()) > 0:
        if left > _SPIN_S and sleep(left - _SPIN_S):
            return
