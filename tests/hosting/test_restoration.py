"""Recoveries are measured from the machines' notes, by the definition of the papers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.hosting.restoration import Noted, Restoration, Restorations
from harness.protocol.effects import CopyEvent, NoteCopy
from harness.simulator.draw import draw
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network
from harness.simulator.run import simulate
from harness.simulator.world import World


def noted(
    at_us: int, event: CopyEvent, term: int | None, position: int = 0, why: str = "", task: int = 1
) -> Noted:
    note = NoteCopy(
        cause="test", event=event, task=task, incarnation=term or 9, term=term,
        position=position, at=at_us + 5, why=why,
    )  # fmt: skip
    return Noted(at_us=at_us, node=0, note=note)


BEFORE = [
    noted(0, CopyEvent.HOSTED, 1),
    noted(0, CopyEvent.READY, 1, 0, "initial state"),
    noted(10, CopyEvent.PROGRESSED, 1, 1),
    noted(20, CopyEvent.PROGRESSED, 1, 2),
]


def test_a_task_is_back_once_it_has_processed_what_it_had_processed() -> None:
    way = [
        noted(30, CopyEvent.LOST, 1, 0, "silent"),
        noted(40, CopyEvent.HOSTED, 2),
        noted(41, CopyEvent.READY, 2, 1, "checkpoint"),
        noted(45, CopyEvent.PROGRESSED, 2, 2),
        noted(46, CopyEvent.PROGRESSED, 2, 3),
    ]
    followed = Restorations([*BEFORE, *way[:3]])
    assert followed.done == []
    assert followed.open[1].restored_us is None
    for step in way[3:]:
        followed.note(step)
    expected = Restoration(
        task=1, term=1, goal=2, detected_us=30, why="silent", restored_us=45, how="checkpoint"
    )
    assert followed.every() == [expected]


def test_a_replica_that_was_as_far_is_back_when_it_is_promoted() -> None:
    followed = Restorations(
        [
            *BEFORE,
            noted(21, CopyEvent.READY, None, 2, "checkpoint"),
            noted(30, CopyEvent.LOST, 1),
            noted(33, CopyEvent.PROMOTED, 3, 2),
        ]
    )
    [way] = followed.every()
    assert (way.how, way.restored_us) == ("replica", 33)


def test_what_a_fenced_primary_still_does_does_not_count() -> None:
    followed = Restorations(
        [*BEFORE, noted(30, CopyEvent.LOST, 1), noted(31, CopyEvent.PROGRESSED, 1, 3)]
    )
    assert followed.open[1].goal == 2


def test_a_task_that_is_lost_again_on_its_way_is_counted_from_the_first_time() -> None:
    followed = Restorations(
        [
            *BEFORE,
            noted(30, CopyEvent.LOST, 1, why="first"),
            noted(40, CopyEvent.HOSTED, 2),
            noted(50, CopyEvent.LOST, 2, why="second"),
            noted(55, CopyEvent.READY, 2, 2, "checkpoint"),
            noted(60, CopyEvent.READY, 4, 2, "checkpoint"),
        ]
    )
    [way] = followed.done
    assert (way.detected_us, way.restored_us, way.why) == (30, 60, "first")


def test_a_task_that_others_pull_back_is_counted_from_its_new_start() -> None:
    followed = Restorations(
        [
            *BEFORE,
            noted(30, CopyEvent.HOSTED, 2),
            noted(32, CopyEvent.READY, 2, 0, "initial state"),
            noted(39, CopyEvent.PROGRESSED, 2, 2),
        ]
    )
    [way] = followed.done
    assert (way.why, way.how, way.restored_us) == ("restarted with others", "initial state", 39)


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
    worlds: list[World] = []
    report = simulate(options, prepare=worlds.append, notes_progress=True)
    assert report.violation is None
    ways = Restorations(worlds[0].notes).every()
    lost = {way.task: way for way in ways if way.why != "restarted with others"}
    assert 1 in lost
    for way in lost.values():
        assert way.goal == 15
        assert way.how == how or not options.wiring.upstream[way.task]
        assert way.restored_us is not None
        assert way.detected_us > crash.at_us


@pytest.mark.parametrize("scheme", ["checkpoint", "ppa", "global"])
def test_checkpoints_that_no_task_goes_back_to_are_forgotten(scheme: str) -> None:
    options = replace(draw(2, scheme=scheme, topology="diamond"), faults=(), network=Network())
    worlds: list[World] = []
    assert simulate(options, prepare=worlds.append).violation is None
    store, every = worlds[0].store, options.scheme.checkpoint_every
    for task in options.wiring.tasks:
        kept = store.positions(task)
        assert len(kept) <= (1 if scheme != "global" else 1 + 3), kept
        assert not kept or kept[-1] > options.batches - 2 * every - 2
