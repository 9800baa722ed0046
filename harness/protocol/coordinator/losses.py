"""Which tasks are lost, since when, and how far they had got; closing batches on their behalf.

A task is lost from when the coordinator gives its primary up until a primary has been reported to
be back where the lost one was. A loss that lasts for the bound (`Tentative.bound_us`) is closed,
to the microsecond: those downstream are told to go on without it, and again at every sweep.

A replica that was promoted before any heartbeat had reported it may run, or may never have been
started. So the coordinator waits for the next heartbeat of its node before it closes the task: to
close a task that runs would be needless. It waits for two intervals at most: one until that
heartbeat is sent, and one by which it may come later than the one before. If the heartbeat reports
the replica as ready, the task is no longer lost, as if the replica had been known to be there: it
may be some batches behind the lost primary.

A task whose first primary never comes is lost, too: its node is ordered to start it at each
heartbeat, and does not hear. It is lost once that has lasted as long as a silence would.

A task that is back is seen by those downstream before the coordinator hears of it, so each order
to go on without it says what being back is, and whoever has seen that ignores it."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.registry import Copy
from harness.protocol.effects import CopyEvent, Effect, NoteCopy, Send, SetTimer
from harness.protocol.inputs import (
    CopyOrdered,
    CopyReport,
    HeartbeatReceived,
    UpstreamClosed,
)
from harness.protocol.scheme import Closing, Scheme
from harness.protocol.wiring import Wiring

EVERYWHERE = 2
"""Different nodes on which a batch has to fail."""
ALONE = 3
"""Failures in a row on the only node of a cluster after which the run ends."""


class OperatorFailures:
    """The failures of operators, in memory: for a new coordinator the next failure is the first."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[int, frozenset[int]]] = {}
        """Task to the batch that failed last, and the nodes on which it did."""
        self._copies: dict[int, set[int]] = {}
        """Task to the copies, by incarnation, that it failed for."""

    def note(self, report: CopyReport, node: int, *, cluster: int) -> bool:
        """Note that a copy on ``node`` has failed; return True if its batch fails everywhere.

        ``cluster`` is the number of nodes."""
        assert report.failed, "a failure has a traceback"
        assert cluster > 0, "the node that reports is one of the cluster's"
        batch, nodes = self._nodes.get(report.task, (report.position, frozenset()))
        if batch != report.position:
            nodes = frozenset()
            self._copies.pop(report.task, None)
        self._nodes[report.task] = report.position, nodes | {node}
        copies = self._copies.setdefault(report.task, set())
        copies.add(report.incarnation)
        return len(nodes | {node}) >= EVERYWHERE or (cluster == 1 and len(copies) >= ALONE)

    def times(self, task: int) -> int:
        """Return the number of copies of ``task`` that failed at the batch that failed last."""
        assert task >= 0, f"task {task}"
        return len(self._copies.get(task, ()))

    def nodes(self, task: int) -> Set[int]:
        """Return the nodes to avoid when placing ``task`` again."""
        assert task >= 0, f"task {task}"
        return self._nodes[task][1] if task in self._nodes else frozenset()


CLOSE = ("close", 0)
SHOWS_ITSELF = 2
"""Heartbeats within which a replica that was promoted shows that it is there."""


@dataclass(slots=True, kw_only=True)
class Loss:
    """One lost task."""

    since: int
    position: int
    """The batch that its next primary must reach to be back."""
    closed_below: int = -1
    """The term below which it is closed so far; -1: it is not."""


