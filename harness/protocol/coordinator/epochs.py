"""Before which batch all buffers may be trimmed, where the coordinator decides it.

Coordinated checkpoints: the newest checkpoint that every task has stored; it is part of the
registry, because a rollback goes there. Source replay: what every task has processed; it may be
lost with the coordinator, because trimming late does no harm."""

from __future__ import annotations

from collections.abc import Iterator

from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.membership import Membership
from harness.protocol.effects import Effect, ForgetCheckpoints, Send
from harness.protocol.inputs import EpochCompleted
from harness.protocol.scheme import Recovery, Scheme
from harness.protocol.wiring import Wiring

STILL = 3
"""Sweeps without progress of any task after which the permission to trim is sent again."""


class Epochs:
    """The batch before which all buffers may be trimmed: ``complete``; `advance` moves it on."""

    def __init__(
        self, *, wiring: Wiring, scheme: Scheme, members: Membership, assigned: Assignments
    ) -> None:
        assert wiring.tasks, "a wiring has tasks"
        self.complete = 0
        self._storing = [t for t in wiring.tasks if not wiring.begins_anywhere(t)]
        self._recovery = scheme.recovery
        self._members = members
        self._assigned = assigned
        self._told = -1
        self._moved = self._still = 0
        """The sum of all positions, and for how many sweeps it has not changed."""

    @property
    def needs_storing(self) -> bool:
        """True if the registry must hold the epoch before any task trims."""
        return self._recovery is Recovery.GLOBAL

    def advance(self) -> bool:
        """Move ``complete`` on as far as the reports allow; return True if it moved."""
        if self._recovery is Recovery.LOCAL:
            return False
        primaries = [assignment.primary for assignment in self._assigned.tasks]
        reports = [self._members.report(copy) for copy in primaries if copy is not None]
        ready = [report for report in reports if report is not None and report.ready]
        if len(ready) < len(primaries):
            return False
        self._note_standstill(sum(report.position for report in ready))
        if self._recovery is Recovery.GLOBAL:
            complete = min(ready[task].stored for task in self._storing)
            if complete <= self.complete:
                return False
        else:
            complete = min(report.position for report in ready)
        assert complete >= 0, f"batch {complete}"
        moved = complete != self.complete
        self.complete = complete
        return moved

    def _note_standstill(self, moved: int) -> None:
        """Send the permission to trim again after a standstill.

        It may have been lost, and a full buffer stops every task."""
        assert moved >= 0, f"positions add up to {moved}"
        assert 0 <= self._still < STILL, f"{self._still} sweeps without a move"
        self._still = self._still + 1 if moved == self._moved else 0
        self._moved = moved
        if self._still == STILL:
            self._still, self._told = 0, -1

    def orders(self, cause: str) -> Iterator[Effect]:
        """Yield the permission to trim, addressed to the current copy of each task."""
        assert self.complete >= 0, f"batch {self.complete}"
        below = self.complete
        if self._recovery is Recovery.REPLAY:
            # Tasks may have been sent back since: a registry that is read again says less of them.
            below = min(below, *self._assigned.positions())
        if self._told == below or self._recovery is Recovery.LOCAL:
            return
        self._told = below
        for task, assignment in enumerate(self._assigned.tasks):
            if assignment.primary is None:
                continue
            incarnation = assignment.primary.incarnation
            message = EpochCompleted(
                cause=cause, task=task, incarnation=incarnation, position=below
            )
            yield Send(cause=cause, to=task, incarnation=incarnation, message=message)
        if self._recovery is Recovery.GLOBAL and self.complete:
            yield ForgetCheckpoints(cause=cause, below=self.complete)
