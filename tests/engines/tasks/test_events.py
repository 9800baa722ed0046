"""The events of the task engine: losses and their ends, and changes of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engines.base import Event, EventKind
from harness.engines.tasks.adapting import Alternating
from harness.engines.tasks.events import Observations
from harness.hosting.restoration import Noted
from harness.protocol.effects import CopyEvent, NoteCopy
from tests.engines.tasks.kit import machines
from tests.engines.tasks.test_adaptation import TOPOLOGY

NODES = machines(3, 1)


def noted(
    at_ms: float,
    event: CopyEvent,
    term: int | None = None,
    position: int = 7,
    node: int = 0,
    task: int = 0,
) -> Noted:
    """Return a note about a task, by the coordinator where it is lost."""
    lost, at_us = event is CopyEvent.LOST, round(at_ms * 1000)
    note = NoteCopy(
        cause="test", event=event, task=task, incarnation=term or 2, term=term, position=position,
        at=at_us, why="checkpoint", node=node if lost else -1,
    )  # fmt: skip
    return Noted(at_us=at_us, node=-1 if lost else node, note=note)


def told(*notes: Noted) -> Observations:
    return Observations(names=["a"], nodes=NODES, notes=notes, ahead_us=0)


def life(event: str, at_ms: int, node: int) -> dict[str, Any]:
    return {"event": event, "node": node, "boot": 1, "at_us": at_ms * 1000}


def times(events: list[Event], kind: EventKind) -> list[tuple[str | None, float, float]]:
    return [
        (event.target, event.at_unix_s, event.detail["detected_unix_s"])
        for event in events
        if event.kind is kind
    ]


def test_a_task_that_is_lost_again_on_its_way_brings_both_losses_back() -> None:
    """The first loss is over when the task is where it was before it, wherever that is."""
    events = list(
        told(
            noted(10, CopyEvent.PROGRESSED, 1, node=0),
            noted(100, CopyEvent.LOST, 1, node=0),
            noted(150, CopyEvent.READY, 2, position=3, node=1),
            noted(200, CopyEvent.LOST, 2, node=1),
            noted(250, CopyEvent.READY, 3, position=3, node=2),
            noted(300, CopyEvent.PROGRESSED, 3, position=7, node=2),
            noted(900, CopyEvent.LOST, 3, node=2),
        ).recoveries()
    )
    assert times(events, EventKind.DETECTED) == [
        ("r1n1", 0.1, 0.1), ("r2n1", 0.2, 0.2), ("r3n1", 0.9, 0.9),
    ]  # fmt: skip
    assert times(events, EventKind.RECOVERED) == [("r1n1", 0.3, 0.1), ("r2n1", 0.3, 0.2)]


def test_a_node_that_was_no_tasks_primary_is_noticed_and_has_lost_nothing() -> None:
    lives = [
        life("left", 101, 0), life("joined", 400, 0), life("left", 500, 1), life("left", 600, 0),
    ]  # fmt: skip
    noticed = told(noted(100, CopyEvent.LOST, 1, node=0), noted(550, CopyEvent.LOST, 2, node=1))
    found = list(noticed.unharmed(lives))
    assert times(found, EventKind.DETECTED) == [("r1n1", 0.6, 0.6)]
    assert [event.detail["tasks"] for event in found] == [""]


def test_a_loss_that_the_nodes_next_life_shows_is_that_of_the_life_before() -> None:
    """Where only missing heartbeats count, the process that is back is seen before the silence."""
    lives = [life("left", 100, 0), life("joined", 300, 0), life("left", 600, 0)]
    noticed = told(
        noted(50, CopyEvent.HOSTED, 1, node=0),
        noted(320, CopyEvent.LOST, 1, node=0),
        noted(330, CopyEvent.HOSTED, 2, node=1),
    )
    assert times(list(noticed.unharmed(lives)), EventKind.DETECTED) == [("r1n1", 0.6, 0.6)]


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


def test_a_hop_is_what_lies_between_two_tasks() -> None:
    """Tasks 0 and 1 send to 2: the slower one of a batch counts, one that is unknown does not."""
    notes = [
        noted(at_us / 1000, CopyEvent.PROGRESSED, term=1, position=position, task=task)
        for at_us, task, position in (
            (100, 0, 1), (160, 1, 1), (190, 2, 1), (300, 1, 2), (340, 0, 2), (390, 2, 2),
            (500, 0, 3), (999, 2, 3),
        )
    ]  # fmt: skip
    noticed = Observations(names=["a", "b", "c"], nodes=NODES, notes=notes, ahead_us=0)
    assert noticed.hop_s([(), (), (0, 1)]) == pytest.approx(40e-6)
    assert noticed.hop_s([]) is None
