"""How long tasks were away: measured from what machines note, the same way for every host.

Recovery latency is the papers': from the moment the coordinator gives a task's primary up until
a later primary of it has processed, stable, all that the task had processed before. Both ends are
noted (`NoteCopy`): LOST by the coordinator, progress by the nodes, which for that must note their
primaries' progress (`NodeMachine`, ``notes_progress``).

A task that is not lost and goes back all the same (coordinated checkpoints and source replay
restart others with it) is counted from when its new primary is hosted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.protocol.effects import CopyEvent, NoteCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One note, on the time line of the whole run."""

    at_us: int
    node: int
    """The reporting node; -1 is the coordinator."""
    note: NoteCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The restoration of one lost task."""

    task: int
    term: int
    """The term of the primary that was given up; later ones count."""
    goal: int
    """All batches before this one had been processed."""
    detected_us: int
    why: str
    """The reason of the coordinator, or "restarted with others"."""
    restored_us: int | None = None
    """None: not yet, or never."""
    how: str = ""
    """The source of the new primary's state: a replica, a checkpoint, the initial state."""


class Restorations:
    """Follows the notes of a run, in the order of time."""

    def __init__(self, notes: Iterable[Noted] = ()) -> None:
        self.open: dict[int, Restoration] = {}
        """The restorations under way, by task."""
        self.done: list[Restoration] = []
        self._furthest: dict[int, int] = {}
        """Task to the first batch that none of its primaries has processed."""
        self._newest: dict[int, int] = {}
        """Task to the highest term of a primary that was noted."""
        for noted in notes:
            self.note(noted)

    def note(self, noted: Noted) -> None:
        """Take the next report, in the order of time."""
        assert noted.node >= -1, f"node {noted.node}"
        note = noted.note
        if note.term is None:
            return
        if note.event is CopyEvent.LOST:
            self._begin(note.task, note.term, noted.at_us, note.why)
        elif note.event is CopyEvent.HOSTED:
            self._hosted(note, note.term, noted.at_us)
        elif note.event is not CopyEvent.RETIRED:
            self._moved(note, note.term, noted.at_us)

    def every(self) -> list[Restoration]:
        """Those that are done, then those that are not."""
        return [*self.done, *self.open.values()]

    def _begin(self, task: int, term: int, at_us: int, why: str) -> None:
        before = self.open.get(task)
        goal = self._furthest.get(task, 0)
        if before is not None:  # lost again on its way back: counted from the first time
            self.open[task] = replace(before, term=max(before.term, term), how="")
            return
        self.open[task] = Restoration(task=task, term=term, goal=goal, detected_us=at_us, why=why)

    def _hosted(self, note: NoteCopy, term: int, at_us: int) -> None:
        before = self._newest.get(note.task)
        if before is not None and term > before and note.task not in self.open:
            self._begin(note.task, before, at_us, "restarted with others")
        self._newest[note.task] = max(term, before or 0)

    def _moved(self, note: NoteCopy, term: int, at_us: int) -> None:
        task = note.task
        self._newest[task] = max(term, self._newest.get(task, 0))
        self._furthest[task] = max(note.position, self._furthest.get(task, 0))
        way = self.open.get(task)
        if way is None or term <= way.term:
            return
        if not way.how:
            how = "replica" if note.event is CopyEvent.PROMOTED else note.why
            way = self.open[task] = replace(way, how=how)
        if note.position >= way.goal:
            del self.open[task]
            self.done.append(replace(way, restored_us=at_us))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of one recovery, in microseconds from its detection.

    A replica that is promoted is there and has its state."""

    there_us: int
    """Until the new primary was hosted, or promoted."""
    ready_us: int
    """Until it had its state; from then on it catches up."""
    restored_us: int
    """Until the task was where it had been."""


def steps_of(way: Restoration, notes: Iterable[Noted]) -> Steps | None:
    """Return the steps of a restoration, from ``notes`` in the order of time.

    None where the task is not back, or a step was not reported."""
    if way.restored_us is None:
        return None
    there: dict[int, int] = {}
    ready: dict[int, int] = {}
    for noted in notes:
        note, term = noted.note, noted.note.term
        within = way.detected_us <= noted.at_us <= way.restored_us
        if note.task != way.task or term is None or term <= way.term or not within:
            continue
        if note.event is CopyEvent.HOSTED or note.event is CopyEvent.PROMOTED:
            there.setdefault(term, noted.at_us)
        if note.event is CopyEvent.READY or note.event is CopyEvent.PROMOTED:
            ready.setdefault(term, noted.at_us)
    last = max(there.keys() & ready.keys(), default=None)
    if last is None:
        return None
    return Steps(
        there_us=there[last] - way.detected_us,
        ready_us=ready[last] - way.detected_us,
        restored_us=way.restored_us - way.detected_us,
    )
