"""Carries a schedule out on a cluster, and records what was really done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cluster.base import Cluster, Victim
from harness.errors import FaultlineError
from harness.failures.schedule import FailureEvent, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFailure:
    """What became of one event of the schedule."""

    event: FailureEvent
    victims: Sequence[Victim]
    """The nodes it was done to, each with whether it was reached."""
    at_unix_s: float
    """When the action was done (had been tried, if it failed)."""
    lateness_s: float
    """How long after its planned instant it began."""
    error: str | None = None
    """Why it could not be done."""

    @property
    def began_unix_s(self) -> float:
        """The earliest of its victims' instants (`Victim.earliest_unix_s`)."""
        begins = [victim.earliest_unix_s for victim in self.victims if victim.reached]
        return min(begins, default=self.at_unix_s)

    @property
    def processes(self) -> int:
        """How many processes were signalled."""
        return sum(len(victim.processes) for victim in self.victims)

    def row(self, start_unix_s: float) -> dict[str, Any]:
        """As it stands in a run's table of failures, times from the start of the load."""
        return {
            "planned_at_s": self.event.at_s,
            "at_s": self.at_unix_s - start_unix_s,
            "lateness_s": self.lateness_s,
            "action": self.event.action.value,
            "target": self.event.target,
            "processes": self.processes,
            "pids": "; ".join(
                f"{victim.node}: {' '.join(map(str, victim.processes))}"
                for victim in self.victims
                if victim.processes
            ),
            "error": self.error,
        }


ROW = ("planned_at_s", "at_s", "lateness_s", "action", "target", "processes", "pids", "error")
"""The columns of `InjectedFailure.row`."""


class Injector:
    """Waits for each event's instant on a thread of its own and applies it.

    Use it as a context manager around the run; leaving cancels what has not happened yet, and
    raises what ``on_event`` raised.
    """

    def __init__(
        self,
        cluster: Cluster,
        schedule: Schedule,
        *,
        start_unix_s: float,
        on_event: Callable[[InjectedFailure], None] = lambda done: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self._start_unix_s = start_unix_s
        self._on_event = on_event
        self._clock = clock
        self._cancelled = threading.Event()
        self._done: list[InjectedFailure] = []
        self._unheard: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="injector", daemon=True)

    @property
    def done(self) -> Sequence[InjectedFailure]:
        """What has happened so far, in order."""
        return tuple(self._done)

    def __enter__(self) -> Injector:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cancelled.set()
        self._thread.join()
        if self._unheard is not None and kind is None:
            raise self._unheard

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every event has happened; False if the time ran out first."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for event in self._schedule.events:
            due = self._start_unix_s + event.at_s
            if self._cancelled.wait(max(0.0, due - self._clock())):
                return
            self._apply(event, due)

    def _apply(self, event: FailureEvent, due: float) -> None:
        began = self._clock()
        victims: Sequence[Victim] = ()
        problem = None
        try:
            victims = self._cluster.apply(event.action, event.target)
        except FaultlineError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        done = InjectedFailure(
            event=event,
            victims=tuple(victims),
            at_unix_s=max([victim.at_unix_s for victim in victims], default=self._clock()),
            lateness_s=began - due,
            error=problem,
        )
        self._done.append(done)
        try:
            self._on_event(done)
        except Exception as error:  # what is planned is still done; `__exit__` raises this
            self._unheard = error
