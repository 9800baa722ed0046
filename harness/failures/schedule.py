"""A failure schedule: actions on nodes and racks, each with its time; stored with the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from harness.cluster.base import TOGETHER, Action
from harness.errors import UsageError
from harness.text import did_you_mean

SCHEMA_VERSION = 1

ENDS = {Action.KILL: Action.RESTART, Action.PAUSE: Action.RESUME, Action.CUT: Action.HEAL}
"""The actions that are failures, each with the one that ends it."""
BUSIEST = "busiest"
"""A target: the node that has used most processor time since the load began."""
_UNDOES = {end: failure for failure, end in ENDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEvent:
    """One action on one target."""

    at_s: float
    """Seconds after the load began."""
    action: Action
    target: str
    """The name of a node ("r1n2") or of a rack ("r1"), or of several nodes at once
    ("r1n1+r1n2")."""

    def __post_init__(self) -> None:
        if not isfinite(self.at_s) or self.at_s < 0:
            raise UsageError(
                f"a {self.action.value} of {self.target} is planned at {self.at_s} s",
                remedy="count seconds from the start of the load: 0 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Events in the order of their times; those at one instant in the order given."""

    events: Sequence[FailureEvent]
    origin: str
    """A generator's name, or the file it was read from."""
    seed: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The generator's arguments."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.events, key=lambda event: event.at_s))
        object.__setattr__(self, "events", ordered)

    @property
    def failures(self) -> Sequence[FailureEvent]:
        """The events that break something; the others end a failure."""
        return [event for event in self.events if event.action in ENDS]

    @property
    def kills(self) -> Sequence[FailureEvent]:
        """The events that end processes."""
        return [event for event in self.events if event.action is Action.KILL]

    def check(
        self,
        *,
        rack_of: Mapping[str, str],
        parts: Collection[str] = (),
        servers: Collection[str] = (),
        actions: Collection[Action],
        duration_s: float | None = None,
        lasting: bool = False,
    ) -> None:
        """Raise `UsageError`, naming the event, for what a cluster or a run cannot serve.

        ``rack_of`` has the rack of each node, ``servers`` those of the cluster that can be named,
        ``parts`` those of the engine, which start again by themselves and are only killed. With
        ``lasting`` a node that fails stays so until an event ends it."""
        lone = (BUSIEST, *servers, *parts)
        members: dict[str, set[str]] = {name: {name} for name in (*rack_of, *lone)}
        for node, rack in rack_of.items():
            members.setdefault(rack, set()).add(node)
        failed: dict[Action, set[str]] = {action: set() for action in ENDS}
        for number, event in enumerate(self.events, start=1):
            where = f"{self.origin}: event {number} ({event.action.value} at {event.at_s:g} s)"
            names = event.target.split(TOGETHER)
            if not set(names) <= set(members):
                raise UsageError(
                    f"{where} names {event.target!r}, which is no node, rack, server or part here",
                    remedy=did_you_mean(event.target, members),
                )
            if refused := _unfit(event, names, servers, parts):
                raise UsageError(f"{where}: {refused[0]}", remedy=refused[1])
            if event.action not in actions:
                raise UsageError(
                    f"{where}: this cluster cannot {event.action.value}",
                    remedy="use one of: " + ", ".join(sorted(actions)),
                )
            if duration_s is not None and event.at_s >= duration_s:
                raise UsageError(
                    f"{where} lies after the end of the load at {duration_s:g} s",
                    remedy=f"plan it before {duration_s:g} s",
                )
            nodes = set().union(*(members[name] for name in names)) - set(parts)
            if not nodes:
                continue
            if event.action in ENDS:
                before = failed[event.action] | failed[Action.KILL]
                if lasting and nodes <= before:
                    raise UsageError(
                        f"{where}: every node of {event.target!r} has failed already",
                        remedy="take it out, or end the earlier failure before",
                    )
                failed[event.action] |= nodes
                if event.action is Action.KILL:
                    failed[Action.PAUSE] -= nodes
            else:
                undone = _UNDOES[event.action]
                if not nodes & failed[undone]:
                    raise UsageError(
                        f"{where}: no {undone.value} of {event.target!r} stands before it",
                        remedy=f"take it out, or {undone.value} {event.target} before",
                    )
                failed[undone] -= nodes
        if dead := sorted(failed[Action.KILL] & set(servers)):
            raise UsageError(
                f"{self.origin}: the {dead[0]} is killed and not started again, so nothing could "
                "be read after the run",
                remedy=f"add a line with action: restart and target: {dead[0]}",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "schema": SCHEMA_VERSION,
            "origin": self.origin,
            "seed": self.seed,
            "parameters": dict(self.parameters),
            "events": [asdict(event) for event in self.events],
        }


def _unfit(
    event: FailureEvent, names: Sequence[str], servers: Collection[str], parts: Collection[str]
) -> tuple[str, str] | None:
    """Return why an action does not fit its targets, and what to write instead."""
    alone = [name for name in names if name in (BUSIEST, *servers, *parts)]
    if alone and len(names) > 1:
        return f"{alone[0]} is no node", "write an event of its own for it, at the same time"
    if alone and alone[0] in parts and event.action is not Action.KILL:
        return f"{alone[0]} can only be killed", "leave it out: the engine starts it again"
    if alone and alone[0] in servers and event.action in (Action.CUT, Action.HEAL):
        return f"the {alone[0]} cannot be cut off", "pause it, and resume it"
    return None


NO_FAILURES = Schedule(events=(), origin="no failures")
"""The schedule of a twin."""
