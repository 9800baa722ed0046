"""What was lost, and from which batch tasks must start again, for each kind of recovery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.protocol.effects import CopyEvent, NoteCopy
from harness.protocol.registry import Copy
from harness.protocol.wiring import Wiring


def replay_starts(
    wiring: Wiring, lost: Iterable[int], positions: Sequence[int], published: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Task to (first batch, first batch whose output counts), for ``lost`` and all ancestors.

    Source replay has no state to start from. A task whose state depends on m batches has the
    right one after batch b once it has processed b-m+1 ... b, so it starts m-1 batches before
    the first output that somebody still needs: a sink's first unpublished batch, the position of
    a neighbour that stays, the start of one that does not. ``positions`` (by task, used of those
    that stay) and ``published`` (of sinks) may be out of date: they only grow, so an old value is
    merely early.
    """
    cone = wiring.ancestors(lost)
    starts: dict[int, tuple[int, int]] = {}
    for task in reversed(wiring.order):
        if task not in cone:
            continue
        needs = [starts[t][0] if t in cone else positions[t] for t in wiring.downstream[task]]
        needed = min(needs) if needs else published[task]
        assert needed >= 0, f"task {task}: batch {needed} is needed"
        starts[task] = (max(0, needed - wiring.memory[task] + 1), needed)
    return starts


def source_start(wiring: Wiring, source: int, positions: Sequence[int]) -> int:
    """Where a source's new copy begins to read: what its slowest neighbour lacks, or will lack if
    it is lost itself. A neighbour that needs an earlier batch asks for it and the source goes
    back; one that needs a later batch waits until the source has read that far."""
    assert not wiring.upstream[source], f"{wiring.names[source]} is no source"
    return min(positions[task] for task in wiring.downstream[source])


def note_lost(copy: Copy, position: int, *, cause: str, why: str, now: int) -> NoteCopy:
    """That the coordinator gives ``copy`` up, which was last known to be at ``position``."""
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
