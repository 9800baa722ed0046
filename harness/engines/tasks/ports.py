"""What a process of the engine takes from outside: the log, the store, its machine.

Its clock is `harness.engines.tasks.pacing.now_us`, and its connections are its event loop's. Other
hosts, such as virtual time, put models in the places of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.processes import HostProcess
from harness.engines.tasks.clocks import Clock
from harness.engines.tasks.control import Connection
from harness.engines.tasks.exchange import KAFKA, Log
from harness.engines.tasks.lifeline import hold
from harness.engines.tasks.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of one process; without arguments the live ones."""

    store: Callable[[RedisEndpoint, str], Store] = Store
    """A client of one run's keys."""
    log: Log = KAFKA
    hold: Callable[[Connection, Callable[[], bytes | None]], bool] = hold
    """Keeps a connection as the process's lifeline (`harness.engines.tasks.lifeline.hold`)."""
    process: Callable[[], Mapping[str, Any]] = lambda: HostProcess.here().to_json()
    """The operating system's name of the process, for who may kill it."""
    clock: Callable[[], Clock] = Clock.here


LIVE = Ports()
