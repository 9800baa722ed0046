"""Carries a schedule out on a cluster, and records what was really done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from harness.cluster.base import Action, Prepared, Victim
from harness.errors import FaultlineError
from harness.failures.schedule import ENDS, FailureEvent, Schedule

AHEAD_S = 3.0
"""Lead with which an event is prepared: a walk over all processes of a busy machine takes more
than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFailure:
    """One event of the schedule, and its effect."""

    event: FailureEvent
    victims: Sequence[Victim]
    """The nodes of the target, each with whether it was reached."""
    at_unix_s: float
    """End of the action (or of the attempt, if it failed)."""
    lateness_s: float
    """First signal minus planned instant. Where the backend does not record the signal, the start
    of the action counts."""
    error: str | None = None
    """The reason why it could not be done."""

    @property
    def began_unix_s(self) -> float:
        """The earliest of its victims' instants (`Victim.earliest_unix_s`)."""
        begins = [victim.earliest_unix_s for victim in self.victims if victim.reached]
        return min(begins, default=self.at_unix_s)

    @property
    def spread_s(self) -> float:
        """Last signal minus first."""
        return self.at_unix_s - self.began_unix_s

    @property
    def felt(self) -> bool:
        """True if it was done to a node on which a part of the engine ran."""
        return self.error is None and any(victim.felt for victim in self.victims)

    @property
    def processes(self) -> int:
        """Number of processes that were signalled."""
        return sum(len(victim.processes) for victim in self.victims)

    def row(self, start_unix_s: float) -> dict[str, Any]:
        """Return the row of a run's table of failures, with times from the start of the load."""
        return {
            "planned_at_s": self.event.at_s,
            "at_s": self.at_unix_s - start_unix_s,
            "lateness_s": self.lateness_s,
            "spread_s": self.spread_s,
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


ROW = (
    "planned_at_s", "at_s", "lateness_s", "spread_s", "action", "target", "processes", "pids",
    "error",
)  # fmt: skip
"""The columns of `InjectedFailure.row`."""

_Ready = tuple[FailureEvent, Prepared | Exception]


class Breakable(Protocol):
    """The part of a `Cluster` that an injector needs."""

    def prepare(self, action: Action, target: str) -> Prepared:
        """See `Cluster.prepare`."""


def _lead_s(ready: _Ready) -> float:
    return ready[1].lead_s if isinstance(ready[1], Prepared) else 0.0


class Injector:
    """A thread that prepares each event, waits for its instant, and applies it.

    Use it as a context manager around the run; leaving cancels what has not happened yet."""

    def __init__(
        self,
        cluster: Breakable,
        schedule: Schedule,
        *,
        start_unix_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self._start_unix_s = start_unix_s
        self._clock = clock
        self._cancelled = threading.Event()
        self._done: list[InjectedFailure] = []
        self._thread = threading.Thread(target=self._run, name="injector", daemon=True)

    @property
    def done(self) -> Sequence[InjectedFailure]:
        """The events that have happened so far, in order."""
        return tuple(self._done)

    def __enter__(self) -> Injector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._thread.join()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every event has happened; return False if the time ran out first."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        events = list(self._schedule.events)
        ready: list[_Ready] = []
        armed: list[FailureEvent] = []
        with ExitStack() as stack:
            while events or ready:
                if not ready and self._cancelled_before(self._due(events[0]) - AHEAD_S):
                    return
                while events and self._may_prepare(ready, events[0]):
                    ready.append(self._prepared(events.pop(0), stack))
                if self._cancelled_before(self._due(ready[0][0]) - _lead_s(ready[0])):
                    return
                self._arm(ready, armed)
                event, prepared = ready.pop(0)
                if event not in armed and self._cancelled_before(self._due(event)):
                    return
                self._apply(event, prepared)

    def _arm(self, ready: Sequence[_Ready], armed: list[FailureEvent]) -> None:
        """Send ahead those of the next events whose time has come for that."""
        for event, prepared in ready:
            if isinstance(prepared, Exception) or not prepared.lead_s or event in armed:
                continue
            if self._due(event) - prepared.lead_s <= self._clock():
                prepared.arm(self._due(event))
                armed.append(event)

    def _may_prepare(self, ready: Sequence[_Ready], event: FailureEvent) -> bool:
        """Return True if no event that is still pending can change the victims of this one.

        Failures within `AHEAD_S` are all prepared before the first is applied."""
        if not ready:
            return True
        close = event.at_s - ready[0][0].at_s < AHEAD_S
        return close and all(one.action in ENDS for one in (event, ready[-1][0]))

    def _due(self, event: FailureEvent) -> float:
        return self._start_unix_s + event.at_s

    def _cancelled_before(self, unix_s: float) -> bool:
        return self._cancelled.wait(max(0.0, unix_s - self._clock()))

    def _prepared(self, event: FailureEvent, stack: ExitStack) -> _Ready:
        try:
            prepared = self._cluster.prepare(event.action, event.target)
            return event, stack.enter_context(prepared)
        except Exception as error:  # it becomes the event's, at its instant
            return event, error

    def _apply(self, event: FailureEvent, prepared: Prepared | Exception) -> None:
        began = self._clock()
        victims: Sequence[Victim] = ()
        problem = None
        try:
            if isinstance(prepared, Exception):
                raise prepared
            victims = prepared.apply()
        except FaultlineError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        signals = [v.began_unix_s for v in victims if v.reached and v.began_unix_s is not None]
        self._done.append(
            InjectedFailure(
                event=event,
                victims=tuple(victims),
                at_unix_s=max([victim.at_unix_s for victim in victims], default=self._clock()),
                lateness_s=min(signals, default=began) - self._due(event),
                error=problem,
            )
        )
