"""Recoveries and their steps are measured from the machines' notes, as the papers define them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.hosting.restoration import Noted, Restoration, Restorations, Steps, steps_of
from harness.protocol.effects import CopyEvent, NoteCopy
from harness.simulator.draw import draw
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network
from tests.simulator.kit import watched

HOSTED, READY, PROGRESSED = CopyEvent.HOSTED, CopyEvent.READY, CopyEvent.PROGRESSED
LOST, PROMOTED = CopyEvent.LOST, CopyEvent.PROMOTED


def noted(
    at_us: int, event: CopyEvent, term: int | None, position: int = 0, why: str = "", task: int = 1
) -> Noted:
    note = NoteCopy(
        cause="test", event=event, task=task, incarnation=term or 9, term=term,
        position=position, at=at_us + 5, why=why,
    )  # fmt: skip
    return Noted(at_us=at_us, node=0, note=note)


BEFORE = [
    noted(0, HOSTED, 1),
    noted(0, READY, 1, 0, "initial state"),
    noted(10, PROGRESSED, 1, 1),
    noted(20, PROGRESSED, 1, 2),
]
"""The task has processed two batches."""


def way(
    detected_us: int, restored_us: int | None, why: str, how: str, term: int = 1
) -> Restoration:
    return Restoration(
        task=1, term=term, goal=2, detected_us=detected_us, why=why, restored_us=restored_us,
        how=how,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("notes", "restored", "steps"),
    [
        pytest.param(
            [
                noted(30, LOST, 1, why="silent"),
                noted(33, HOSTED, 5, task=2),
                noted(40, HOSTED, 2),
                noted(44, READY, 2, 1, "checkpoint"),
                noted(49, PROGRESSED, 2, 2),
                noted(60, READY, 2, 2),
            ],
            way(30, 49, "silent", "checkpoint"),
            Steps(there_us=10, ready_us=14, restored_us=19),
            id="it has processed again what it had processed",
        ),
        pytest.param(
            [
                noted(21, READY, None, 2, "checkpoint"),
                noted(30, LOST, 1),
                noted(35, PROMOTED, 3, 2),
            ],
            way(30, 35, "", "replica"),
            Steps(there_us=5, ready_us=5, restored_us=5),
            id="a replica that was as far is promoted",
        ),
        pytest.param(
            [noted(30, LOST, 1), noted(31, PROGRESSED, 1, 3)],
            way(30, None, "", ""),
            None,
            id="what a fenced primary still does",
        ),
        pytest.param(
            [
                noted(30, LOST, 1, why="first"),
                noted(40, HOSTED, 2),
                noted(44, READY, 2),
                noted(50, LOST, 2, why="second"),
                noted(60, HOSTED, 3),
                noted(66, READY, 3, 2, "checkpoint"),
            ],
            way(30, 66, "first", "checkpoint", term=2),
            Steps(there_us=30, ready_us=36, restored_us=36),
            id="lost again on its way",
        ),
        pytest.param(
            [
                noted(30, HOSTED, 2),
                noted(32, READY, 2, 0, "initial state"),
                noted(39, PROGRESSED, 2, 2),
            ],
            way(30, 39, "restarted with others", "initial state"),
            Steps(there_us=0, ready_us=2, restored_us=9),
            id="pulled back by others",
        ),
    ],
)
def test_a_task_is_back_once_it_is_where_it_was(
    notes: list[Noted], restored: Restoration, steps: Steps | None
) -> None:
    followed = Restorations(BEFORE)
    for note in notes:
        followed.note(note)
    assert followed.every() == [restored]
    assert steps_of(restored, [*BEFORE, *notes]) == steps


@pytest.mark.parametrize(
    ("scheme", "how"),
    [("checkpoint", "checkpoint"), ("active", "replica"), ("replay", "initial state")],
)
def test_recoveries_of_a_simulated_run(scheme: str, how: str) -> None:
    """One node of a chain crashes permanently; its task is restored once."""
    drawn = draw(3, scheme=scheme, topology="chain")
    drawn = replace(drawn, scheme=replace(drawn.scheme, window=1000))
    node = drawn.placement[1]
    crash = Fault(kind=FaultKind.KILL, at_us=15_300_000, until_us=50_000_000, target=node)
    options = replace(drawn, faults=(crash,), costs=Costs(batch_us=1000), network=Network())
    report, world = watched(options, notes_progress=True)
    assert report.violation is None
    ways = Restorations(world.notes).every()
    lost = {way.task: way for way in ways if way.why != "restarted with others"}
    assert 1 in lost
    for way in lost.values():
        assert way.goal == 15
        assert way.how == how or not options.wiring.upstream[way.task]
        assert way.restored_us is not None
        assert way.detected_us > crash.at_us
