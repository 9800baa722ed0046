"""A plan that changes to and fro: the requests, and the use of the notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.cluster.base import Node
from harness.engines.base import EventKind
from harness.engines.tasks.adapting import Alternating
from harness.engines.tasks.events import Observations
from harness.hosting.restoration import Noted
from harness.protocol.effects import CopyEvent, NoteCopy
from tests.engines.tasks.test_adaptation import TOPOLOGY

NODES = [Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.1.1")]


def test_two_halves_of_a_plan_take_turns() -> None:
    plans: list[tuple[int, ...]] = []
    turns = Alternating(TOPOLOGY, plans.append, plan=(1, 3, 4), every_s=60)
    for _ in range(3):
        turns.step()
    assert plans == [(1, 4), (3,), (1, 4)]
    first, second, third = turns.done
    assert (first.retired, first.started, first.cost) == ((3,), (), 0)
    assert (second.retired, second.started, second.cost) == ((1, 4), (3,), 1)
    assert (third.retired, third.started, third.cost) == ((3,), (1, 4), 2)
    assert second.at_us <= third.at_us


def noted(at_us: int, event: CopyEvent, task: int, term: int | None = None) -> Noted:
    note = NoteCopy(
        cause="test", event=event, task=task, incarnation=2, term=term, position=7, at=at_us, why=""
    )
    return Noted(at_us=at_us, node=0, note=note)


def steps(notes: Sequence[Noted], told: Sequence[int]) -> list[tuple[float | None, ...]]:
    """Return the seconds of every change until retired, hosted and ready."""
    turns = Alternating(TOPOLOGY, lambda plan: None, plan=(1, 3), every_s=60)
    turns.step()
    turns.step()
    begun = turns.done[0].at_us
    noticed = Observations(
        names=[str(task) for task in range(6)],
        nodes=NODES,
        notes=[noted(begun + n.at_us, n.note.event, n.note.task, n.note.term) for n in notes],
        ahead_us=0,
    )
    events = list(noticed.adapted(turns.done[:1], [begun + at for at in told]))
    assert all(event.kind is EventKind.ADAPTED for event in events)
    names = ("retired_after_s", "hosted_after_s", "ready_after_s")
    return [tuple(event.detail[name] for name in names) for event in events]


def test_a_change_is_counted_from_when_the_coordinator_was_told() -> None:
    gone = noted(9_000, CopyEvent.RETIRED, 3)
    assert steps([gone], told=[4_000]) == [(0.005, None, None)]
    assert steps([gone], told=[]) == [(0.009, None, None)]


def test_what_happens_to_a_primary_or_before_is_of_no_change() -> None:
    before, primary = noted(-5, CopyEvent.RETIRED, 3), noted(6, CopyEvent.RETIRED, 3, term=1)
    assert steps([before, primary], told=[2]) == [(None, None, None)]


def test_a_hop_is_what_lies_between_two_tasks() -> None:
    """Tasks 0 and 1 send to 2: the slower one of a batch counts, one that is unknown does not."""
    notes = [
        replace(noted(at_us, CopyEvent.PROGRESSED, task, term=1), note=progress(task, position))
        for at_us, task, position in (
            (100, 0, 1), (160, 1, 1), (190, 2, 1), (300, 1, 2), (340, 0, 2), (390, 2, 2),
            (500, 0, 3), (999, 2, 3),
        )
    ]  # fmt: skip
    noticed = Observations(names=["a", "b", "c"], nodes=NODES, notes=notes, ahead_us=0)
    assert noticed.hop_s([(), (), (0, 1)]) == pytest.approx(40e-6)
    assert noticed.hop_s([]) is None


def progress(task: int, position: int) -> NoteCopy:
    return NoteCopy(
        cause="test", event=CopyEvent.PROGRESSED, task=task, incarnation=1, term=1,
        position=position, at=0,
    )  # fmt: skip
