"""What a process of the engine takes from outside: the log, the store, its machine and its clock.

Its monotonic clock is `harness.engines.tasks.pacing.now_us`, and its connections are its event
loop's. Other hosts, such as virtual time, put models in the places of these."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.processes import HostProcess
from harness.engines.tasks.control import Connection
from harness.engines.tasks.exchange import KAFKA, Log
from harness.engines.tasks.lifeline import hold
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.store import Store

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The monotonic clock of a machine and its current boot.

    All processes of a machine share it, those in containers too. Between machines only wall clocks
    can be compared: backends see to it that they agree within
    `harness.cluster.base.CLOCK_LIMIT_S`, and no better than that are such instants."""

    machine: str
    """The same for processes that share it."""
    ahead_us: int
    """The difference to its wall clock, which is ahead."""

    @classmethod
    def here(cls) -> Clock:
        """Return this process's clock; raise `OSError` where there is no Linux /proc."""
        # A container may be given a monotonic clock of its own, by a time namespace.
        namespace = os.readlink(_NAMESPACE) if _NAMESPACE.exists() else ""
        machine = f"{_BOOT.read_text().strip()} {namespace}"
        return cls(machine=machine, ahead_us=time.time_ns() // 1000 - now_us())

    def shift_us(self, other: Clock) -> int:
        """Return the difference to add to an instant of ``other``'s for this clock."""
        return 0 if other.machine == self.machine else other.ahead_us - self.ahead_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of one process; without arguments the live ones."""

    store: Callable[[RedisEndpoint, str], Store] = Store
    """A client of one run's keys."""
    log: Log = KAFKA
    hold: Callable[[Connection, Callable[[], bytes | None]], bool] = hold
    """Keeps a connection as the process's lifeline (`harness.engines.tasks.lifeline.hold`)."""
    process: Callable[[], Mapping[str, Any]] = lambda: asdict(HostProcess.here())
    """The operating system's name of the process, for who may kill it."""
    clock: Callable[[], Clock] = Clock.here


LIVE = Ports()
