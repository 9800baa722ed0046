"""Processes outside of the nodes, found ahead and signalled at an instant."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence

from harness.cluster.base import BROKER, Action, Prepared, Victim
from harness.cluster.processes import ProcessStat, hold, signal_held

_FURTHER = re.compile(rf"{BROKER}\d+")
SIGNALS = {
    Action.KILL: signal.SIGKILL,
    Action.PAUSE: signal.SIGSTOP,
    Action.RESUME: signal.SIGCONT,
}


def broker_names(count: int) -> list[str]:
    """Return the names of brokers as targets, in the order of their numbers."""
    return [BROKER, *(f"{BROKER}{number}" for number in range(2, count + 1))]


def server_of(target: str) -> str:
    """Return the kind of a server that is a target: `BROKER` for any broker."""
    return BROKER if _FURTHER.fullmatch(target) else target


def prepare_kill(
    name: str,
    processes: Sequence[ProcessStat],
    before: Callable[[], None] = lambda: None,
) -> Prepared:
    """Hold these processes; `Prepared.apply` kills all of them, after it has called ``before``.

    The one victim has that ``name``."""
    held = hold(processes)

    def apply() -> Sequence[Victim]:
        before()
        done = signal_held(held, signal.SIGKILL)
        reached = tuple(stat.pid for stat in done.processes)
        return [
            Victim(
                node=name,
                reached=bool(reached),
                began_unix_s=done.began_unix_s if reached else None,
                at_unix_s=done.at_unix_s,
                executors=len(reached),
                processes=reached,
            )
        ]

    def close() -> None:
        for process in held:
            process.close()

    return Prepared(apply, close)