class Losses:
    """The lost tasks, in memory alone: after a crash of the coordinator every loss begins anew."""

    def __init__(
        self, *, wiring: Wiring, scheme: Scheme, members: Membership, assigned: Assignments
    ) -> None:
        self.tasks: dict[int, Loss] = {}
        self._wiring = wiring
        self._heartbeat_us = scheme.heartbeat_us
        self._patience_us = scheme.suspect_after_us
        rules = scheme.tentative
        closes = rules is not None and rules.closing is Closing.COORDINATOR
        self._bound_us = rules.bound_us if rules is not None and closes else None
        self._members = members
        self._assigned = assigned
        self._timer_at = -1
        self._ordered: dict[int, tuple[int, int]] = {}
        """Task to the incarnation of its primary that was ordered last, and since when."""

    def note(self, primary: Copy, position: int, *, cause: str, why: str, now: int) -> NoteCopy:
        """Note that ``primary`` was given up; it had last reported ``position``."""
        assert primary.term is not None, "only a primary's loss is one"
        assert position >= 0, f"position {position}"
        loss = self.tasks.get(primary.task)
        if loss is None:
            self.tasks[primary.task] = Loss(since=now, position=position)
        else:
            loss.position = max(loss.position, position)
        at = max(position, primary.position)
        return note_lost(primary, at, cause=cause, why=why, now=now)

    def note_unplaced(self, task: int, now: int) -> None:
        """Note that a task has no primary."""
        assert self._assigned.tasks[task].primary is None, f"task {task} has a primary"
        self.tasks.setdefault(task, Loss(since=now, position=0))

    def note_order(self, order: CopyOrdered, now: int) -> None:
        """Note that a copy was ordered: a primary that does not come of it in time is lost."""
        if order.term is None or order.task in self.tasks:
            return
        incarnation, first = self._ordered.get(order.task, (order.incarnation, now))
        if incarnation != order.incarnation:
            first = now
        self._ordered[order.task] = order.incarnation, first
        if now - first > self._patience_us:
            self.tasks[order.task] = Loss(since=now, position=0)

    def note_takeover(self, replica: Copy) -> None:
        """Note that ``replica`` was promoted: if it was reported, its task is not lost."""
        assert replica.term is None, "it is told what the copy was before"
        if self._members.report(replica) is not None:
            self.tasks.pop(replica.task, None)

    def note_heartbeat(self, item: HeartbeatReceived) -> None:
        """Remove the tasks whose primary is back, or was there as a replica."""
        assert self.tasks, "called only while tasks are lost"
        for report in item.copies:
            loss = self.tasks.get(report.task)
            primary = self._assigned.tasks[report.task].primary
            if loss is None or primary is None or primary.incarnation != report.incarnation:
                continue
            if report.ready and (_was_replica(primary) or report.position >= loss.position):
                del self.tasks[report.task]

    def close(self, *, cause: str, now: int, again: bool = False) -> Iterator[Effect]:
        """Close the losses that are due, and set a timer for those that will be.

        With ``again``, losses that were closed before are closed once more."""
        assert now >= 0, f"time {now}"
        if self._bound_us is None or not self.tasks:
            return
        frontier: int | None = None
        coming: list[int] = []
        for task, loss in sorted(self.tasks.items()):
            primary = self._assigned.tasks[task].primary
            due = self._due(loss, primary)
            if due > now:
                coming.append(due)
                continue
            before = self._assigned.tasks[task].used + 1
            if primary is not None:
                assert primary.term is not None, "a primary has a term"
                before = primary.term
            if again or before > loss.closed_below:
                loss.closed_below = before
                if frontier is None:
                    frontier = self._frontier()
                back_at = 0 if primary is not None and _was_replica(primary) else loss.position
                yield from self._forge(task, frontier, before, back_at, cause)
        if coming and min(coming) != self._timer_at:
            self._timer_at = min(coming)
            yield SetTimer(cause=cause, at=self._timer_at, key=CLOSE)

    def _due(self, loss: Loss, primary: Copy | None) -> int:
        assert loss.since >= 0, f"lost at {loss.since}"
        assert self._bound_us is not None, "only a coordinator that closes has a bound"
        due = loss.since + self._bound_us
        if primary is None or not _was_replica(primary):
            return due  # it is placed as a primary: there was nothing before the loss
        if self._members[primary.node].heard_at > loss.since:
            return due  # its node has spoken, and did not have it, or it would be back
        return max(due, loss.since + SHOWS_ITSELF * self._heartbeat_us + 1)

    def _frontier(self) -> int:
        """Return the last batch that any task is known to have processed."""
        assert self.tasks, "called only while tasks are lost"
        reports = (r for _, member in self._members for r in member.reports.values())
        return max((report.position - 1 for report in reports), default=0)

    def _forge(
        self, task: int, last_batch: int, before_term: int, back_at: int, cause: str
    ) -> Iterator[Effect]:
        assert task in self.tasks, f"task {task} is not lost"
        assert before_term > 0, "terms begin at 1"
        for below in self._wiring.downstream[task]:
            message = UpstreamClosed(
                cause=cause,
                task=below,
                upstream=task,
                last_batch=last_batch,
                before_term=before_term,
                back_at=back_at,
            )
            yield Send(cause=cause, to=below, incarnation=None, message=message)


def _was_replica(primary: Copy) -> bool:
    """Return True if the primary was promoted.

    A copy that is placed as a primary has one number for both."""
    assert primary.term is not None, "a primary has a term"
    return primary.term != primary.incarnation


def note_lost(copy: Copy, position: int, *, cause: str, why: str, now: int) -> NoteCopy:
    """Return the note that the coordinator gives ``copy`` up, last known to be at ``position``."""
    assert position >= 0, f"position {position}"
    return NoteCopy(
        cause=cause,
        event=CopyEvent.LOST,
        task=copy.task,
        incarnation=copy.incarnation,
        term=copy.term,
        position=position,
        at=now,
        why=why,
        node=copy.node,
    )
