"""Both copies of a task on one node, live: placement by the plan, and death of the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.tasks.engine import TaskEngine
from harness.protocol.effects import CopyEvent
from tests.engines.tasks.live import kill, trial

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.deep]

PLACEMENT = (0, 1, 2, 3, 0, 1, 2)
TOGETHER = {4: 0, 5: 3, 6: 2}
"""Task to the node of its replica: the first `count` and `collect` (a sink) where they are."""


def test_copies_on_one_node_die_together_and_the_output_is_right(
    engine: TaskEngine, tmp_path: Path
) -> None:
    done = trial(
        engine, tmp_path, "ppa", plan=(4, 5, 6), placement=PLACEMENT, replicas_at=TOGETHER, slots=5
    ).run([kill(3, "r1n1"), kill(4.5, "r2n1")])
    assert (done.kills, done.failures) == (2, 0), done
    hosted = [n for n in engine.notes() if n.note.event is CopyEvent.HOSTED]
    first = {(n.note.task, n.note.term is None): n.node for n in reversed(hosted)}
    for task in (4, 6):
        assert first[task, True] == first[task, False] == PLACEMENT[task]
    assert first[5, True] != first[5, False]
    promoted = {n.note.task for n in engine.notes() if n.note.event is CopyEvent.PROMOTED}
    assert 4 not in promoted, "nothing was left to promote"
    lost = {n.note.task for n in engine.lost_primaries()}
    assert {0, 4, 6} <= lost
