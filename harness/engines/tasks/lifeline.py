"""A connection that ends as soon as its process is killed, before the kernel has taken it apart.

The kernel closes what a killed process had open when its last thread has ended, and the last
thread first gives the process's memory back: 10 to 30 ms for a Python process of 150 MB, here,
and more while other processes die, too. But each thread may have a table of open files of its
own, and a thread that ends gives its table back at once. So a node opens a second connection,
leaves it to a thread that sleeps on it and has nothing else open, and closes its own end. When
the process is killed, that thread is one of the first to go, and the coordinator hears it within
a millisecond.

The same thread tells when the node's event loop has not come round to its heartbeat: a batch that
takes seconds is no death. A frozen process says nothing, and a dead one has no thread.

A kernel, or a container's rules, that do not allow it cost nothing but these milliseconds: the
end of the control connection still tells of the death."""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress

from harness.engines.tasks.control import Connection

_CLOSE_RANGE = 436
"""The number of the system call ``close_range``, the same on every architecture of Linux."""
_UNSHARE = 2
"""``CLOSE_RANGE_UNSHARE``: the thread gets a table of its own before anything is closed in it."""
_HIGHEST = 2**32 - 1
LOOK_S = 0.25
"""Seconds between two looks at the heartbeat."""


def hold(connection: Connection, words: Callable[[], bytes | None]) -> bool:
    """Let a thread hold a connection that is then dropped here; return False if it cannot.

    ``words`` must return None until it is dropped: only one may encrypt at a time."""
    seal = connection.sealer()

    def sealed() -> bytes | None:
        said = words()
        return seal(said) if said is not None else None

    with closing(connection.duplicate()) as connected:
        connected.setblocking(True)
        return hold_alone(connected.fileno(), sealed)


def hold_alone(
    descriptor: int, words: Callable[[], bytes | None] = lambda: None, look_s: float = LOOK_S
) -> bool:
    """Let a new thread hold ``descriptor`` until the peer ends the connection or the process dies.

    Every ``look_s`` it sends the return value of ``words``, which must not open anything.

    True once the thread has a table of open files with nothing else in it: the caller must then
    close ``descriptor``, which closes only its own. False where that cannot be done."""
    if sys.platform != "linux":
        return False
    held: Future[bool] = Future()
    threading.Thread(
        target=_hold, args=(descriptor, held, words, look_s), name="hold the lifeline", daemon=True
    ).start()
    return held.result()


def _hold(
    descriptor: int, held: Future[bool], words: Callable[[], bytes | None], look_s: float
) -> None:
    # From the first call on this thread sees none of the process's files, and the process does
    # not see what happens to this one: nothing here may open, print or log.
    system_call = ctypes.CDLL(None).syscall
    system_call.argtypes = [ctypes.c_long, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint]
    if system_call(_CLOSE_RANGE, descriptor + 1, _HIGHEST, _UNSHARE) != 0:
        held.set_result(False)
        return
    if descriptor:
        system_call(_CLOSE_RANGE, 0, descriptor - 1, 0)
    held.set_result(True)
    readable = select.poll()
    readable.register(descriptor, select.POLLIN)
    with suppress(OSError):
        while not readable.poll(round(look_s * 1000)) or os.read(descriptor, 1):
            if (said := words()) is not None:
                os.write(descriptor, said)
    os.close(descriptor)
