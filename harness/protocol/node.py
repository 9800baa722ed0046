"""One node: the copies it hosts, and the heartbeat that drives their repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from harness.protocol import inputs as told
from harness.protocol.effects import Effect, SendHeartbeat, SetTimer
from harness.protocol.operators import State
from harness.protocol.scheme import Scheme
from harness.protocol.story import KEPT
from harness.protocol.task.lifecycle import FENCED
from harness.protocol.task.machine import TaskMachine
from harness.protocol.wiring import Wiring

BEAT = ("beat", 0)
TO_ANY_COPY = frozenset(
    kind for kind in get_args(told.TaskMessage) if "incarnation" not in kind.__struct_fields__
)
"""Messages that are meant for whichever copy of a task is there."""


class NodeMachine:
    """The protocol in one process. It dies with its node and starts again empty, one boot later."""

    def __init__(
        self,
        *,
        node: int,
        boot: int,
        wiring: Wiring,
        scheme: Scheme,
        initial: Callable[[int], State],
        kept: int = KEPT,
        info: told.NodeInfo | None = None,
        notes_progress: bool = False,
    ) -> None:
        """Begin without copies.

        ``kept`` is the number of inputs that the story of a copy holds. ``info`` describes this
        node to a coordinator that does not know it. ``notes_progress``: True to report each stable
        batch of a primary, for measuring recoveries."""
        assert boot > 0, f"boot {boot}"
        self.node = node
        self.info = info
        self.boot = boot
        self.wiring = wiring
        self.scheme = scheme
        self._initial = initial
        self._kept = kept
        self._notes_progress = notes_progress
        self.copies: dict[tuple[int, int], TaskMachine] = {}
        """By task and incarnation, ascending."""
        self._of_task: dict[int, tuple[TaskMachine, ...]] = {}
        """The same by task: one copy, or two if the coordinator wants both here."""
        self._hosted: set[tuple[int, int]] = set()
        """Every copy that was here since this boot."""
        self._gone: set[tuple[int, int]] = set()
        """Former copies that the next heartbeat reports as gone. If it gets lost, the coordinator
        orders them again, and so they are reported again."""
        self._beats = 0
        self._coordinator = 0
        """The term of the latest coordinator that gave an order."""

    def copies_of(self, task: int) -> tuple[TaskMachine, ...]:
        """Return the copies of ``task`` on this node, ascending by incarnation."""
        return self._of_task.get(task, ())

    def start(self, *, now: int) -> Sequence[Effect]:
        """Send the first heartbeat, at once."""
        assert not self.copies, "a node starts empty"
        return self._beat(now)

    def handle(self, item: told.NodeInput, *, now: int) -> Sequence[Effect]:
        """React to ``item``; ``now`` is this node's clock, in microseconds."""
        kind = type(item)
        if kind in TO_ANY_COPY:
            message: Any = item  # it names a task, and no copy of it
            copies = self._of_task.get(message.task, ())
            if len(copies) == 1:
                return copies[0].handle(message, now=now)
            return _handled_by(copies, message, now)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, item, now)
        return self._pass_on(item, now)  # type: ignore[arg-type]  # what no method of its own handles

    def _timer(self, item: told.TimerFired, now: int) -> Sequence[Effect]:
        assert item.key == BEAT or item.key[0] == "due", f"timer {item.key}"
        if item.key == BEAT:
            return self._beat(now)
        return _handled_by(self.copies_of(item.key[1]), item, now)

    def _pass_on(self, item: told.TaskInput | told.CopyPromoted, now: int) -> Sequence[Effect]:
        """Give ``item`` to the copy that it names, if that is still here."""
        copy = self.copies.get((item.task, item.incarnation))  # type: ignore[union-attr]
        return copy.handle(item, now=now) if copy is not None else ()

    def _order(self, order: told.Order, now: int) -> Sequence[Effect]:
        """Obey an order, unless a later coordinator has given one."""
        assert order.coordinator >= 0, f"a coordinator of term {order.coordinator}"
        if order.coordinator < self._coordinator:
            return ()
        self._coordinator = order.coordinator
        if isinstance(order, told.CopyOrdered):
            return self._host(order, now)
        if isinstance(order, told.CopyRetired):
            return self._retire(order, now)
        return self._pass_on(order, now)

    def _host(self, order: told.CopyOrdered, now: int) -> Sequence[Effect]:
        assert order.incarnation > 0, f"incarnation {order.incarnation}"
        if order.boot != self.boot:
            return ()  # the coordinator does not know of this boot yet; a heartbeat will tell it
        key = order.task, order.incarnation
        others = self.copies_of(order.task)
        if key in self._hosted:
            if key not in self.copies:
                self._gone.add(key)
            return ()  # repeated, or late and long since retired, or forgotten
        if any(order.incarnation < o.incarnation != order.beside for o in others):
            return ()  # overtaken by a later one; if both are wanted, the next order says so
        self._hosted.add(key)
        copy = TaskMachine(
            order,
            wiring=self.wiring,
            scheme=self.scheme,
            initial=self._initial(order.task),
            kept=self._kept,
            notes_progress=self._notes_progress,
        )
        effects: list[Effect] = []
        for other in others:
            if other.incarnation != order.beside:
                effects.extend(self._drop(other, order.cause, "replaced by a later copy", now))
        self.copies[key] = copy
        self._sort()
        effects.extend(copy.handle(order, now=now))
        return effects

    def _sort(self) -> None:
        assert self.copies.keys() <= self._hosted, "a copy that nobody has ordered"
        self.copies = dict(sorted(self.copies.items()))
        self._of_task = {}
        for copy in self.copies.values():
            self._of_task[copy.task] = (*self.copies_of(copy.task), copy)

    def _retire(self, item: told.CopyRetired, now: int) -> Sequence[Effect]:
        assert item.incarnation > 0, f"incarnation {item.incarnation}"
        copy = self.copies.get((item.task, item.incarnation))
        return self._drop(copy, item.cause, "as ordered", now) if copy is not None else ()

    def _forget(self, item: told.CopiesForgotten, now: int) -> Sequence[Effect]:
        """Drop every copy; their numbers stay used."""
        assert self.copies.keys() <= self._hosted, "a copy that was never ordered"
        self._gone.update(self.copies)
        return [
            effect
            for copy in list(self.copies.values())
            for effect in self._drop(copy, item.cause, "forgotten", now)
        ]

    def _drop(self, copy: TaskMachine, cause: str, why: str, now: int) -> Sequence[Effect]:
        assert (copy.task, copy.incarnation) in self._hosted, "a copy that was never ordered"
        del self.copies[copy.task, copy.incarnation]
        self._sort()
        return copy.retire(cause=cause, why=why, now=now)

    def _beat(self, now: int) -> Sequence[Effect]:
        assert self._beats >= 0, f"beat {self._beats}"
        self._beats += 1
        cause = f"beat {self._beats} of node {self.node}"
        effects: list[Effect] = []
        fenced: list[TaskMachine] = []
        for copy in self.copies.values():
            effects.extend(copy.tick(cause=cause, now=now))
            if copy.life.phase is FENCED:
                fenced.append(copy)
        for copy in fenced:
            effects.extend(self._drop(copy, cause, "a newer primary exists", now))
        heartbeat = told.HeartbeatReceived(
            cause=cause,
            node=self.node,
            boot=self.boot,
            copies=tuple(map(TaskMachine.report, self.copies.values())),
            info=self.info,
            coordinator=self._coordinator,
            gone=self._newly_gone() if self._gone else (),
        )
        effects.append(SendHeartbeat(cause=cause, heartbeat=heartbeat))
        effects.append(SetTimer(cause=cause, at=now + self.scheme.heartbeat_us, key=BEAT))
        return effects

    def _newly_gone(self) -> tuple[tuple[int, int], ...]:
        """Return the former copies that no heartbeat has reported as gone yet."""
        assert not self._gone & self.copies.keys(), "a copy that is here is not gone"
        gone = tuple(sorted(self._gone))
        self._gone.clear()
        return gone

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless the state of every copy is consistent."""
        for task, copies in self._of_task.items():
            assert len(copies) <= 2, f"{len(copies)} copies of task {task} on node {self.node}"
        assert sum(map(len, self._of_task.values())) == len(self.copies), "a copy is counted twice"
        for copy in self.copies.values():
            copy.validate()


def _handled_by(
    copies: Sequence[TaskMachine], item: told.TaskInput | told.CopyPromoted, now: int
) -> Sequence[Effect]:
    return [effect for copy in copies for effect in copy.handle(item, now=now)]


_HANDLERS: dict[type, Callable[[NodeMachine, Any, int], Sequence[Effect]]] = {
    told.TimerFired: NodeMachine._timer,
    told.CopiesForgotten: NodeMachine._forget,
    told.CopyOrdered: NodeMachine._order,
    told.CopyPromoted: NodeMachine._order,
    told.CopyRetired: NodeMachine._order,
}
