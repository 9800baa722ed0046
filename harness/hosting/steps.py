"""The steps of one recovery: when the task had a primary again, and when that had its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.hosting.restoration import Noted, Restoration
from harness.protocol.effects import CopyEvent

_HAS_STATE = frozenset({CopyEvent.READY, CopyEvent.PROMOTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Microseconds from detection; a replica that is promoted is there and has its state."""

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
        if note.event in _HAS_STATE:
            ready.setdefault(term, noted.at_us)
    last = max(there.keys() & ready.keys(), default=None)
    if last is None:
        return None
    return Steps(
        there_us=there[last] - way.detected_us,
        ready_us=ready[last] - way.detected_us,
        restored_us=way.restored_us - way.detected_us,
    )
