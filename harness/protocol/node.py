"""One node: the copies it hosts, and the heartbeat that drives their repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from harness.protocol.effects import Effect, SendHeartbeat, SetTimer
from harness.protocol.inputs import (
    CopyOrdered,
    CopyPromoted,
    CopyRetired,
    HeartbeatReceived,
    NodeInfo,
    NodeInput,
    Order,
    TaskInput,
    TaskMessage,
    TimerFired,
)
from harness.protocol.operators import State
from harness.protocol.scheme import Scheme
from harness.protocol.story import KEPT
from harness.protocol.task import Phase, TaskMachine
from harness.protocol.wiring import Wiring

BEAT = ("beat", 0)
TO_ANY_COPY = frozenset(
    kind for kind in get_args(TaskMessage) if "incarnation" not in kind.__slots__
)
"""Messages that are meant for whichever copy of a task is there."""


class NodeMachine:
    """What one process does. It dies with its node and starts again empty, one boot later."""

    def __init__(
        self,
        *,
        node: int,
        boot: int,
        wiring: Wiring,
        scheme: Scheme,
        initial: Callable[[int], State],
        kept: int = KEPT,
        info: NodeInfo | None = None,
        notes_progress: bool = False,
    ) -> None:
        """``kept`` is how many inputs the story of a copy holds. ``info`` is what this machine
        says of itself, where the coordinator may not know it. ``notes_progress``: whether each
        stable batch of a primary is noted, as measuring recoveries needs it."""
        self.node = node
        self.info = info
        self.boot = boot
        self.wiring = wiring
        self.scheme = scheme
        self._initial = initial
        self._kept = kept
        self._notes_progress = notes_progress
        self.copies: dict[int, TaskMachine] = {}
        """By task, ascending: a node hosts at most one copy of a task."""
        self._newest: dict[int, int] = {}
        """The highest incarnation of each task that was ever hosted in this life."""
        self._beats = 0
        self._coordinator = 0
        """The term of the latest coordinator that gave an order."""

    def start(self, *, now: int) -> Sequence[Effect]:
        """The first heartbeat, at once."""
        return self._beat(now)

    def handle(self, item: NodeInput, *, now: int) -> Sequence[Effect]:
        """React to ``item``; ``now`` is this node's clock, in microseconds."""
        door = _DOORS.get(type(item))
        if door is not None:
            return door(self, item, now)
        return self._pass_on(item, now)  # type: ignore[arg-type]  # what no method of its own handles

    def _timer(self, item: TimerFired, now: int) -> Sequence[Effect]:
        if item.key == BEAT:
            return self._beat(now)
        copy = self.copies.get(item.key[1])
        return copy.handle(item, now=now) if copy else ()

    def _pass_on(self, item: TaskInput | CopyPromoted, now: int) -> Sequence[Effect]:
        """To the copy it names, if that still is the one here."""
        copy = self.copies.get(item.task)  # type: ignore[union-attr]  # `_timer` has the others
        if copy is None:
            return ()
        if type(item) not in TO_ANY_COPY and item.incarnation != copy.speaker.incarnation:  # type: ignore[union-attr]
            return ()  # an answer to a copy that was replaced
        return copy.handle(item, now=now)

    def _order(self, order: Order, now: int) -> Sequence[Effect]:
        """Obey, unless a later coordinator than this one has spoken."""
        if order.coordinator < self._coordinator:
            return ()
        self._coordinator = order.coordinator
        if isinstance(order, CopyOrdered):
            return self._host(order, now)
        if isinstance(order, CopyRetired):
            return self._retire(order, now)
        return self._pass_on(order, now)

    def _host(self, order: CopyOrdered, now: int) -> Sequence[Effect]:
        if order.boot != self.boot:
            return ()  # the coordinator does not know of this life yet; a heartbeat will tell it
        if order.incarnation <= self._newest.get(order.task, 0):
            return ()  # repeated, overtaken by a later one, or late and long since retired
        self._newest[order.task] = order.incarnation
        copy = TaskMachine(
            order,
            wiring=self.wiring,
            scheme=self.scheme,
            initial=self._initial(order.task),
            kept=self._kept,
            notes_progress=self._notes_progress,
        )
        effects = self._drop(order.task, order.cause, "replaced by a later copy", now)
        self.copies[order.task] = copy
        self.copies = dict(sorted(self.copies.items()))
        return [*effects, *copy.handle(order, now=now)]

    def _retire(self, item: CopyRetired, now: int) -> Sequence[Effect]:
        copy = self.copies.get(item.task)
        if copy is None or copy.incarnation != item.incarnation:
            return ()
        return self._drop(item.task, item.cause, "as ordered", now)

    def _drop(self, task: int, cause: str, why: str, now: int) -> Sequence[Effect]:
        copy = self.copies.pop(task, None)
        return copy.retire(cause=cause, why=why, now=now) if copy is not None else ()

    def _beat(self, now: int) -> Sequence[Effect]:
        self._beats += 1
        cause = f"beat {self._beats} of node {self.node}"
        effects: list[Effect] = []
        for copy in self.copies.values():
            effects.extend(copy.tick(cause=cause, now=now))
        for task in [t for t, copy in self.copies.items() if copy.phase is Phase.FENCED]:
            effects.extend(self._drop(task, cause, "a newer primary exists", now))
        heartbeat = HeartbeatReceived(
            cause=cause,
            node=self.node,
            boot=self.boot,
            copies=tuple(copy.report() for copy in self.copies.values()),
            info=self.info,
            coordinator=self._coordinator,
        )
        effects.append(SendHeartbeat(cause=cause, heartbeat=heartbeat))
        effects.append(SetTimer(cause=cause, at=now + self.scheme.heartbeat_us, key=BEAT))
        return effects

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless every copy's state makes sense."""
        for copy in self.copies.values():
            copy.validate()


_DOORS: dict[type, Callable[[NodeMachine, Any, int], Sequence[Effect]]] = {
    TimerFired: NodeMachine._timer,
    CopyOrdered: NodeMachine._order,
    CopyPromoted: NodeMachine._order,
    CopyRetired: NodeMachine._order,
}
